// The MCP endpoint as bytes: HTTP's own questions, both eras, their errors. No sandbox is made here.

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';

import { startDaemon } from './lib/daemon.mjs';
import { LEGACY, MODERN, modern, modernMeta, post, request } from './lib/mcp.mjs';

let daemon;
before(async () => {
	daemon = await startDaemon();
});
after(() => daemon?.stop());

const ping = request('ping');
const send = (what) => post(daemon, what);

async function expectError(what, status, code) {
	const answer = await send(what);

	assert.equal(answer.status, status, answer.text);
	assert.equal(answer.json.error.code, code, answer.text);
	assert.ok(answer.json.error.message.length > 8);
	if (what.body?.method && (typeof what.body.id === 'string' || Number.isInteger(what.body.id)))
		assert.equal(answer.json.id, what.body.id);
	return answer;
}

describe('HTTP', () => {
	for (const path of ['/mcp', '/mcp/'])
		test(`${path} is served and not redirected`, async () => {
			assert.deepEqual((await send({ body: ping, path })).json, { jsonrpc: '2.0', id: 1, result: {} });
		});

	for (const method of ['GET', 'DELETE', 'PUT', 'PATCH', 'OPTIONS'])
		test(`${method} is 405`, async () => {
			const answer = await send({ method, headers: { 'Mcp-Session-Id': 'x', 'Last-Event-ID': '1' } });

			assert.equal(answer.status, 405);
			assert.match(answer.headers.allow, /POST/);
		});

	for (const [what, headers] of [
		['no key', { Authorization: undefined }],
		['an unknown key', { Authorization: `Bearer sk_${'x'.repeat(40)}` }],
		['a key in another scheme', { Authorization: 'Basic c2s6' }],
		['an empty key', { Authorization: 'Bearer ' }],
	])
		test(`${what} is 401 with a challenge that starts no OAuth`, async () => {
			const answer = await send({ body: ping, headers });

			assert.equal(answer.status, 401);
			assert.match(answer.headers['www-authenticate'], /^Bearer .*error="invalid_token"/);
			assert.doesNotMatch(answer.headers['www-authenticate'], /resource_metadata/);
		});

	for (const path of [
		'/.well-known/oauth-protected-resource',
		'/.well-known/oauth-protected-resource/mcp',
		'/.well-known/oauth-authorization-server',
		'/.well-known/oauth-authorization-server/mcp',
		'/.well-known/openid-configuration',
		'/.well-known/openid-configuration/mcp',
		'/mcp/.well-known/openid-configuration',
	])
		test(`${path} is 404 in JSON`, async () => {
			const answer = await send({ method: 'GET', path, key: null });

			assert.equal(answer.status, 404);
			assert.ok(answer.json);
		});
	test('/register is 404 in JSON', async () => {
		const answer = await send({ path: '/register', body: {}, key: null });

		assert.equal(answer.status, 404);
		assert.ok(answer.json);
	});

	test('a foreign Origin is 403, the own one is not', async () => {
		for (const origin of ['http://evil.example', 'null', 'http://127.0.0.1:1', 'https://localhost'])
			assert.equal((await send({ body: ping, headers: { Origin: origin } })).status, 403, origin);
		assert.equal((await send({ body: ping, headers: { Origin: daemon.url.replace(/\/$/, '') } })).status, 200);
	});

	test('a foreign Host on loopback is refused (DNS rebinding)', async () => {
		const { port } = new URL(daemon.url);

		for (const host of ['evil.example', `evil.example:${port}`, '127.0.0.1.evil.example'])
			assert.equal((await send({ body: ping, headers: { Host: host } })).status, 403, host);
		assert.equal((await send({ body: ping, headers: { Host: `localhost:${port}` } })).status, 200);
	});

	test('no CORS', async () => {
		const answer = await send({ body: ping, headers: { Origin: daemon.url.replace(/\/$/, '') } });

		assert.equal(answer.headers['access-control-allow-origin'], undefined);
	});

	test('content types', async () => {
		for (const type of ['application/json; charset=utf-8', 'APPLICATION/JSON'])
			assert.equal((await send({ body: ping, headers: { 'Content-Type': type } })).status, 200, type);
		for (const type of ['text/plain', 'application/x-www-form-urlencoded', 'application/jsonp', undefined])
			assert.equal((await send({ body: ping, headers: { 'Content-Type': type } })).status, 415, type);
	});

	test('Accept is read leniently', async () => {
		for (const accept of [undefined, '*/*', 'application/json', 'text/event-stream', 'application/*;q=0.1'])
			assert.equal((await send({ body: ping, headers: { Accept: accept } })).status, 200, accept);
		for (const accept of ['text/html', 'image/png, application/xml'])
			assert.equal((await send({ body: ping, headers: { Accept: accept } })).status, 406, accept);
	});

	test('a client that takes streams only gets one', async () => {
		const answer = await send({ body: ping, headers: { Accept: 'text/event-stream' } });

		assert.match(answer.headers['content-type'], /^text\/event-stream/);
		assert.deepEqual(answer.events, [{ jsonrpc: '2.0', id: 1, result: {} }]);
	});

	test('a body over the limit is 413', async () => {
		const body = { ...ping, params: { padding: 'x'.repeat(2 << 20) } };

		assert.equal((await send({ body })).status, 413);
	});

	test('sessions and resumption are ignored', async () => {
		for (const what of [{ body: ping, headers: {} }, modern('tools/list')]) {
			const headers = { ...what.headers, 'Mcp-Session-Id': 'of-another-time', 'Last-Event-ID': '7' };
			const answer = await send({ ...what, headers });

			assert.equal(answer.status, 200);
			assert.equal(answer.headers['mcp-session-id'], undefined);
		}
	});

	test('no answer carries a session id', async () => {
		const answer = await send({ body: request('initialize', { protocolVersion: LEGACY }) });

		assert.equal(answer.headers['mcp-session-id'], undefined);
	});
});

describe(MODERN, () => {
	test('server/discover', async () => {
		const { status, json } = await send(modern('server/discover'));

		assert.equal(status, 200);
		assert.deepEqual(json.result.supportedVersions, [MODERN]);
		assert.deepEqual(json.result.capabilities, { tools: {} });
		assert.match(json.result.instructions, /create_sandbox/);
		assert.equal(json.result.resultType, 'complete');
		assert.ok(json.result.ttlMs >= 0 && json.result.cacheScope === 'private');
		assert.equal(json.result._meta['io.modelcontextprotocol/serverInfo'].name, 'skerry');
	});

	test('every result is complete and says who made it', async () => {
		for (const message of [
			modern('server/discover'),
			modern('tools/list'),
			modern('tools/call', { name: 'list_sandboxes' }),
			modern('tools/call', { name: 'exec', arguments: {} }), // fails
		]) {
			const { json } = await send(message);

			assert.equal(json.result.resultType, 'complete');
			assert.match(json.result._meta['io.modelcontextprotocol/serverInfo'].version, /^\d+\.\d+\.\d+(-[\w.]+)?(\+[\w.]+)?$/);
		}
	});

	test('tools/list says how long it may be kept', async () => {
		const { json } = await send(modern('tools/list'));

		assert.equal(json.result.resultType, 'complete');
		assert.ok(json.result.ttlMs >= 0 && json.result.cacheScope === 'private');
	});

	test('header names in any case, blanks round values, names in base64', async () => {
		const { body } = modern('tools/call', { name: 'list_sandboxes' });

		for (const name of ['  list_sandboxes ', `=?base64?${btoa('list_sandboxes')}?=`]) {
			const headers = { 'mcp-protocol-version': MODERN, 'MCP-METHOD': 'tools/call', 'mcp-name': name };
			const { status, json } = await send({ body, headers });

			assert.equal(status, 200, name);
			assert.equal(json.result.isError, false);
		}
	});

	const mismatches = {
		'no version header': modern('tools/list', {}, { headers: { 'MCP-Protocol-Version': undefined } }),
		'another version header': modern('tools/list', {}, { headers: { 'MCP-Protocol-Version': LEGACY } }),
		'no method header': modern('tools/list', {}, { headers: { 'Mcp-Method': undefined } }),
		'a method header in capitals': modern('tools/list', {}, { headers: { 'Mcp-Method': 'TOOLS/LIST' } }),
		'no name header': modern('tools/call', { name: 'list_sandboxes' }, { headers: { 'Mcp-Name': undefined } }),
		'another name header': modern('tools/call', { name: 'list_sandboxes' }, { headers: { 'Mcp-Name': 'exec' } }),
		'a version header twice': modern('tools/list', {}, { headers: { 'MCP-Protocol-Version': [MODERN, MODERN] } }),
	};
	for (const [what, message] of Object.entries(mismatches))
		test(`${what} is 400, -32020`, () => expectError(message, 400, -32020));

	test('an unknown version is 400, -32022, with what is supported', async () => {
		for (const version of ['v999.0.0', LEGACY, '2031-01-01']) {
			const meta = modernMeta({ 'io.modelcontextprotocol/protocolVersion': version });
			const headers = { 'MCP-Protocol-Version': version };
			const answer = await expectError(modern('tools/list', {}, { meta, headers, id: 'a' }), 400, -32022);

			assert.deepEqual(answer.json.error.data, { supported: [MODERN], requested: version });
			assert.equal(answer.json.id, 'a');
		}
	});

	test('an incomplete _meta is 400, -32602', async () => {
		await expectError(modern('server/discover', {}, { meta: null }), 400, -32602);
		for (const key of Object.keys(modernMeta()))
			await expectError(modern('server/discover', {}, { meta: modernMeta({ [key]: undefined }) }), 400, -32602);
	});

	for (const method of [
		'initialize',
		'ping',
		'logging/setLevel',
		'resources/subscribe',
		'resources/list',
		'prompts/list',
		'subscriptions/listen',
		'unknown/method',
	])
		test(`${method} is 404, -32601`, () => expectError(modern(method), 404, -32601));

	test('an unknown tool and an invalid cursor are -32602', async () => {
		await expectError(modern('tools/call', { name: 'no_such_tool' }), 200, -32602);
		await expectError(modern('tools/list', { cursor: 'x' }), 200, -32602);
	});

	test('a notification is 202 with an empty body, a response 400', async () => {
		const body = { jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 1, _meta: modernMeta() } };
		const answer = await send({ body, headers: { 'MCP-Protocol-Version': MODERN } });

		assert.equal(answer.status, 202);
		assert.equal(answer.text, '');
		await expectError(
			{ body: { jsonrpc: '2.0', id: 1, result: {} }, headers: { 'MCP-Protocol-Version': MODERN } },
			400,
			-32600
		);
	});

	test('a batch is refused', () =>
		expectError({ body: [modern('tools/list').body], headers: { 'MCP-Protocol-Version': MODERN } }, 400, -32600));
});

describe('legacy', () => {
	test('initialize echoes a supported version and else offers the newest', async () => {
		for (const version of ['2025-11-25', '2025-06-18', '2025-03-26', '2024-11-05', MODERN, 'x', undefined]) {
			const { status, json } = await send({ body: request('initialize', { protocolVersion: version }) });
			const supported = /^2025-(11-25|06-18|03-26)$/.test(version);

			assert.equal(status, 200);
			assert.equal(json.result.protocolVersion, supported ? version : LEGACY);
			assert.equal(json.result.serverInfo.name, 'skerry');
			assert.deepEqual(json.result.capabilities, { tools: {} });
			assert.ok(json.result.instructions);
		}
	});

	test('initialize after a discover, with the modern header still on', async () => {
		const answer = await send({
			body: request('initialize', { protocolVersion: LEGACY }),
			headers: { 'MCP-Protocol-Version': MODERN },
		});

		assert.equal(answer.json.result.protocolVersion, LEGACY);
	});

	test('initialized is 202', async () => {
		const answer = await send({ body: { jsonrpc: '2.0', method: 'notifications/initialized' } });

		assert.equal(answer.status, 202);
		assert.equal(answer.text, '');
	});

	test('without a version header, and with each supported one', async () => {
		for (const version of [undefined, '2025-11-25', '2025-06-18', '2025-03-26']) {
			const answer = await send({ body: request('tools/list'), headers: { 'MCP-Protocol-Version': version } });

			assert.equal(answer.status, 200);
			assert.equal(answer.json.result.tools[0].name, 'list_sandboxes');
			assert.equal(answer.json.result.resultType, undefined);
		}
	});

	test('an unsupported version header is 400', () =>
		expectError({ body: ping, headers: { 'MCP-Protocol-Version': '2024-11-05' } }, 400, -32022));

	test('JSON-RPC errors travel with 200', async () => {
		await expectError({ body: request('no/such/method') }, 200, -32601);
		await expectError({ body: request('tools/call', { name: 'no_such_tool' }) }, 200, -32602);
		await expectError({ body: request('tools/call', { name: 'exec', arguments: [] }) }, 200, -32602);
		await expectError({ body: request('tools/list', { cursor: 'x' }) }, 200, -32602);
	});

	test('what cannot be read is 400', async () => {
		await expectError({ body: '{' }, 400, -32700);
		await expectError({ body: '' }, 400, -32700);
		await expectError({ body: Buffer.from('{"jsonrpc":"2.0","id":"\xff","method":"ping"}', 'latin1') }, 400, -32700);
		await expectError({ body: `${'['.repeat(100_000)}` }, 400, -32700);
		await expectError({ body: '"ping"' }, 400, -32600);
		await expectError({ body: { ...ping, jsonrpc: '1.0' } }, 400, -32600);
		await expectError({ body: { ...ping, id: null } }, 400, -32600);
		await expectError({ body: { ...ping, id: 1.5 } }, 400, -32600);
	});

	test('batches of 2025-03-26, and of no other version', async () => {
		const body = [ping, { jsonrpc: '2.0', method: 'notifications/initialized' }, request('nope', undefined, 'b')];
		const { json } = await send({ body, headers: { 'MCP-Protocol-Version': '2025-03-26' } });

		assert.deepEqual(json.map((answer) => answer.id).sort(), [1, 'b']);
		await expectError({ body, headers: { 'MCP-Protocol-Version': LEGACY } }, 400, -32600);
		await expectError({ body: [] }, 400, -32600);
		assert.equal((await send({ body: [body[1]] })).status, 202);
	});
});

describe('?tools=', () => {
	const list = (query) => send({ body: request('tools/list'), path: `/mcp${query}` });

	test('narrows the list, in its order, and what can be called', async () => {
		const { json } = await list('?tools=exec_wait,exec');

		assert.deepEqual(json.result.tools.map((tool) => tool.name), ['exec', 'exec_wait']);
		await expectError(
			{ body: request('tools/call', { name: 'list_sandboxes' }), path: '/mcp?tools=exec' },
			200,
			-32602
		);
	});

	test('of a tool that does not exist is 400 and names those that do', async () => {
		const { status, json } = await list('?tools=exec,nope');

		assert.equal(status, 400);
		assert.match(json.error.message, /"nope".*list_sandboxes.*create_sandbox/);
	});
});
