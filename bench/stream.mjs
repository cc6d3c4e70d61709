// How fast a command's output comes through a stream of the API, in turn with as many bytes by the agent's
// channel alone, in a VM of the same image and size.

import http from 'node:http';

import { Connection } from './http.mjs';
import { interleave, summary } from './stats.mjs';

const BYTES = 16 << 20; // AGENT_FLOW_BYTES
const FILE = '/tmp/text'; // of text, read as /dev/zero is by the baseline's command: from memory
const MAKE = `head -c ${BYTES} /dev/zero | tr '\\0' x >${FILE}`;
const ROUNDS = 10;
const AIM = 0.8;

// The milliseconds from the request to the end of the stream; its text is not looked into but at the end.
function stream(daemon, agent, id, command) {
	const body = JSON.stringify({ command });
	const begun = process.hrtime.bigint();

	return new Promise((resolve, reject) => {
		const req = http.request(new URL(`/v1/sandboxes/${id}/exec`, daemon.url), {
			agent,
			method: 'POST',
			headers: {
				Authorization: `Bearer ${daemon.key}`, Accept: 'text/event-stream',
				'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(body),
			},
		}, (res) => {
			let last = Buffer.alloc(0);

			res.on('data', (chunk) => { last = Buffer.concat([last, chunk]).subarray(-2000); });
			res.on('error', reject);
			res.on('end', () => {
				if (res.statusCode === 200 && last.toString().includes(`"stdout_bytes":${BYTES}`))
					resolve(Number(process.hrtime.bigint() - begun) / 1e6);
				else
					reject(new Error(`the stream: ${res.statusCode} ${last}`));
			});
		});

		req.on('error', reject);
		req.end(body);
	});
}

export async function streaming({ daemon, baseline, image, few }) {
	const rest = new Connection(daemon);
	const agent = new http.Agent({ keepAlive: true, maxSockets: 1, noDelay: true });

	await baseline.ask('template');
	await baseline.ask('hold');
	const { id } = await rest.rest('POST', '/v1/sandboxes', { image, timeout_minutes: 60 });

	try {
		await rest.rest('POST', `/v1/sandboxes/${id}/exec`, { command: MAKE });
		const samples = await interleave({
			out: () => baseline.ms('out'),
			stream: () => stream(daemon, agent, id, `head -c ${BYTES} ${FILE}`),
		}, Math.max(3, Math.round(ROUNDS * few)), { warmup: 1 });
		const rate = (name) => BYTES / (1 << 20) / (summary(samples[name]).p50 / 1000);
		const ratio = rate('stream') / rate('out');

		return {
			samples,
			rows: [{
				what: 'output of 16 MiB through a stream, p50', value: `${rate('stream').toFixed(1)} MiB/s`,
				baseline: `${rate('out').toFixed(1)} MiB/s channel`, ratio: ratio.toFixed(2),
				aim: `≥ ${AIM}`, ok: ratio >= AIM,
			}],
		};
	} finally {
		agent.destroy();
		await rest.rest('DELETE', `/v1/sandboxes/${id}`);
		rest.close();
	}
}
