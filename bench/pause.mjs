// Pausing (durable when it is answered) and resuming, as the written memory grows; against writing as
// much to the same disk, and against a create from the template.

import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';

import { dirtyMib, sandboxWithDirty } from './dirty.mjs';
import { Connection } from './http.mjs';
import { summary, timed } from './stats.mjs';
import { ms } from './table.mjs';

const SAMPLES = 7;
const WRITTEN_MIB = [8, 25, 50, 100, 200];
const AIM_WRITTEN = 100;

// So many MiB into a new file of the state's file system, until they are on the disk.
function writeMs(mib) {
	const file = path.join(os.tmpdir(), 'skerry-bench-write');
	const block = Buffer.alloc(2 ** 20, 0xa5);
	const begun = process.hrtime.bigint();
	const fd = fs.openSync(file, 'wx', 0o600);

	for (let i = 0; i < mib; i++)
		fs.writeSync(fd, block);
	fs.fsyncSync(fd);
	fs.closeSync(fd);
	fs.rmSync(file);
	return Number(process.hrtime.bigint() - begun) / 1e6;
}

async function cycle(http, id, mib) {
	const write = writeMs(Math.max(1, Math.round(mib)));
	const pause = await timed(() => http.rest('POST', `/v1/sandboxes/${id}/pause`));
	const resume = await timed(() => http.rest('POST', `/v1/sandboxes/${id}/resume`));
	const exec = await timed(() => http.rest('POST', `/v1/sandboxes/${id}/exec`, { command: 'true' }));

	return { write, pause, resume, exec };
}

async function point(http, daemon, image, asked, n) {
	const id = await sandboxWithDirty(http, daemon, asked, { image });
	const mib = dirtyMib(daemon, id);
	const samples = [];

	await cycle(http, id, mib);
	for (let i = 0; i < n; i++)
		samples.push(await cycle(http, id, mib));
	await http.rest('DELETE', `/v1/sandboxes/${id}`);
	const of = (what) => summary(samples.map((sample) => sample[what]));

	return {
		asked, mib, samples, write: of('write').p50, pause: of('pause').p50, resume: of('resume').p50, exec: of('exec').p50,
		best: { pause: of('pause').min, resume: of('resume').min },
	};
}

export async function pause({ daemon, image, few }) {
	const http = new Connection(daemon);
	const n = Math.max(2, Math.round(SAMPLES * few));
	const points = [];

	for (const asked of WRITTEN_MIB)
		points.push(await point(http, daemon, image, asked, n));
	http.close();
	return {
		samples: { pause: points },
		rows: points.flatMap(({ asked, mib, write, pause: paused, resume, exec, best }) => [
			{
				what: `pause, ${mib.toFixed(0)} MiB written: until it is durable, p50`, value: `${ms(paused)} (best ${ms(best.pause)})`,
				baseline: `${ms(write)} write, fsync`, ratio: (paused / write).toFixed(1),
				...asked === AIM_WRITTEN && { aim: '300 ms', ok: paused <= 300 },
			},
			{
				what: `resume, ${mib.toFixed(0)} MiB written: until its agent has answered, p50`, value: `${ms(resume)} (best ${ms(best.resume)})`,
				...asked === AIM_WRITTEN && { aim: '150 ms', ok: resume <= 150 },
			},
			{ what: `first command after it, ${mib.toFixed(0)} MiB written, p50`, value: ms(exec) },
		]),
	};
}
