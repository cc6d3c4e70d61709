// What the audit costs a request: two daemons that differ in one thing, that the audit of one is on the disk,
// as it is, and that of the other in memory, where nothing is waited for. Their commands and changes in turn,
// against each other; and one write to the same disk by itself, which is what a change waits for.

import fs from 'node:fs';
import path from 'node:path';

import { daemonFor } from './daemon.mjs';
import { Connection } from './http.mjs';
import { LeanConnection } from './lean.mjs';
import { interleave, quantile, summary } from './stats.mjs';
import { ms } from './table.mjs';

const ROUNDS = 100;
const CROWD = 16;
const AIM = 1.1;
const NOBODY = 'sbx_0123456789ab';

// Its audit goes to memory: a link in its place.
async function inMemory(options) {
	const daemon = await daemonFor(options);
	const shelf = fs.mkdtempSync('/dev/shm/skerry-bench-');
	const file = path.join(daemon.stateDir, 'audit.db');

	daemon.child.kill('SIGTERM');
	await daemon.wait();
	fs.copyFileSync(file, path.join(shelf, 'audit.db'));
	fs.rmSync(file);
	fs.symlinkSync(path.join(shelf, 'audit.db'), file);
	await daemon.start();
	const stop = daemon.stop;

	daemon.stop = async () => {
		await stop();
		fs.rmSync(shelf, { recursive: true, force: true });
	};
	return daemon;
}

// A page appended to a file of the state, and synced.
function syncs(daemon) {
	const file = path.join(daemon.stateDir, 'bench-sync');
	const fd = fs.openSync(file, 'w');
	const page = Buffer.alloc(4096, 1);

	return {
		ms: async () => {
			const began = process.hrtime.bigint();

			fs.writeSync(fd, page);
			fs.fdatasyncSync(fd);
			return Number(process.hrtime.bigint() - began) / 1e6;
		},
		close: () => {
			fs.closeSync(fd);
			fs.rmSync(file);
		},
	};
}

async function figures(daemon) {
	const { text } = await daemon.request('GET', '/metrics');
	const of = (name) => Number(text.match(new RegExp(`^${name} (\\S+)$`, 'm'))[1]);

	return { records: of('skerry_audit_records_total'), commits: of('skerry_audit_commits_total'), head: of('skerry_audit_head') };
}

// Milliseconds for all of them at once, each on a connection of its own.
async function crowd(connections, id) {
	const began = process.hrtime.bigint();

	await Promise.all(connections.map((one) => one.rest('POST', `/v1/sandboxes/${id}/exec`, { command: 'true' })));
	return Number(process.hrtime.bigint() - began) / 1e6;
}

// Checks a chain of that many refused commands. {ms, bytes} of it all.
async function verifying(daemon) {
	const began = process.hrtime.bigint();
	const { json } = await daemon.request('GET', '/v1/audit/verify');

	if (!json.ok)
		throw new Error(`the audit is not whole: ${json.problem}`);
	return { ms: Number(process.hrtime.bigint() - began) / 1e6, records: json.last };
}

export async function audit({ daemon, build, image, few }) {
	const memory = await inMemory({ image });
	const sides = { disk: daemon, memory };
	const http = {}, lean = {}, ids = {}, crowds = {};
	const sync = syncs(daemon);
	let changes = 0;

	try {
		for (const [name, side] of Object.entries(sides)) {
			http[name] = new Connection(side);
			lean[name] = new LeanConnection(side, build);
			crowds[name] = Array.from({ length: CROWD }, () => new Connection(side));
			ids[name] = (await http[name].rest('POST', '/v1/sandboxes', { image, timeout_minutes: 60 })).id;
		}
		const exec = (name) => lean[name].ms('POST', `/v1/sandboxes/${ids[name]}/exec`, { command: 'true' });
		const change = async (name) => {
			const net = `n${changes++}`;
			const took = await lean[name].ms('POST', '/v1/networks', { name: net });

			await http[name].rest('DELETE', `/v1/networks/${net}`);
			return took;
		};
		const single = await interleave({
			disk: () => exec('disk'), memory: () => exec('memory'), get: () => lean.disk.ms('GET', `/v1/sandboxes/${ids.disk}`),
		}, ROUNDS * few, { warmup: 10 });
		const changed = await interleave({
			disk: () => change('disk'), memory: () => change('memory'), sync: sync.ms,
		}, Math.min(90, ROUNDS * few), { warmup: 3 });
		const before = await figures(daemon);
		const many = await interleave({
			disk: () => crowd(crowds.disk, ids.disk), memory: () => crowd(crowds.memory, ids.memory),
		}, Math.max(5, ROUNDS * few / 10), { warmup: 2 });
		const later = await figures(daemon);

		for (let i = 0; i < 100 * few; i++)
			await Promise.all(crowds.disk.map((one) => one.request('POST', `/v1/sandboxes/${NOBODY}/exec`, { command: 'true' })));
		const verified = await verifying(daemon);
		const row = (what, samples, aim) => {
			const disk = summary(samples.disk).p50, other = summary(samples.memory).p50;

			return {
				what, value: ms(disk), baseline: `${ms(other)} audit in memory`, ratio: (disk / other).toFixed(2),
				...(aim && { aim: `≤ ${aim}`, ok: disk / other <= aim }),
			};
		};

		return {
			samples: { single, changed, many, verified },
			rows: [
				row('exec true over REST with its record, p50', single, AIM),
				row(`${CROWD} of them at once, p50`, many, AIM),
				row('a change with its record, p50', changed),
				{
					what: 'of which one sync of the same disk takes, p50', value: ms(quantile(changed.sync, 0.5)),
				},
				{
					what: `records for each transaction, ${CROWD} at once`,
					value: ((later.records - before.records) / (later.commits - before.commits)).toFixed(1),
				},
				{
					what: `checking ${verified.records} records`, value: ms(verified.ms),
					ratio: `${(verified.ms * 1000 / verified.records).toFixed(0)} µs each`,
				},
			],
		};
	} finally {
		for (const [name, side] of Object.entries(sides)) {
			await http[name]?.request('DELETE', `/v1/sandboxes/${ids[name]}`);
			[http[name], lean[name], ...(crowds[name] ?? [])].forEach((one) => one?.close());
		}
		sync.close();
		await memory.stop();
	}
}
