// Against a real daemon and a real sandbox: tests/sdk/with-daemon.mjs says where it is.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import net from 'node:net';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { CommandError, NotFoundError, SandboxEndedError, Skerry } from '../dist/index.js';

const { SKERRY_URL: url, SKERRY_API_KEY: key } = process.env;
const skip = url ? false : 'no SKERRY_URL: run it by tests/run --suite sdk';
const folder = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '..');

describe('a real daemon', { skip, timeout: 10 * 60_000 }, () => {
	const client = new Skerry();
	const cleanup = [];
	let sandbox;

	before(async () => {
		sandbox = await client.create({ timeout_minutes: 30, labels: { suite: 'typescript' } });
	});
	after(async () => {
		await sandbox?.destroy();
		cleanup.forEach((fn) => fn());
	});

	test('the types are what its document makes of them', async () => {
		const { check } = await import('../../generate.mjs');
		const document = await (await fetch(new URL('/openapi.json', url))).json();

		assert.deepEqual(check(document), [], 'run sdk/generate');
	});

	test('commands: output as it comes, input, exit codes, bytes', async () => {
		const seen = [];
		const result = await sandbox.exec('echo one; sleep 0.3; echo two; echo oh >&2; cat; exit 3', {
			stdin: 'three\n', env: { A: 'b' }, onStdout: (text) => seen.push(text),
		});

		assert.deepEqual([result.stdout, result.stderr, result.exit_code], ['one\ntwo\nthree\n', 'oh\n', 3]);
		assert.equal(seen.join(''), result.stdout);
		assert.ok(seen.length > 1);
		const bytes = Uint8Array.from({ length: 256 }, (_, i) => i);

		assert.deepEqual((await sandbox.exec('cat', { stdin: bytes })).stdout_raw, bytes);
		await assert.rejects(sandbox.exec('echo no >&2; false', { check: true }), CommandError);
		await assert.rejects(sandbox.exec('true', { cwd: '/nowhere' }), { code: 'cwd_not_found', status: 422 });
		assert.equal((await sandbox.exec('sleep 100', { timeout_ms: 300 })).timed_out, true);
	});

	// Between client and daemon, what cuts connections after so many bytes of answer.
	async function cutter(bytes) {
		const { hostname, port } = new URL(url);
		let cuts = 0;
		const server = net.createServer((near) => {
			const far = net.connect(Number(port), hostname);
			let passed = 0;

			near.on('error', () => {}).on('close', () => far.destroy());
			far.on('error', () => {}).on('close', () => near.destroy());
			near.pipe(far);
			far.on('data', (chunk) => {
				near.write(chunk);
				passed += chunk.length;
				if (passed > bytes) {
					cuts++;
					far.destroy();
				}
			});
		});

		await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
		cleanup.push(() => server.close());
		return { url: `http://127.0.0.1:${server.address().port}`, cuts: () => cuts };
	}

	test('a connection that is cut again and again: nothing is lost, nothing is doubled', async () => {
		const proxy = await cutter(20_000);
		const through = await new Skerry({ url: proxy.url }).attach(sandbox.id);
		const { stdout, stderr } = await through.exec('for i in $(seq 20); do seq $i 20 2000 | tee /dev/stderr; sleep 0.05; done');
		const lines = Array.from({ length: 20 }, (_, i) => Array.from({ length: Math.floor((2000 - (i + 1)) / 20) + 1 }, (_, j) => i + 1 + j * 20)).flat();

		assert.equal(stdout, lines.map((n) => `${n}\n`).join(''));
		assert.equal(stderr, stdout);
		assert.ok(proxy.cuts() > 0);
	});

	test('a handle: input, signals, output from an offset, how it stands', async () => {
		const cat = await sandbox.start('cat; echo end', { stdin_open: true });

		await cat.write('hello ');
		await cat.write('world\n');
		assert.equal((await cat.poll()).running, true);
		await cat.closeStdin();
		assert.equal((await cat.wait()).stdout, 'hello world\nend\n');
		const chunks = [];

		for await (const { text } of sandbox.command(cat.execId).output({ stdout: 6 }))
			chunks.push(text);
		assert.equal(chunks.join(''), 'world\nend\n');
		const sleeper = await sandbox.start('sleep 1000');

		await sleeper.kill();
		assert.equal((await sleeper.wait()).signal, 'SIGKILL');
		assert.equal((await sandbox.commands()).find(({ exec_id }) => exec_id === sleeper.execId).command, 'sleep 1000');
		assert.equal((await sleeper.poll({ wait_ms: 1000 })).exit_code, 137);
	});

	test('files and trees', async () => {
		const { files } = sandbox;
		const bytes = Uint8Array.from({ length: 300_000 }, (_, i) => (i * 7) & 255);

		await files.mkdir('d/e', { parents: true });
		const entry = await files.write('d/e/f', new Blob([bytes]).stream(), { mode: '0600' });

		assert.deepEqual([entry.size, entry.mode, entry.type], [300_000, '0600', 'file']);
		assert.deepEqual(await files.read('d/e/f'), bytes);
		const part = await new Response(await files.stream('d/e/f', { start: 1000, end: 1010 })).arrayBuffer();

		assert.deepEqual(new Uint8Array(part), bytes.slice(1000, 1010));
		await files.move('d/e/f', 'd/g');
		assert.deepEqual((await files.list('d')).map(({ name, type }) => [name, type]), [['e', 'directory'], ['g', 'file']]);
		assert.equal(await files.exists('d/e/f'), false);
		await assert.rejects(files.read('d/e/f'), NotFoundError);
		await assert.rejects(files.write('d/g', 'x', { overwrite: false }), { code: 'file_exists' });
		assert.equal((await files.writeTree('copy', await files.readTree('d'), { parents: true })).bytes, 300_000);
		assert.deepEqual(await files.read('copy/g'), bytes);
		await files.remove('copy', { recursive: true });
		assert.equal((await files.stat('d/g')).size, 300_000);
	});

	test('a terminal, joined again where it was', async () => {
		const terminal = await sandbox.terminal({ cols: 90, rows: 20, command: 'stty size; cat' });
		const read = async (one, pattern) => {
			let text = '';

			for await (const bytes of one)
				if (pattern.test(text += new TextDecoder().decode(bytes)))
					return text;
			throw new Error(`it ended after ${text}`);
		};

		await read(terminal, /20 90\r\n/);
		terminal.write('hello\n');
		await read(terminal, /hello\r\nhello\r\n/);
		assert.equal((await sandbox.terminals())[0].terminal_id, terminal.id);
		const at = terminal.offset;

		await terminal.leave();
		const again = await sandbox.terminal({ terminal_id: terminal.id, from_offset: at });

		again.write('again\n\x04');
		assert.match(await read(again, /again\r\nagain\r\n/), /^again/);
		assert.equal((await again.exited).exit_code, 0);
		await assert.rejects(sandbox.terminal({ terminal_id: 'term_0000000000000000' }), { code: 'terminal_not_found', status: 404 });
	});

	test('pause, resume, fork, snapshot; and the events of it', async () => {
		const seen = [];
		const stop = new AbortController();
		const following = (async () => {
			for await (const event of client.events({ cursor: 0, signal: stop.signal })) {
				seen.push(event);
				if (event.type === 'sandbox_forked')
					return;
			}
		})();

		await sandbox.exec('echo kept >state');
		assert.equal((await sandbox.pause()).status, 'paused');
		assert.equal((await sandbox.exec('cat state')).stdout, 'kept\n'); // resumes it
		const { sandboxes, report } = await sandbox.fork({ count: 2, name: 'child' });

		assert.ok(report.distinct.includes('clock'));
		for (const child of sandboxes) {
			assert.equal(child.info.parent_id, sandbox.id);
			assert.equal((await child.exec('cat state')).stdout, 'kept\n');
		}
		await Promise.all(sandboxes.map((child) => child[Symbol.asyncDispose]()));
		await assert.rejects(sandboxes[0].exec('true'), SandboxEndedError);
		await following;
		const own = seen.filter((event) => event.sandbox_id === sandbox.id).map(({ type }) => type);

		for (const type of ['sandbox_created', 'sandbox_running', 'exec_started', 'sandbox_paused', 'sandbox_resumed', 'sandbox_forked'])
			assert.ok(own.includes(type), `${type} in ${own}`);
		assert.equal((await sandbox.snapshot('kept')).source_id, sandbox.id);
		assert.deepEqual((await client.snapshots()).map(({ name }) => name), ['kept']);
		await client.removeSnapshot('kept');
	});

	test('the account: lists, limits, networks, typed refusals', async () => {
		const found = [];

		for await (const one of client.sandboxes({ label: 'suite=typescript' }))
			found.push(one.id);
		assert.ok(found.includes(sandbox.id));
		assert.ok((await client.images()).some(({ name }) => name === 'base'));
		assert.ok(Object.keys(await client.limits()).length > 0);
		assert.ok((await client.prices()).sizes.some(({ name }) => name === 'small'));
		assert.equal(typeof (await client.usage({ days: 1 })).balance_microcredits, 'number');
		assert.equal((await sandbox.stats()).id, sandbox.id);
		await client.createNetwork('sdk-typescript');
		assert.deepEqual((await client.networks()).map(({ members }) => members), [[]]);
		await client.removeNetwork('sdk-typescript');
		assert.deepEqual(await sandbox.denials(), []);
		const { expires_at } = await sandbox.refresh();

		assert.ok(Date.parse(await sandbox.extend(1)) > Date.parse(expires_at));
		await assert.rejects(client.attach('sbx_000000000000'), NotFoundError);
		await assert.rejects(new Skerry({ key: 'sk_wrong' }).limits(), { name: 'DeniedError', code: 'invalid_key' });
		await assert.rejects(client.call('get_sandbox', { id: '../limits' }), NotFoundError);
		const [first, second] = await Promise.all([1, 2].map(() => client.create({ idempotencyKey: 'once', timeout_minutes: 5 })));

		assert.equal(first.id, second.id);
		await first.destroy();
	});

	for (const name of ['quick', 'parallel'])
		test(`the example ${name} runs`, async () => {
			const child = spawn(process.execPath, [path.join(folder, 'test/build/examples', `${name}.js`)], { stdio: ['ignore', 'pipe', 'inherit'] });
			let text = '';

			for await (const chunk of child.stdout)
				text += chunk;
			assert.equal(child.exitCode ?? await new Promise((resolve) => child.once('exit', resolve)), 0);
			assert.match(text, name === 'quick' ? /42/ : /candidate/);
		});
});
