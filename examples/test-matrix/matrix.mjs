// A test matrix in forks: a checkout is made ready once, in one sandbox; each combination of settings is tested in
// a fork of it, all at the same time. Exits with 1 where one fails, as a CI job should.
//
//   SKERRY_URL=… SKERRY_API_KEY=… node matrix.mjs [FOLDER]      with a matrix.json; default: sample

import { execFile } from 'node:child_process';
import fs from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';

import { Skerry } from 'skerry';

const run = promisify(execFile);
const cwd = 'checkout'; // in the sandbox, below its home
const AT_ONCE = 16; // what one call forks at most

/** {A: [1, 2], B: [3]} → [{A: 1, B: 3}, {A: 2, B: 3}] */
function combinations(axes) {
	return Object.entries(axes).reduce(
		(cells, [name, values]) => cells.flatMap((cell) => values.map((value) => ({ ...cell, [name]: String(value) }))), [{}]);
}

const nameOf = (cell) => Object.entries(cell).map(([name, value]) => `${name}=${value}`).join(' ');

async function makeReady(sandbox, folder, { setup }) {
	const { stdout: tar } = await run('tar', ['-c', '-C', folder, '--exclude=.git', '--exclude=node_modules', '.'],
		{ encoding: 'buffer', maxBuffer: 1 << 30 });

	await sandbox.files.writeTree(cwd, tar, { parents: true });
	if (setup)
		await sandbox.exec(setup, { cwd, check: true, timeout_ms: 600_000 });
}

async function testCell(fork, cell, { test, timeout_ms = 300_000 }) {
	try {
		const begun = Date.now();
		const { exit_code, stdout, stderr, timed_out } = await fork.exec(test, { cwd, env: cell, timeout_ms });

		return { name: nameOf(cell), passes: exit_code === 0, ms: Date.now() - begun, timed_out, output: stdout + stderr };
	} finally {
		await fork.destroy();
	}
}

async function testAll(ready, cells, settings) {
	const results = [];

	for (let at = 0; at < cells.length; at += AT_ONCE) {
		const some = cells.slice(at, at + AT_ONCE);
		const { sandboxes } = await ready.fork({ count: some.length, name: 'cell' });

		results.push(...await Promise.all(some.map((cell, i) => testCell(sandboxes[i], cell, settings))));
	}
	return results;
}

function report(results) {
	for (const { name, passes, ms, timed_out, output } of results) {
		console.log(`${passes ? 'passes' : timed_out ? 'timed out' : 'fails'}  ${name}  (${ms} ms)`);
		if (!passes)
			console.log(output.trimEnd().split('\n').slice(-20).map((line) => `    ${line}`).join('\n'));
	}
	const failed = results.filter(({ passes }) => !passes);

	console.log(`${results.length - failed.length} of ${results.length} combinations pass`);
	return failed.length === 0;
}

const folder = path.resolve(process.argv[2] ?? path.join(import.meta.dirname, 'sample'));
const settings = JSON.parse(await fs.readFile(path.join(folder, 'matrix.json'), 'utf8'));
const client = new Skerry();
const ready = await client.create({ ...settings.sandbox, labels: { job: 'test-matrix' } });

try {
	await makeReady(ready, folder, settings);
	process.exitCode = report(await testAll(ready, combinations(settings.axes), settings)) ? 0 : 1;
} finally {
	await ready.destroy();
}
