// The TypeScript SDK in Chromium: its modules as they are built, loaded by a page, which drives a real daemon
// with a real sandbox from the daemon's own origin. The page's policy allows scripts and connections of that
// origin and nothing else.

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';

import { startDaemon } from '../api/lib/daemon.mjs';
import { startApplication } from './lib/application.mjs';
import { startBrowser } from './lib/browser.mjs';

describe('the TypeScript SDK in a page', { timeout: 10 * 60_000 }, () => {
	let daemon, application, browser, page;
	// What runs in the page finds there: sdk, client, sandbox, and failure(), which says how a call was refused.
	const inPage = (fn, arg) => page.evaluate(fn, arg);

	async function openPage(server, options) {
		const opened = await browser.open({ url: server.url });

		await opened.goto(server.url);
		await opened.evaluate(async (given) => {
			window.sdk = await import('/skerry/index.js');
			window.client = new window.sdk.Skerry(given);
			window.failure = async (promise) => {
				try {
					return await promise;
				} catch (error) {
					return error instanceof window.sdk.ApiError ? `${error.name} ${error.code} ${error.status}` : error.name;
				}
			};
		}, options);
		return opened;
	}

	// The page's policy keeps playwright from waiting by a function of the page's own.
	async function shows(pattern) {
		let shown;

		for (const end = Date.now() + 90_000; !pattern.test(shown = await inPage(() => window.shown)); await sleep(50))
			assert.ok(Date.now() < end, `no ${pattern} in ${JSON.stringify(shown)}`);
	}

	before(async () => {
		daemon = await startDaemon({ config: { limits: { stream_heartbeat_ms: 1000 } } });
		await daemon.ensureImage('base');
		application = await startApplication(daemon);
		browser = await startBrowser();
		page = await openPage(application, { key: daemon.key });
	});
	after(async () => {
		await browser?.close();
		application?.close();
		await daemon?.stop();
	});

	test('makes a sandbox at its own origin, without being told a URL', async () => {
		const info = await inPage(async () => {
			window.sandbox = await client.create({ timeout_minutes: 20, labels: { suite: 'browser' } });
			return sandbox.info;
		});

		assert.equal(info.status, 'running');
		assert.deepEqual((await daemon.sandboxes()).map(({ id }) => id), [info.id]);
		page.check();
	});

	test('runs commands: output as it comes, input, bytes, exit codes', async () => {
		const { seen, result, bytes } = await inPage(async () => {
			const seen = [];
			const result = await sandbox.exec('echo one; sleep 0.3; echo two; echo oh >&2; cat; exit 3', {
				stdin: 'drei 🦭\n', onStdout: (text) => seen.push(text),
			});
			const all = Uint8Array.from({ length: 256 }, (_, i) => i);
			const { stdout_raw } = await sandbox.exec('cat', { stdin: all });

			return { seen, result: [result.stdout, result.stderr, result.exit_code], bytes: Array.from(stdout_raw) };
		});

		assert.deepEqual(result, ['one\ntwo\ndrei 🦭\n', 'oh\n', 3]);
		assert.equal(seen.join(''), result[0]);
		assert.ok(seen.length > 1, 'in more than one piece');
		assert.deepEqual(bytes, Array.from({ length: 256 }, (_, i) => i));
		page.check();
	});

	test('holds a command by its handle', async () => {
		const { text, signal } = await inPage(async () => {
			const cat = await sandbox.start('cat; echo end', { stdin_open: true });

			await cat.write('hello\n');
			await cat.closeStdin();
			let text = '';

			for await (const chunk of cat.output())
				text += chunk.text;
			const sleeper = await sandbox.start('sleep 1000');

			await sleeper.kill();
			return { text, signal: (await sleeper.wait()).signal };
		});

		assert.deepEqual([text, signal], ['hello\nend\n', 'SIGKILL']);
		page.check();
	});

	test('keeps files: bytes, blobs, streams, parts, trees', async () => {
		page.expectRefusal(404); // whether a file is there is asked of what is not
		const found = await inPage(async () => {
			const bytes = Uint8Array.from({ length: 300_000 }, (_, i) => (i * 7) & 255);
			const same = async (data) => {
				const other = new Uint8Array(await new Response(data).arrayBuffer());

				return other.length === bytes.length && other.every((byte, i) => byte === bytes[i]);
			};
			const { files } = sandbox;

			await files.mkdir('d');
			await files.write('d/bytes', bytes, { mode: '0600' });
			await files.write('d/blob', new Blob([bytes]));
			await files.write('d/stream', new Blob([bytes]).stream());
			const part = await new Response(await files.stream('d/bytes', { start: 1000, end: 1004 })).arrayBuffer();

			await files.writeTree('copy', await files.readTree('d'), { parents: true });
			return {
				names: (await files.list('copy')).map(({ name }) => name),
				same: await Promise.all(['d/bytes', 'd/blob', 'copy/stream'].map(async (path) => same(await files.read(path)))),
				mode: (await files.stat('copy/bytes')).mode,
				part: Array.from(new Uint8Array(part)),
				gone: await files.exists('d/nothing'),
			};
		});

		assert.deepEqual(found, {
			names: ['blob', 'bytes', 'stream'], same: [true, true, true], mode: '0600',
			part: [1000, 1001, 1002, 1003].map((i) => (i * 7) & 255), gone: false,
		});
		page.check();
	});

	test('opens a terminal, which a lost connection does not end', async () => {
		await inPage(async () => {
			window.shown = '';
			window.terminal = await sandbox.terminal({
				cols: 90, rows: 20, command: 'stty size; cat', onData: (bytes) => (window.shown += new TextDecoder().decode(bytes)),
			});
		});
		await shows(/20 90\r\n$/);
		await inPage(() => terminal.write('before\n'));
		await shows(/20 90\r\nbefore\r\nbefore\r\n$/);
		page.check();
		application.cutSockets();
		await inPage(() => terminal.write('after\n'));
		await shows(/before\r\nbefore\r\nafter\r\nafter\r\n$/);
		assert.equal(await inPage(async () => (await sandbox.terminals()).length), 1);
		await inPage(() => terminal.write('\x04'));
		assert.equal(await inPage(async () => (await terminal.exited).exit_code), 0);
	});

	test('says what the server says when a terminal is refused', async () => {
		page.expectRefusal(404);
		page.expectMessage(/^WebSocket connection to .* failed/);
		assert.equal(await inPage(() => failure(sandbox.terminal({ terminal_id: 'term_0000000000000000' }))),
			'NotFoundError terminal_not_found 404');
		page.check();
	});

	test('forks, pauses, and follows the events of it', async () => {
		const { own, children, kept, distinct } = await inPage(async () => {
			const seen = [];
			const stop = new AbortController();
			let follows;
			const ready = new Promise((resolve) => {
				follows = (async () => {
					for await (const event of sandbox.events({ signal: stop.signal, onReady: resolve })) {
						seen.push(event.type);
						if (event.type === 'sandbox_forked')
							return;
					}
				})();
			});

			await ready;
			await sandbox.exec('echo kept >state');
			await sandbox.pause();
			const { sandboxes, report } = await sandbox.fork({ count: 2, name: 'child' });
			const kept = await Promise.all(sandboxes.map(async (child) => (await child.exec('cat state')).stdout));

			await follows;
			const children = sandboxes.map(({ info }) => info.parent_id === sandbox.id);

			await Promise.all(sandboxes.map((child) => child[Symbol.asyncDispose]()));
			return { own: seen, children, kept, distinct: report.distinct };
		});

		assert.deepEqual([children, kept], [[true, true], ['kept\n', 'kept\n']]);
		assert.ok(distinct.includes('kernel_entropy'), `${distinct}`);
		for (const type of ['exec_started', 'sandbox_paused', 'sandbox_forked'])
			assert.ok(own.includes(type), `${type} in ${own}`);
		page.check();
	});

	test('has typed errors, and calls can be aborted', async () => {
		page.expectRefusal(401);
		page.expectRefusal(422);
		const found = await inPage(async () => ({
			unknown: await failure(client.attach('sbx_000000000000')),
			cwd: await failure(sandbox.exec('true', { cwd: '/nowhere' })),
			key: await failure(new sdk.Skerry({ key: 'sk_wrong' }).limits()),
			exit: await failure(sandbox.exec('false', { check: true })),
			abort: await failure(sandbox.exec('sleep 100', { signal: AbortSignal.timeout(300) })),
		}));

		assert.deepEqual(found, {
			unknown: 'NotFoundError not_found 404',
			cwd: 'ApiError cwd_not_found 422',
			key: 'DeniedError invalid_key 401',
			exit: 'CommandError',
			abort: 'TimeoutError', // of the DOM
		});
		page.check();
	});

	test('needs no key in the page where a session has been begun', async () => {
		const { items, key, cookie } = await inPage(async () => {
			await client.call('open_session', {});
			const keyless = new sdk.Skerry();
			const attached = await keyless.attach(sandbox.id);
			const terminal = await attached.terminal({ command: 'echo in a terminal' });
			const items = [(await attached.exec('echo hello')).stdout, (await terminal.exited).exit_code];

			await keyless.call('close_session', {});
			return { items, key: await failure(keyless.limits()), cookie: document.cookie };
		});

		assert.deepEqual(items, ['hello\n', 0]);
		assert.equal(key, 'DeniedError invalid_key 401');
		assert.equal(cookie, ''); // out of reach of scripts
		page.check();
	});

	test('destroys, and says so afterwards', async () => {
		page.expectRefusal(410);
		const { error, status } = await inPage(async () => {
			await sandbox.destroy();
			return { error: await failure(sandbox.exec('true')), status: sandbox.info.status };
		});

		assert.equal(error, 'SandboxEndedError sandbox_ended 410');
		assert.match(status, /^destroy/);
		assert.deepEqual(await daemon.sandboxes(), []);
		page.check();
	});

	test('is not served at another origin', async () => {
		const other = await startApplication();

		try {
			const elsewhere = await openPage(other, { url: daemon.url, key: daemon.key, retries: 0 });
			const found = await elsewhere.evaluate(() => failure(client.create()));

			assert.equal(found, 'ConnectionError');
			assert.deepEqual(await daemon.sandboxes(), []);
			assert.match(elsewhere.complaints.join('\n'), /CORS/);
			await elsewhere.close();
		} finally {
			other.close();
		}
	});
});
