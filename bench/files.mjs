// A file of 16 MiB into a sandbox and out of it over REST, in turn with as many bytes by the agent's channel
// alone, in a VM of the same image and size: what a command prints, and what one reads. An upload is on the
// guest's disk when it is answered, which the channel's bytes never are.

import http from 'node:http';

import { Connection } from './http.mjs';
import { interleave, summary } from './stats.mjs';

const BYTES = 16 << 20; // AGENT_FLOW_BYTES
const ROUNDS = 10;
const AIM = 0.8;

// The milliseconds of one request, its body and its answer's.
function move(daemon, agent, method, route, body) {
	const begun = process.hrtime.bigint();

	return new Promise((resolve, reject) => {
		const req = http.request(new URL(route, daemon.url), {
			agent, method,
			headers: { Authorization: `Bearer ${daemon.key}`, ...(body && { 'Content-Length': body.length }) },
		}, (res) => {
			let bytes = 0;

			res.on('data', (chunk) => { bytes += chunk.length; });
			res.on('error', reject);
			res.on('end', () => {
				if (res.statusCode >= 300 || (!body && bytes !== BYTES))
					reject(new Error(`${method} ${route}: ${res.statusCode}, ${bytes} bytes`));
				else
					resolve(Number(process.hrtime.bigint() - begun) / 1e6);
			});
		});

		req.on('error', reject);
		req.end(body);
	});
}

export async function files({ daemon, baseline, image, few }) {
	const rest = new Connection(daemon);
	const agent = new http.Agent({ keepAlive: true, maxSockets: 1, noDelay: true });
	const body = Buffer.alloc(BYTES, 'f');

	await baseline.ask('template');
	await baseline.ask('hold');
	const { id } = await rest.rest('POST', '/v1/sandboxes', { image, timeout_minutes: 60 });
	const route = `/v1/sandboxes/${id}/files?path=file`;

	try {
		await move(daemon, agent, 'PUT', route, body);
		const samples = await interleave({
			in: () => baseline.ms('in'),
			upload: () => move(daemon, agent, 'PUT', route, body),
			out: () => baseline.ms('out'),
			download: () => move(daemon, agent, 'GET', route),
		}, Math.max(3, Math.round(ROUNDS * few)), { warmup: 1 });
		const rate = (name) => BYTES / (1 << 20) / (summary(samples[name]).p50 / 1000);
		const row = (what, name, channel, aim) => {
			const ratio = rate(name) / rate(channel);

			return {
				what: `${what} of 16 MiB, p50`, value: `${rate(name).toFixed(1)} MiB/s`,
				baseline: `${rate(channel).toFixed(1)} MiB/s channel`, ratio: ratio.toFixed(2),
				...(aim && { aim: `≥ ${aim}`, ok: ratio >= aim }),
			};
		};

		return { samples, rows: [row('upload', 'upload', 'in'), row('download', 'download', 'out', AIM)] };
	} finally {
		agent.destroy();
		await rest.rest('DELETE', `/v1/sandboxes/${id}`);
		rest.close();
	}
}
