// Terminals in a real sandbox: the shell and its tty, what survives (dropped connections, pauses, the
// daemon's death), exact bytes both ways, limits, and when a sandbox with one is idle.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import crypto from 'node:crypto';
import fs from 'node:fs';
import net from 'node:net';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';

import { runSkerry, startInTerminal } from './lib/cli.mjs';
import { startDaemon } from './lib/daemon.mjs';
import { Viewer, refusal } from './lib/terminal.mjs';

const LIMIT = 3;
const LOG_BYTES = 1 << 20;
const IDLE_MS = 60_000;

let daemon, id;
const idle = {}; // sandboxes that are looked at when they must have become idle
before(async () => {
	daemon = await startDaemon({
		config: { limits: { terminals_per_sandbox: LIMIT, terminal_log_bytes: LOG_BYTES } },
	});
	await daemon.ensureImage('base');
	({ id } = await good('POST', '/v1/sandboxes', { timeout_minutes: 30 }));
	for (const name of ['watched', 'left', 'working']) {
		idle[name] = (await good('POST', '/v1/sandboxes', { timeout_minutes: 30, idle_pause_minutes: 1 })).id;
		idle[`${name}Viewer`] = await Viewer.open(daemon, idle[name]);
		await idle[`${name}Viewer`].find(/\$ /);
	}
	idle.workingViewer.send('sleep 1000\n');
	await idle.workingViewer.find(/1000\r\n/);
	await idle.leftViewer.drop();
	await idle.workingViewer.drop();
	idle.since = Date.now();
});
after(() => daemon?.stop());

async function good(method, route, body) {
	const answer = await daemon.request(method, route, body);

	assert.ok(answer.status < 300, `${method} ${route}: ${answer.status} ${answer.text}`);
	return answer.json;
}

const run = async (command) => (await good('POST', `/v1/sandboxes/${id}/exec`, { command })).stdout;
const list = async () => (await good('GET', `/v1/sandboxes/${id}/terminals`)).items;
const open = (query, sandbox = id) => Viewer.open(daemon, sandbox, query);
const rejoin = (viewer, more = {}) => open({ terminal_id: viewer.id, ...more });

// A shell at its prompt, which is made easy to find.
async function shell(query) {
	const viewer = await open(query);

	viewer.send('PS1="rea""dy> "; bind "set enable-bracketed-paste off"; clear\n');
	await viewer.find(/ready> $/);
	return viewer;
}

async function until(viewer, holds) {
	while (!holds((await list()).find((one) => one.terminal_id === viewer.id)))
		await sleep(100);
}

async function end(viewer) {
	await good('DELETE', `/v1/sandboxes/${id}/terminals/${viewer.id}`);
	await viewer.closed;
}

describe('a shell', () => {
	test('has a terminal of its size and its user\'s', async () => {
		const viewer = await shell({ cols: 100, rows: 30, term: 'vt220' });

		viewer.send('stty size; echo $0 $TERM $USER; pwd; ls -l $(tty) | cut -c1-24\n');
		await viewer.find(/\n30 100\r\n-bash vt220 sandbox\r\n\/home\/sandbox\r\ncrw--w---- 1 sandbox tty/);
		await viewer.find(/ready> $/);
		viewer.resize(120, 40);
		viewer.send('stty size\n');
		await viewer.find(/\n40 120\r\n/);
		await end(viewer);
		const job = await open({ command: 'trap "stty size; exit" WINCH; echo go; while :; do sleep 0.1; done' });

		await job.find(/go\r\n/);
		job.resize(90, 50);
		await job.find(/50 90\r\n/);
		assert.equal((await job.message('exit')).exit_code, 0);
	});

	test('is interrupted by a key, and says how it ended', async () => {
		const viewer = await shell();

		viewer.send('sleep 1000\n');
		await until(viewer, (one) => one.busy); // a key that comes before that is the shell's
		viewer.send('\x03');
		await viewer.find(/\^C\r\n(.*)ready> $/);
		viewer.send('echo $?; exit 7\n');
		await viewer.find(/\n130\r\n/);
		const exit = await viewer.message('exit');

		assert.equal(exit.exit_code, 7);
		assert.equal(exit.signal, null);
		assert.equal(exit.output_bytes, viewer.length);
		assert.deepEqual(await viewer.closed, { code: 1000, reason: 'the terminal has ended' });
		// It can still be looked at, to its end.
		const again = await rejoin(viewer, { from_offset: 0 });

		assert.equal((await again.message('exit')).exit_code, 7);
		assert.ok(again.bytes.equals(viewer.bytes));
	});

	test('ends with its own process, and by a signal', async () => {
		const viewer = await shell();

		viewer.send('(trap "" HUP; sleep 100) & exit 3\n');
		assert.equal((await viewer.message('exit')).exit_code, 3);
		const other = await shell();

		other.send('kill -9 $$\n');
		const { exit_code, signal } = await other.message('exit');

		assert.deepEqual({ exit_code, signal }, { exit_code: 137, signal: 'SIGKILL' });
	});

	test('or another command, another user, another place', async () => {
		const viewer = await open({ command: 'id -un; pwd; test -t 0 && test -t 2 && exit 5', user: 'root', cwd: '/etc' });

		assert.equal((await viewer.message('exit')).exit_code, 5);
		assert.equal(viewer.text, 'root\r\n/etc\r\n');
		for (const [query, code] of [[{ user: 'nobody-here' }, 'user_not_found'], [{ cwd: '/nowhere' }, 'cwd_not_found']]) {
			const { status, json } = await refusal(daemon, id, query);

			assert.equal(status, 422);
			assert.equal(json.code, code);
		}
		for (const query of [{ cols: 80 }, { from_offset: 1 }, { term: 'a b' }, { terminal_id: 'term_0123456789abcdef', user: 'root' }])
			assert.equal((await refusal(daemon, id, query)).status, 400, JSON.stringify(query));
	});
});

describe('bytes', () => {
	test('5 MB of output are what was written', async () => {
		await run('head -c 5000000 /dev/urandom >/tmp/out');
		const viewer = await open({ command: 'stty raw -echo; cat /tmp/out' });
		const { output_bytes } = await viewer.message('exit');

		assert.equal(output_bytes, 5_000_000);
		assert.equal(crypto.createHash('sha256').update(viewer.bytes).digest('hex'),
			(await run('sha256sum /tmp/out')).slice(0, 64));
	});

	test('a client that does not read holds the command back', async () => {
		const viewer = await open({ command: 'stty raw -echo; cat /tmp/out' });

		viewer.socket.pause();
		await sleep(3000);
		assert.ok(viewer.length < 4_000_000);
		viewer.socket.resume();
		assert.equal((await viewer.message('exit')).output_bytes, 5_000_000);
		assert.equal(viewer.length, 5_000_000);
		assert.ok(!viewer.messages.some(({ type }) => type === 'gap'));
	});

	test('a large paste comes through whole', async () => {
		const viewer = await open({ command: 'stty raw -echo; echo go; head -c 2000000 | sha256sum' });
		const bytes = crypto.randomBytes(2_000_000);

		await viewer.find(/go/);
		viewer.send(bytes);
		await viewer.find(new RegExp(crypto.createHash('sha256').update(bytes).digest('hex')));
		await viewer.message('exit');
	});
});

describe('what survives', () => {
	test('a dropped connection: nothing is lost or comes twice', async () => {
		const viewer = await shell();

		viewer.send('for i in $(seq 40); do echo "line $i."; sleep 0.1; done; echo "al""l"\n');
		await viewer.find(/line 5\./);
		await viewer.drop();
		await sleep(1000);
		const [{ terminal_id, attached, busy }] = (await list()).filter((one) => one.terminal_id === viewer.id);

		assert.equal(terminal_id, viewer.id);
		assert.equal(attached, false);
		assert.equal(busy, true);
		const second = await rejoin(viewer, { from_offset: viewer.offset });

		await second.find(/line 2.\./);
		await second.drop();
		const third = await rejoin(second, { from_offset: second.offset });

		await third.find(/all\r\n/);
		const lines = (viewer.text + second.text + third.text).match(/line \d+\.\r\n/g);

		assert.deepEqual(lines, Array.from({ length: 40 }, (unused, i) => `line ${i + 1}.\r\n`));
		// Without an offset: the newest screens, which are all of it here.
		const fourth = await rejoin(third);

		assert.equal((await third.closed).code, 4001);
		await fourth.find(/line 1\.\r\n[^]*all\r\n/);
		assert.equal(fourth.ready.offset, 0);
		assert.equal(fourth.ready.new, false);
		await end(fourth);
	});

	test('more output than is kept: the gap is told', async () => {
		const viewer = await open({ command: 'sleep 1; head -c 3000000 /dev/zero | tr "\\0" x; echo "en""d"; sleep 100' });
		const { offset } = viewer;

		await viewer.drop();
		await viewer.closed;
		await until(viewer, (one) => one.output_bytes >= 3_000_000); // nobody holds it back
		const second = await rejoin(viewer, { from_offset: offset });

		await second.find(/end\r\n/);
		const { from, to } = await second.message('gap');

		assert.ok(from < to && to <= 3_000_000);
		assert.equal(offset + second.length + (to - from), 3_000_005);
		await end(second);
	});

	test('a pause, for who joins and for who stays', async () => {
		const viewer = await shell();

		viewer.send('kept=yes\n');
		await viewer.find(/ready> $/);
		await good('POST', `/v1/sandboxes/${id}/pause`);
		await viewer.message('paused');
		const second = await rejoin(viewer); // resumes it

		second.send('echo "$kept!"\n');
		await second.find(/\nyes!\r\n/);
		await good('POST', `/v1/sandboxes/${id}/pause`);
		await second.message('paused');
		assert.equal((await good('GET', `/v1/sandboxes/${id}`)).status, 'paused');
		second.send('echo "again $kept!"\n'); // and so does a key
		await second.message('resumed');
		await second.find(/\nagain yes!\r\n/);
		await end(second);
	});

	test('the daemon\'s death', async () => {
		const viewer = await shell();

		viewer.send('kept=yes\n');
		await viewer.find(/ready> $/);
		viewer.send('sleep 2; echo "meanwhi""le"\n');
		await viewer.find(/sleep 2.*\r\n/);
		await daemon.kill();
		await viewer.closed;
		await daemon.start();
		assert.ok((await list()).some((one) => one.terminal_id === viewer.id && !one.attached));
		const second = await rejoin(viewer, { from_offset: viewer.offset });

		assert.equal(second.ready.offset, viewer.offset);
		await second.find(/^meanwhile\r\n/);
		second.send('echo "$kept!"\n');
		await second.find(/\nyes!\r\n/);
		await end(second);
		idle.watchedViewer = await Viewer.open(daemon, idle.watched, { terminal_id: idle.watchedViewer.id });
	});

	test('a fork: each has its own', async () => {
		const viewer = await shell();

		viewer.send('kept=yes\n');
		await viewer.find(/ready> $/);
		const { sandboxes: [child] } = await good('POST', `/v1/sandboxes/${id}/fork`, {});
		const copy = await open({ terminal_id: viewer.id }, child.id);

		copy.send('echo "copy $kept"\n');
		await copy.find(/\ncopy yes\r\n/);
		viewer.send('echo "source $kept"\n');
		await viewer.find(/\nsource yes\r\n/);
		assert.doesNotMatch(viewer.text, /copy/);
		await good('DELETE', `/v1/sandboxes/${child.id}`);
		assert.equal((await copy.message('error')).code, 'sandbox_ended');
		assert.equal((await copy.closed).code, 4002);
		await end(viewer);
	});
});

describe('how many, and whose', () => {
	test('the limit is told, and ending one makes room', async () => {
		const viewers = [];

		assert.deepEqual(await list(), []);
		while (viewers.length < LIMIT)
			viewers.push(await open());
		const { status, json } = await refusal(daemon, id);

		assert.equal(status, 429);
		assert.equal(json.code, 'terminal_limit');
		assert.match(json.detail, new RegExp(`${LIMIT} terminals`));
		assert.match(json.hint, /--end/);
		const items = await list();

		assert.deepEqual(items.map((one) => one.terminal_id), viewers.map((one) => one.id));
		assert.ok(items.every((one) => one.attached && one.cols === 80 && one.rows === 24 &&
			Math.abs(Date.parse(one.created_at) - Date.now()) < 600_000));
		await end(viewers[0]);
		assert.equal((await viewers[0].message('exit')).exit_code, 137);
		viewers.push(await open());
		for (const viewer of viewers.slice(1))
			await end(viewer);
	});

	test('ids that are not there, or elsewhere', async () => {
		const viewer = await shell();

		for (const terminal_id of ['term_0123456789abcdef', 'exec_0123456789abcdef', '../x', viewer.id + '0']) {
			const { status, json } = await refusal(daemon, id, { terminal_id });

			assert.equal(status, 404, terminal_id);
			assert.equal(json.code, 'terminal_not_found');
			const answer = await daemon.request('DELETE', `/v1/sandboxes/${id}/terminals/${encodeURIComponent(terminal_id)}`);

			assert.equal(answer.json.code, 'terminal_not_found', terminal_id);
		}
		assert.equal((await refusal(daemon, idle.watched, { terminal_id: viewer.id })).json.code, 'terminal_not_found');
		assert.equal((await refusal(daemon, 'sbx_00000000')).json.code, 'not_found');
		// A terminal is no command, and a command no terminal.
		assert.equal((await daemon.request('GET', `/v1/sandboxes/${id}/exec/${viewer.id}`)).json.code, 'exec_not_found');
		assert.equal((await daemon.request('POST', `/v1/sandboxes/${id}/exec/${viewer.id}/input`, { data: 'x' })).json.code,
			'exec_not_found');
		await end(viewer);
	});
});

function isBelow(pid, ancestor) {
	for (; pid > 1; pid = Number(fs.readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1].split(' ')[1])) {
		if (pid === ancestor)
			return true;
	}
	return false;
}

// The skerry program that script(1) started, two levels down.
function programOf(shell) {
	return fs.readdirSync('/proc').filter((name) => /^\d+$/.test(name)).map(Number).find((pid) => {
		try {
			return fs.readFileSync(`/proc/${pid}/comm`, 'utf8') === 'skerry\n' && isBelow(pid, shell.child.pid);
		} catch {
			return false; // it has ended meanwhile
		}
	});
}

// A way to the daemon whose connections can be cut.
async function makeRelay() {
	const pairs = new Set();
	const server = net.createServer((client) => {
		const upstream = net.connect(new URL(daemon.url).port, '127.0.0.1');
		const end = () => {
			client.destroy();
			upstream.destroy();
			pairs.delete(end);
		};

		pairs.add(end);
		for (const [from, to] of [[client, upstream], [upstream, client]]) {
			from.on('error', end);
			from.on('close', end);
			from.pipe(to);
		}
	});

	await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
	return {
		url: `http://127.0.0.1:${server.address().port}`,
		cut: () => pairs.forEach((end) => end()),
		close: () => new Promise((resolve) => server.close(resolve)),
	};
}

describe('skerry shell', () => {
	const prompt = 'PS1="rea""dy> "; bind "set enable-bracketed-paste off"; clear\n';

	test('is a terminal there on a terminal here', async () => {
		const shell = startInTerminal(daemon, ['shell', id], { cols: 91, rows: 33 });
		const [, pts] = await shell.find(/on (\/dev\/pts\/\d+)/);

		await shell.find(/\$ /);
		shell.send(prompt);
		await shell.find(/ready> $/);
		shell.send('stty size; echo $TERM\n');
		await shell.find(/\n33 91\r\nxterm\r\n/);
		spawnSync('stty', ['-F', pts, 'cols', '77', 'rows', '22']);
		shell.send('until [ "$(stty size)" = "22 77" ]; do sleep 0.1; done; echo "fit""s"\n');
		await shell.find(/\nfits\r\nready> $/);
		shell.send('echo "ru""ns"; cat\n');
		await shell.find(/\nruns\r\n/); // a key that comes before that is the shell's, and not echoed
		shell.send('there\n');
		await shell.find(/there\r\nthere\r\n/);
		shell.send('\x03');
		await shell.find(/\^C[^]*ready> $/);
		shell.send('exit 7\n');
		assert.equal(await shell.ended, 7);
		assert.ok(shell.putBack(), shell.text.slice(-300));
	});

	test('runs a command, whose end is its own', async () => {
		const command = startInTerminal(daemon, ['shell', id, '--user', 'root', '--cwd', '/etc', '--', 'id -un; pwd; exit 5']);

		assert.equal(await command.ended, 5);
		assert.match(command.text, /\nroot\r\n\/etc\r\n/);
		const killed = startInTerminal(daemon, ['shell', id, '--', 'kill -9 $$']);

		assert.equal(await killed.ended, 137);
	});

	test('is left and taken up again, listed and ended', async () => {
		const first = startInTerminal(daemon, ['shell', id]);

		await first.find(/\$ /);
		first.send('kept=yes\n~?');
		await first.find(/~\.  leave/);
		first.send('~.');
		assert.equal(await first.ended, 0);
		assert.ok(first.putBack());
		const [, terminal] = first.text.match(/take it up with: skerry shell \S+ --attach (term_[0-9a-f]+)/);
		const listed = await runSkerry(daemon, ['shell', id, '--list']);

		assert.equal(listed.code, 0);
		assert.match(listed.out, new RegExp(`^TERMINAL .*\n${terminal} +80x24 +at its prompt +nobody`));
		const second = startInTerminal(daemon, ['shell', id, '--attach', terminal]);

		await second.find(/kept=yes/); // the newest screens
		second.send('echo "it is $kept"\n');
		await second.find(/it is yes\r\n/);
		const third = startInTerminal(daemon, ['shell', id, '--attach', terminal]);

		assert.equal(await second.ended, 1);
		assert.match(second.text, /is shown to somebody else by now/);
		assert.ok(second.putBack());
		await third.find(/it is yes/);
		assert.equal((await runSkerry(daemon, ['shell', id, '--end', terminal])).code, 0);
		assert.equal(await third.ended, 137);
	});

	test('a connection that is cut, a daemon that dies: it goes on', async () => {
		const relay = await makeRelay();
		const shell = startInTerminal({ url: relay.url, key: daemon.key }, ['shell', id]);

		await shell.find(/\$ /);
		shell.send(prompt);
		await shell.find(/ready> $/);
		shell.send('for i in $(seq 30); do echo "line $i."; sleep 0.1; done; echo "al""l"\n');
		for (const i of [3, 10]) {
			await shell.find(new RegExp(`line ${i}\\.`));
			relay.cut();
		}
		await shell.find(/line 17\./);
		await daemon.kill();
		shell.send('echo "typed mean""while"\n');
		await daemon.start();
		await shell.find(/\nall\r\n[^]*\ntyped meanwhile\r\n/);
		assert.deepEqual(shell.text.match(/line \d+\.(?=\r\n)/g), Array.from({ length: 30 }, (unused, i) => `line ${i + 1}.`));
		shell.send('exit 3\n');
		assert.equal(await shell.ended, 3);
		assert.ok(shell.putBack());
		await relay.close();
		idle.watchedViewer = await Viewer.open(daemon, idle.watched, { terminal_id: idle.watchedViewer.id });
	});

	test('a signal ends it, and the terminal is put back', async () => {
		const shell = startInTerminal(daemon, ['shell', id]);

		await shell.find(/\$ /);
		const [, terminal] = (await runSkerry(daemon, ['shell', id, '--list', '--quiet'])).out.match(/(term_\w+)\n$/);
		process.kill(programOf(shell), 'SIGTERM');
		await shell.ended;
		assert.ok(shell.putBack(), shell.text.slice(-300));
		assert.match(shell.text, new RegExp(`--attach ${terminal}`));
		assert.equal((await runSkerry(daemon, ['shell', id, '--end', terminal])).code, 0);
	});

	test('says what is wrong and what to do', async () => {
		const cases = [
			[['shell', id], 2, /stdin is not a terminal\nhint: .*skerry exec/],
			[['shell', id, '--attach', 'x'], 2, /not the id of a terminal\nhint: .*--list/],
			[['shell', id, '--list', '--end', 'term_00000000'], 2, /exclude each other/],
			[['shell', id, '--end', 'term_0123456789abcdef'], 3, /no terminal 'term_0123456789abcdef' in this sandbox\nhint: /],
			[['shell', 'sbx_00000000', '--list'], 3, /sbx_00000000/],
		];

		for (const [args, code, message] of cases) {
			const { code: got, err } = await runSkerry(daemon, args);

			assert.equal(got, code, args.join(' '));
			assert.match(err, message);
		}
		const unknown = startInTerminal(daemon, ['shell', id, '--attach', 'term_0123456789abcdef']);

		assert.equal(await unknown.ended, 3);
		assert.ok(unknown.putBack());
	});
});

test('idle is what nobody looks at and what does nothing', async () => {
	const status = async (name) => (await good('GET', `/v1/sandboxes?status=all&limit=200`)).items
		.find((one) => one.id === idle[name]).status;

	while (await status('left') !== 'paused') {
		assert.ok(Date.now() - idle.since < 5 * IDLE_MS, 'a shell that was left keeps its sandbox awake');
		await sleep(1000);
	}
	assert.ok(Date.now() - idle.since >= IDLE_MS);
	assert.equal(await status('watched'), 'running');
	assert.equal(await status('working'), 'running');
	const viewer = await open({ terminal_id: idle.leftViewer.id }, idle.left);

	viewer.send('echo "back aga""in"\n');
	await viewer.find(/back again\r\n/);
	await viewer.leave();
});
