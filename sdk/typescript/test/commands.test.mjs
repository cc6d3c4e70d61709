// Commands over connections that break: nothing is lost, nothing is doubled.

import assert from 'node:assert/strict';
import { after, describe, test } from 'node:test';

import { CommandError, ConnectionError, ProtocolError, SandboxEndedError } from '../dist/index.js';
import { closeAll, event, exit, json, problem, sandboxOn, stream } from './lib/scripted.mjs';

after(closeAll);

const started = event('started', { exec_id: 'exec_1' });
const out = (offset, data) => event('stdout', { offset, data });
const err = (offset, data) => event('stderr', { offset, data });
const base64 = (offset, bytes) => event('stdout', { offset, data_base64: Buffer.from(bytes).toString('base64') });

describe('exec', () => {
	test('tells of output as it comes, and collects it', async () => {
		const { sandbox, asked } = await sandboxOn((req, res) => stream(res, started, ': heartbeat\n\n', out(0, 'one\n'),
			err(0, 'oh\n'), out(4, '😀\n'), exit({ exit_code: 3, stdout_bytes: 9, stderr_bytes: 3 })));
		const seen = [];
		const result = await sandbox.exec('work', {
			env: { A: 'b' }, stdin: 'in', timeout_ms: 1000,
			onStdout: (text, { offset }) => seen.push(['out', offset, text]), onStderr: (text) => seen.push(['err', text]),
		});

		assert.deepEqual(seen, [['out', 0, 'one\n'], ['err', 'oh\n'], ['out', 4, '😀\n']]);
		assert.equal(result.stdout, 'one\n😀\n');
		assert.equal(result.stderr, 'oh\n');
		assert.deepEqual([result.exit_code, result.exec_id, result.truncated], [3, 'exec_1', false]);
		assert.deepEqual(asked()[0].body, { command: 'work', env: { A: 'b' }, stdin: 'in', timeout_ms: 1000 });
		assert.equal(asked()[0].headers.accept, 'text/event-stream');
	});

	test('bytes that are no text', async () => {
		const { sandbox, asked } = await sandboxOn((req, res) => stream(res, started, base64(0, [0xff, 0, 0xfe]), out(3, 'a'), exit()));
		const result = await sandbox.exec('work', { stdin: Uint8Array.of(0, 255) });

		assert.deepEqual([...result.stdout_raw], [0xff, 0, 0xfe, 97]);
		assert.equal(result.stdout, '\ufffd\0\ufffda');
		assert.deepEqual(asked()[0].body, { command: 'work', stdin_base64: 'AP8=' });
	});

	test('goes on where the connection was lost, and takes no byte twice', async () => {
		const { sandbox, asked } = await sandboxOn((req, res, n) => {
			if (n === 0)
				return stream(res, started, out(0, 'one '), err(0, 'warning\n'), out(4, 'two '), 'cut');
			if (n === 1)
				return stream(res, 'event: started\ndata: {"exec_', 'cut'); // before anything new
			if (n === 2)
				return problem(res, 503, 'shutting_down', { retryAfter: 1 });
			if (n === 3) // some of it again, and the end of the other stream
				return stream(res, started, out(4, 'two three '), err(0, 'warning\nmore\n'), out(14, 'four'), 'cut');
			return stream(res, started, out(18, ' five'), exit({ stdout_bytes: 23 }));
		});
		const seen = [];
		const result = await sandbox.exec('work', { onStdout: (text) => seen.push(text) });

		assert.equal(result.stdout, 'one two three four five');
		assert.equal(result.stderr, 'warning\nmore\n');
		assert.deepEqual(seen, ['one ', 'two ', 'three ', 'four', ' five']);
		assert.equal(asked().length, 5);
		assert.ok(asked().slice(1).every(({ method, path }) => `${method} ${path}` === 'GET /v1/sandboxes/sbx_1/exec/exec_1'));
		assert.deepEqual(asked()[1].query, { from_offset: '8', from_stderr_offset: '8' });
		assert.deepEqual(asked()[4].query, { from_offset: '18', from_stderr_offset: '13' });
	});

	test('a connection that ends without an exit is a lost one', async () => {
		const { sandbox, asked } = await sandboxOn((req, res, n) =>
			n === 0 ? stream(res, started, out(0, 'a')) : stream(res, started, out(1, 'b'), exit()));

		assert.equal((await sandbox.exec('work')).stdout, 'ab');
		assert.equal(asked().length, 2);
	});

	test('so is one that is silent', async () => {
		const { sandbox, asked } = await sandboxOn((req, res, n) =>
			n === 0 ? stream(res, started, out(0, 'a'), 'hold') : stream(res, started, out(1, 'b'), exit()), { silenceMs: 150 });

		assert.equal((await sandbox.exec('work')).stdout, 'ab');
		assert.equal(asked().length, 2);
	});

	test('one that is lost before the command has an id is an error that says so', async () => {
		const { sandbox, asked } = await sandboxOn((req, res) => stream(res, 'event: sta', 'cut'));

		await assert.rejects(sandbox.exec('work'), (error) => {
			assert.ok(error instanceof ConnectionError);
			assert.match(error.message, /may have been started/);
			assert.equal(error.execId, undefined);
			return true;
		});
		assert.equal(asked().length, 1);
	});

	test('after a while it is given up, with the id', async () => {
		const { sandbox } = await sandboxOn((req, res, n) => (n === 0 ? stream(res, started, 'cut') : res.destroy()), { reconnectMs: 300 });

		await assert.rejects(sandbox.exec('work'), (error) => {
			assert.ok(error instanceof ConnectionError);
			assert.equal(error.execId, 'exec_1');
			return true;
		});
	});

	test('an answer that is final ends it', async () => {
		const { sandbox, asked } = await sandboxOn((req, res, n) =>
			n === 0 ? stream(res, started, 'cut') : problem(res, 404, 'exec_not_found'));

		await assert.rejects(sandbox.exec('work'), { code: 'exec_not_found' });
		assert.equal(asked().length, 2);
	});

	test('the end of the sandbox is an error', async () => {
		const { sandbox, asked } = await sandboxOn((req, res) =>
			stream(res, started, event('error', { status: 410, code: 'sandbox_ended', detail: 'it has ended: expired' })));

		await assert.rejects(sandbox.exec('work'), (error) => error instanceof SandboxEndedError && /expired/.test(error.message));
		assert.equal(asked().length, 1);
	});

	for (const [what, text] of [
		['no JSON', 'event: stdout\ndata: {"offset"\n\n'], ['no object', 'event: stdout\ndata: 7\n\n'],
		['no offset', event('stdout', { data: 'a' })], ['an offset that is none', event('stdout', { offset: -1, data: 'a' })],
		['no bytes', event('stdout', { offset: 0 })], ['no base64', event('stdout', { offset: 0, data_base64: '*' })],
	])
		test(`an event with ${what} is no reason to ask again`, async () => {
			const { sandbox, asked } = await sandboxOn((req, res) => stream(res, started, text, exit()));

			await assert.rejects(sandbox.exec('work'), ProtocolError);
			assert.equal(asked().length, 1);
		});

	test('what is no longer kept is told', async () => {
		const { sandbox } = await sandboxOn((req, res) => stream(res, started, out(0, 'head'),
			event('gap', { stream: 'stdout', from: 4, to: 1004 }), out(1004, 'tail'), exit({ stdout_bytes: 1008 })));
		const gaps = [];
		const result = await sandbox.exec('work', { onGap: (gap) => gaps.push(gap) });

		assert.deepEqual(gaps, [{ stream: 'stdout', from: 4, to: 1004 }]);
		assert.equal(result.truncated, true);
		assert.match(result.stdout, /^head\n… 1000 bytes were left out …\ntail$/);
	});

	test('more than is kept loses its middle, between characters', async () => {
		const pieces = Array.from({ length: 300 }, (_, i) => out(i * 4, '😀'));
		const { sandbox } = await sandboxOn((req, res) => stream(res, started, pieces.join(''), exit({ stdout_bytes: 1200 })));
		const { stdout, stdout_raw, truncated } = await sandbox.exec('work', { max_output_bytes: 101 });

		assert.equal(truncated, true);
		assert.equal(stdout_raw.length, 101);
		assert.equal(stdout, `${'😀'.repeat(12)}\n… 1099 bytes were left out …\n${'😀'.repeat(12)}`);
	});

	test('check makes an error of an exit code', async () => {
		const { sandbox } = await sandboxOn((req, res) => stream(res, started, err(0, 'a\nno such file\n'), exit({ exit_code: 2 })));

		await assert.rejects(sandbox.exec('work', { check: true }), (error) => {
			assert.ok(error instanceof CommandError);
			assert.equal(error.message, 'the command ended with exit code 2: no such file');
			assert.equal(error.result.exit_code, 2);
			return true;
		});
	});

	test('the caller can leave; the command is not stopped', async () => {
		const stop = new AbortController();
		const { sandbox, asked } = await sandboxOn((req, res) => stream(res, started, out(0, 'a'), 'hold'));

		await assert.rejects(sandbox.exec('work', { signal: stop.signal, onStdout: () => stop.abort() }), { name: 'AbortError' });
		assert.equal(asked().length, 1);
	});
});

describe('a handle', () => {
	const begin = (answer) => sandboxOn((req, res, n) => (n === 0 ? json(res, 200, { exec_id: 'exec_1', running: true }) : answer(req, res, n - 1)));

	test('starts in the background, and waits for all of the output', async () => {
		const { sandbox, asked } = await begin((req, res, n) => (n === 0 ? res.destroy() : stream(res, started, out(0, 'all'), exit())));
		const command = await sandbox.start('work', { user: 'root' });

		assert.deepEqual(asked()[0].body, { command: 'work', user: 'root', background: true });
		assert.equal((await command.wait()).stdout, 'all');
		assert.deepEqual(asked()[1].query, { from_offset: '0', from_stderr_offset: '0' });
	});

	test('its output from an offset on', async () => {
		const { sandbox, asked } = await begin((req, res) => stream(res, started, out(7, 'x'), err(2, 'y'), exit()));
		const chunks = [];

		for await (const { stream: name, offset, text } of (await sandbox.start('work')).output({ stdout: 7, stderr: 2 }))
			chunks.push([name, offset, text]);
		assert.deepEqual(chunks, [['stdout', 7, 'x'], ['stderr', 2, 'y']]);
		assert.deepEqual(asked()[1].query, { from_offset: '7', from_stderr_offset: '2' });
	});

	test('is fed as it reads, and signalled', async () => {
		const { sandbox, asked } = await begin((req, res, n) =>
			n === 1 ? problem(res, 503, 'input_full', { retryAfter: 1 }) : json(res, 200, { exec_id: 'exec_1', accepted_bytes: 1 }));
		const command = await sandbox.start('work', { stdin_open: true });
		const bytes = new Uint8Array(300_000).map((_, i) => i);

		await command.write(bytes);
		await command.closeStdin();
		await command.signal('SIGINT');
		await command.kill();
		const [first, again, second, close, int, kill] = asked().slice(1);
		const sent = (request) => Buffer.from(request.body.data_base64, 'base64');

		assert.deepEqual(first.body, { data_base64: first.body.data_base64 });
		assert.deepEqual(again.body, second.body);
		assert.ok(Buffer.concat([sent(first), sent(second)]).equals(Buffer.from(bytes)));
		assert.deepEqual([close.body, int.body, kill.body], [{ close: true }, { signal: 'SIGINT' }, { signal: 'SIGKILL' }]);
	});
});
