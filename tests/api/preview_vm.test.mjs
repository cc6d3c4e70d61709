// Previews of real guests: a server inside, reached by link, key, host name, MCP and the command line;
// across pause, fork, the daemon's restart and the sandbox's end.

import assert from 'node:assert/strict';
import http from 'node:http';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';

import { runSkerry } from './lib/cli.mjs';
import { startDaemon } from './lib/daemon.mjs';
import { post, request } from './lib/mcp.mjs';
import { inside, makeWorld, runInside } from './lib/world.mjs';

const CONNECTIONS = 4;

// What the guest serves: its headers, the size of what it gets, events, and bytes both ways.
const SERVER = `
import http.server, json, sys, time
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    def answer(self, value):
        body = json.dumps(value).encode()
        self.send_response(200)
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def do_GET(self):
        if self.path == '/events':
            self.send_response(200)
            self.send_header('Content-Type', 'text/event-stream')
            self.end_headers()
            n = 0
            while True:
                n += 1
                self.wfile.write(b'data: %d\\n\\n' % n)
                self.wfile.flush()
                time.sleep(0.2)
        if self.path == '/upgrade':
            self.send_response(101)
            self.send_header('Connection', 'Upgrade')
            self.send_header('Upgrade', 'echo')
            self.end_headers()
            self.wfile.flush()
            while data := self.connection.recv(65536):
                self.connection.sendall(data.upper())
            return
        self.answer({'path': self.path, 'headers': dict(self.headers), 'host': open('/etc/hostname').read().strip()})
    def do_POST(self):
        left = size = int(self.headers['Content-Length'])
        while left > 0:
            left -= len(self.rfile.read(min(left, 65536)))
        self.answer({'size': size})
http.server.ThreadingHTTPServer((sys.argv[1], int(sys.argv[2])), Handler).serve_forever()
`;

let daemon, world;

async function good(method, route, body) {
	const answer = await daemon.request(method, route, body);

	assert.ok(answer.status < 300, `${method} ${route}: ${answer.status} ${answer.text}`);
	return answer.json;
}

const run = (id, command, more = {}) => good('POST', `/v1/sandboxes/${id}/exec`, { command, ...more });
const expose = (id, port, more = {}) => good('POST', `/v1/sandboxes/${id}/expose`, { port, ...more });

async function problem(response, status, code) {
	const json = await response.json();

	assert.equal(response.status, status, JSON.stringify(json));
	assert.equal(json.code, code);
	return json;
}

async function serve(id, port, address = '0.0.0.0') {
	await run(id, `cat >server.py <<'END'\n${SERVER}\nEND`);
	await run(id, `exec python3 server.py ${address} ${port}`, { background: true, timeout_ms: 600_000 });
	await run(id, `until python3 -c 'import socket; socket.create_connection(("127.0.0.1", ${port}))'; do sleep 0.1; done`);
}

async function make(more = {}) {
	const { id } = await good('POST', '/v1/sandboxes', { timeout_minutes: 30, egress: [], ...more });

	await serve(id, 8000);
	return id;
}

const json = async (url, options) => {
	const response = await fetch(url, options);
	const text = await response.text();

	assert.equal(response.status, 200, text);
	return JSON.parse(text);
};

if (!inside) {
	runInside(import.meta.url);
} else {
	let id;

	before(async () => {
		world = await makeWorld();
		daemon = await startDaemon({
			config: { ...world.config, limits: { preview_connections_per_sandbox: CONNECTIONS } },
		});
		await daemon.ensureImage('base');
		id = await make({ name: 'web' });
	});
	after(async () => {
		await daemon?.stop();
		world?.close();
	});

	test('by link, by key and by host; bodies, events, an upgrade', async () => {
		const { url, expires_at } = await expose(id, 8000, { ttl_minutes: 5 });
		const left = Date.parse(expires_at) - Date.now();
		const key = { headers: { Authorization: `Bearer ${daemon.key}` } };
		const own = new URL(daemon.url).port;

		assert.ok(left > 280_000 && left <= 300_000, expires_at);
		assert.ok(url.startsWith(`${daemon.url}/preview/${id}/8000/?skerry_preview=`), url);
		const seen = await json(url);

		assert.equal(seen.path, '/');
		assert.equal(seen.host, 'web');
		assert.ok(!JSON.stringify(seen).includes(new URL(url).searchParams.get('skerry_preview')));
		assert.equal((await json(`${daemon.url}/preview/${id}/8000/x?y`, key)).path, '/x?y');
		const body = Buffer.alloc(24 << 20, 'x');

		assert.equal((await json(url, { method: 'POST', body })).size, body.length);
		const byHost = await new Promise((resolve, reject) => http.get(`http://127.0.0.1:${own}/z`,
			{ headers: { Host: `8000-${id}.localhost:${own}`, ...key.headers } },
			async (response) => resolve(JSON.parse(Buffer.concat(await response.toArray()))))
			.on('error', reject));

		assert.equal(byHost.path, '/z');
		const events = await fetch(`${daemon.url}/preview/${id}/8000/events`, key);
		let text = '';

		for await (const chunk of events.body) {
			text += Buffer.from(chunk);
			if (text.includes('data: 3\n\n'))
				break;
		}
		const [response, socket] = await new Promise((resolve, reject) => http.get(`${daemon.url}/preview/${id}/8000/upgrade`,
			{ headers: { ...key.headers, Connection: 'Upgrade', Upgrade: 'echo' } })
			.on('upgrade', (...all) => resolve(all)).on('error', reject));

		assert.equal(response.statusCode, 101);
		socket.write('hello');
		const [first] = await new Promise((resolve) => socket.on('data', (...all) => resolve(all)));

		assert.equal(first.toString(), 'HELLO');
		socket.destroy();
	});

	test('nothing else of the sandbox is open', async () => {
		const { address } = await good('GET', `/v1/sandboxes/${id}`);

		await assert.rejects(fetch(`http://${address}:8000/`, { signal: AbortSignal.timeout(3000) }));
		// Nor is a way out of it: the sandbox may reach nothing, and yet answers.
		const { stdout } = await run(id, 'curl -s --max-time 3 http://8.8.4.4/ && echo REACHED; true');

		assert.equal(stdout, '');
	});

	test('nobody listens, or on localhost only', async () => {
		const told = await problem(await fetch((await expose(id, 8001)).url), 502, 'port_not_listening');

		assert.match(told.hint, /0\.0\.0\.0/);
		await serve(id, 8002, '127.0.0.1');
		await problem(await fetch((await expose(id, 8002)).url), 502, 'port_not_listening');
	});

	test('who may not', async () => {
		const { url } = await expose(id, 8000);

		await problem(await fetch(`${daemon.url}/preview/${id}/8000/`), 401, 'preview_denied');
		await problem(await fetch(url.replace('/8000/', '/8001/')), 401, 'preview_denied');
		await problem(await fetch(`${url}x`), 401, 'preview_denied');
		for (const [port, code] of [[0, 400], [65536, 400], ['x', 400]])
			assert.equal((await daemon.request('POST', `/v1/sandboxes/${id}/expose`, { port })).status, code);
		assert.equal((await daemon.request('POST', `/v1/sandboxes/${id}/expose`, { port: 1, ttl_minutes: 1441 })).status, 400);
		assert.equal((await daemon.request('POST', '/v1/sandboxes/sbx_00000000/expose', { port: 1 })).status, 404);
	});

	test('too many connections at once', async () => {
		const { url } = await expose(id, 8000);
		const streams = [];

		for (let i = 0; i < CONNECTIONS; i++)
			streams.push(await fetch(url.replace('/?', '/events?')));
		await problem(await fetch(url), 429, 'preview_limit');
		await streams[0].body.cancel();
		for (let tries = 0; (await fetch(url)).status !== 200; tries++) {
			assert.ok(tries < 100);
			await sleep(100);
		}
		for (const stream of streams.slice(1))
			await stream.body.cancel();
	});

	test('a pause cuts what is open, and the next request resumes', async () => {
		const { url } = await expose(id, 8000);
		const stream = (await fetch(url.replace('/?', '/events?'))).body.getReader();

		await stream.read();
		await good('POST', `/v1/sandboxes/${id}/pause`);
		await assert.rejects(async () => {
			while (!(await stream.read()).done)
				;
		});
		assert.equal((await good('GET', `/v1/sandboxes/${id}`)).status, 'paused');
		assert.equal((await json(url)).host, 'web');
		assert.equal((await good('GET', `/v1/sandboxes/${id}`)).status, 'running');
	});

	test('a link outlives the daemon, and what is served does', async () => {
		const { url } = await expose(id, 8000);

		await daemon.restart();
		const port = new URL(daemon.url).port;

		assert.equal((await json(url.replace(/:\d+/, `:${port}`))).host, 'web');
	});

	test('a fork serves its own copy, under links of its own', async () => {
		const { url } = await expose(id, 8000);
		const [child] = (await good('POST', `/v1/sandboxes/${id}/fork`, { name: 'copy' })).sandboxes;

		await problem(await fetch(url.replace(id, child.id)), 401, 'preview_denied');
		assert.equal((await json((await expose(child.id, 8000)).url)).host, 'copy-1');
		assert.equal((await json(url)).host, 'web');
		await good('DELETE', `/v1/sandboxes/${child.id}`);
	});

	test('MCP and the command line', async () => {
		const call = { body: request('tools/call', { name: 'expose_port', arguments: { sandbox_id: id, port: 8000 } }) };
		const { json: direct, events } = await post(daemon, call);
		const { structuredContent } = (direct ?? events.at(-1).json).result;

		assert.equal((await json(structuredContent.url)).host, 'web');
		const { out, err, code } = await runSkerry(daemon, ['expose', 'web', '8000', '--ttl', '2h']);

		assert.equal(code, 0, err);
		assert.match(err, /works for (2h|1h ?59m)/);
		assert.equal((await json(out.trim())).host, 'web');
		assert.equal((await runSkerry(daemon, ['expose', 'web', '0'])).code, 2);
		assert.equal((await runSkerry(daemon, ['expose', 'web', '80', '--ttl', '5'])).code, 2);
	});

	test('after its end', async () => {
		const { url } = await expose(id, 8000);
		const stream = (await fetch(url.replace('/?', '/events?'))).body.getReader();

		await stream.read();
		await good('DELETE', `/v1/sandboxes/${id}`);
		await assert.rejects(async () => {
			while (!(await stream.read()).done)
				;
		});
		const gone = await problem(await fetch(url), 410, 'sandbox_ended');

		assert.match(gone.detail, /destroyed_by_user/);
		assert.equal((await daemon.request('POST', `/v1/sandboxes/${id}/expose`, { port: 8000 })).status, 410);
	});
}
