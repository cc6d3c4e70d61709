// The audit of a real daemon: every operation of the OpenAPI document and every tool of MCP has its record,
// once; what is secret is nowhere; what was changed behind the daemon's back is found; deaths of the daemon
// leave a chain that is whole; followers go on where they were. And figures, readiness, and whose they are.
// Without machines: those are in audit_vm.test.mjs.

import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';

import { runSkerry, startSkerry } from './lib/cli.mjs';
import { startDaemon } from './lib/daemon.mjs';
import { clientKinds, connect, modern, post } from './lib/mcp.mjs';
import { parseMetrics } from './lib/prometheus.mjs';
import { events } from './lib/raw.mjs';
import { sqlite } from './lib/sqlite.mjs';

const NOBODY = 'sbx_0123456789abcdef'.slice(0, 16);
const SECRET = 'hunter2-is-a-secret';

let daemon;
before(async () => {
	daemon = await startDaemon({ config: { limits: { stream_heartbeat_ms: 300 } } });
});
after(() => daemon?.stop());

async function good(method, route, body, headers) {
	const answer = await daemon.request(method, route, body, headers);

	assert.ok(answer.status < 300, `${method} ${route}: ${answer.status} ${answer.text}`);
	return answer.json;
}

// All that matches, page by page.
async function records(query = '', options) {
	const items = [];

	for (let cursor = 0; ;) {
		const page = await good('GET', `/v1/audit?cursor=${cursor}&limit=50${query}`, undefined, options);

		items.push(...page.items);
		if (page.next_cursor === null)
			return items;
		cursor = Number(page.next_cursor);
	}
}

const head = async () => (await good('GET', '/v1/audit?newest=true&limit=1')).cursor;

// How a command ends is written after its answer.
async function recordOf(requestId) {
	for (const until = Date.now() + 20_000; ; await sleep(20)) {
		const found = await records(`&request_id=${requestId}`);

		if (found.length > 0)
			return found;
		assert.ok(Date.now() < until, `no record of ${requestId}`);
	}
}

async function verify() {
	const verdict = await good('GET', '/v1/audit/verify');

	assert.equal(verdict.ok, true, JSON.stringify(verdict));
	return verdict;
}

// ---- every operation ----

// A value that a schema accepts.
function valueOf(name, schema) {
	const types = [schema.type ?? 'object'].flat();

	if (schema.enum)
		return schema.enum[0];
	if (types.includes('string')) {
		if (['stdin', 'data'].includes(name))
			return SECRET;
		if (/base64/.test(name))
			return Buffer.from(SECRET).toString('base64');
		if (name === 'source')
			return 'oci:/nobody';
		return ['id', 'sandbox_id'].includes(name) ? NOBODY : 'nobody'.padEnd(schema.minLength ?? 1, 'x');
	}
	if (types.includes('integer') || types.includes('number'))
		return schema.minimum ?? 1;
	if (types.includes('boolean'))
		return false;
	if (types.includes('array'))
		return [];
	return name === 'env' ? { KEY: SECRET } : {};
}

function argsOf(schema, more = []) {
	const args = {};

	for (const [name, property] of Object.entries(schema?.properties ?? {}))
		if (schema.required?.includes(name) || more.includes(name))
			args[name] = valueOf(name, property);
	return args;
}

const secrets = ['env', 'stdin', 'data'];

function requestOf(api, route, method, operation) {
	const resolve = (schema) => (schema?.$ref ? schema.$ref.slice(2).split('/').reduce((at, key) => at[key], api) : schema);
	const query = new URLSearchParams();
	let url = route;

	for (const parameter of operation.parameters ?? []) {
		const { name, required, schema } = resolve(parameter);

		if (resolve(parameter).in === 'path')
			url = url.replace(`{${name}}`, name === 'id' && route.startsWith('/v1/sandboxes') ? NOBODY : valueOf(name, resolve(schema)));
		else if (required && resolve(parameter).in === 'query')
			query.set(name, valueOf(name, resolve(schema)));
	}
	const content = operation.requestBody?.content ?? {};
	const json = content['application/json'];
	const body = json ? argsOf(resolve(json.schema), secrets) : Object.keys(content).length ? `bytes: ${SECRET}` : undefined;

	return { url: query.size ? `${url}?${query}` : url, method: method.toUpperCase(), body };
}

describe('every operation', () => {
	test('of REST that changes or runs something has one record, with its result', async () => {
		const api = await good('GET', '/openapi.json');
		let n = 0;

		for (const [route, methods] of Object.entries(api.paths))
			for (const [method, operation] of Object.entries(methods)) {
				const name = operation.operationId;

				if (!name || (method === 'get' && name !== 'open_terminal'))
					continue;
				const request = requestOf(api, route, method, operation);
				const id = `every-${name}`;
				const answer = await daemon.request(request.method, request.url, request.body, { 'X-Request-Id': id });

				assert.notEqual(answer.json?.code, 'invalid_argument', `${name}: ${answer.text}`);
				const found = await recordOf(id);

				assert.equal(found.length, 1, name);
				assert.equal(found[0].operation, name);
				assert.equal(found[0].result, answer.status < 300 ? 'ok' : answer.json.code, `${name}: ${answer.text}`);
				assert.equal(found[0].surface, 'rest');
				assert.equal(found[0].peer, '127.0.0.1');
				assert.match(found[0].key_id, /^key_/);
				if (route.startsWith('/v1/sandboxes/{id}'))
					assert.equal(found[0].sandbox_id, NOBODY, name);
				n++;
			}
		assert.ok(n >= 30, `${n} operations`);
	});

	test('of REST that only reads has none', async () => {
		const before = await head();
		const api = await good('GET', '/openapi.json');

		for (const [route, methods] of Object.entries(api.paths))
			if (methods.get && methods.get.operationId !== 'open_terminal' && !/export/.test(route)) {
				const { url } = requestOf(api, route, 'get', methods.get);

				await daemon.request('GET', url);
			}
		assert.equal(await head(), before);
	});

	test('of MCP that is no reading has one record, by whichever client', async () => {
		for (const kind of clientKinds) {
			const { client, callTool } = await connect(daemon, kind);
			const { tools } = await client.listTools();
			let n = 0;

			for (const tool of tools) {
				const begun = await head();
				const args = argsOf(tool.inputSchema, secrets);

				if (tool.name === 'exec_wait')
					args.stdin = SECRET; // else it only looks
				await callTool({ name: tool.name, arguments: args });
				await sleep(50);
				const found = (await records()).filter(({ seq }) => seq > begun);

				assert.deepEqual(found.map(({ operation }) => operation), tool.annotations.readOnlyHint ? [] : [tool.name]);
				for (const record of found) {
					assert.equal(record.surface, 'mcp');
					assert.match(record.request_id, /./);
					n++;
				}
			}
			assert.ok(n >= 10, `${n} tools`);
			await client.close();
		}
	});

	test('of MCP has the id of its request', async () => {
		const { body, headers } = modern('tools/call', { name: 'destroy_sandbox', arguments: { sandbox_id: NOBODY } });

		await post(daemon, { body, headers: { ...headers, 'X-Request-Id': 'mcp-1' } });
		const [record] = await recordOf('mcp-1');

		assert.deepEqual([record.operation, record.result, record.sandbox_id], ['destroy_sandbox', 'not_found', NOBODY]);
	});

	test('keeps secrets to itself, in every file of the audit', async () => {
		const { id, key } = await good('POST', '/v1/keys', { label: 'a secret' });
		const command = `curl -H "Authorization: Bearer ${key}" http://example.com; echo ${daemon.key}`;

		await daemon.request('POST', `/v1/sandboxes/${NOBODY}/exec`, { command, env: { A: SECRET }, stdin: SECRET },
			{ 'X-Request-Id': 'with-keys' });
		const [record] = await recordOf('with-keys');

		assert.match(record.args.command, /^curl -H "Authorization: Bearer sk_[^*]{6}\*+" http/);
		assert.ok((await records('&operation=create_key')).some(({ outcome }) => outcome.id === id));
		await daemon.restart();
		for (const name of fs.readdirSync(daemon.stateDir).filter((file) => file.startsWith('audit.db'))) {
			const bytes = fs.readFileSync(path.join(daemon.stateDir, name));

			for (const secret of [SECRET, Buffer.from(SECRET).toString('base64'), key, key.slice(10), daemon.key, daemon.key.slice(10)])
				assert.equal(bytes.includes(secret), false, `${name} has ${secret.slice(0, 6)}…`);
		}
	});

	test('that is refused for want of a right is there too', async () => {
		const { key } = await good('POST', '/v1/keys', { label: 'exec only', scopes: { operations: ['exec'] } });
		const refused = await daemon.request('POST', '/v1/networks', { name: 'never' },
			{ Authorization: `Bearer ${key}`, 'X-Request-Id': 'refused-1' });

		assert.equal(refused.status, 403);
		const [record] = await recordOf('refused-1');

		assert.deepEqual([record.operation, record.result, record.args.name], ['create_network', 'scope_denied', 'never']);
		assert.equal((await daemon.request('GET', '/v1/audit', undefined, { Authorization: `Bearer ${key}` })).status, 403);
	});
});

// ---- who sees what ----

test('an account sees its own, an administrator all', async () => {
	const other = await good('POST', '/v1/accounts', { name: 'other' });
	const made = await good('POST', `/v1/keys`, { label: 'theirs', account_id: other.id });
	const theirs = { Authorization: `Bearer ${made.key}` };

	await good('POST', '/v1/networks', { name: 'their-net' }, { ...theirs, 'X-Request-Id': 'their-1' });
	const own = await records('', theirs);

	assert.ok(own.length >= 1 && own.every(({ account_id }) => account_id === other.id));
	assert.ok(own.some(({ request_id }) => request_id === 'their-1'));
	assert.ok((await records(`&account_id=${other.id}`)).some(({ request_id }) => request_id === 'their-1'));
	for (const route of ['/v1/audit/export', '/v1/audit/verify', '/metrics', `/v1/audit?account_id=acc_0`])
		assert.equal((await daemon.request('GET', route, undefined, theirs)).status, 403, route);
});

// ---- pages, filters, streams ----

async function follow(query = '', headers = {}) {
	const gone = new AbortController();
	const response = await fetch(new URL(`/v1/audit${query}`, daemon.url), {
		headers: { Authorization: `Bearer ${daemon.key}`, Accept: 'text/event-stream', ...headers },
		signal: gone.signal,
	});
	const stream = events(response);

	assert.equal(response.status, 200);
	assert.equal((await stream.next()).value.event, 'ready');
	return {
		next: async () => {
			const { value } = await stream.next();

			assert.equal(value.event, 'record');
			return value.data;
		},
		close: () => gone.abort(),
	};
}

const network = (name) => good('POST', '/v1/networks', { name });
const unmake = (name) => good('DELETE', `/v1/networks/${name}`);

describe('reading', () => {
	test('pages backwards and forwards meet', async () => {
		const all = await records();
		const back = [];

		for (let before = ''; ;) {
			const page = await good('GET', `/v1/audit?newest=true&limit=7${before}`);

			back.unshift(...page.items);
			if (page.earlier === null)
				break;
			before = `&before=${page.earlier}`;
		}
		assert.deepEqual(back.map(({ seq }) => seq), all.map(({ seq }) => seq));
		assert.deepEqual(all.map(({ seq }) => seq), all.map((_, i) => i + 1));
		for (const query of ['cursor=99999999', 'limit=0', 'limit=1001', 'before=0', 'nonsense=1'])
			assert.equal((await daemon.request('GET', `/v1/audit?${query}`)).status, 400, query);
	});

	test('filters agree with what records say', async () => {
		const all = await records();
		const newest = all.at(-1).seq; // what is written meanwhile is in no one's expectation

		for (const name of ['operation', 'result', 'key_id', 'request_id', 'sandbox_id'])
			for (const value of new Set(all.map((record) => record[name]).filter(Boolean))) {
				const expected = all.filter((record) => record[name] === value).map(({ seq }) => seq);

				const found = (await records(`&${name}=${encodeURIComponent(value)}`)).map(({ seq }) => seq);

				assert.deepEqual(found.filter((seq) => seq <= newest), expected);
			}
	});

	test('a follower that comes back goes on where it was, over restarts', async () => {
		const begun = await head();
		const first = await follow(`?operation=create_network&cursor=${begun}`);

		await network('one');
		await unmake('one'); // not for it
		await network('two');
		assert.equal((await first.next()).args.name, 'one');
		const second = await first.next();

		assert.equal(second.args.name, 'two');
		first.close();
		await network('three');
		await daemon.restart();
		await network('four');
		const again = await follow('?operation=create_network', { 'Last-Event-ID': String(second.seq) });

		assert.deepEqual([(await again.next()).args.name, (await again.next()).args.name], ['three', 'four']);
		again.close();
		for (const name of ['two', 'three', 'four'])
			await unmake(name);
	});

	test('the command line lists, follows over a restart, exports and checks', async () => {
		const begun = await head();
		const following = startSkerry(daemon, ['audit', 'follow', '--json', '--since', String(begun), '--operation', 'create_network']);
		const seen = async (n) => {
			for (const until = Date.now() + 60_000; following.soFar().split('\n').length <= n; await sleep(20))
				assert.ok(Date.now() < until, following.soFar());
		};

		await network('five');
		await seen(1);
		const { port } = new URL(daemon.url);

		daemon.args[daemon.args.indexOf('--listen') + 1] = `127.0.0.1:${port}`;
		await daemon.restart();
		await network('six');
		await seen(2);
		following.child.kill();
		assert.deepEqual(following.soFar().trim().split('\n').map((line) => JSON.parse(line).args.name), ['five', 'six']);

		const list = await runSkerry(daemon, ['audit', 'ls', '--operation', 'create_network', '--limit', '2']);

		assert.equal(list.code, 0, list.err);
		assert.match(list.out, /create_network .* ok {2}name=five\n.*name=six\n$/);
		const exported = await runSkerry(daemon, ['audit', 'export']);
		const lines = exported.out.trimEnd().split('\n');

		assert.equal(lines.length, await head());
		const file = path.join(daemon.stateDir, 'audit.jsonl');

		fs.writeFileSync(file, exported.out);
		const verdict = JSON.parse((await runSkerry(daemon, ['audit', 'verify', '--json'])).out);
		// by itself: no server, no key
		const own = await runSkerry(undefined, ['audit', 'verify', file, '--head', verdict.head]);

		assert.deepEqual([own.code, own.out], [0, `records 1 to ${lines.length} are whole\nhead ${verdict.head}\n`], own.err);
		const changes = [
			[(text) => text.replace('"name":"five"', '"name":"nine"'), /record \d+ was changed/],
			[() => `${lines.filter((_, i) => i !== 3).join('\n')}\n`, /record 4 is missing/],
			[() => `${[lines[1], lines[0]].concat(lines.slice(2)).join('\n')}\n`, /record 3 is missing: record 2 is followed by 1/],
			[() => `${lines.slice(0, -1).join('\n')}\n`, /not the hash that was given/],
			[() => `${lines.slice(0, 2).join('\n')}\nnonsense\n`, /what follows record 2 is no record/],
		];

		for (const [change, says] of changes) {
			const bad = await runSkerry(undefined, ['audit', 'verify', '-', '--head', verdict.head], { input: change(exported.out) });

			assert.equal(bad.code, 1, bad.out);
			assert.match(bad.err, says);
		}
		await unmake('five');
		await unmake('six');
	});
});

// ---- what was changed behind its back ----

test('tampering with the database is found, and the first record that is not what it was is named', async () => {
	const file = path.join(daemon.stateDir, 'audit.db');
	const tamper = async (...statements) => {
		daemon.child.kill('SIGTERM');
		await daemon.wait();
		sqlite(file, ...statements);
		await daemon.start();
		return good('GET', '/v1/audit/verify');
	};
	const last = await head();
	const cases = [
		['update audit set body = replace(body, \'"surface":"rest"\', \'"surface":"mcp"\') where seq = 5', 5],
		['update audit set result = \'ok\' where seq = (select min(seq) from audit where result <> \'ok\')', null],
		['update audit set request_id = \'another\' where seq = 7', 7],
		[`update audit set hash = '${'0'.repeat(64)}' where seq = 6`, 6],
		['delete from audit where seq = 9', 9],
		['delete from audit where seq <= 2', 1],
	];

	for (const [sql, at] of cases) {
		const verdict = await tamper('create table kept as select * from audit', sql);

		assert.equal(verdict.ok, false, sql);
		assert.match(verdict.problem, new RegExp(`record ${at ?? verdict.broken_at}\\b`), sql);
		assert.equal(verdict.broken_at, at ?? verdict.broken_at, `${sql}: ${verdict.problem}`);
		const cli = await runSkerry(daemon, ['audit', 'verify']);

		assert.equal(cli.code, 1);
		assert.match(cli.err, /the audit is not what it was: record \d+/);
		// As it was before.
		assert.equal((await tamper('delete from audit', 'insert into audit select * from kept', 'drop table kept')).ok, true);
	}
	// The end, with all that the database says of it: the note in the other one tells, and goes on telling.
	const cut = await tamper('create table kept as select * from audit', `delete from audit where seq = ${last}`,
		`update audit_state set last_seq = ${last - 1}, last_hash = (select hash from audit where seq = ${last - 1})`);

	assert.equal(cut.ok, false);
	assert.match(cut.problem, new RegExp(`record ${last}\\b`));
	assert.match(daemon.log(), /the audit is not what it was/);
	await tamper('delete from audit', 'insert into audit select * from kept',
		`update audit_state set last_seq = ${last}, last_hash = (select hash from kept where seq = ${last})`, 'drop table kept');
	await verify();
});

// ---- deaths ----

test('a daemon that is killed in the middle leaves a chain that is whole, and lacks nothing that was answered', async () => {
	for (let round = 0; round < 8; round++) {
		const begun = await head();
		const answered = [];
		let over = false;
		const client = async (n) => {
			for (let i = 0; !over; i++) {
				const name = `r${round}-c${n}-${i}`;
				const id = `${name}-made`;

				try {
					const made = await daemon.request('POST', '/v1/networks', { name }, { 'X-Request-Id': id });

					answered.push([id, made.status === 201 ? 'ok' : made.json.code]);
					await daemon.request('POST', `/v1/sandboxes/${NOBODY}/exec`, { command: 'true' }, { 'X-Request-Id': `${name}-ran` });
					answered.push([`${name}-ran`, undefined]); // how it ended may be lost, that it was is not
					const gone = await daemon.request('DELETE', `/v1/networks/${name}`, undefined, { 'X-Request-Id': `${name}-gone` });

					answered.push([`${name}-gone`, gone.status === 200 ? 'ok' : gone.json.code]);
				} catch {
					return;
				}
			}
		};
		const clients = [0, 1, 2, 3, 4, 5].map(client);

		for (const until = Date.now() + 60_000; answered.length < 3 + 5 * round; await sleep(3 + round))
			assert.ok(Date.now() < until, 'nothing is answered');
		await daemon.kill();
		over = true;
		await Promise.all(clients);
		await daemon.start();
		await verify();
		const found = (await records()).filter(({ seq }) => seq > begun);
		const byId = Map.groupBy ? Map.groupBy(found, ({ request_id }) => request_id)
			: found.reduce((map, one) => map.set(one.request_id, [...(map.get(one.request_id) ?? []), one]), new Map());

		for (const [id, result] of answered) {
			assert.equal(byId.get(id)?.length, 1, id);
			if (result)
				assert.equal(byId.get(id)[0].result, result, id);
			else
				assert.ok(['not_found', 'interrupted'].includes(byId.get(id)[0].result));
		}
		for (const [id, list] of byId)
			assert.equal(list.length, 1, id);
	}
	for (const { name } of (await good('GET', '/v1/networks')).items)
		await unmake(name);
});

// ---- figures ----

describe('figures', () => {
	const metrics = async () => {
		const answer = await daemon.request('GET', '/metrics');

		assert.equal(answer.status, 200, answer.text);
		assert.equal(answer.headers.get('content-type'), 'text/plain; version=0.0.4; charset=utf-8');
		return parseMetrics(answer.text);
	};

	test('are what the format wants, and count what was done', async () => {
		const before = await metrics();

		await network('counted');
		await unmake('counted');
		await daemon.request('DELETE', '/v1/networks/counted');
		await daemon.request('GET', '/v1/sandboxes', undefined, { Authorization: 'Bearer sk_nobody' });
		const later = await metrics();
		const grown = (name, labels) => (later.value(name, labels) ?? 0) - (before.value(name, labels) ?? 0);

		assert.equal(grown('skerry_operations_total', { operation: 'create_network', result: 'ok' }), 1);
		assert.equal(grown('skerry_operations_total', { operation: 'remove_network', result: 'ok' }), 1);
		assert.equal(grown('skerry_operations_total', { operation: 'remove_network', result: 'network_not_found' }), 1);
		assert.equal(grown('skerry_operation_seconds_count', { operation: 'remove_network' }), 2);
		assert.equal(grown('skerry_audit_records_total'), 3);
		assert.equal(grown('skerry_bad_keys_total'), 1);
		assert.ok(grown('skerry_http_requests_total', { status: '2xx' }) >= 2);
		assert.equal(later.value('skerry_audit_failing'), 0);
		assert.equal(later.value('skerry_sandboxes'), (await good('GET', '/v1/sandboxes')).items.length);
		assert.equal(later.value('skerry_audit_head'), await head());
		for (const name of ['skerry_state_disk_free_bytes', 'process_resident_memory_bytes', 'process_open_fds',
			'skerry_host_memory_available_bytes', 'process_start_time_seconds', 'skerry_http_connections'])
			assert.ok(later.value(name) > 0, name);
	});

	test('the documentation names them all, and no others', async () => {
		const docs = fs.readFileSync(new URL('../../docs/operations.md', import.meta.url), 'utf8');
		const { families } = await metrics();
		const named = new Set(docs.match(/skerry_[a-z_]+/g).map((name) => name.replace(/_(bucket|sum|count)$/, '')));

		for (const name of families.keys())
			if (name.startsWith('skerry_'))
				assert.ok(named.delete(name), `${name} is not documented`);
		assert.deepEqual([...named], []);
	});

	test('need an administrator\'s key, which may be for nothing else, unless they are open', async () => {
		const { key } = await good('POST', '/v1/keys', { label: 'prometheus', admin: true, scopes: { operations: ['metrics'] } });
		const { key: other } = await good('POST', '/v1/keys', { label: 'exec', admin: true, scopes: { operations: ['exec'] } });
		const ask = async (bearer) => (await fetch(new URL('/metrics', daemon.url), bearer && { headers: { Authorization: `Bearer ${bearer}` } })).status;

		assert.equal(await ask(), 401);
		assert.equal(await ask('sk_nobody'), 401);
		assert.equal(await ask(other), 403);
		assert.equal(await ask(key), 200);
		assert.equal((await daemon.request('GET', '/v1/sandboxes', undefined, { Authorization: `Bearer ${key}` })).status, 403);
		const open = await startDaemon({ config: { server: { metrics_open: 'yes' } } });

		try {
			const answer = await fetch(new URL('/metrics', open.url));

			assert.equal(answer.status, 200);
			parseMetrics(await answer.text());
		} finally {
			await open.stop();
		}
	});

	test('how often a key may ask is counted', async () => {
		const slow = await startDaemon({ config: { limits: { requests_per_second: 1 } } });

		try {
			const statuses = [];

			for (let i = 0; i < 30; i++)
				statuses.push((await slow.request('GET', '/v1/limits')).status);
			const refused = statuses.filter((status) => status === 429).length;

			assert.ok(refused > 0);
			await sleep(3000); // some of its allowance is back
			const text = (await slow.request('GET', '/metrics')).text;

			assert.equal(parseMetrics(text).value('skerry_rate_limited_total'), refused);
			assert.equal(parseMetrics(text).value('skerry_limit', { name: 'requests_per_second' }), 1);
			await sleep(3000);
		} finally {
			await slow.stop();
		}
	});

	test('readiness says what it looked at', async () => {
		const answer = await fetch(new URL('/readyz', daemon.url));
		const { status, checks } = await answer.json();

		assert.deepEqual([answer.status, status], [200, 'ready']);
		assert.deepEqual(checks.map(({ name, ok }) => [name, ok]),
			['recovered', 'staying', 'database', 'audit', 'disk'].map((name) => [name, true]));
		const full = await startDaemon({ config: { limits: { host_free_disk_mb_min: 1_000_000_000 } } });

		try {
			const bad = await fetch(new URL('/readyz', full.url));
			const verdict = await bad.json();

			assert.deepEqual([bad.status, verdict.status], [503, 'not_ready']);
			assert.deepEqual(verdict.checks.filter(({ ok }) => !ok).map(({ name }) => name), ['disk']);
			assert.equal((await fetch(new URL('/healthz', full.url))).status, 200);
		} finally {
			await full.stop();
		}
	});
});
