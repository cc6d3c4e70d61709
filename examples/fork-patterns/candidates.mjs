// Candidate fixes, each tried in a sandbox of its own. What is here takes sandboxes of the SDK and knows nothing
// of where they come from: main.mjs forks them.

import { execFile } from 'node:child_process';
import fs from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const run = promisify(execFile);
const folder = path.dirname(fileURLToPath(import.meta.url));
const cwd = 'project'; // in the sandbox, below its home

/** The patches in candidates/, those whose number is asked for: [{name, patch}]. */
export async function readCandidates(numbers) {
	const names = (await fs.readdir(path.join(folder, 'candidates'))).sort();
	const chosen = names.filter((name) => !numbers || numbers.includes(name.split('-')[0]));

	return Promise.all(chosen.map(async (name) => ({
		name: path.basename(name, '.patch'),
		patch: await fs.readFile(path.join(folder, 'candidates', name), 'utf8'),
	})));
}

/** Puts the project into a sandbox and makes it ready: history, database, and a server that runs. */
export async function setUp(sandbox) {
	const { stdout: tar } = await run('tar', ['-c', '-C', path.join(folder, cwd), '--exclude=__pycache__', '.'], { encoding: 'buffer' });

	await sandbox.files.writeTree(cwd, tar, { parents: true });
	await sandbox.exec('sh setup.sh', { cwd, check: true });
	await sandbox.start('exec python3 -m shop.server', { cwd, timeout_ms: 3_600_000 });
	await sandbox.exec('until (: </dev/tcp/127.0.0.1/8000) 2>&-; do sleep 0.1; done', { timeout_ms: 120_000, check: true });
}

/** Applies a patch and runs the tests: {sandbox, name, passes, tests, failures, diff, ms}. */
export async function attempt(sandbox, { name, patch }) {
	const begun = Date.now();

	await sandbox.exec('git apply -', { cwd, stdin: patch, check: true });
	// One that never ends has lost as well.
	const { exit_code, stderr } = await sandbox.exec('python3 -m unittest', { cwd, timeout_ms: 300_000 });
	const { stdout: diff } = await sandbox.exec('git diff', { cwd, check: true });
	const count = (pattern) => Number(pattern.exec(stderr)?.[1] ?? 0);

	return {
		sandbox, name, diff, passes: exit_code === 0, tests: count(/^Ran (\d+)/m),
		failures: count(/failures=(\d+)/) + count(/errors=(\d+)/), ms: Date.now() - begun,
	};
}

/** Of those that pass all tests the one that changes least; undefined where none does. */
export const best = (attempts) =>
	attempts.filter(({ passes }) => passes).sort((a, b) => a.diff.length - b.diff.length)[0];

/** The winner goes on from where it stands. */
export async function goOn({ sandbox, name }) {
	await sandbox.exec('git commit --quiet --all --message "$MESSAGE"', { cwd, env: { MESSAGE: `Fix split(): ${name}` }, check: true });
	return (await sandbox.exec('git log --oneline && python3 -m unittest 2>&1 | tail -n 1', { cwd, check: true })).stdout;
}
