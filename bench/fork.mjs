// Forks: how long the source stands still, how long until the children answer; as the written memory, the
// guest's memory and the number of children grow.

import { Connection } from './http.mjs';
import { dirtyMib, sandboxWithDirty } from './dirty.mjs';
import { summary, timed } from './stats.mjs';
import { ms } from './table.mjs';

const SAMPLES = 7;
const WRITTEN_MIB = [8, 25, 50, 100, 200];
const MEMORY_MB = [512, 1024, 2048, 4096];
const CHILDREN = [1, 2, 4, 8];

async function destroy(http, ids) {
	for (const id of ids)
		await http.rest('DELETE', `/v1/sandboxes/${id}`);
}

// One fork: held as the answer says, until the children have answered, the first command of one.
async function forkOnce(http, id, count) {
	let answer;
	const whole = await timed(async () => {
		answer = await http.rest('POST', `/v1/sandboxes/${id}/fork`, { count });
	});
	const ids = answer.sandboxes.map((child) => child.id);
	const exec = await timed(() => http.rest('POST', `/v1/sandboxes/${ids[0]}/exec`, { command: 'true' }));

	await destroy(http, ids);
	return { held: answer.fork_report.source_paused_ms, whole, exec };
}

async function series(http, id, count, n) {
	const samples = [];

	await forkOnce(http, id, count); // the file cache has the template now, the agent has frozen once
	for (let i = 0; i < n; i++)
		samples.push(await forkOnce(http, id, count));
	const of = (what) => summary(samples.map((sample) => sample[what]));

	return { held: of('held').p50, whole: of('whole').p50, exec: of('exec').p50, best: { held: of('held').min, whole: of('whole').min }, samples };
}

function memcpyMs(mib) {
	const from = Buffer.alloc(mib * 2 ** 20, 1), to = Buffer.alloc(mib * 2 ** 20, 2);
	const times = [];

	for (let i = 0; i < 5; i++) {
		const begun = process.hrtime.bigint();

		from.copy(to);
		times.push(Number(process.hrtime.bigint() - begun) / 1e6);
	}
	return Math.min(...times);
}

async function byWritten(http, daemon, image, n) {
	const points = [];

	for (const mib of WRITTEN_MIB) {
		const id = await sandboxWithDirty(http, daemon, mib, { image });

		points.push({ mib: dirtyMib(daemon, id), asked: mib, ...await series(http, id, 1, n) });
		await destroy(http, [id]);
	}
	return points;
}

async function byMemory(http, daemon, image, n) {
	const points = [];

	for (const memory_mb of MEMORY_MB) {
		const id = await sandboxWithDirty(http, daemon, 25, { image, vcpus: 1, memory_mb, disk_gb: 10 });

		points.push({ memory_mb, mib: dirtyMib(daemon, id), ...await series(http, id, 1, n) });
		await destroy(http, [id]);
	}
	return points;
}

async function byChildren(http, daemon, image, n) {
	const id = await sandboxWithDirty(http, daemon, 25, { image });
	const points = [];

	for (const count of CHILDREN)
		points.push({ count, mib: dirtyMib(daemon, id), ...await series(http, id, count, n) });
	await destroy(http, [id]);
	return points;
}

function rowsOf(written, copies, create) {
	const rows = [];

	for (const { asked, aim } of [{ asked: 8, aim: 15 }, { asked: 100, aim: 60 }]) {
		const point = written.find((one) => one.asked === asked);
		const copy = copies[asked];

		rows.push({
			what: `fork, ${point.mib.toFixed(0)} MiB written: source stands still, p50`, value: `${ms(point.held)} (best ${ms(point.best.held)})`,
			baseline: `${ms(copy)} memcpy`, ratio: (point.held / copy).toFixed(1), aim: `${aim} ms`, ok: point.held <= aim,
		}, {
			what: `fork, ${point.mib.toFixed(0)} MiB written: until the child has answered, p50`, value: `${ms(point.whole)} (best ${ms(point.best.whole)})`,
			baseline: `${ms(create)} create`, ratio: (point.whole / create).toFixed(1), aim: '150 ms', ok: point.whole <= 150,
		}, { what: `fork, ${point.mib.toFixed(0)} MiB written: first command of the child, p50`, value: ms(point.exec) });
	}
	return rows;
}

async function createMs(http, image, n) {
	const times = [];

	for (let i = 0; i < n; i++) {
		let made;

		times.push(await timed(async () => { made = await http.rest('POST', '/v1/sandboxes', { image }); }));
		await destroy(http, [made.id]);
	}
	return summary(times).p50;
}

export async function fork({ daemon, image, few }) {
	const http = new Connection(daemon);
	const n = Math.max(2, Math.round(SAMPLES * few));
	const create = await createMs(http, image, n);
	const written = await byWritten(http, daemon, image, n);
	const copies = Object.fromEntries(written.map(({ asked, mib }) => [asked, memcpyMs(Math.max(1, Math.round(mib)))]));

	http.close();
	return { samples: { create, written, copies }, rows: rowsOf(written, copies, create) };
}

export async function growth({ daemon, image, few }) {
	const http = new Connection(daemon);
	const n = Math.max(2, Math.round(SAMPLES * few / 2));
	const memory = await byMemory(http, daemon, image, n);
	const children = await byChildren(http, daemon, image, n);

	http.close();
	return {
		samples: { memory, children },
		rows: [
			...memory.map(({ memory_mb, held, whole }) =>
				({ what: `fork of a guest of ${memory_mb} MiB: stands still; child has answered`, value: `${ms(held)}; ${ms(whole)}` })),
			...children.map(({ count, held, whole }) =>
				({ what: `fork into ${count}: stands still; all have answered`, value: `${ms(held)}; ${ms(whole)}` })),
		],
	};
}
