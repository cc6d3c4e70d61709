// What authorisation costs a request: GET /v1/sandboxes/{id} with keys that are narrowed in several ways, in turn
// with one that nothing narrows. A scope of sandboxes or labels reads the sandbox's row once more.

import { Connection } from './http.mjs';
import { load } from './load.mjs';
import { interleave, quantile } from './stats.mjs';

const REQUESTS = 1000; // little at a time, so that what the machine does meanwhile meets all alike
const ROUNDS = 60;
const AIM = 0.9;

export async function auth({ daemon, build, image, few }) {
	const rest = new Connection(daemon);
	const { id } = await rest.rest('POST', '/v1/sandboxes', { image, timeout_minutes: 60, labels: { bench: 'auth' } });
	const { port } = new URL(daemon.url);
	const requests = REQUESTS;
	const keys = {};

	const make = async (name, scopes) => {
		keys[name] = await rest.rest('POST', '/v1/keys', { label: `bench ${name}`, scopes });
	};
	const get = (path, key) => `GET ${path} HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\n` +
		`Authorization: Bearer ${key}\r\nAccept: application/json\r\n\r\n`;

	try {
		const operations = ['exec', 'files', 'network', 'sandbox:create', 'sandbox:pause', 'sandbox:read'];

		await make('full');
		await make('operations', { operations });
		await make('sandboxes', { operations, sandboxes: [id] });
		await make('labels', { operations, labels: { bench: 'auth' } });
		const subject = (name) => async () => load(build, port, get(`/v1/sandboxes/${id}`, keys[name].key), requests);
		const samples = await interleave({
			full: subject('full'),
			operations: subject('operations'),
			sandboxes: subject('sandboxes'),
			labels: subject('labels'),
		}, Math.max(3, Math.round(ROUNDS * few)), { warmup: 1 });
		const of = (name) => quantile(samples[name], 0.5);
		const row = (what, name, aim) => ({
			what: `GET /v1/sandboxes/{id}, ${what}`, value: `${Math.round(of(name))}/s`,
			baseline: `${Math.round(of('full'))}/s by a full key`, ratio: (of(name) / of('full')).toFixed(2),
			...(aim && { aim: `≥ ${aim}`, ok: of(name) / of('full') >= aim }),
		});

		return {
			samples,
			rows: [
				row('key narrowed by operations', 'operations', AIM),
				row('by operations and a sandbox', 'sandboxes'),
				row('by operations and labels', 'labels'),
			],
		};
	} finally {
		for (const key of Object.values(keys))
			await rest.rest('DELETE', `/v1/keys/${key.id}`);
		await rest.rest('DELETE', `/v1/sandboxes/${id}`);
		rest.close();
	}
}
