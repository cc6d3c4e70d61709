// REST with real sandboxes: the whole life of one, commands in every form, what happens when a client
// goes away, retries with a key, the quota under a crowd, and bad input that changes nothing.

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';

import { startDaemon } from './lib/daemon.mjs';
import { events } from './lib/raw.mjs';

const QUOTA = 4;

let daemon, sandbox;
before(async () => {
	daemon = await startDaemon({ config: { limits: { sandboxes_per_account: QUOTA } } });
	await daemon.ensureImage('base');
});
after(() => daemon?.stop());

const call = (method, route, body, headers) => daemon.request(method, route, body, headers);
const exec = async (command, more = {}, id = sandbox.id) => {
	const answer = await call('POST', `/v1/sandboxes/${id}/exec`, { command, ...more });

	assert.equal(answer.status, 200, answer.text);
	return answer.json;
};
const stream = (method, route, body, signal) =>
	fetch(new URL(route, daemon.url), {
		method,
		signal,
		headers: { Authorization: `Bearer ${daemon.key}`, Accept: 'text/event-stream', 'Content-Type': 'application/json' },
		body: body && JSON.stringify(body),
	});

async function until(ask, good, withinMs = 30_000) {
	for (const end = Date.now() + withinMs; ; await sleep(100)) {
		const answer = await ask();

		if (good(answer))
			return answer;
		assert.ok(Date.now() < end, `still ${JSON.stringify(answer)}`);
	}
}

describe('one sandbox', () => {
	before(async () => {
		const answer = await call('POST', '/v1/sandboxes', { name: 'first', labels: { task: '42' }, timeout_minutes: 10 });

		assert.equal(answer.status, 201, answer.text);
		sandbox = answer.json;
	});

	test('has the shape that was asked for', () => {
		assert.match(sandbox.id, /^sbx_[0-9a-f]{8,16}$/);
		assert.deepEqual(
			{ ...sandbox, id: 0, created_at: 0, expires_at: 0, isolation: 0, generation: 0 },
			{ id: 0, name: 'first', status: 'running', size: 'small', vcpus: 1, memory_mb: 1024, disk_gb: 10, image: 'base',
				isolation: 0, created_at: 0, expires_at: 0, on_timeout: 'destroy', parent_id: null, labels: { task: '42' },
				generation: 0, egress: null, networks: [], address: null,
				traffic: { out_bytes: 0, out_packets: 0, in_bytes: 0, in_packets: 0, denied_packets: 0 } });
		assert.match(sandbox.isolation, /^(kvm|emulated)$/);
		assert.match(sandbox.expires_at, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
		assert.equal(Date.parse(sandbox.expires_at) - Date.parse(sandbox.created_at), 600_000);
	});

	test('is found by get and by every filter of the list', async () => {
		assert.deepEqual((await call('GET', `/v1/sandboxes/${sandbox.id}`)).json, sandbox);
		for (const query of ['', '?status=running', '?status=all', '?label=task', '?label=task%3D42', '?image=base', '?limit=1'])
			assert.deepEqual((await call('GET', `/v1/sandboxes${query}`)).json.items.map((item) => item.id), [sandbox.id], query);
		for (const query of ['?status=paused', '?label=task%3D43', '?label=other', '?image=dev'])
			assert.deepEqual((await call('GET', `/v1/sandboxes${query}`)).json.items, [], query);
	});

	test('an id that never was reads as one of somebody else', async () => {
		for (const id of ['sbx_000000000000', 'nonsense', 'sbx_%C3%A9', 'x'.repeat(64)]) {
			const answer = await call('GET', `/v1/sandboxes/${id}`);

			assert.equal(answer.status, 404);
			assert.equal(answer.json.code, 'not_found');
			assert.match(answer.headers.get('content-type'), /^application\/problem\+json/);
			assert.equal(answer.json.request_id, answer.headers.get('x-request-id'));
		}
	});

	test('its deadline moves, within the bound', async () => {
		const extended = await call('POST', `/v1/sandboxes/${sandbox.id}/extend`, { additional_minutes: 5 });

		assert.equal(extended.status, 200, extended.text);
		assert.equal(Date.parse(extended.json.expires_at) - Date.parse(sandbox.expires_at), 300_000);
		const far = await call('POST', `/v1/sandboxes/${sandbox.id}/extend`, { additional_minutes: 1440 });

		assert.equal(far.status, 422);
		assert.equal(far.json.code, 'limit_reached');
		assert.equal((await call('GET', `/v1/sandboxes/${sandbox.id}`)).json.expires_at, extended.json.expires_at);
	});
});

describe('commands', () => {
	test('out, err, code and state', async () => {
		const answer = await exec('echo out; echo err >&2; echo kept > file; exit 3', { env: { WORD: 'a b' } });

		assert.equal(answer.stdout, 'out\n');
		assert.equal(answer.stderr, 'err\n');
		assert.equal(answer.exit_code, 3);
		assert.equal(answer.signal, null);
		assert.equal(answer.running, false);
		assert.deepEqual([answer.stdout_bytes, answer.stderr_bytes, answer.truncated, answer.timed_out], [4, 4, false, false]);
		assert.equal((await exec('cat file; echo "$WORD|$HOME|$(whoami)"', { env: { WORD: 'a b' } })).stdout,
			'kept\na b|/home/sandbox|sandbox\n');
		assert.equal((await exec('id -u; pwd', { user: 'root', cwd: '/tmp' })).stdout, '0\n/tmp\n');
	});

	test('input, as text and as bytes', async () => {
		assert.equal((await exec('cat', { stdin: 'héllo\u0000\n' })).stdout, 'héllo\u0000\n');
		assert.equal((await exec('od -An -tx1', { stdin_base64: '//4A' })).stdout.trim(), 'ff fe 00');
		assert.equal((await exec('cat')).stdout, '');
	});

	test('output that is no text', async () => {
		assert.equal((await exec("printf '\\377\\376a'")).stdout, '\ufffd\ufffda');
		assert.equal((await exec("printf '\\377\\376a'", { encoding: 'base64' })).stdout_base64, '//5h');
	});

	test('output over the cap keeps head and tail', async () => {
		const answer = await exec('seq 1 100000', { max_output_bytes: 2000 });

		assert.equal(answer.truncated, true);
		assert.ok(answer.stdout.length < 2400);
		assert.match(answer.stdout, /^1\n2\n3\n/);
		assert.match(answer.stdout, /\n99999\n100000\n$/);
		assert.match(answer.stdout, /\/run\/skerry\/exec\//);
		assert.equal(answer.stdout_bytes, 588895);
	});

	test('a deadline ends the whole tree', async () => {
		const answer = await exec('(sleep 77 & sleep 77) & echo began; sleep 77', { timeout_ms: 1500 });

		assert.deepEqual([answer.timed_out, answer.exit_code, answer.stdout], [true, 124, 'began\n']);
		assert.equal((await exec('pgrep -fc "^sleep 77$"; true')).stdout, '0\n');
	});

	for (const [what, more, code] of [
		['absent cwd', { cwd: '/does/not/exist' }, 'cwd_not_found'],
		['unknown user', { user: 'nobody-here' }, 'user_not_found'],
	])
		test(`${what} says so`, async () => {
			for (const accept of ['application/json', 'text/event-stream']) {
				const answer = await call('POST', `/v1/sandboxes/${sandbox.id}/exec`, { command: 'true', ...more },
					{ Accept: accept });

				assert.equal(answer.status, 422, answer.text);
				assert.equal(answer.json.code, code);
				assert.ok(answer.json.detail.includes(Object.values(more)[0]), answer.json.detail);
			}
		});

	test('in the background: polled, fed, signalled', async () => {
		const began = await exec('read line; echo "got $line"; exec sleep 100', { background: true, stdin_open: true });
		const route = `/v1/sandboxes/${sandbox.id}/exec/${began.exec_id}`;

		assert.deepEqual([began.running, began.exit_code], [true, null]);
		assert.equal((await call('POST', `${route}/input`, { data: 'a line\n', close: true })).status, 200);
		const fed = await until(async () => (await call('GET', `${route}?wait_ms=200`)).json, (a) => a.stdout_bytes > 0);

		assert.deepEqual([fed.stdout, fed.running], ['got a line\n', true]);
		assert.equal((await call('POST', `${route}/input`, { data: 'more' })).status, 409);
		assert.equal((await call('POST', `${route}/signal`, { signal: 'SIGTERM' })).status, 200);
		const over = (await call('GET', `${route}?wait_ms=20000&from_offset=${fed.next_offset}`)).json;

		assert.deepEqual([over.running, over.signal, over.exit_code, over.stdout], [false, 'SIGTERM', 143, '']);
		assert.equal((await call('GET', `${route}?from_offset=4`)).json.stdout, 'a line\n');
		assert.equal((await call('GET', `/v1/sandboxes/${sandbox.id}/exec/exec_0000000000000000`)).status, 404);
	});
});

describe('streams', () => {
	const collect = async (response) => {
		const seen = [];

		for await (const event of events(response))
			seen.push(event);
		return seen;
	};

	test('events as they happen, with offsets', async () => {
		const response = await stream('POST', `/v1/sandboxes/${sandbox.id}/exec`,
			{ command: 'echo one; sleep 1; echo two; echo bad >&2; exit 5' });

		assert.match(response.headers.get('content-type'), /^text\/event-stream/);
		assert.equal(response.headers.get('x-accel-buffering'), 'no');
		const seen = await collect(response);
		const text = (name) => seen.filter((e) => e.event === name).map((e) => e.data.data).join('');

		assert.equal(seen[0].event, 'started');
		assert.deepEqual([text('stdout'), text('stderr')], ['one\ntwo\n', 'bad\n']);
		assert.deepEqual(seen.filter((e) => e.event === 'stdout').map((e) => e.data.offset), [0, 4]);
		const exit = seen.at(-1);

		assert.equal(exit.event, 'exit');
		assert.deepEqual([exit.data.exit_code, exit.data.stdout_bytes, exit.data.stdout], [5, 8, undefined]);
		assert.equal(exit.data.exec_id, seen[0].data.exec_id);
	});

	test('characters stay whole, bytes stay bytes, nothing is lost', async () => {
		const text = await collect(await stream('POST', `/v1/sandboxes/${sandbox.id}/exec`,
			{ command: 'yes é | head -n 200000' }));
		const joined = text.filter((e) => e.event === 'stdout').map((e) => e.data.data).join('');
		let offset = 0;

		assert.ok(joined === 'é\n'.repeat(200_000));
		for (const { data } of text.filter((e) => e.event === 'stdout')) {
			assert.equal(data.offset, offset);
			offset += Buffer.byteLength(data.data);
		}
		const bytes = await collect(await stream('POST', `/v1/sandboxes/${sandbox.id}/exec`,
			{ command: "printf '\\377\\303'; sleep 0.3; printf '\\251'" }));
		const raw = bytes.filter((e) => e.event === 'stdout')
			.map(({ data }) => Buffer.from(data.data_base64 ?? data.data, data.data_base64 ? 'base64' : 'utf8'));

		assert.equal(Buffer.concat(raw).toString('hex'), 'ffc3a9');
	});

	test('a client that reads slowly gets everything, and costs little', async () => {
		const memory = async () => Number((await import('node:fs')).readFileSync(`/proc/${daemon.pid}/status`, 'utf8')
			.match(/VmRSS:\s+(\d+)/)[1]);
		const response = await stream('POST', `/v1/sandboxes/${sandbox.id}/exec`,
			{ command: 'head -c 8000000 /dev/zero | tr "\\0" x' });
		const began = await memory();

		await sleep(3000);
		assert.ok(await memory() - began < 16_000, 'kB more for a client that waits');
		let bytes = 0, exit;
		for await (const { event, data } of events(response)) {
			if (event === 'stdout')
				bytes += data.data.length;
			exit = event === 'exit' ? data : exit;
		}
		assert.equal(bytes, 8_000_000);
		assert.equal(exit.stdout_bytes, 8_000_000);
	});

	test('a client that leaves does not end the command', async () => {
		const leave = new AbortController();
		const response = await stream('POST', `/v1/sandboxes/${sandbox.id}/exec`,
			{ command: 'echo early; sleep 2; echo late' }, leave.signal);
		const seen = events(response);
		const { value: started } = await seen.next();

		assert.equal((await seen.next()).value.data.data, 'early\n');
		leave.abort();
		const route = `/v1/sandboxes/${sandbox.id}/exec/${started.data.exec_id}`;
		const over = await call('GET', `${route}?wait_ms=30000`);

		assert.deepEqual([over.json.stdout, over.json.exit_code], ['early\nlate\n', 0]);
		const again = await collect(await stream('GET', `${route}?from_offset=6`));

		assert.deepEqual(again.filter((e) => e.event === 'stdout').map((e) => e.data), [{ offset: 6, data: 'late\n' }]);
	});

	test('nor does one that waits for the answer', async () => {
		const leave = new AbortController();
		const waiting = fetch(new URL(`/v1/sandboxes/${sandbox.id}/exec`, daemon.url), {
			method: 'POST', signal: leave.signal,
			headers: { Authorization: `Bearer ${daemon.key}`, 'Content-Type': 'application/json' },
			body: JSON.stringify({ command: 'sleep 2; echo done > left' }),
		});

		await sleep(1000);
		leave.abort();
		await assert.rejects(waiting);
		await until(() => exec('cat left 2>&1; true'), (a) => a.stdout === 'done\n');
		assert.match(daemon.log(), /status=499/);
	});
});

describe('creating', () => {
	const create = (body, headers) => call('POST', '/v1/sandboxes', body, headers);

	test('a retry with the same key makes no second one', async () => {
		const key = { 'Idempotency-Key': `retry-${Date.now()}` };
		const first = await create({ timeout_minutes: 5, size: 'small' }, key);
		const second = await create({ size: 'small', timeout_minutes: 5.0 }, key);
		const other = await create({ timeout_minutes: 6 }, key);

		assert.deepEqual([first.status, second.status, other.status], [201, 201, 409], first.text + second.text);
		assert.equal(first.json.id, second.json.id);
		assert.equal(other.json.code, 'idempotency_conflict');
		assert.equal((await daemon.sandboxes()).length, 2);
		assert.equal((await call('DELETE', `/v1/sandboxes/${first.json.id}`)).status, 200);
	});

	test('32 at once at the quota', async () => {
		const free = QUOTA - (await daemon.sandboxes()).length;
		const answers = await Promise.all(Array.from({ length: 32 }, () => create({ timeout_minutes: 5 })));
		const made = answers.filter((a) => a.status === 201);

		assert.equal(made.length, free, answers.map((a) => a.text).join('\n'));
		for (const refused of answers.filter((a) => a.status !== 201)) {
			assert.equal(refused.status, 429);
			assert.equal(refused.json.code, 'quota_reached');
			assert.match(refused.json.detail, new RegExp(`\\b${QUOTA}\\b`));
		}
		assert.equal((await daemon.sandboxes()).length, QUOTA);
		const destroyed = await Promise.all(made.map((a) => call('DELETE', `/v1/sandboxes/${a.json.id}`)));

		assert.deepEqual(
			destroyed.filter((a) => a.status !== 200).map((a) => a.text),
			[],
		);
		assert.equal((await daemon.sandboxes()).length, QUOTA - free);
	});
});

describe('bad input', () => {
	const id = () => sandbox.id;
	const huge = '9'.repeat(30);
	// [method, route, argument, values, what the refusal says of the bounds]
	const wrong = {
		text: [1, true, [], {}, 1.5],
		number: ['1', true, [], {}, -1, 1.5, Symbol.for(huge), Symbol.for('1e300')],
		flag: ['true', 1, 0, [], {}],
		list: ['x', 1, true, {}, [1], [null], [[]], [''], ['a\0b']],
		map: ['x', 1, true, [], { KEY: 1 }, { KEY: null }, { KEY: {} }, { '': 'x' }],
	};
	const table = [
		['POST', () => '/v1/sandboxes', {}, {
			size: [wrong.text.concat('huge', '', 'a\0b'), /one of tiny, small|NUL/],
			timeout_minutes: [wrong.number.concat(0, 1441), /from 1 to 1440/],
			image: [wrong.text.concat('', '../base', 'Base', 'a\0b', 'x'.repeat(65)), /1 to 64 bytes|NUL/],
			name: [wrong.text.concat('', '-a', 'a b', 'ä', 'a\0', 'x'.repeat(64)), /1 to 63 bytes|NUL/],
			labels: [wrong.map.concat({ k: 'x'.repeat(257) }), /strings|names/],
			vcpus: [['1', true, 0, 0.2, 8.5, -1, Symbol.for(huge)], /from 0.25 to 8/],
			memory_mb: [wrong.number.concat(255, 16385), /from 256 to 16384/],
			disk_gb: [wrong.number.concat(9, 61), /from 10 to 60/],
			egress: [wrong.list.concat([Array(1001).fill('a.example')]), /null or a list of at most 1000|strings of 1 to 1024/],
			networks: [wrong.list.concat([['-a'], ['A'], ['x'.repeat(64)], Array(9).fill('a')]), /a list of at most 8|strings of 1 to 63/],
		}],
		['POST', () => `/v1/sandboxes/${id()}/exec`, { command: 'touch /tmp/changed' }, {
			command: [wrong.text.concat('', 'a\0b', 'x'.repeat(131072)), /1 to 131071 bytes|NUL/],
			timeout_ms: [wrong.number.concat(0, 86400001), /from 1 to 86400000/],
			cwd: [wrong.text.concat('', '/\0', '/'.repeat(4096)), /1 to 4095 bytes|NUL/],
			env: [wrong.map.concat({ 'A=B': 'x' }, { A: 'x\0' }, { '1A': 'x' }), /strings|names/],
			stdin: [wrong.text, /string/],
			stdin_base64: [wrong.text.concat('!', 'a'), /string|base64/],
			stdin_open: [wrong.flag, /true or false/],
			user: [wrong.text.concat('', 'a\0', 'x'.repeat(33)), /1 to 32 bytes|NUL/],
			background: [wrong.flag, /true or false/],
			max_output_bytes: [wrong.number.concat(0, 16777217), /from 1 to 16777216/],
			encoding: [wrong.text.concat('latin1', ''), /one of utf8, base64/],
		}],
		['POST', () => `/v1/sandboxes/${id()}/exec/exec_0/input`, {}, {
			data: [wrong.text, /string/],
			data_base64: [wrong.text.concat('!'), /string|base64/],
			close: [wrong.flag, /true or false/],
		}],
		['POST', () => `/v1/sandboxes/${id()}/exec/exec_0/signal`, {}, {
			signal: [wrong.text.concat('', 'SIGFOO', '9'), /one of SIGHUP/],
		}],
		['POST', () => `/v1/sandboxes/${id()}/extend`, {}, {
			additional_minutes: [wrong.number.concat(0, 1441), /from 1 to 1440/],
		}],
		['PUT', () => `/v1/sandboxes/${id()}/egress`, {}, {
			rules: [wrong.list, /null or a list of at most 1000|strings of 1 to 1024/],
		}],
		['POST', () => `/v1/sandboxes/${id()}/egress`, {}, {
			add: [wrong.list, /a list of at most 1000|strings of 1 to 1024/],
			remove: [wrong.list, /a list of at most 1000|strings of 1 to 1024/],
		}],
		['POST', () => '/v1/networks', {}, {
			name: [wrong.text.concat('', '-a', 'a b', 'ä', 'a\0', 'x'.repeat(64)), /1 to 63 bytes|NUL/],
		}],
		['PUT', () => `/v1/networks/team/members/${id()}`, {}, {
			as: [wrong.text.concat('', '-a', 'x'.repeat(64)), /1 to 63 bytes|NUL/],
		}],
		['POST', () => '/v1/images', {}, {
			name: [wrong.text.concat('', '../x', 'a\0', 'x'.repeat(65)), /1 to 64 bytes|NUL/],
			rebuild: [wrong.flag, /true or false/],
		}],
		['POST', () => '/v1/images/import', { source: 'oci:/not/there' }, {
			source: [wrong.text.concat('', 'a\0', 'x'.repeat(4097)), /1 to 4096 bytes|NUL/],
			name: [wrong.text.concat('', '../x', 'a\0', 'x'.repeat(65)), /1 to 64 bytes|NUL/],
			replace: [wrong.flag, /true or false/],
			tls_verify: [wrong.flag, /true or false/],
		}],
		['GET', () => '/v1/sandboxes', {}, {
			status: [['', 'gone'], /one of creating/],
			label: [['', 'a%00'], /bytes|NUL/],
			image: [['', 'a%00'], /bytes|NUL/],
			cursor: [['', 'a%00'], /bytes|NUL/],
			limit: [['', '0', '201', '-1', '1.5', 'x', huge], /from 1 to 200/],
		}],
		['GET', () => `/v1/sandboxes/${id()}/exec/exec_0`, {}, {
			wait_ms: [['', '-1', '600001', 'x', huge], /from 0 to 600000/],
			from_offset: [['', '-1', 'x', huge], /from 0/],
			from_stderr_offset: [['', '-1', 'x', huge], /from 0/],
			max_output_bytes: [['0', '16777217', 'x'], /from 1 to 16777216/],
			encoding: [['latin1', ''], /one of utf8, base64/],
		}],
	];
	const state = async () => [await daemon.sandboxes(), (await call('GET', '/v1/images')).json];
	after(async () => assert.match((await exec('ls /tmp/changed 2>&1; true')).stdout, /No such file/));
	// Symbols stand for numbers that JavaScript would not write as they are.
	const toJson = (body) => JSON.stringify(body, (_, v) => (typeof v === 'symbol' ? `\u0001${Symbol.keyFor(v)}\u0001` : v))
		.replaceAll(/"\\u0001(.*?)\\u0001"/g, '$1');

	for (const [method, route, good, args] of table)
		for (const [name, [values, bounds]] of Object.entries(args))
			test(`${method} ${route.toString().replace(/^\(\) => ./, '').slice(0, -1)}: ${name}`, async () => {
				const before = await state();

				for (const value of values) {
					const inQuery = method === 'GET';
					const answer = inQuery ?
						await call(method, `${route()}?${name}=${value}`) :
						await call(method, route(), toJson({ ...good, [name]: value }));

					assert.equal(answer.status, 400, `${String(value).slice(0, 50)}: ${answer.text}`);
					assert.equal(answer.json.code, 'invalid_argument');
					assert.ok(answer.json.detail.includes(name), answer.json.detail);
					assert.match(answer.json.detail, bounds);
				}
				assert.deepEqual(await state(), before);
			});

	test('bodies that are no object, unknown names, missing names', async () => {
		const before = await state();

		for (const [body, code, part] of [
			['', 'invalid_argument', '"command" is required'],
			['{', 'malformed_json', 'line 1, column'],
			['{"command":"true",}', 'malformed_json', 'line 1'],
			['{"command":"true","command":"false"}', 'malformed_json', 'line 1'],
			['[]', 'invalid_argument', 'JSON object'],
			['"x"', 'invalid_argument', 'JSON object'],
			['null', 'invalid_argument', 'JSON object'],
			['['.repeat(100_000), 'malformed_json', 'line 1'],
			['{}', 'invalid_argument', '"command" is required'],
			['{"command":null}', 'invalid_argument', '"command" is required'],
			['{"comand":"true"}', 'invalid_argument', 'unknown argument "comand"'],
			['{"command":"true","id":"sbx_0"}', 'invalid_argument', 'belongs in the path'],
			['{"command":"true","stdin":"a","stdin_base64":"YQ=="}', 'invalid_argument', 'exclude'],
			['{"command":"true","timeout_ms":1e999}', 'malformed_json', 'line 1'],
		]) {
			const answer = await call('POST', `/v1/sandboxes/${id()}/exec`, body);

			assert.deepEqual([answer.status, answer.json.code], [400, code], answer.text);
			assert.ok(answer.json.detail.includes(part), answer.json.detail);
		}
		assert.match((await call('POST', `/v1/sandboxes/${id()}/exec`, { comand: 'x' })).json.hint, /"command"/);
		assert.deepEqual(await state(), before);
	});

	test('what is secret is not shown', async () => {
		const answer = await call('POST', `/v1/sandboxes/${id()}/exec`,
			{ command: 'true', env: { TOKEN: 'hunter2\0' }, stdin: 'hunter3' });

		assert.equal(answer.status, 400);
		assert.match(answer.json.detail, /TOKEN/);
		assert.doesNotMatch(answer.text, /hunter/);
		assert.doesNotMatch(daemon.log(), /hunter/);
	});
});

describe('the end', () => {
	test('destroying twice, and what is said of it afterwards', async () => {
		const route = `/v1/sandboxes/${sandbox.id}`;

		for (let i = 0; i < 2; i++) {
			const answer = await call('DELETE', route);

			assert.deepEqual([answer.status, answer.json], [200, { id: sandbox.id, status: 'destroyed' }]);
		}
		const tombstone = (await call('GET', route)).json;

		assert.deepEqual([tombstone.status, tombstone.reason], ['destroyed', 'destroyed_by_user']);
		assert.ok(tombstone.reason_text.length > 10 && tombstone.ended_at);
		for (const [method, path, body] of [['POST', 'exec', { command: 'true' }], ['POST', 'extend', { additional_minutes: 1 }]]) {
			const answer = await call(method, `${route}/${path}`, body);

			assert.equal(answer.status, 410, answer.text);
			assert.match(answer.json.detail, /destroyed/);
		}
		assert.ok(!(await daemon.sandboxes()).some((s) => s.id === sandbox.id));
		assert.ok((await call('GET', '/v1/sandboxes?status=all')).json.items.some((s) => s.id === sandbox.id));
	});
});

test('the OpenAPI document describes what is served', async () => {
	const api = (await call('GET', '/openapi.json')).json;
	const operations = Object.entries(api.paths).flatMap(([route, methods]) =>
		Object.entries(methods).map(([method, operation]) => ({ route, method, operation })));

	assert.equal(api.openapi, '3.1.0');
	assert.equal(new Set(operations.map((o) => o.operation.operationId)).size, operations.length);
	for (const { route, method, operation } of operations) {
		const inPath = [...route.matchAll(/\{(\w+)\}/g)].map((m) => m[1]);
		const declared = operation.parameters.filter((p) => p.in === 'path');

		assert.deepEqual(declared.map((p) => p.name).sort(), inPath.sort(), route);
		assert.ok(declared.every((p) => p.required === true));
		assert.ok(operation.responses.default && Object.keys(operation.responses).some((s) => /^(2..|101)$/.test(s)));
		const answer = await call(method.toUpperCase(), route.replaceAll(/\{\w+\}/g, 'x'), method === 'post' ? '[' : undefined);

		assert.notEqual(answer.status, 405, `${method} ${route}`);
		assert.ok(!(answer.json?.detail ?? '').startsWith('there is no'), `${method} ${route}`);
	}
});
