// A hundred sandboxes alive at once: what each has for itself of the host's memory, and the CPU that all
// of them take while nobody asks anything of them.

import fs from 'node:fs';
import os from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';

import { Connection } from './http.mjs';
import { privateMib, vmmPid } from './memory.mjs';
import { summary, timed } from './stats.mjs';
import { ms } from './table.mjs';

const SANDBOXES = 100;
const AT_ONCE = 4;
const SETTLE_MS = 5000;
const WATCH_MS = 10_000;
const TICKS_PER_S = 100; // USER_HZ

function cpuSeconds(pid) {
	const fields = fs.readFileSync(`/proc/${pid}/stat`, 'utf8').replace(/^.*\) /s, '').split(' ');

	return (Number(fields[11]) + Number(fields[12])) / TICKS_PER_S;
}

async function make(connections, n, image) {
	const ids = [];

	await Promise.all(connections.map(async (http) => {
		while (ids.length < n) {
			const at = ids.push(undefined) - 1;

			ids[at] = (await http.rest('POST', '/v1/sandboxes', { image })).id;
		}
	}));
	return ids;
}

export async function hundred({ daemon, image, few }) {
	const connections = Array.from({ length: AT_ONCE }, () => new Connection(daemon));
	const n = Math.max(10, Math.round(SANDBOXES * few));
	let ids = [], answered;

	try {
		const made = await timed(async () => { ids = await make(connections, n, image); });

		await sleep(SETTLE_MS);
		const pids = ids.map((id) => vmmPid(daemon, id));
		const before = pids.map(cpuSeconds);

		await sleep(WATCH_MS);
		const idle = pids.map((pid, i) => (cpuSeconds(pid) - before[i]) / (WATCH_MS / 1000) * 100);
		const memory = pids.map(privateMib);
		const all = memory.reduce((sum, mib) => sum + mib, 0);

		answered = summary(await Promise.all(ids.slice(0, AT_ONCE).map((id, i) =>
			timed(() => connections[i].rest('POST', `/v1/sandboxes/${id}/exec`, { command: 'true' })))));
		return {
			samples: { made, idle, memory },
			rows: [
				{ what: `${n} sandboxes made, ${AT_ONCE} at once: each`, value: ms(made / n) },
				{
					what: `${n} alive: private memory of each, p50`, value: `${summary(memory).p50.toFixed(1)} MiB`,
					baseline: '1024 MiB guest', ratio: `1/${(1024 / summary(memory).p50).toFixed(0)}`,
				},
				{ what: `${n} alive: private memory of all`, value: `${(all / 1024).toFixed(2)} GiB` },
				{
					what: `${n} alive, idle: CPU of each, mean`, value: `${(idle.reduce((a, b) => a + b, 0) / n).toFixed(2)} % of a core`,
				},
				{
					what: `${n} alive, idle: CPU of all`, value: `${idle.reduce((a, b) => a + b, 0).toFixed(0)} % of a core`,
					baseline: `${os.cpus().length * 100} % there are`,
				},
				{ what: `${n} alive: first command in one of ${AT_ONCE} asked at once, p50`, value: ms(answered.p50) },
			],
		};
	} finally {
		for (const id of ids.filter(Boolean))
			await connections[0].rest('DELETE', `/v1/sandboxes/${id}`);
		connections.forEach((http) => http.close());
	}
}
