// Requests a second of an operation that only reads, GET /v1/sandboxes/{id}, against what libmicrohttpd does by
// itself with an answer of the same length that is ready: the same load, in turn.

import { spawn } from 'node:child_process';
import readline from 'node:readline';

import { Connection } from './http.mjs';
import { load } from './load.mjs';
import { interleave, quantile } from './stats.mjs';

const REQUESTS = 4000;
const ROUNDS = 10;
const AIM = 0.5;

async function hello(build, bytes) {
	const child = spawn(`${build}/bench/http_hello`, [String(bytes)], { stdio: ['pipe', 'pipe', 'inherit'] });
	const { value } = await readline.createInterface({ input: child.stdout })[Symbol.asyncIterator]().next();

	return { port: value, stop: () => child.stdin.end() };
}

export async function get({ daemon, build, image, few }) {
	const rest = new Connection(daemon);
	const { id } = await rest.rest('POST', '/v1/sandboxes', { image, timeout_minutes: 60 });
	const { hostname, port } = new URL(daemon.url);
	const requests = Math.max(500, Math.round(REQUESTS * few));
	const request = (path) => `GET ${path} HTTP/1.1\r\nHost: ${hostname}:${port}\r\n` +
		`Authorization: Bearer ${daemon.key}\r\nAccept: application/json\r\n\r\n`;
	const { text } = await rest.request('GET', `/v1/sandboxes/${id}`);
	const bare = await hello(build, Buffer.byteLength(text));

	try {
		const samples = await interleave({
			bare: async () => load(build, bare.port, request('/'), requests),
			get: async () => load(build, port, request(`/v1/sandboxes/${id}`), requests),
			health: async () => load(build, port, request('/healthz'), requests),
		}, Math.max(3, Math.round(ROUNDS * few)), { warmup: 1 });
		const of = (name) => quantile(samples[name], 0.5);
		const row = (what, name, aim) => ({
			what, value: `${Math.round(of(name))}/s`, baseline: `${Math.round(of('bare'))}/s libmicrohttpd`,
			ratio: (of(name) / of('bare')).toFixed(2),
			...(aim && { aim: `≥ ${aim}`, ok: of(name) / of('bare') >= aim }),
		});

		return {
			samples,
			rows: [
				row('GET /v1/sandboxes/{id} at 16 at once', 'get', AIM),
				row('GET /healthz at 16 at once', 'health'),
			],
		};
	} finally {
		bare.stop();
		await rest.rest('DELETE', `/v1/sandboxes/${id}`);
		rest.close();
	}
}
