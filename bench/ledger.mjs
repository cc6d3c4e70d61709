// How long GET /v1/usage takes with a million charges in an account's ledger, in turn with an account that has ten;
// what a charge costs to write, and the check of the whole ledger to run.

import { spawnSync } from 'node:child_process';
import path from 'node:path';

import { startDaemon } from '../tests/api/lib/daemon.mjs';
import { Connection } from './http.mjs';
import { interleave, summary, timed } from './stats.mjs';

const CHARGES = 1_000_000;
const FEW = 10;
const ROUNDS = 300;
const AIM_MS = 50;

function fill(build, daemon, { id, key }, charges, ...more) {
	const { stdout, stderr, status } = spawnSync(path.join(build, 'bench', 'ledger_fill'),
		[path.join(daemon.stateDir, 'skerry.db'), id, key.id, String(charges), ...more], { encoding: 'utf8' });

	if (status !== 0)
		throw new Error(`ledger_fill: ${stderr}`);
	return JSON.parse(stdout);
}

async function asking(daemon, { key }) {
	const connection = new Connection({ url: daemon.url, key: key.key });

	return { ask: () => timed(() => connection.rest('GET', '/v1/usage')), close: () => connection.close() };
}

export async function ledger({ build, few }) {
	const daemon = await startDaemon();
	const account = async (name) => (await daemon.request('POST', '/v1/accounts', { name })).json;
	const small = await account('small'), large = await account('large');
	const charges = Math.round(CHARGES * few);

	await daemon.kill(); // the database is for one at a time
	fill(build, daemon, small, FEW);
	const filled = fill(build, daemon, large, charges, '--check');

	if (filled.findings)
		throw new Error('the ledger is wrong');
	await daemon.start();
	const a = await asking(daemon, small), b = await asking(daemon, large);

	try {
		const samples = await interleave({ small: a.ask, large: b.ask }, Math.max(50, Math.round(ROUNDS * few)));
		const [least, most] = [summary(samples.small), summary(samples.large)];
		const ratio = most.p50 / least.p50;

		return {
			samples, filled,
			rows: [
				{
					what: `usage with ${charges} charges, p50`, value: `${most.p50.toFixed(2)} ms`,
					aim: `≤ ${AIM_MS} ms`, ok: most.p50 <= AIM_MS,
					baseline: `${least.p50.toFixed(2)} ms with ${FEW}`, ratio: ratio.toFixed(2),
				},
				{ what: `usage with ${charges} charges, p99`, value: `${most.p99.toFixed(2)} ms`, aim: `≤ ${AIM_MS} ms`, ok: most.p99 <= AIM_MS },
				{ what: 'a charge with its sums, of many in a transaction', value: `${filled.append_us.toFixed(0)} µs` },
				{ what: 'the check of the whole ledger', value: `${filled.check_ms} ms` },
			],
		};
	} finally {
		a.close();
		b.close();
		await daemon.stop();
	}
}
