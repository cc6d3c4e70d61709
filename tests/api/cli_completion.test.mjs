// Completion in the shells themselves: each loads its script and is asked as its line editor asks. Names of
// what there is come from a scripted server, which also counts on being asked for nothing else.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import fs from 'node:fs';
import http from 'node:http';
import os from 'node:os';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { promisify } from 'node:util';

import { runSkerry } from './lib/cli.mjs';
import { build } from './lib/daemon.mjs';

const run = promisify(execFile);
const work = fs.mkdtempSync(path.join(os.tmpdir(), 'skerry-completion-'));
const lists = {
	'/v1/sandboxes': [{ id: 'sbx_0123456789ab', name: 'main' }, { id: 'sbx_ba9876543210', name: null }],
	'/v1/images': [{ name: 'base' }, { name: 'dev' }],
	'/v1/snapshots': [{ name: 'ready' }],
	'/v1/networks': [{ name: 'team' }],
	'/v1/keys': [{ id: 'key_0123456789abcdef' }],
	'/v1/accounts': [{ id: 'acc_0123456789abcdef' }],
};
let server, env;

before(async () => {
	server = http.createServer((req, res) => {
		const items = lists[req.url.split('?')[0]];

		res.writeHead(items ? 200 : 404, { 'Content-Type': 'application/json' });
		res.end(JSON.stringify(items ? { items, next_cursor: null } : { code: 'not_found' }));
	});
	await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
	env = {
		PATH: `${build}:${process.env.PATH}`, HOME: work, SKERRY_API_KEY: 'sk_test',
		SKERRY_URL: `http://127.0.0.1:${server.address().port}`,
	};
	for (const shell of ['bash', 'zsh', 'fish'])
		fs.writeFileSync(path.join(work, shell), (await runSkerry(undefined, ['completion', shell])).out);
	fs.mkdirSync(path.join(work, 'functions'));
	fs.copyFileSync(path.join(work, 'zsh'), path.join(work, 'functions', '_skerry'));
});
after(() => {
	server?.close();
	fs.rmSync(work, { recursive: true, force: true });
});

const answer = async (program, args) => (await run(program, args, { env, cwd: work })).stdout.split('\n').filter(Boolean);

// What each shell offers for the last word; files and descriptions apart.
const shells = {
	bash: (...words) => answer('bash', ['-c', `
		set -eu
		source ./bash
		COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _skerry; printf '%s\\n' "\${COMPREPLY[@]:-}"`, 'bash', ...words]),
	// The line editor needs a terminal: its words and its ways to answer are stood in for.
	zsh: async (...words) => {
		const offered = await answer('zsh', ['-fc', `
			compadd() { shift; print -rl -- "$@" }
			_files() { }
			compdef() { }
			source ./zsh
			words=("$@"); CURRENT=$#; _skerry`, 'zsh', ...words]);

		return offered.filter((word) => word.startsWith(words.at(-1)));
	},
	fish: async (...words) => (await answer('fish', ['--no-config', '-c', `
		source ./fish
		complete --do-complete "$argv"`, words.join(' ')])).map((line) => line.split('\t')[0]),
};

const cases = [
	{ words: ['cr'], offered: ['create'] },
	{ words: ['image', 'b'], offered: ['build'] },
	{ words: ['mcp', 'conf'], offered: ['config'] },
	{ words: ['mcp', 'config', '--client', 'co'], offered: ['codex'] },
	{ words: ['create', '--timeo'], offered: ['--timeout'] },
	{ words: ['create', '--idem'], offered: ['--idempotency-key'] },
	{ words: ['ls', '--status', 'pau'], offered: ['paused', 'pausing'] },
	{ words: ['ls', '--color', 'al'], offered: ['always'] },
	{ words: ['get', 'sbx_'], offered: ['sbx_0123456789ab', 'sbx_ba9876543210'] },
	{ words: ['exec', 'mai'], offered: ['main'] },
	{ words: ['cp', 'mai'], offered: ['main:'] },
	{ words: ['create', '--image', 'de'], offered: ['dev'] },
	{ words: ['create', '--snapshot', 're'], offered: ['ready'] },
	{ words: ['snapshot', 'rm', 're'], offered: ['ready'] },
	{ words: ['create', '--network', 'te'], offered: ['team'] },
	{ words: ['network', 'rm', 'te'], offered: ['team'] },
	{ words: ['key', 'rm', 'key_'], offered: ['key_0123456789abcdef'] },
	{ words: ['account', 'grant', 'acc_'], offered: ['acc_0123456789abcdef'] },
	{ words: ['help', 'doc'], offered: ['doctor'] },
];

for (const [shell, complete] of Object.entries(shells))
	describe(shell, () => {
		for (const { words, offered } of cases)
			test(`skerry ${words.join(' ')}`, async () => {
				assert.deepEqual((await complete('skerry', ...words)).sort(), offered);
			});
	});

describe('a command line of its own', () => {
	test('is not ours to complete', async () => {
		assert.deepEqual(await shells.bash('skerry', 'exec', 'main', '--', 'l'), []);
		assert.deepEqual(await shells.zsh('skerry', 'exec', 'main', '--', 'l'), []);
	});
});

describe('without a server', () => {
	test('nothing is offered, and nothing is said', async () => {
		const silent = await run('bash', ['-c', 'source ./bash; COMP_WORDS=(skerry get x); COMP_CWORD=2; _skerry; echo "${#COMPREPLY[@]}"'],
			{ env: { ...env, SKERRY_URL: 'http://127.0.0.1:1' }, cwd: work });

		assert.deepEqual([silent.stdout, silent.stderr], ['0\n', '']);
	});
});

describe('installed', () => {
	test('zsh finds it in $fpath', async () => {
		const [found] = await answer('zsh', ['-fc', `
			fpath=(./functions $fpath)
			autoload -Uz compinit && compinit -u -d ./dump
			print -r -- $_comps[skerry]`]);

		assert.equal(found, '_skerry');
	});
});
