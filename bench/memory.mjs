// Memory that an idle sandbox has for itself: pages of its VMM that no other process shares. The
// template's pages, mapped by all, are not among them until a guest writes to them.

import fs from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

import { Connection } from './http.mjs';
import { summary } from './stats.mjs';

const SANDBOXES = 5;
const SETTLE_MS = 3000;
const AIM_MIB = 40;

export function privateMib(pid) {
	const text = fs.readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8');
	const kib = [...text.matchAll(/^Private_(?:Clean|Dirty):\s+(\d+) kB$/gm)].reduce((sum, [, n]) => sum + Number(n), 0);

	return kib / 1024;
}

// The VMM's process, from the record that its warden keeps.
export function vmmPid(daemon, id) {
	const record = fs.readFileSync(path.join(daemon.stateDir, 'sandboxes', id, 'run', 'record'), 'utf8');
	const pid = record.match(/^start .*\bvmm_pid=(\d+)/m)?.[1];

	if (!pid)
		throw new Error(`the record of ${id} names no VMM`);
	return Number(pid);
}

export async function memory({ daemon, image, few }) {
	const http = new Connection(daemon);
	const ids = [];
	const daemonBefore = privateMib(daemon.pid);

	try {
		for (let i = 0; i < Math.max(2, SANDBOXES * few); i++)
			ids.push((await http.rest('POST', '/v1/sandboxes', { image })).id);
		await sleep(SETTLE_MS);
		const idle = ids.map((id) => privateMib(vmmPid(daemon, id)));
		const inDaemon = (privateMib(daemon.pid) - daemonBefore) / ids.length;

		for (const id of ids)
			await http.rest('POST', `/v1/sandboxes/${id}/exec`, { command: 'true' });
		const used = ids.map((id) => privateMib(vmmPid(daemon, id)));
		const mib = (value) => `${value.toFixed(1)} MiB`;

		return {
			samples: { idle, used, inDaemon },
			rows: [
				{
					what: 'memory of an idle sandbox, private, p50', value: mib(summary(idle).p50),
					baseline: '1024 MiB guest', ratio: `1/${(1024 / summary(idle).p50).toFixed(0)}`,
					aim: `${AIM_MIB} MiB`, ok: summary(idle).p50 <= AIM_MIB,
				},
				{ what: 'the same after one exec, p50', value: mib(summary(used).p50) },
				{ what: "the daemon's own memory per sandbox", value: mib(inDaemon) },
			],
		};
	} finally {
		for (const id of ids)
			await http.rest('DELETE', `/v1/sandboxes/${id}`);
		http.close();
	}
}
