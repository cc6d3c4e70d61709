// What the skerry program shows on a terminal and what it shows in a pipe: colours, widths, progress. The
// server is a scripted one, so that it answers as slowly, and with names as long, as it takes.

import assert from 'node:assert/strict';
import fs from 'node:fs';
import http from 'node:http';
import os from 'node:os';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';

import { runSkerry, startInTerminal } from './lib/cli.mjs';

const SLOW_MS = 2500;
const LONG_NAME = 'a-name-that-is-much-longer-than-anybody-would-choose-for-one-sandbox';
const COMMAND = 'find / -xdev -type f -newer /etc/passwd -print0 | xargs -0 sha256sum | sort > /tmp/sums';
const now = new Date();
const sandbox = {
	id: 'sbx_0123456789ab', name: LONG_NAME, status: 'running', size: 'small', vcpus: 1, memory_mb: 1024, disk_gb: 10,
	image: 'base', isolation: 'kvm', created_at: now.toISOString(), expires_at: new Date(now.getTime() + 900_000).toISOString(),
};
const work = fs.mkdtempSync(path.join(os.tmpdir(), 'skerry-cli-terminal-'));
let server, daemon;

const answers = {
	'GET /v1/sandboxes': { items: [sandbox], next_cursor: null },
	[`GET /v1/sandboxes/${sandbox.id}/exec`]: {
		items: [{ exec_id: 'exec_0123456789abcdef', command: COMMAND, started_at: now.toISOString(), running: true, duration_ms: 1200 }],
		next_cursor: null,
	},
	'POST /v1/sandboxes': sandbox,
	[`POST /v1/sandboxes/${sandbox.id}/pause`]: sandbox,
	[`POST /v1/sandboxes/${sandbox.id}/resume`]: sandbox,
	[`POST /v1/sandboxes/${sandbox.id}/fork`]: { sandboxes: [sandbox], fork_report: {} },
	[`POST /v1/sandboxes/${sandbox.id}/snapshots`]: { name: 'ready', size_bytes: 1 << 20 },
	[`PUT /v1/sandboxes/${sandbox.id}/files`]: { path: '/home/sandbox/file' },
};

function answer(req, res) {
	const found = answers[`${req.method} ${req.url.split('?')[0]}`];
	const status = found ? 200 : 404;
	const body = JSON.stringify(found ?? { status, code: 'file_not_found', title: 'Not found', detail: `there is no ${req.url}` });

	req.resume();
	req.on('end', () => setTimeout(() => {
		res.writeHead(status, { 'Content-Type': 'application/json' });
		res.end(body);
	}, req.method === 'GET' ? 0 : SLOW_MS));
}

before(async () => {
	server = http.createServer(answer);
	await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
	daemon = { url: `http://127.0.0.1:${server.address().port}`, key: `sk_${'k'.repeat(40)}` };
});
after(() => {
	server?.closeAllConnections();
	server?.close();
	fs.rmSync(work, { recursive: true, force: true });
});

// What the program wrote to its terminal, between what the shell around it says; and its exit code.
async function inTerminal(args, options) {
	const terminal = startInTerminal(daemon, args, options);
	const code = await terminal.ended;
	const text = Buffer.from(terminal.text, 'latin1').toString();

	return { code, text: text.replace(/^on \/dev\/pts\/\d+ \[.*\]\r\n/, '').replace(/back \[.*\]\r\n$/, '') };
}

const plain = (text) => text.replaceAll(/\u001b\[[0-9;]*[A-Za-z]/g, '');
const lines = (text) => plain(text).split(/\r?\n/).filter(Boolean);

describe('tables', () => {
	for (const [what, args, long] of [['ls', ['ls'], LONG_NAME], ['exec --list', ['exec', sandbox.id, '--list'], COMMAND]])
		test(`${what} fits the terminal, and is whole in a pipe`, async () => {
			for (const cols of [64, 100, 132]) {
				const { code, text } = await inTerminal(args, { cols });

				assert.equal(code, 0, text);
				assert.equal(lines(text).length, 2, text);
				for (const line of lines(text))
					assert.ok([...line].length <= cols, `${[...line].length} of ${cols}: ${line}`);
				assert.equal(lines(text)[1].includes('…'), !lines(text)[1].includes(long), text);
			}
			assert.match(plain((await inTerminal(args, { cols: 64 })).text), /…/);
			assert.ok((await inTerminal(args, { cols: 300 })).text.includes(long));
			assert.ok((await runSkerry(daemon, args)).out.includes(long));
		});

	test('ids are never cut', async () => {
		const { text } = await inTerminal(['ls'], { cols: 20 });

		assert.ok(plain(text).includes(sandbox.id), text);
	});
});

describe('colours', () => {
	const colour = /\u001b\[\d+m/;
	const cases = [
		{ what: 'on a terminal', coloured: true },
		{ what: 'not when NO_COLOR is set', env: { NO_COLOR: '1' }, coloured: false },
		{ what: 'when NO_COLOR is empty', env: { NO_COLOR: '' }, coloured: true },
		{ what: 'not on a dumb terminal', env: { TERM: 'dumb' }, coloured: false },
		{ what: 'not with --color=never', args: ['--color=never'], coloured: false },
		{ what: 'with --color=always, whatever NO_COLOR says', args: ['--color', 'always'], env: { NO_COLOR: '1' }, coloured: true },
		{ what: 'as SKERRY_COLOR says', env: { SKERRY_COLOR: 'never' }, coloured: false },
		{ what: 'as --color says rather than SKERRY_COLOR', args: ['--color=always'], env: { SKERRY_COLOR: 'never' }, coloured: true },
	];

	for (const { what, args = [], env, coloured } of cases)
		test(what, async () => {
			for (const command of [['ls'], ['help', 'ls'], ['get', 'nobody']]) {
				const { text } = await inTerminal([...command, ...args], { env });

				assert.equal(colour.test(text), coloured, JSON.stringify(text));
			}
		});

	test('in a pipe only with --color=always', async () => {
		assert.doesNotMatch((await runSkerry(daemon, ['ls'])).out, colour);
		assert.match((await runSkerry(daemon, ['ls', '--color=always'])).out, colour);
		assert.doesNotMatch((await runSkerry(daemon, ['get', 'nobody'])).err, colour);
		assert.match((await runSkerry(daemon, ['get', 'nobody', '--color=always'])).err, colour);
		const wrong = await runSkerry(daemon, ['ls', '--color=sometimes']);

		assert.equal(wrong.code, 2);
		assert.match(wrong.err, /auto, always, never/);
	});
});

describe('progress', { concurrency: true }, () => {
	const file = path.join(work, 'file');

	before(() => fs.writeFileSync(file, 'x'.repeat(100_000)));
	const cases = [
		{ args: ['create'], shown: /creating/ },
		{ args: ['pause', sandbox.id], shown: /saving/ },
		{ args: ['resume', sandbox.id], shown: /restoring/ },
		{ args: ['fork', sandbox.id], shown: /copying/ },
		{ args: ['snapshot', 'create', sandbox.id, 'ready'], shown: /saving its state/ },
		{ args: ['cp', file, `${sandbox.id}:file`], shown: /sending/ },
	];

	for (const { args, shown } of cases)
		test(`${args[0]}: a line on a terminal that goes away, nothing in a pipe`, async () => {
			const [{ code, text }, piped] = await Promise.all([inTerminal(args, { cols: 50 }), runSkerry(daemon, args)]);
			const drawn = text.split('\r\u001b[K').slice(1);

			assert.equal(code, 0, text);
			assert.equal(piped.code, 0, piped.err);
			assert.ok(drawn.length > 3, JSON.stringify(text));
			assert.match(drawn[0], shown);
			// One that was as wide as the terminal would scroll instead of being overwritten.
			for (const line of drawn.slice(0, -1))
				assert.ok([...line].length < 50, line);
			assert.doesNotMatch(drawn.at(-1), shown);
			assert.doesNotMatch(piped.out + piped.err, /\r|\u001b/);
			assert.doesNotMatch(piped.err, shown);
		});

	test('none with --quiet', async () => {
		const { text } = await inTerminal(['create', '--quiet']);

		assert.equal(text, `${sandbox.id}\r\n`);
	});
});
