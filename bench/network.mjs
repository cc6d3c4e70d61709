// What the egress program costs a guest's traffic, measured between network namespaces by net_bench.c:
// under three policies and without the program, in turn; and how long changes and attachments take.

import { execFile } from 'node:child_process';
import path from 'node:path';
import { promisify } from 'node:util';

import { summary } from './stats.mjs';

const ROUNDS = 30;
const COST_MAX = 1.05;
const CHANGE_MS_MAX = 5;
const ATTACH_MS_MAX = 2;

const policies = { open: 'open', ten: '10 rules', thousand: '1000 rules' };

// cost: how much worse than without the program, as a ratio of medians.
function costRows(samples, { what, unit, cost }) {
	const p50 = (name) => summary(samples[name]).p50;

	return Object.entries(policies).map(([name, title]) => {
		const ratio = cost(p50(name), p50('none'));

		return {
			what: `${what}, ${title}`, value: `${p50(name).toFixed(1)} ${unit}`,
			baseline: `no program ${p50('none').toFixed(1)} ${unit}`, ratio: ratio.toFixed(3),
			aim: COST_MAX, ok: ratio <= COST_MAX,
		};
	});
}

export async function network({ few }) {
	const program = path.join(process.env.BUILD, 'bench', 'net_bench');
	const { stdout } = await promisify(execFile)(program, [String(Math.max(3, Math.round(ROUNDS * few)))], { maxBuffer: 1 << 24 });
	const samples = JSON.parse(stdout);
	const change = summary(samples.change_us.map((us) => us / 1000));
	const take = summary(samples.take_us.map((us) => us / 1000));

	return {
		samples,
		rows: [
			...costRows(samples.bulk_mb_per_s, { what: 'throughput', unit: 'MB/s', cost: (value, none) => none / value }),
			...costRows(samples.round_trip_us, { what: 'round trip', unit: 'µs', cost: (value, none) => value / none }),
			...costRows(samples.request_us, { what: 'request of its own connection', unit: 'µs', cost: (value, none) => value / none }),
			{ what: '1000 rules replaced by 1000, p50', value: `${change.p50.toFixed(2)} ms`, aim: `${CHANGE_MS_MAX} ms`, ok: change.p50 <= CHANGE_MS_MAX },
			{ what: 'a ready slot taken, p50', value: `${take.p50.toFixed(3)} ms`, aim: `${ATTACH_MS_MAX} ms`, ok: take.p50 <= ATTACH_MS_MAX },
			{ what: `a slot made ahead, mean of ${samples.slots}`, value: `${samples.make_ms.toFixed(2)} ms` },
		],
	};
}
