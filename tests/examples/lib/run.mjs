// Runs what is in examples/, as a user would: in its folder, by a Node.js that is new enough for what it uses.

import { spawn } from 'node:child_process';
import path from 'node:path';

import { repository } from '../../api/lib/daemon.mjs';

export const folderOf = (name) => path.join(repository, 'examples', name);

// {code, stdout, stderr}
export async function run(program, args, { cwd, env = {} } = {}) {
	const child = spawn(program, args, { cwd, stdio: ['ignore', 'pipe', 'pipe'], env: { PATH: process.env.PATH, HOME: process.env.HOME, ...env } });
	const texts = { stdout: '', stderr: '' };

	for (const name of ['stdout', 'stderr'])
		child[name].setEncoding('utf8').on('data', (text) => (texts[name] += text));
	const code = await new Promise((resolve, reject) => {
		child.once('error', reject);
		child.once('close', (status, signal) => resolve(signal ?? status));
	});

	return { code, ...texts };
}

export const runExample = (name, args, env) =>
	run(path.join(repository, 'scripts/node'), args, { cwd: folderOf(name), env: { SKERRY_NODE_MINIMUM: '22', ...env } });
