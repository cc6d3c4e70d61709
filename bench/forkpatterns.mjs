// Eight candidate fixes of examples/fork-patterns: at once, in forks of one warm sandbox, against one after the
// other, each in a fresh sandbox that is made ready anew. Both by the TypeScript SDK, as the example does it.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import path from 'node:path';

import { attempt, best, readCandidates, setUp } from '../examples/fork-patterns/candidates.mjs';
import { repository } from '../tests/api/lib/daemon.mjs';
import { timed } from './stats.mjs';

const WINNER = '7-running-total';
const seconds = (ms) => `${(ms / 1000).toFixed(1)} s`;

async function connect(daemon) {
	execFileSync('npm', ['run', '--silent', 'build'], { cwd: path.join(repository, 'sdk/typescript'), stdio: 'inherit' });
	const { Skerry } = await import('../sdk/typescript/dist/index.js');

	return new Skerry({ url: daemon.url, key: daemon.key });
}

async function inSequence(create, candidates) {
	const attempts = [], steps = { create: 0, setUp: 0, attempt: 0 };

	for (const candidate of candidates) {
		let sandbox;

		steps.create += await timed(async () => { sandbox = await create(); });
		steps.setUp += await timed(() => setUp(sandbox));
		steps.attempt += await timed(async () => attempts.push(await attempt(sandbox, candidate)));
		await sandbox.destroy();
	}
	assert.equal(best(attempts).name, WINNER);
	return steps;
}

async function inForks(warm, candidates) {
	const steps = {};
	let forks, attempts;

	steps.fork = await timed(async () => { forks = (await warm.fork({ count: candidates.length })).sandboxes; });
	steps.attempts = await timed(async () => {
		attempts = await Promise.all(candidates.map((candidate, i) => attempt(forks[i], candidate)));
	});
	assert.equal(best(attempts).name, WINNER);
	await Promise.all(forks.map((fork) => fork.destroy()));
	return steps;
}

export async function forkPatterns({ daemon, image }) {
	const client = await connect(daemon);
	const create = () => client.create({ image, timeout_minutes: 30 });
	const candidates = await readCandidates();
	let warm, forks, sequence;

	await (await create()).destroy(); // the template is there now, and in the file cache
	const parallel = { warm: await timed(async () => { await setUp(warm = await create()); }) };

	parallel.all = await timed(async () => { forks = await inForks(warm, candidates); });
	await warm.destroy();
	const whole = await timed(async () => { sequence = await inSequence(create, candidates); });
	const row = (what, ms) => ({ what, value: seconds(ms), baseline: `${seconds(whole)} in sequence`, ratio: (whole / ms).toFixed(1) });

	return {
		samples: { candidates: candidates.length, parallel: { ...parallel, ...forks }, sequence: { all: whole, ...sequence } },
		rows: [
			row(`${candidates.length} candidate fixes, in forks of one warm sandbox`, parallel.all),
			row(`${candidates.length} candidate fixes, with the time to make that sandbox ready`, parallel.all + parallel.warm),
		],
	};
}
