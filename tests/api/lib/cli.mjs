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

// The program in a terminal of its own, made by script(1): {send, find, text, pts, ended}. A shell around it
// prints the terminal's settings before and after, and passes the exit code on.
export function startInTerminal(daemon, args, { cols = 80, rows = 24, env = {} } = {}) {
	const quoted = [skerryPath, ...args].map((word) => `'${word.replaceAll("'", "'\\''")}'`).join(' ');
	const around = `stty cols ${cols} rows ${rows}; echo "on $(tty) [$(stty -g)]"; ${quoted}; code=$?; ` +
		'echo "back [$(stty -g)]"; exit $code';
	const child = spawn('script', ['--quiet', '--return', '--flush', '--command', around, '/dev/null'], {
		stdio: ['pipe', 'pipe', 'inherit'],
		env: {
			PATH: process.env.PATH, SHELL: '/bin/sh', TERM: 'xterm',
			SKERRY_URL: daemon.url, SKERRY_API_KEY: daemon.key,
			...env,
		},
	});
	const terminal = { child, text: '', seen: 0 };
	const waiting = new Set();
	const wake = () => waiting.forEach((fn) => fn());

	child.stdout.on('data', (bytes) => {
		terminal.text += bytes.toString('latin1');
		wake();
	});
	child.stdin.on('error', () => {});
	terminal.ended = new Promise((resolve) => child.once('close', (code) => {
		terminal.over = true;
		wake();
		resolve(code);
	}));
	terminal.send = (keys) => child.stdin.write(keys);
	// Text that matches, looked for behind what was found before.
	terminal.find = async (pattern) => {
		for (const deadline = Date.now() + 120_000; ;) {
			const match = terminal.text.slice(terminal.seen).match(pattern);

			if (match) {
				terminal.seen += match.index + match[0].length;
				return match;
			}
			if (terminal.over || Date.now() > deadline)
				throw new Error(`no ${pattern} in ${JSON.stringify(terminal.text.slice(-600))}`);
			await new Promise((resolve) => {
				const done = () => {
					clearTimeout(timer);
					waiting.delete(done);
					resolve();
				};
				const timer = setTimeout(done, 1000);

				waiting.add(done);
			});
		}
	};
	// Whether the terminal's settings were put back.
	terminal.putBack = () => {
		const [, before] = terminal.text.match(/on \/dev\/pts\/\d+ \[(.*)\]/);

		return terminal.text.includes(`back [${before}]`);
	};
	return terminal;
}
