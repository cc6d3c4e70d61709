// Create, exec, destroy, a hundred times, one after the other: how long each takes, what is left of
// them on the host, and whether the daemon grows.

import { setTimeout as sleep } from 'node:timers/promises';

import { Connection } from './http.mjs';
import { added, take } from './residue.mjs';
import { slope, summary, timed } from './stats.mjs';
import { ms } from './table.mjs';

const ROUNDS = 100;
const WARMUP = 100; // until the daemon's heap and SQLite's page cache have their size
const GROWTH_KIB = 16; // of the daemon a round, as a slope; a leaked object a sandbox is well above

async function round(http, image) {
	const times = {};
	let id;

	times.create = await timed(async () => {
		({ id } = await http.rest('POST', '/v1/sandboxes', { image }));
	});
	times.exec = await timed(() => http.rest('POST', `/v1/sandboxes/${id}/exec`, { command: 'true' }));
	times.destroy = await timed(() => http.rest('DELETE', `/v1/sandboxes/${id}`));
	return times;
}

// A check that finds nothing must be able to find something: what one living sandbox holds.
async function proveSight(daemon, http, image) {
	const before = take(daemon);
	const { id } = await http.rest('POST', '/v1/sandboxes', { image });
	const seen = added(before, take(daemon));

	await http.rest('DELETE', `/v1/sandboxes/${id}`);
	for (const kind of ['processes', 'cgroups', 'files'])
		if (!seen[kind])
			throw new Error(`the check for what is left behind does not see the ${kind} of a living sandbox`);
	return seen;
}

export async function churn({ daemon, image, few }) {
	const http = new Connection(daemon);
	const times = { create: [], exec: [], destroy: [] };
	const rss = [];

	const seen = await proveSight(daemon, http, image);

	for (let i = 0; i < WARMUP * few; i++)
		await http.rest('DELETE', `/v1/sandboxes/${(await http.rest('POST', '/v1/sandboxes', { image })).id}`);
	const before = take(daemon);

	for (let i = 0; i < ROUNDS * few; i++) {
		for (const [name, time] of Object.entries(await round(http, image)))
			times[name].push(time);
		rss.push(take(daemon).rss_kib);
	}
	await sleep(1000);
	const after = take(daemon);
	const left = added(before, after);
	const growth = slope(rss);

	http.close();
	return {
		samples: { ...times, rss_kib: rss, alive: seen, before, after },
		left,
		rows: [
			...Object.entries(times).map(([name, all]) => ({
				what: `${name}, ${all.length} times in a row, p50`, value: ms(summary(all).p50),
				baseline: `p99 ${ms(summary(all).p99)}`,
			})),
			{
				what: 'left behind', value: Object.keys(left).length ? JSON.stringify(left).slice(0, 60) : 'nothing',
				aim: 'nothing', ok: Object.keys(left).length === 0,
			},
			{
				what: "the daemon's growth per sandbox", value: `${growth.toFixed(1)} KiB`,
				baseline: `${(before.rss_kib / 1024).toFixed(1)} MiB`, aim: 'flat', ok: few < 1 ? undefined : growth <= GROWTH_KIB,
			},
		],
	};
}
