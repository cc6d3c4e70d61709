// Who may do what, over every operation that the server has: another account's ids read like ids that never
// were, a key for commands alone can do nothing else, and what is refused has changed nothing. The requests
// are made from /openapi.json and from tools/list, so that a new route is tested by being there.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import { startDaemon } from './lib/daemon.mjs';
import { post, request } from './lib/mcp.mjs';
import { kindOf, operationsOf, routeOf, send } from './lib/routes.mjs';
import { Viewer, refusal } from './lib/terminal.mjs';
import { inside, makeWorld, runInside } from './lib/world.mjs';

if (!inside) {
	runInside(import.meta.url);
} else {
	let daemon, world, operations, owner, other, things, never;

	const as = (key) => Object.assign(Object.create(daemon), { key });

	async function good(who, method, route, body) {
		const answer = await who.request(method, route, body);

		assert.ok(answer.status < 300, `${method} ${route}: ${answer.status} ${answer.text}`);
		return answer.json;
	}

	const newKey = async (scopes, more = {}) => as((await good(owner, 'POST', '/v1/keys', { scopes, ...more })).key);

	before(async () => {
		world = await makeWorld();
		daemon = await startDaemon({ config: world.config });
		await daemon.ensureImage('base');
		owner = as((await good(daemon, 'POST', '/v1/accounts', { name: 'owner' })).key.key);
		other = as((await good(daemon, 'POST', '/v1/accounts', { name: 'other' })).key.key);
		await good(owner, 'POST', '/v1/networks', { name: 'mine' });
		await good(other, 'POST', '/v1/networks', { name: 'theirs' });
		const sandbox = await good(owner, 'POST', '/v1/sandboxes', {
			size: 'tiny', timeout_minutes: 60, networks: ['mine'], egress: ['192.0.2.1'], labels: { whose: 'owner' },
		});
		const command = await good(owner, 'POST', `/v1/sandboxes/${sandbox.id}/exec`, { command: 'sleep 1000', background: true });
		const terminal = await Viewer.open(owner, sandbox.id);
		const key = await good(owner, 'POST', '/v1/keys', { label: 'kept' });

		await good(owner, 'POST', `/v1/sandboxes/${sandbox.id}/snapshots`, { name: 'kept' });
		await terminal.drop();
		things = {
			sandboxes: sandbox.id, exec_id: command.exec_id, terminal_id: terminal.id, networks: 'mine', snapshots: 'kept',
			keys: key.id, accounts: sandbox.account_id ?? (await good(owner, 'GET', '/v1/usage')).account_id, images: 'base',
		};
		never = {
			sandboxes: 'sbx_0123456789ab', exec_id: 'exec_0123456789abcdef', terminal_id: 'term_0123456789abcdef',
			networks: 'never', snapshots: 'never', keys: 'key_0123456789abcdef', accounts: 'acc_0123456789abcdef', images: 'never',
		};
		operations = await operationsOf(daemon);
	});
	after(async () => {
		for (const { id } of (await good(owner, 'GET', '/v1/sandboxes?limit=200')).items)
			await owner.request('DELETE', `/v1/sandboxes/${id}`);
		await daemon?.stop();
		world?.close();
	});

	// All that the owner has, without what moves by itself.
	async function stateOf() {
		const { traffic, ...sandbox } = await good(owner, 'GET', `/v1/sandboxes/${things.sandboxes}`);
		const files = await good(owner, 'GET', `/v1/sandboxes/${things.sandboxes}/files/list?path=/home/sandbox`);
		const list = async (route) => (await good(owner, 'GET', route)).items;

		return {
			sandbox,
			files: files.items.map(({ name }) => name),
			sandboxes: (await list('/v1/sandboxes?status=all&limit=200')).map(({ id, status }) => [id, status]),
			egress: await good(owner, 'GET', `/v1/sandboxes/${things.sandboxes}/egress`),
			networks: await list('/v1/networks'),
			snapshots: (await list('/v1/snapshots')).map(({ name }) => name),
			keys: (await list('/v1/keys?status=all')).map(({ id, revoked_at, rotated_at }) => [id, revoked_at, rotated_at]),
			terminals: (await list(`/v1/sandboxes/${things.sandboxes}/terminals`)).map(({ terminal_id }) => terminal_id),
			command: (await good(owner, 'GET', `/v1/sandboxes/${things.sandboxes}/exec/${things.exec_id}`)).running,
			events: (await good(owner, 'GET', '/v1/events?newest=true&limit=1')).cursor,
			prices: (await good(owner, 'GET', '/v1/prices')),
		};
	}

	// Apart from the ids themselves and the request's own, an answer.
	function faceOf(answer, ids) {
		let text = answer.text;

		for (const id of Object.values(ids))
			text = text.replaceAll(id, 'ID');
		return { status: answer.status, code: answer.code, text: text.replace(/"request_id":"[^"]*"/, '') };
	}

	const pick = (op, from) => Object.fromEntries(op.ids.map((id) => [id, from[kindOf(op, id)]]));

	// Every way to mix own, foreign and unknown: what differs between two requests is foreign or never was.
	function* pairsOf(op) {
		yield [pick(op, things), pick(op, never)];
		if (op.path.startsWith('/v1/networks/{name}/')) {
			yield [{ name: 'theirs', id: things.sandboxes }, { name: 'theirs', id: never.sandboxes }];
			yield [{ name: 'mine', id: never.sandboxes }, { name: 'never', id: never.sandboxes }];
		}
	}

	test('another account\'s ids read like ids that never were', { timeout: 10 * 60_000 }, async (t) => {
		const before = await stateOf();
		let compared = 0;

		for (const op of operations.filter((one) => one.ids.length > 0 && one.path.split('/')[2] !== 'images')) {
			for (const [foreign, unknown] of pairsOf(op)) {
				for (const stream of op.streams ? [false, true] : [false]) {
					const one = await send(daemon, other.key, op, foreign, { stream });
					const two = await send(daemon, other.key, op, unknown, { stream });

					assert.deepEqual(faceOf(one, foreign), faceOf(two, unknown), `${op.name} ${routeOf(op, foreign)}`);
					assert.ok(one.status >= 400, `${op.name}: ${one.status}`);
					compared++;
				}
			}
		}
		assert.ok(compared > 30, `${compared} were compared`);
		assert.deepEqual(await stateOf(), before);
		t.diagnostic(`${compared} pairs of ${operations.length} operations`);
	});

	test('and so do ids in queries and bodies, in sockets, previews and tools', { timeout: 5 * 60_000 }, async () => {
		const before = await stateOf();
		const foreign = things.sandboxes, unknown = never.sandboxes;
		const same = (one, two, what) =>
			assert.deepEqual(faceOf(one, { foreign }), faceOf(two, { unknown }), what);

		for (const op of operations.filter((one) => one.optional.includes('sandbox_id') && one.ids.length === 0)) {
			const one = await send(daemon, other.key, op, {}, { query: { sandbox_id: foreign } });
			const two = await send(daemon, other.key, op, {}, { query: { sandbox_id: unknown } });

			/* The audit has what the account itself has tried. */
			assert.ok(op.scope === 'audit' || !one.text.includes(foreign), op.name);
			assert.deepEqual([one.status, one.code], [two.status, two.code], op.name);
		}
		for (const [body, code] of [[{ snapshot: 'kept' }, 'snapshot_not_found'], [{ networks: ['mine'] }, 'network_not_found']]) {
			const never = { ...(body.snapshot ? { snapshot: 'never' } : { networks: ['never'] }) };
			const one = await other.request('POST', '/v1/sandboxes', body);
			const two = await other.request('POST', '/v1/sandboxes', never);

			assert.equal(one.json.code, code, one.text);
			assert.deepEqual([one.status, one.json.code], [two.status, two.json.code]);
		}
		const scope = await other.request('POST', '/v1/keys', { scopes: { sandboxes: [foreign] } });

		same({ ...scope, code: scope.json.code }, await (async () => {
			const answer = await other.request('POST', '/v1/keys', { scopes: { sandboxes: [unknown] } });

			return { ...answer, code: answer.json.code };
		})(), 'scopes');
		const sockets = await Promise.all([refusal(other, foreign), refusal(other, unknown)]);

		assert.deepEqual(sockets.map(({ status, json }) => [status, json.code]), [[404, 'not_found'], [404, 'not_found']]);
		for (const id of [foreign, unknown]) {
			const preview = await other.request('GET', `/preview/${id}/8000/`);

			assert.deepEqual([preview.status, preview.json.code], [404, 'not_found'], preview.text);
		}
		const tools = (await post(other, { body: request('tools/list') })).json.result.tools;
		let called = 0;

		for (const tool of tools.filter(({ inputSchema }) => inputSchema.properties.sandbox_id)) {
			const args = (id) => Object.fromEntries([...new Set([...(tool.inputSchema.required ?? []), 'sandbox_id'])].map((name) => [name,
				{ sandbox_id: id, command: 'true', exec_id: things.exec_id, additional_minutes: 1, port: 80, rules: [], egress: [] }[name]]));
			const call = async (id) => {
				const answer = await post(other, { body: request('tools/call', { name: tool.name, arguments: args(id) }) });

				return { status: answer.status, text: JSON.stringify(answer.json.result ?? answer.json.error).replaceAll(id, 'ID') };
			};

			assert.deepEqual(await call(foreign), await call(unknown), tool.name);
			called++;
		}
		assert.ok(called >= 9, `${called} tools`);
		assert.deepEqual(await stateOf(), before);
	});

	test('a key for commands alone: everything else is refused, and nothing has changed', { timeout: 10 * 60_000 }, async (t) => {
		const before = await stateOf();
		const agent = await newKey({ operations: ['exec'] });
		const keys = (await stateOf()).keys;
		let refused = 0;

		/* Signing in to the page is for every key: the session may what the key may. */
		for (const op of operations.filter(({ scope }) => scope !== 'exec' && scope !== 'session')) {
			for (const stream of op.streams ? [false, true] : [false]) {
				const answer = await send(daemon, agent.key, op, pick(op, things), { stream });
				const wanted = op.scope === 'admin' ? 'forbidden' : 'scope_denied';

				assert.deepEqual([answer.status, answer.code], [403, wanted], `${op.name}: ${answer.text}`);
				if (op.scope !== 'admin')
					assert.match(answer.text, new RegExp(`does not have \\\\"${op.scope}\\\\"`));
				refused++;
			}
		}
		const tools = (await post(owner, { body: request('tools/list') })).json.result.tools.map(({ name }) => name);
		const own = (await post(agent, { body: request('tools/list') })).json.result.tools.map(({ name }) => name);

		assert.deepEqual(own, ['exec', 'exec_wait']);
		for (const name of tools.filter((tool) => !own.includes(tool))) {
			const answer = await post(agent, { body: request('tools/call', { name, arguments: { sandbox_id: things.sandboxes } }) });

			assert.equal(answer.status, 403, `${name}: ${answer.text}`);
			assert.match(answer.json.error.message, /its scope does not have/);
			refused++;
		}
		const preview = await agent.request('GET', `/preview/${things.sandboxes}/8000/`);

		assert.deepEqual([preview.status, preview.json.code], [403, 'scope_denied']);
		assert.deepEqual(await stateOf(), { ...before, keys });
		assert.equal((await good(agent, 'POST', `/v1/sandboxes/${things.sandboxes}/exec`, { command: 'echo it works' })).stdout, 'it works\n');
		t.diagnostic(`${refused} requests were refused`);
	});

	test('a key for files cannot have a terminal, nor the other way round', async () => {
		const files = await newKey({ operations: ['files'] });
		const commands = await newKey({ operations: ['exec'] });
		const route = `/v1/sandboxes/${things.sandboxes}/files?path=note`;

		assert.deepEqual((({ status, json }) => [status, json.code])(await refusal(files, things.sandboxes)), [403, 'scope_denied']);
		await good(files, 'PUT', route, 'text');
		assert.equal((await commands.request('PUT', route, 'other')).status, 403);
		assert.equal((await files.request('GET', route)).text, 'text');
		const viewer = await Viewer.open(commands, things.sandboxes);

		viewer.send('exit\n');
		await viewer.message('exit');
	});

	test('what is out of a key\'s scope reads like what never was, too', { timeout: 5 * 60_000 }, async () => {
		for (const scopes of [{ labels: { whose: 'nobody' } }, { sandboxes: [] }]) {
			const agent = await newKey(scopes);

			for (const op of operations.filter((one) => one.ids.some((id) => kindOf(one, id) === 'sandboxes'))) {
				const foreign = pick(op, things), unknown = { ...foreign, id: never.sandboxes };
				const one = await send(daemon, agent.key, op, foreign), two = await send(daemon, agent.key, op, unknown);

				assert.deepEqual(faceOf(one, foreign), faceOf(two, unknown), op.name);
				assert.equal(one.code, 'not_found', `${op.name}: ${one.text}`);
			}
			assert.deepEqual((await good(agent, 'GET', '/v1/sandboxes?status=all')).items, []);
			assert.deepEqual((await good(agent, 'GET', '/v1/events?cursor=0')).items, []);
			assert.deepEqual((await good(agent, 'GET', '/v1/networks')).items[0].members, []);
			assert.deepEqual((await good(agent, 'GET', '/v1/snapshots')).items, []);
		}
		const agent = await newKey({ labels: { whose: 'owner' } });

		assert.deepEqual((await good(agent, 'GET', '/v1/sandboxes')).items.map(({ id }) => id), [things.sandboxes]);
		assert.deepEqual((await good(agent, 'GET', '/v1/snapshots')).items.map(({ name }) => name), ['kept']);
	});

	test('a key that may not be root is not, by any way in', { timeout: 5 * 60_000 }, async () => {
		const agent = await newKey({ root: false });
		const base = `/v1/sandboxes/${things.sandboxes}`;
		const denied = async (method, route, body) => {
			const answer = await agent.request(method, route, body);

			assert.deepEqual([answer.status, answer.json?.code], [403, 'scope_denied'], `${route}: ${answer.text}`);
		};

		/* Another name of root's is root, too. */
		await good(owner, 'POST', `${base}/exec`, { command: 'echo toor:x:0:0::/root:/bin/bash >>/etc/passwd', user: 'root' });
		for (const user of ['root', 'toor']) {
			await denied('POST', `${base}/exec`, { command: 'id', user });
			await denied('PUT', `${base}/files?path=/etc/owned&user=${user}`, 'x');
			await denied('GET', `${base}/files?path=/etc/shadow&user=${user}`);
			await denied('GET', `${base}/tree?path=/root&user=${user}`);
			assert.equal((await refusal(agent, things.sandboxes, { user })).json.code, 'scope_denied');
		}
		const own = await good(agent, 'POST', `${base}/exec`, { command: 'id -u; sudo -n id -u || echo no' });

		assert.match(own.stdout, /^\d{4}\nno\n$/);
		assert.equal((await good(owner, 'POST', `${base}/exec`, { command: 'sudo -n id -u' })).stdout, '0\n');
		/* What others have started may be root's: it can neither be fed nor joined. */
		await denied('POST', `${base}/exec/${things.exec_id}/signal`, { signal: 'SIGTERM' });
		await denied('POST', `${base}/exec/${things.exec_id}/input`, { data: 'x' });
		await denied('GET', `${base}/exec/${things.exec_id}`);
		assert.equal((await refusal(agent, things.sandboxes, { terminal_id: things.terminal_id })).json.code, 'scope_denied');
		await denied('DELETE', `${base}/terminals/${things.terminal_id}`);
		const job = await good(agent, 'POST', `${base}/exec`, { command: 'sleep 1000', background: true });

		await good(agent, 'POST', `${base}/exec/${job.exec_id}/signal`, { signal: 'SIGKILL' });
		const viewer = await Viewer.open(agent, things.sandboxes);

		viewer.send('sudo -n id -u || echo "n""o"; exit\n');
		await viewer.find(/no\r\n/);
	});

	test('what a key makes is within its scope, and it can only tighten', { timeout: 5 * 60_000 }, async () => {
		const agent = await newKey({ labels: { agent: 'seven' }, sizes: ['tiny'], lifetime_minutes_max: 20, egress_loosen: false });
		const made = await good(agent, 'POST', '/v1/sandboxes', { labels: { more: 'x' }, size: 'tiny' });
		const refuse = async (method, route, body) => {
			const answer = await agent.request(method, route, body);

			assert.deepEqual([answer.status, answer.json?.code], [403, 'scope_denied'], answer.text);
		};

		assert.deepEqual([made.labels, made.egress], [{ agent: 'seven', more: 'x' }, []]);
		await refuse('POST', '/v1/sandboxes', { size: 'small' });
		await refuse('POST', '/v1/sandboxes', { size: 'tiny', timeout_minutes: 21 });
		await refuse('POST', '/v1/sandboxes', { size: 'tiny', egress: null });
		await refuse('POST', '/v1/sandboxes', { size: 'tiny', labels: { agent: 'eight' } });
		await refuse('POST', `/v1/sandboxes/${made.id}/extend`, { additional_minutes: 10 });
		await good(agent, 'POST', `/v1/sandboxes/${made.id}/extend`, { additional_minutes: 4 });
		await refuse('PUT', `/v1/sandboxes/${made.id}/egress`, { rules: ['example.com'] });
		await refuse('POST', `/v1/sandboxes/${made.id}/fork`, { timeout_minutes: 21 });
		await refuse('POST', `/v1/sandboxes/${made.id}/fork`, { labels: { agent: 'eight' } });
		await good(owner, 'PUT', `/v1/sandboxes/${made.id}/egress`, { rules: ['192.0.2.0/24'] });
		await good(agent, 'PUT', `/v1/sandboxes/${made.id}/egress`, { rules: ['192.0.2.7:443'] });
		await refuse('POST', `/v1/sandboxes/${made.id}/egress`, { add: ['192.0.2.8'] });
		const { sandboxes: [child] } = await good(agent, 'POST', `/v1/sandboxes/${made.id}/fork`, {});

		assert.deepEqual([child.labels.agent, child.egress], ['seven', ['192.0.2.7:443']]);
		assert.deepEqual(new Set((await good(agent, 'GET', '/v1/sandboxes')).items.map(({ id }) => id)), new Set([made.id, child.id]));
		for (const { id } of [made, child])
			await good(agent, 'DELETE', `/v1/sandboxes/${id}`);
		const list = await newKey({ sandboxes: [things.sandboxes] });

		assert.equal((await list.request('POST', '/v1/sandboxes', { size: 'tiny' })).json.code, 'scope_denied');
		assert.equal((await list.request('POST', `/v1/sandboxes/${things.sandboxes}/fork`, {})).json.code, 'scope_denied');
	});

	// What is open with a key: each gives {ended}, which is when its client heard of the end, or what it got.
	const sandbox = () => `/v1/sandboxes/${things.sandboxes}`;

	async function openStream(who, method, route, body) {
		const response = await fetch(new URL(route, daemon.url), {
			method,
			headers: {
				Authorization: `Bearer ${who.key}`, Accept: 'text/event-stream',
				...(body && { 'Content-Type': 'application/json' }),
			},
			body: body && JSON.stringify(body),
		});
		const reader = response.body.getReader();

		assert.equal(response.status, 200);
		await reader.read();
		return { ended: (async () => {
			try {
				while (!(await reader.read()).done);
			} catch {}
			return Date.now();
		})() };
	}

	// Read slowly until it may have ended, so that it is under way when it is cut.
	async function openDownload(who) {
		await good(owner, 'POST', `${sandbox()}/exec`, { command: 'truncate -s 900M big' });
		const response = await fetch(new URL(`${sandbox()}/files?path=big`, daemon.url), { headers: { Authorization: `Bearer ${who.key}` } });
		const reader = response.body.getReader();
		const download = { slow: true };

		assert.equal(response.status, 200);
		download.ended = (async () => {
			try {
				while (!(await reader.read()).done) {
					if (download.slow)
						await new Promise((resolve) => setTimeout(resolve, 100));
				}
			} catch {
				return Date.now();
			}
			return undefined; // all of it came
		})();
		return download;
	}

	const openCall = (promise) => ({ ended: promise.then(() => Date.now(), () => Date.now()) });

	async function openAll(who) {
		const run = (command) => ({ command, timeout_ms: 900_000 });
		const viewer = await Viewer.open(who, things.sandboxes);
		const upload = new ReadableStream({ start: (controller) => controller.enqueue(new TextEncoder().encode('begun')) });
		const headers = { Authorization: `Bearer ${who.key}` };

		return {
			viewer,
			events: await openStream(who, 'GET', '/v1/events'),
			exec: await openStream(who, 'POST', `${sandbox()}/exec`, run('echo begun; sleep 900')),
			follow: await openStream(who, 'GET', `${sandbox()}/exec/${things.exec_id}`),
			waiting: openCall(who.request('POST', `${sandbox()}/exec`, run('sleep 900'))),
			tool: openCall(post(who, { body: request('tools/call', { name: 'exec', arguments: { sandbox_id: things.sandboxes, command: 'sleep 900' } }) })),
			download: await openDownload(who),
			upload: openCall(fetch(new URL(`${sandbox()}/files?path=half`, daemon.url), { method: 'PUT', headers, body: upload, duplex: 'half' })
				.then((answer) => answer.text())),
			preview: await openStream(who, 'GET', `/preview/${things.sandboxes}/8000/`),
			terminal: { ended: viewer.closed.then(() => Date.now()) },
		};
	}

	async function serveForever() {
		const server = 'import http.server,time\nclass H(http.server.BaseHTTPRequestHandler):\n def do_GET(s):\n  s.send_response(200)\n' +
			'  s.send_header("Content-Type","text/event-stream")\n  s.end_headers()\n  while True:\n   s.wfile.write(b"data: 1\\n\\n")\n' +
			'   s.wfile.flush()\n   time.sleep(0.1)\nhttp.server.ThreadingHTTPServer(("0.0.0.0",8000),H).serve_forever()\n';

		await owner.request('PUT', `${sandbox()}/files?path=server.py`, server);
		await good(owner, 'POST', `${sandbox()}/exec`, { command: 'exec python3 server.py', background: true, timeout_ms: 900_000 });
		await good(owner, 'POST', `${sandbox()}/exec`, {
			command: 'until python3 -c \'import socket; socket.create_connection(("127.0.0.1", 8000))\'; do sleep 0.1; done',
		});
	}

	// Each that was open with the key has ended after `end`, and what is open with another has not.
	async function allEnd(who, end) {
		const bystander = await openStream(owner, 'GET', '/v1/events');
		const { viewer, ...open } = await openAll(who);
		let began;

		for (const [name, one] of Object.entries(open))
			assert.equal(await Promise.race([one.ended, 'open']), 'open', name);
		await end();
		began = Date.now();
		open.download.slow = false;
		for (const [name, one] of Object.entries(open)) {
			const at = await Promise.race([one.ended, new Promise((resolve) => setTimeout(resolve, 30_000, undefined))]);

			assert.ok(at !== undefined, `${name} goes on`);
			open[name] = at - began;
		}
		assert.equal((await viewer.closed).code, 4003);
		assert.equal(viewer.messages.at(-1).code, 'invalid_key');
		assert.equal((await who.request('GET', '/v1/sandboxes')).status, 401);
		assert.equal(await Promise.race([bystander.ended, 'open']), 'open');
		assert.equal((await owner.request('GET', `${sandbox()}/files/stat?path=half`)).status, 404);
		return open;
	}

	test('a revoked key: all that is open with it ends, and commands go on', { timeout: 5 * 60_000 }, async (t) => {
		await serveForever();
		const made = await good(owner, 'POST', '/v1/keys', { label: 'revoked' });
		const took = await allEnd(as(made.key), () => good(owner, 'DELETE', `/v1/keys/${made.id}`));

		t.diagnostic(`ended after (ms): ${JSON.stringify(took)}`);
		assert.equal((await good(owner, 'GET', `${sandbox()}/exec/${things.exec_id}`)).running, true);
		assert.equal((await good(owner, 'GET', `${sandbox()}/terminals`)).items.length > 1, true);
	});

	test('a rotated key: what was opened with its old text ends with that', { timeout: 5 * 60_000 }, async (t) => {
		const made = await good(owner, 'POST', '/v1/keys', { label: 'rotated' });
		let fresh;
		const took = await allEnd(as(made.key), async () => {
			fresh = await good(owner, 'POST', `/v1/keys/${made.id}/rotate`, { overlap_seconds: 1 });
			assert.equal((await as(made.key).request('GET', '/v1/sandboxes')).status, 200);
			while ((await as(made.key).request('GET', '/v1/sandboxes')).status === 200);
		});

		t.diagnostic(`ended after (ms): ${JSON.stringify(took)}`);
		assert.equal((await as(fresh.key).request('GET', '/v1/sandboxes')).status, 200);
	});
}
