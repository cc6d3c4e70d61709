// Eight candidate fixes at once, each in a fork of one warm sandbox.
//
//   SKERRY_URL=… SKERRY_API_KEY=… node main.mjs [NUMBER…]      of the patches in candidates/; default: all

import { Skerry } from 'skerry';

import { attempt, best, goOn, readCandidates, setUp } from './candidates.mjs';

const numbers = process.argv.slice(2);
const candidates = await readCandidates(numbers.length ? numbers : undefined);
const client = new Skerry();
const warm = await client.create({ timeout_minutes: 15, egress: [], labels: { example: 'fork-patterns' } });
let forks = [];

try {
	const begun = Date.now();

	await setUp(warm);
	console.log(`warm after ${Date.now() - begun} ms`);

	const { sandboxes, report } = await warm.fork({ count: candidates.length, name: 'candidate' });

	forks = sandboxes;
	console.log(`${forks.length} forks; the warm sandbox stood still for ${report.source_paused_ms} ms`);
	const attempts = await Promise.all(candidates.map((candidate, i) => attempt(forks[i], candidate)));

	for (const { name, passes, tests, failures, ms } of attempts)
		console.log(`${passes ? 'passes' : 'fails '}  ${tests - failures} of ${tests} tests  ${name}  (${ms} ms)`);
	const winner = best(attempts);
	const losers = forks.filter((fork) => fork !== winner?.sandbox);

	await Promise.all(losers.map((fork) => fork.destroy()));
	forks = forks.filter((fork) => fork === winner?.sandbox);
	if (winner) {
		console.log(`\nwinner: ${winner.name}\n\n${winner.diff}`);
		console.log(await goOn(winner));
	} else {
		console.log('\nno candidate passes');
		process.exitCode = 1;
	}
} finally {
	await Promise.all([warm, ...forks].map((sandbox) => sandbox.destroy()));
}
