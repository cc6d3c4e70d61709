// What clients cost that wait: 1,000 streams of events and 10,000 connections without a request, in memory of the
// daemon, and what a command takes beside them, in turn with the same command on a daemon without any.

import fs from 'node:fs';
import net from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';

import { daemonFor } from './daemon.mjs';
import { Connection } from './http.mjs';
import { interleave, summary, timed } from './stats.mjs';
import { ms } from './table.mjs';

const STREAMS = 1000;
const IDLE = 10_000;
const AT_ONCE = 200;
const AIM_BYTES = 16 << 10;
const AIM_P99 = 1.2;
const ROUNDS = 300;

const rss = (pid) => Number(fs.readFileSync(`/proc/${pid}/status`, 'utf8').match(/VmRSS:\s+(\d+)/)[1]) * 1024;

// A connection; with a request, when its answer's first event has come.
function open(url, request) {
	return new Promise((resolve, reject) => {
		const socket = net.connect(Number(url.port), url.hostname, () => (request ? socket.write(request) : resolve(socket)));
		let head = '';
		const onData = (bytes) => {
			head += bytes;
			if (!head.includes('event: ready'))
				return;
			socket.off('data', onData);
			socket.resume();
			resolve(socket);
		};

		socket.on('error', reject);
		if (request)
			socket.on('data', onData);
	});
}

async function openMany(n, url, request) {
	const sockets = [];

	while (sockets.length < n)
		sockets.push(...await Promise.all(Array.from({ length: Math.min(AT_ONCE, n - sockets.length) },
			() => open(url, request))));
	return sockets;
}

export async function connections({ image, few }) {
	const limits = { http_connections_max: STREAMS + IDLE + 100 };
	const loaded = await daemonFor({ image, limits });
	const alone = await daemonFor({ image, limits });
	const sockets = [];

	try {
		const url = new URL(loaded.url);
		const request = `GET /v1/events HTTP/1.1\r\nHost: ${url.host}\r\nAuthorization: Bearer ${loaded.key}\r\n` +
			'Accept: text/event-stream\r\n\r\n';
		const sides = await Promise.all([loaded, alone].map(async (daemon) => {
			const rest = new Connection(daemon);
			const { id } = await rest.rest('POST', '/v1/sandboxes', { image, timeout_minutes: 60 });

			return { rest, ms: () => timed(() => rest.rest('POST', `/v1/sandboxes/${id}/exec`, { command: 'true' })) };
		}));

		sockets.push(...await openMany(50, url, request)); // what is allocated once
		await sleep(500);
		const before = rss(loaded.pid);

		sockets.push(...await openMany(STREAMS, url, request));
		await sleep(500);
		const withStreams = rss(loaded.pid);

		sockets.push(...await openMany(IDLE, url));
		await sleep(1000);
		const withAll = rss(loaded.pid);
		const samples = await interleave({ loaded: sides[0].ms, alone: sides[1].ms }, Math.round(ROUNDS * few), { warmup: 10 });
		const [a, b] = [summary(samples.loaded), summary(samples.alone)];
		const memory = (what, bytes) => ({
			what, value: `${(bytes / 1024).toFixed(1)} KiB`, aim: `≤ ${AIM_BYTES >> 10} KiB`, ok: bytes <= AIM_BYTES,
		});

		sides.forEach(({ rest }) => rest.close());
		return {
			samples,
			rows: [
				memory(`memory of each of ${STREAMS} idle streams of events`, (withStreams - before) / STREAMS),
				memory(`memory of each of ${IDLE} idle connections`, (withAll - withStreams) / IDLE),
				{
					what: 'exec true beside them, p50', value: ms(a.p50), baseline: `${ms(b.p50)} without`,
					ratio: (a.p50 / b.p50).toFixed(2),
				},
				{
					what: 'exec true beside them, p99', value: ms(a.p99), baseline: `${ms(b.p99)} without`,
					ratio: (a.p99 / b.p99).toFixed(2), aim: `≤ ${AIM_P99}`, ok: a.p99 / b.p99 <= AIM_P99,
				},
			],
		};
	} finally {
		sockets.forEach((socket) => socket.destroy());
		await loaded.stop();
		await alone.stop();
	}
}
