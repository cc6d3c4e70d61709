// skerry mcp: MCP over stdio. First its lines against a server that misbehaves in every way, then against
// a daemon, by hand and through the SDKs' own transports.

import assert from 'node:assert/strict';
import http from 'node:http';
import readline from 'node:readline';
import { after, afterEach, before, describe, test } from 'node:test';

import { Client } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { Client as OldClient } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport as OldTransport } from '@modelcontextprotocol/sdk/client/stdio.js';

import { skerryPath, startSkerry } from './lib/cli.mjs';
import { startDaemon } from './lib/daemon.mjs';
import { MODERN, clientKinds, modernMeta, request, textOf } from './lib/mcp.mjs';
import { startProxy } from './lib/proxy.mjs';

// A bridge under a test's hand: say() writes a line, next() gives the message of the next line.
class Bridge {
	constructor(server, args = []) {
		const { child, ended } = startSkerry(server, ['mcp', ...args], { stdin: 'pipe' });

		this.child = child;
		this.ended = ended;
		child.stdin.on('error', () => {});
		this.lines = readline.createInterface({ input: child.stdout })[Symbol.asyncIterator]();
	}

	say(message) {
		this.child.stdin.write(`${typeof message === 'string' ? message : JSON.stringify(message)}\n`);
	}

	async next() {
		const { value, done } = await this.lines.next();

		assert.ok(!done, 'the bridge has ended');
		const message = JSON.parse(value);

		assert.equal(message.jsonrpc, '2.0');
		return message;
	}

	async ask(message) {
		this.say(message);
		return this.next();
	}

	// How it ends, and what it wrote that nobody has read.
	async close() {
		const rest = [];

		this.child.stdin.end();
		for (let line = await this.lines.next(); !line.done; line = await this.lines.next())
			rest.push(JSON.parse(line.value));
		return { ...(await this.ended), rest };
	}
}

const modern = (method, params = {}, id = 1) => request(method, { ...params, _meta: modernMeta() }, id);
const cancel = (requestId) => ({ jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId } });
const PING = request('ping', undefined, 'ping');

// Each request waits until a test takes it; what no test took is refused at the end.
class FakeServer {
	waiting = [];
	takers = [];

	async start() {
		this.server = http.createServer(async (req, res) => {
			const chunks = [];

			for await (const chunk of req)
				chunks.push(chunk);
			const taken = { req, res, body: JSON.parse(Buffer.concat(chunks)) };
			const taker = this.takers.shift();

			if (taker)
				taker(taken);
			else
				this.waiting.push(taken);
		});
		await new Promise((resolve) => this.server.listen(0, '127.0.0.1', resolve));
		this.url = `http://127.0.0.1:${this.server.address().port}/`;
		this.key = 'sk_of-a-fake-server';
		return this;
	}

	take = () => this.waiting.shift() ?? new Promise((resolve) => this.takers.push(resolve));

	stop() {
		this.server.closeAllConnections();
		this.server.close();
	}
}

const answer = ({ res, body }, result = {}, status = 200) => {
	res.writeHead(status, { 'Content-Type': 'application/json' });
	res.end(JSON.stringify({ jsonrpc: '2.0', id: body.id, result }));
};
const stream = ({ res }) => res.writeHead(200, { 'Content-Type': 'text/event-stream' });
const event = (message) => `event: message\ndata: ${JSON.stringify(message)}\n\n`;

describe('a bridge and its server', () => {
	let server, bridge;
	before(async () => {
		server = await new FakeServer().start();
	});
	after(() => server.stop());
	afterEach(async () => {
		server.waiting.forEach(({ res }) => res.destroy());
		server.waiting = [];
		const { code, rest } = await bridge.close();

		assert.equal(code, 0);
		assert.deepEqual(rest, []);
	});

	test('modern messages go out with their headers', async () => {
		bridge = new Bridge(server, ['--tools', 'exec,exec_wait']);
		bridge.say(modern('tools/call', { name: 'exec', arguments: {} }));
		const taken = await server.take();

		assert.equal(taken.req.url, '/mcp?tools=exec%2Cexec_wait');
		assert.equal(taken.req.headers.authorization, `Bearer ${server.key}`);
		assert.equal(taken.req.headers['mcp-protocol-version'], MODERN);
		assert.equal(taken.req.headers['mcp-method'], 'tools/call');
		assert.equal(taken.req.headers['mcp-name'], 'exec');
		answer(taken);
		await bridge.next();
		for (const name of ['größer', ' blank', '=?base64?x?=']) {
			bridge.say(modern('tools/call', { name }));
			const next = await server.take();

			assert.equal(next.req.headers['mcp-name'], `=?base64?${Buffer.from(name).toString('base64')}?=`);
			answer(next);
			await bridge.next();
		}
	});

	test('legacy ones with the version that was agreed on', async () => {
		bridge = new Bridge(server);
		for (const version of ['2025-11-25', '2025-03-26']) {
			bridge.say(request('initialize', { protocolVersion: version }));
			const first = await server.take();

			assert.equal(first.req.headers['mcp-protocol-version'], undefined);
			answer(first, { protocolVersion: version });
			await bridge.next();
			bridge.say(PING);
			const second = await server.take();

			assert.equal(second.req.headers['mcp-protocol-version'], version);
			assert.equal(second.req.headers['mcp-method'], undefined);
			answer(second);
			await bridge.next();
		}
	});

	test('several at once, answered in any order, events split anywhere', async () => {
		bridge = new Bridge(server);
		bridge.say(request('one', undefined, 1));
		bridge.say(request('two', undefined, 2));
		const first = await server.take(), second = await server.take();
		const by = (id) => (first.body.id === id ? first : second);

		stream(by(1));
		by(1).res.write(': a comment\n\n');
		answer(by(2), { two: true });
		assert.deepEqual((await bridge.next()).result, { two: true });
		const text = event({ jsonrpc: '2.0', method: 'notifications/progress', params: { progress: 1 } }) +
			event({ jsonrpc: '2.0', id: 1, result: { text: 'größer\n\u2028' } });

		for (const byte of Buffer.from(text)) {
			by(1).res.write(Buffer.from([byte]));
			if (byte === 10)
				await new Promise(setImmediate);
		}
		by(1).res.end();
		assert.equal((await bridge.next()).method, 'notifications/progress');
		assert.deepEqual((await bridge.next()).result, { text: 'größer\n\u2028' });
	});

	test('an answer of 20 MiB', async () => {
		bridge = new Bridge(server);
		bridge.say(PING);
		const taken = await server.take();
		const big = 'x'.repeat(20 << 20);

		stream(taken);
		taken.res.end(event({ jsonrpc: '2.0', id: taken.body.id, result: { big } }));
		assert.equal((await bridge.next()).result.big.length, big.length);
	});

	test('a cancelled request: a modern one is hung up on', async () => {
		bridge = new Bridge(server);
		bridge.say(modern('tools/call', { name: 'exec' }, 'long'));
		const taken = await server.take();
		const hungUp = new Promise((resolve) => taken.res.once('close', resolve));

		stream(taken).flushHeaders();
		bridge.say(cancel('long'));
		await hungUp;
		bridge.say(PING);
		answer(await server.take());
		assert.equal((await bridge.next()).id, 'ping');
	});

	test('a cancelled request: of a legacy one the server is told, and its answer is dropped', async () => {
		bridge = new Bridge(server);
		bridge.say(request('tools/call', { name: 'exec' }, 5));
		const taken = await server.take();

		stream(taken).flushHeaders();
		bridge.say(cancel(5));
		const told = await server.take();

		assert.deepEqual(told.body, cancel(5));
		assert.equal(told.req.headers['user-agent'], taken.req.headers['user-agent']);
		told.res.writeHead(202).end();
		taken.res.end(event({ jsonrpc: '2.0', id: 5, result: {} }));
		bridge.say(cancel('of nothing'));
		bridge.say(PING);
		answer(await server.take());
		assert.equal((await bridge.next()).id, 'ping');
	});

	test('a lost answer: what changes nothing is asked again', async () => {
		bridge = new Bridge(server);
		bridge.say(request('tools/list'));
		(await server.take()).res.destroy();
		const second = await server.take();

		stream(second).write(': half\n\n');
		setTimeout(() => second.res.destroy(), 50);
		answer(await server.take(), { tools: [] });
		assert.deepEqual((await bridge.next()).result, { tools: [] });
	});

	test('a lost answer: a call of a tool is not, and its model learns of it', async () => {
		for (const message of [request('tools/call', { name: 'exec' }), modern('tools/call', { name: 'exec' })]) {
			bridge = new Bridge(server);
			bridge.say(message);
			(await server.take()).res.destroy();
			const { id, result } = await bridge.next();

			assert.equal(id, 1);
			assert.equal(result.isError, true);
			assert.match(textOf(result), /connection to .* was lost.*list_sandboxes/);
			assert.equal(result.resultType, message.params._meta && 'complete');
			assert.equal(server.waiting.length, 0);
			if (!message.params._meta)
				await bridge.close();
		}
	});

	test('an answer that ends too soon', async () => {
		bridge = new Bridge(server);
		bridge.say(PING);
		stream(await server.take()).end(': nothing\n\n');
		assert.match((await bridge.next()).error.message, /before it was whole/);
	});

	test('a server that is busy is asked again', async () => {
		bridge = new Bridge(server);
		bridge.say(request('tools/call', { name: 'exec' }));
		answer(await server.take(), {}, 429);
		answer(await server.take(), { content: [] });
		assert.deepEqual((await bridge.next()).result, { content: [] });
	});

	test('an answer that is no message, and an error without an id', async () => {
		bridge = new Bridge(server);
		bridge.say(PING);
		(await server.take()).res.writeHead(502, { 'Content-Type': 'text/html' }).end('<h1>Bad gateway</h1>');
		assert.match((await bridge.next()).error.message, /status 502/);
		bridge.say(PING);
		const error = { code: -32600, message: 'no' };
		(await server.take()).res.writeHead(400, { 'Content-Type': 'application/json' }).end(JSON.stringify({ jsonrpc: '2.0', error }));
		assert.deepEqual(await bridge.next(), { jsonrpc: '2.0', id: 'ping', error });
	});

	test('a refused notification is no line', async () => {
		bridge = new Bridge(server);
		bridge.say({ jsonrpc: '2.0', method: 'notifications/initialized' });
		(await server.take()).res.writeHead(400, { 'Content-Type': 'application/json' })
			.end(JSON.stringify({ jsonrpc: '2.0', id: null, error: { code: -32600, message: 'no' } }));
		bridge.say(PING);
		answer(await server.take());
		assert.equal((await bridge.next()).id, 'ping');
	});

	test('a batch, and a batch that was lost', async () => {
		const batch = [request('a', undefined, 'a'), { jsonrpc: '2.0', method: 'n' }, request('b', undefined, 'b')];

		bridge = new Bridge(server);
		bridge.say(batch);
		const taken = await server.take();

		assert.deepEqual(taken.body, batch);
		taken.res.writeHead(200, { 'Content-Type': 'application/json' })
			.end(JSON.stringify(['a', 'b'].map((id) => ({ jsonrpc: '2.0', id, result: {} }))));
		assert.deepEqual([(await bridge.next()).id, (await bridge.next()).id], ['a', 'b']);
		bridge.say(batch);
		(await server.take()).res.destroy();
		assert.deepEqual([(await bridge.next()).id, (await bridge.next()).id], ['a', 'b']);
	});

	test('stdin ends: what is under way gets a moment, then the bridge goes', async () => {
		bridge = new Bridge(server);
		bridge.say(PING);
		const taken = await server.take();

		bridge.child.stdin.end();
		answer(taken);
		assert.equal((await bridge.next()).id, 'ping');
		bridge = new Bridge(server);
		bridge.say(PING);
		const { res } = await server.take();
		const hungUp = new Promise((resolve) => res.once('close', resolve));

		bridge.child.stdin.end();
		await hungUp;
	});
});

describe('a bridge and a daemon', () => {
	let daemon, proxy;
	before(async () => {
		daemon = await startDaemon();
		proxy = await startProxy(daemon);
	});
	after(async () => {
		await proxy.close();
		await daemon.stop();
	});

	test('ids of any type come back as they were', async () => {
		const bridge = new Bridge(daemon);

		for (const id of ['x', '', 'größer 😀', 7, 0, -1, Number.MAX_SAFE_INTEGER, 1.5, null, '7'])
			assert.deepEqual((await bridge.ask(request('ping', undefined, id))).id, id);
		const { code, rest, err } = await bridge.close();

		assert.deepEqual([code, rest, err], [0, [], '']);
	});

	test('lines that are no messages are answered, and the next one is read', async () => {
		const bridge = new Bridge(daemon);

		for (const line of ['nonsense', '{"jsonrpc":', '{"a":1,"a":2}', '\u0000'])
			assert.equal((await bridge.ask(line)).error.code, -32700, line);
		bridge.say('\r\n\n');
		assert.equal((await bridge.ask(`${JSON.stringify(PING)}\r`)).id, 'ping');
		for (const value of ['"ping"', '7', '{}', '{"jsonrpc":"1.0","id":1,"method":"ping"}', '[]'])
			assert.equal((await bridge.ask(value)).error.code, -32600, value);
		await bridge.close();
	});

	test('large messages, and those that are too large', async () => {
		const bridge = new Bridge(daemon);
		const padded = (bytes) => request('ping', { padding: 'x'.repeat(bytes) }, bytes);

		assert.deepEqual((await bridge.ask(padded(900_000))).result, {});
		assert.match((await bridge.ask(padded(2 << 20))).error.message, /request_body_bytes/);
		assert.equal((await bridge.ask(padded(17 << 20))).error.code, -32700);
		assert.deepEqual((await bridge.ask(padded(10))).result, {});
		await bridge.close();
	});

	test('a key that is not known', async () => {
		const bridge = new Bridge({ url: daemon.url, key: `sk_${'x'.repeat(40)}` });
		const { id, error } = await bridge.ask(PING);

		assert.equal(id, 'ping');
		assert.match(error.message, /key/);
		await bridge.close();
	});

	test('no server', async () => {
		const bridge = new Bridge({ url: 'http://127.0.0.1:1', key: 'sk_x' });

		bridge.say(PING);
		const { code, rest } = await bridge.close();

		assert.equal(code, 0);
		assert.match(rest[0].error.message, /no server answers/);
	});

	test('the daemon is away for a while', async () => {
		const bridge = new Bridge(proxy);

		assert.deepEqual((await bridge.ask(PING)).result, {});
		await proxy.close();
		bridge.say(modern('tools/call', { name: 'list_sandboxes' }, 'while it is away'));
		bridge.say(PING);
		await daemon.restart();
		await proxy.open();
		const answers = [await bridge.next(), await bridge.next()];

		assert.deepEqual(answers.map(({ id }) => id).sort(), ['ping', 'while it is away']);
		assert.ok(answers.every(({ result }) => result && !result.isError));
		await bridge.close();
	});

	for (const kind of clientKinds)
		test(`${kind.name}, by the SDK's own transport, across a restart`, async () => {
			const spawned = {
				command: skerryPath,
				args: ['mcp', '--tools', 'list_sandboxes,exec'],
				env: { PATH: process.env.PATH, SKERRY_URL: proxy.url, SKERRY_API_KEY: daemon.key },
				stderr: 'pipe',
			};
			const transport = kind.old ? new OldTransport(spawned) : new StdioClientTransport(spawned);
			const client = kind.old ?
				new OldClient({ name: 'skerry-tests', version: '1.0.0' }) :
				new Client({ name: 'skerry-tests', version: '1.0.0' }, { versionNegotiation: { mode: kind.mode } });
			let said = '';

			transport.stderr?.on('data', (data) => (said += data));
			await client.connect(transport);
			if (!kind.old)
				assert.equal(client.getNegotiatedProtocolVersion(), kind.version);
			assert.deepEqual((await client.listTools()).tools.map(({ name }) => name), ['list_sandboxes', 'exec']);
			const { structuredContent } = await client.callTool({ name: 'list_sandboxes', arguments: {} });

			assert.deepEqual(structuredContent.items, []);
			const failed = await client.callTool({ name: 'exec', arguments: { sandbox_id: 'sbx_00000000', command: 'true' } });

			assert.equal(failed.isError, true);
			proxy.cut();
			assert.equal((await client.listTools()).tools.length, 2);
			await proxy.close();
			const called = client.callTool({ name: 'list_sandboxes', arguments: {} });

			await daemon.restart();
			await proxy.open();
			assert.deepEqual((await called).structuredContent.items, []);
			await client.close();
			assert.equal(said, '');
		});
});
