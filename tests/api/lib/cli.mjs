// The skerry program, run against a test's daemon.

import { spawn } from 'node:child_process';
import path from 'node:path';

import { build } from './daemon.mjs';

export const skerryPath = path.join(build, 'skerry');

// Starts it; stdout and stderr are gathered as bytes. {child, ended} where ended gives
// {code, signal, stdout, stderr, out, err}: Buffers, and as text.
export function startSkerry(daemon, args, { env = {}, input, stdin = 'ignore' } = {}) {
	const child = spawn(skerryPath, args, {
		stdio: [input === undefined ? stdin : 'pipe', 'pipe', 'pipe'],
		env: {
			PATH: process.env.PATH,
			...(daemon && { SKERRY_URL: daemon.url, SKERRY_API_KEY: daemon.key }),
			...env,
		},
	});
	const stdout = [], stderr = [];

	child.stdout.on('data', (bytes) => stdout.push(bytes));
	child.stderr.on('data', (bytes) => stderr.push(bytes));
	if (input !== undefined) {
		child.stdin.on('error', () => {}); // a command that does not read all of it
		child.stdin.end(input);
	}
	const ended = new Promise((resolve, reject) => {
		child.once('error', reject);
		child.once('close', (code, signal) => {
			const out = Buffer.concat(stdout), err = Buffer.concat(stderr);

			resolve({ code, signal, stdout: out, stderr: err, out: out.toString(), err: err.toString() });
		});
	});

	return { child, ended, soFar: () => Buffer.concat(stdout).toString() };
}

export const runSkerry = (daemon, args, options) => startSkerry(daemon, args, options).ended;
