// A server that does what a test's script says, and remembers what it was asked.

import http from 'node:http';

import { Skerry } from '../../dist/index.js';

const servers = new Set();

// answer(request, response, n): the n-th request, from 0 on; request has {method, path, query, headers, body}.
export async function serve(answer) {
	const requests = [];
	const server = http.createServer(async (req, res) => {
		const chunks = [];

		try {
			for await (const chunk of req)
				chunks.push(chunk);
		} catch {
			return; // the client broke off
		}
		const url = new URL(req.url, 'http://x');
		const bytes = Buffer.concat(chunks);
		const request = {
			method: req.method,
			path: url.pathname,
			query: Object.fromEntries(url.searchParams),
			headers: req.headers,
			bytes,
			body: /json/.test(req.headers['content-type'] ?? '') ? JSON.parse(bytes) : undefined,
		};

		requests.push(request);
		await answer(request, res, requests.length - 1);
	});

	server.sockets = new Set();
	server.on('connection', (socket) => {
		server.sockets.add(socket);
		socket.on('close', () => server.sockets.delete(socket));
	});
	await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
	servers.add(server);
	return { server, requests, url: `http://127.0.0.1:${server.address().port}` };
}

export function closeAll() {
	for (const server of servers) {
		server.sockets.forEach((socket) => socket.destroy()); // WebSockets too
		server.close();
	}
	servers.clear();
}

export const client = ({ url }, options = {}) => new Skerry({ url, key: 'sk_test', ...options });

export function json(res, status, value, headers = {}) {
	res.writeHead(status, { 'Content-Type': 'application/json', ...headers });
	res.end(JSON.stringify(value));
}

export function problem(res, status, code, { hint, retryAfter } = {}) {
	res.writeHead(status, {
		'Content-Type': 'application/problem+json',
		...(retryAfter !== undefined && { 'Retry-After': String(retryAfter) }),
	});
	res.end(JSON.stringify({
		type: 'about:blank', title: 'Title', status, detail: `detail of ${code}`, code, hint, request_id: 'req_1',
	}));
}

export const event = (name, data, id) => `${id === undefined ? '' : `id: ${id}\n`}event: ${name}\ndata: ${JSON.stringify(data)}\n\n`;

// Events as an answer; what: its text in pieces, 'cut' breaks the connection, 'hold' leaves it open.
export async function stream(res, ...what) {
	res.writeHead(200, { 'Content-Type': 'text/event-stream' });
	for (const piece of what) {
		if (piece === 'hold')
			return;
		if (piece === 'cut')
			return void setImmediate(() => res.destroy());
		await new Promise((resolve) => res.write(piece, resolve));
		await new Promise((resolve) => setTimeout(resolve, 2)); // a packet of its own, most of the time
	}
	res.end();
}

export const sandboxInfo = (more = {}) => ({
	id: 'sbx_1', name: null, status: 'running', size: 'small', vcpus: 1, memory_mb: 1024, disk_gb: 10, image: 'base',
	isolation: 'emulated', created_at: '2026-08-01T09:30:12.000Z', expires_at: '2026-08-01T09:45:12.000Z',
	on_timeout: 'destroy', parent_id: null, labels: {}, generation: 0, egress: null, networks: [], address: null,
	traffic: { out_bytes: 0, out_packets: 0, in_bytes: 0, in_packets: 0, denied_packets: 0 }, ...more,
});

export const exit = (more = {}) => event('exit', {
	exec_id: 'exec_1', running: false, exit_code: 0, signal: null, duration_ms: 5, timed_out: false, truncated: false,
	out_of_memory: false, stdout_bytes: 0, stderr_bytes: 0, next_offset: 0, next_stderr_offset: 0, ...more,
});

// A sandbox on a server whose script begins after the sandbox was looked up.
export async function sandboxOn(answer, options) {
	const server = await serve((req, res, n) => (n === 0 ? json(res, 200, sandboxInfo()) : answer(req, res, n - 1)));
	const sandbox = await client(server, options).attach('sbx_1');

	return { ...server, sandbox, asked: () => server.requests.slice(1) };
}
