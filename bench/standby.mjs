// A sandbox that stands ready, handed over; against one restored from its template by the same daemon
// with none standing ready.

import fs from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';

import { daemonFor } from './daemon.mjs';
import { Connection } from './http.mjs';
import { summary, timed } from './stats.mjs';
import { ms } from './table.mjs';

const SAMPLES = 20;
const READY_MS = 60_000;

const readyCount = (daemon) => fs.readFileSync(daemon.logFile, 'utf8').split('a sandbox stands ready').length - 1;

// Waits until one more than so many have been made ready, and what made it has come to rest.
async function waitReady(daemon, before) {
	for (const until = Date.now() + READY_MS; readyCount(daemon) <= before; await sleep(20))
		if (Date.now() > until)
			throw new Error(`no sandbox stands ready after ${READY_MS} ms:\n${daemon.log()}`);
	await sleep(500);
}

async function createOne(http, image) {
	let made;
	const create = await timed(async () => { made = await http.rest('POST', '/v1/sandboxes', { image }); });
	const exec = await timed(() => http.rest('POST', `/v1/sandboxes/${made.id}/exec`, { command: 'true' }));

	await http.rest('DELETE', `/v1/sandboxes/${made.id}`);
	return { create, exec };
}

export async function standby({ daemon, image, few }) {
	const cold = new Connection(daemon);
	const other = await daemonFor({ image, limits: { standby_per_template: 1 } });
	const ready = new Connection(other);
	const samples = { cold: [], ready: [] };

	try {
		for (let i = -1, had = 0; i < Math.max(3, SAMPLES * few); i++) {
			await waitReady(other, had);
			had = readyCount(other);
			const one = { ready: await createOne(ready, image), cold: await createOne(cold, image) };

			if (i >= 0)
				Object.entries(one).forEach(([name, sample]) => samples[name].push(sample));
		}
	} finally {
		cold.close();
		ready.close();
		await other.stop();
	}
	const of = (name, what) => summary(samples[name].map((sample) => sample[what]));
	const restored = of('cold', 'create'), handed = of('ready', 'create');

	return {
		samples,
		rows: [
			{ what: 'create, cold: restored from its template, p50', value: `${ms(restored.p50)} (best ${ms(restored.min)})` },
			{ what: 'create, cold, p99', value: ms(restored.p99) },
			{
				what: 'create from standby, p50', value: `${ms(handed.p50)} (best ${ms(handed.min)})`, baseline: `${ms(restored.p50)} cold`,
				ratio: `1/${(restored.p50 / handed.p50).toFixed(1)}`, aim: '1/10, 10 ms',
				ok: handed.p50 <= 10 && handed.p50 <= restored.p50 / 10,
			},
			{ what: 'create from standby, p99', value: ms(handed.p99) },
			{ what: 'first command after it, p50', value: ms(of('ready', 'exec').p50), baseline: `${ms(of('cold', 'exec').p50)} cold` },
		],
	};
}
