// The skerry program against a real daemon and real sandboxes: every command, its exit codes, and that
// a command in a sandbox behaves as if it ran here.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import crypto from 'node:crypto';
import fs from 'node:fs';
import http from 'node:http';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';

import { runSkerry, skerryPath, startSkerry } from './lib/cli.mjs';
import { build, repository, startDaemon } from './lib/daemon.mjs';

const run = promisify(execFile);
let daemon, id;

const skerry = (...args) => runSkerry(daemon, args);
const exec = (command, options = [], more = {}) =>
	runSkerry(daemon, ['exec', id, ...options, '--', ...[command].flat()], more);

async function until(condition, what, ms = 20_000) {
	for (const end = Date.now() + ms; !(await condition()); await sleep(50))
		assert.ok(Date.now() < end, `${what} within ${ms} ms`);
}

before(async () => {
	daemon = await startDaemon();
	await daemon.ensureImage();
	const made = await skerry('create', '--name', 'main', '--label', 'suite=cli', '--timeout', '30m');

	assert.equal(made.code, 0, made.err);
	id = made.out.trim();
}, { timeout: 600_000 });
after(() => daemon?.stop());

describe('sandboxes', () => {
	test('create prints the id alone, and what it is on stderr', async () => {
		const { code, out, err } = await skerry('create', '--size', 'tiny', '--timeout', '2h', '--label', 'a=b=c');

		assert.equal(code, 0, err);
		assert.match(out, /^sbx_[0-9a-f]{8,16}\n$/);
		assert.match(err, /running: tiny \(0\.25 vCPU, 512 MiB, 10 GiB\) from base/);
		const made = (await daemon.request('GET', `/v1/sandboxes/${out.trim()}`)).json;

		assert.deepEqual(made.labels, { a: 'b=c' });
		assert.ok(Math.abs(Date.parse(made.expires_at) - Date.parse(made.created_at) - 7_200_000) < 5000);
		assert.equal((await skerry('rm', out.trim())).code, 0);
	});

	test('create with any shape', async () => {
		const { code, out, err } = await skerry('create', '-q', '--vcpus', '0.5', '--memory', '384', '--disk', '11');

		assert.equal(code, 0, err);
		assert.equal(err, '');
		const made = (await daemon.request('GET', `/v1/sandboxes/${out.trim()}`)).json;

		assert.deepEqual([made.size, made.vcpus, made.memory_mb, made.disk_gb], ['custom', 0.5, 384, 11]);
		await skerry('rm', out.trim());
	});

	test('an idempotency key gives the same sandbox', async () => {
		const key = crypto.randomUUID();
		const first = await skerry('create', '-q', '--idempotency-key', key);
		const second = await skerry('create', '-q', '--idempotency-key', key);

		assert.equal(first.code, 0, first.err);
		assert.equal(second.out, first.out);
		await skerry('rm', first.out.trim());
	});

	test('ls shows a table, ids, JSON, and filters', async () => {
		const table = (await skerry('ls')).out.split('\n');

		assert.match(table[0], /^ID +NAME +STATUS +SIZE +IMAGE +AGE +LEFT$/);
		assert.ok(table.some((line) => line.startsWith(`${id}  main  running  small  base`)), table.join('\n'));
		assert.equal((await skerry('ls', '-q', '--label', 'suite=cli')).out, `${id}\n`);
		assert.equal((await skerry('ls', '-q', '--label', 'suite=other')).out, '');
		assert.equal((await skerry('ls', '-q', '--status', 'destroyed', '--label', 'suite=cli')).out, '');
		const json = JSON.parse((await skerry('ls', '--json', '--label', 'suite=cli')).out);

		assert.equal(json.items[0].id, id);
		assert.equal(json.next_cursor, null);
	});

	test('get by id and by name, as text and as the server said it', async () => {
		assert.match((await skerry('get', id)).out, new RegExp(`^id +${id}$`, 'm'));
		assert.match((await skerry('get', 'main')).out, /^status +running$/m);
		assert.equal(JSON.parse((await skerry('get', 'main', '--json')).out).id, id);
	});

	test('extend moves the deadline', async () => {
		const before = JSON.parse((await skerry('get', id, '--json')).out).expires_at;
		const { code, out, err } = await skerry('extend', 'main', '1h', '--json');

		assert.equal(code, 0, err);
		assert.equal(Date.parse(JSON.parse(out).expires_at) - Date.parse(before), 3_600_000);
		assert.match((await skerry('extend', 'main', '1m')).out, new RegExp(`^${id} lives until 20`));
	});

	test('rm destroys several, goes on after a failure, and says so again', async () => {
		const ids = [];

		for (let i = 0; i < 2; i++)
			ids.push((await skerry('create', '-q', '--size', 'tiny', '--name', `doomed-${i}`)).out.trim());
		const { code, out, err } = await skerry('rm', ids[0], 'sbx_00000000', 'doomed-1');

		assert.equal(code, 3);
		assert.deepEqual(out.trim().split('\n'), ids);
		assert.match(err, /^skerry: .*sbx_00000000/m);
		assert.equal((await skerry('rm', ids[0])).code, 0);
		const left = await skerry('ls', '--all');

		assert.match(left.out, new RegExp(`${ids[0]} .* destroyed .*destroyed_by_user`));
	});

	test('rm --all asks, and is refused without a terminal or --yes', async () => {
		const { code, err } = await skerry('rm', '--all');

		assert.equal(code, 2);
		assert.match(err, /--yes/);
		assert.equal((await skerry('get', id)).code, 0);
	});
});

describe('exec', () => {
	test('stdout, stderr and exit code are the command\'s own', async () => {
		const { code, out, err } = await exec('echo out; echo err >&2; exit 7');

		assert.deepEqual([code, out, err], [7, 'out\n', 'err\n']);
	});

	test('one argument is shell text, several are words', async () => {
		assert.equal((await exec('echo a b | wc -w')).out, '2\n');
		assert.equal((await exec(['printf', '%s|', 'a b', '$HOME', "it's", ''])).out, "a b|$HOME|it's||");
	});

	test('cwd, env and user', async () => {
		const { out } = await exec('pwd; id -un; echo "$A/$B"',
			['--cwd', '/usr/lib', '--user', 'root', '-e', 'A=1 2', '--env', 'B=x=y']);

		assert.equal(out, '/usr/lib\nroot\n1 2/x=y\n');
	});

	test('a signal is 128 and its number, a timeout 124', async () => {
		assert.equal((await exec('kill -9 $$')).code, 137);
		assert.equal((await exec('kill -TERM $$')).code, 143);
		const { code, out, err } = await exec('echo early; sleep 60', ['--timeout', '1500ms']);

		assert.deepEqual([code, out], [124, 'early\n']);
		assert.match(err, /^skerry: .*timeout/);
		assert.equal((await exec('sleep 60', ['--timeout-ms', '300', '-q'])).err, '');
	});

	test('a megabyte and more through stdin comes back byte for byte', async () => {
		const bytes = crypto.randomBytes(1_300_000);
		const { code, stdout, err } = await exec('cat', [], { input: bytes });

		assert.equal(code, 0, err);
		assert.ok(stdout.equals(bytes), `${stdout.length} bytes came back`);
	});

	test('an empty stdin ends, and so does one that the command does not read', async () => {
		assert.equal((await exec('cat; echo done', [], { input: '' })).out, 'done\n');
		assert.equal((await exec('echo done', [], { input: crypto.randomBytes(600_000) })).out, 'done\n');
		assert.equal((await exec('head -c 3; echo', [], { input: 'abcdef' })).out, 'abc\n');
		assert.equal((await exec('cat; echo done', ['--no-stdin'], { input: 'not passed' })).out, 'done\n');
	});

	test('every byte value on both streams', async () => {
		const all = Buffer.from(Array.from({ length: 256 }, (_, i) => i));
		const { stdout, stderr } = await exec('cat > all; cat all; cat all >&2', [], { input: all });

		assert.ok(stdout.equals(all));
		assert.ok(stderr.equals(all));
	});

	test('characters are whole however they are written', async () => {
		const { out } = await exec("printf '\\303'; sleep 0.3; printf '\\274\\342\\202'; sleep 0.3; printf '\\254\\377'");

		assert.equal(out, 'ü€\ufffd');
	});

	test('output comes while the command runs, in order', async () => {
		const { soFar, ended } = startSkerry(daemon, ['exec', id, '--', 'echo one; sleep 3; echo two']);
		const begun = Date.now();

		await until(() => soFar() === 'one\n', 'the first line');
		const first = Date.now();
		const { code, out } = await ended;

		assert.deepEqual([code, out], [0, 'one\ntwo\n']);
		assert.ok(Date.now() - first > 2000, `the first line came after ${first - begun} ms, the end soon after`);
	});

	test('a lot of output keeps its order and misses nothing', async () => {
		const { code, out } = await exec('seq 1 200000');

		assert.equal(code, 0);
		assert.equal(out, Array.from({ length: 200_000 }, (_, i) => `${i + 1}\n`).join(''));
	});

	test('a reader that goes away ends the command', async () => {
		const { stdout } = await run('bash', ['-c', `'${skerryPath}' exec ${id} -n -- yes | head -n 2; echo "\${PIPESTATUS[@]}"`],
			{ env: { ...process.env, SKERRY_URL: daemon.url, SKERRY_API_KEY: daemon.key } });

		assert.equal(stdout, 'y\ny\n141 0\n');
		await until(async () => (await exec('pgrep -x yes || echo none')).out === 'none\n', 'the command is gone');
	});

	test('an interrupt reaches the command; a second one leaves it running', async () => {
		const one = startSkerry(daemon, ['exec', id, '--', 'trap "echo got; exit 5" INT; echo ready; while :; do sleep 0.1; done']);

		await until(() => one.soFar() === 'ready\n', 'the command is ready');
		one.child.kill('SIGINT');
		assert.deepEqual([(await one.ended).code, (await one.ended).out], [5, 'ready\ngot\n']);

		const two = startSkerry(daemon, ['exec', 'main', '--', 'trap "" INT; echo ready; sleep 5; echo after']);

		await until(() => two.soFar() === 'ready\n', 'the command is ready');
		two.child.kill('SIGINT');
		await sleep(300);
		two.child.kill('SIGINT');
		const left = await two.ended;
		const hint = left.err.match(/skerry exec main --attach (\S+)/);

		assert.equal(left.code, 130);
		assert.ok(hint, left.err);
		const { code, out } = await skerry('exec', 'main', '--attach', hint[1]);

		assert.deepEqual([code, out], [0, 'ready\nafter\n']);
	});

	test('in the background, and taken up', async () => {
		const { code, out } = await exec('echo out; sleep 1; echo err >&2; exit 9', ['--background']);

		assert.equal(code, 0);
		assert.match(out, /^\S+\n$/);
		const taken = await skerry('exec', id, '--attach', out.trim());

		assert.deepEqual([taken.code, taken.out, taken.err], [9, 'out\n', 'err\n']);
		const again = JSON.parse((await skerry('exec', id, '--attach', out.trim(), '--json')).out);

		assert.deepEqual([again.running, again.exit_code, again.stdout], [false, 9, 'out\n']);
		assert.equal((await skerry('exec', id, '--attach', 'exec_0123456789abcdef')).code, 3);
	});

	test('what runs is listed, and can be signalled', async () => {
		const command = 'trap "exit 6" TERM; echo ready; while :; do sleep 0.1; done';
		const started = (await exec(command, ['--background'])).out.trim();

		await until(async () => JSON.parse((await skerry('exec', id, '--attach', started, '--json')).out).stdout === 'ready\n', 'it is ready');
		const table = (await skerry('exec', 'main', '--list')).out.split('\n');

		assert.match(table[0], /^EXEC +STATE +AGE +TOOK +COMMAND$/);
		assert.ok(table.some((line) => line.startsWith(`${started}  running `) && line.endsWith(command)), table.join('\n'));
		assert.ok((await skerry('exec', id, '--list', '-q')).out.split('\n').includes(started));
		assert.ok(JSON.parse((await skerry('exec', id, '--list', '--json')).out).items.some(({ exec_id, running }) => exec_id === started && running));
		const signalled = await skerry('exec', id, '--attach', started, '--signal', 'term');

		assert.deepEqual([signalled.code, signalled.out], [0, `${started}\n`], signalled.err);
		assert.deepEqual([(await skerry('exec', id, '--attach', started)).code], [6]);
		assert.match((await skerry('exec', id, '--list')).out, new RegExp(`^${started} +exit 6 `, 'm'));
		assert.equal((await skerry('exec', id, '--attach', started, '--signal', 'NONSENSE')).code, 2);
		assert.equal((await skerry('exec', id, '--signal', 'TERM')).code, 2);
		assert.equal((await skerry('exec', id, '--list', '--', 'true')).code, 2);
	});

	test('--json is the server\'s answer, with the command\'s exit code', async () => {
		const { code, out } = await exec('cat; echo err >&2; exit 3', ['--json'], { input: 'in' });
		const answer = JSON.parse(out);

		assert.equal(code, 3);
		assert.deepEqual([answer.stdout, answer.stderr, answer.exit_code], ['in', 'err\n', 3]);
	});

	test('a command that cannot start says why', async () => {
		const cwd = await exec('true', ['--cwd', '/nowhere']);
		const user = await exec('true', ['--user', 'nobody-here']);

		assert.match(cwd.err, /^skerry: .*\/nowhere/);
		assert.match(user.err, /^skerry: .*nobody-here/);
		assert.notEqual(cwd.code, 0);
		assert.notEqual(user.code, 0);
	});

	test('a stream that breaks is taken up where it broke', async () => {
		const proxy = await breakingProxy(daemon.url, 300_000);

		try {
			const { code, out, err } = await runSkerry(daemon, ['exec', id, '-n', '--', 'seq 1 200000'],
				{ env: { SKERRY_URL: proxy.url } });

			assert.equal(code, 0, err);
			assert.equal(out, Array.from({ length: 200_000 }, (_, i) => `${i + 1}\n`).join(''));
			assert.ok(proxy.broken() >= 2, `${proxy.broken()} connections were broken`);
		} finally {
			proxy.close();
		}
	});
});

// Passes requests on and breaks each event stream after so many bytes.
async function breakingProxy(target, bytes) {
	let broken = 0;
	const server = http.createServer((req, res) => {
		const up = http.request(new URL(req.url, target), { method: req.method, headers: req.headers }, (answer) => {
			let passed = 0;

			res.writeHead(answer.statusCode, answer.headers);
			answer.on('error', () => res.destroy());
			answer.on('data', (chunk) => {
				res.write(chunk);
				passed += chunk.length;
				if (/event-stream/.test(answer.headers['content-type']) && passed > bytes) {
					broken++;
					answer.destroy();
					setTimeout(() => res.destroy(), 50);
				}
			});
			answer.on('end', () => res.end());
		});

		up.on('error', () => res.destroy());
		req.pipe(up);
	});

	await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
	return {
		url: `http://127.0.0.1:${server.address().port}`,
		broken: () => broken,
		close: () => server.close(),
	};
}

describe('exit codes and messages', () => {
	const cases = [
		{ what: 'no server', args: ['ls', '--url', 'http://127.0.0.1:1'], code: 1, err: /no server answers.*\nhint: start one/s },
		{ what: 'an unknown command', args: ['lst'], code: 2, err: /no command 'lst'\nhint: did you mean `skerry ls`/ },
		{ what: 'an unknown option', args: ['create', '--siez', 'tiny'], code: 2, err: /did you mean --size/ },
		{ what: 'an argument that the server refuses', args: ['create', '--size', 'enormous'], code: 2, err: /size.*tiny, small/s },
		{ what: 'an unknown sandbox', args: ['get', 'sbx_0123abcd'], code: 3, err: /sbx_0123abcd/ },
		{ what: 'an unknown name', args: ['get', 'nobody'], code: 3, err: /no living sandbox named 'nobody'\nhint: `skerry ls`/ },
		{ what: 'a name that is nearly one', args: ['get', 'mian'], code: 3, err: /did you mean 'main'\?/ },
		{ what: 'exec in an unknown sandbox', args: ['exec', 'sbx_0123abcd', 'true'], code: 3, err: /^skerry: / },
		{ what: 'an unknown image', args: ['create', '--image', 'nowhere'], code: 3, err: /nowhere/ },
		{ what: 'a path in place of an id', args: ['get', 'sbx_/../..'], code: 3, err: /^skerry: / },
		{ what: 'a wrong key', args: ['ls'], env: { SKERRY_API_KEY: `sk_${'x'.repeat(40)}` }, code: 4, err: /^skerry: / },
		{ what: 'an address with a password', args: ['ls', '--url', 'http://u:secret@127.0.0.1/'], code: 2, err: /^(?!.*secret)/s },
		{ what: 'no address', args: ['ls', '--url', 'ftp://127.0.0.1'], code: 2, err: /SKERRY_URL/ },
	];

	for (const { what, args, code, err, env } of cases)
		test(`${what}: ${code}`, async () => {
			const answer = await runSkerry(daemon, args, { env });

			assert.equal(answer.code, code, answer.err);
			assert.match(answer.err, err);
			assert.equal(answer.out, '');
		});

	test('a limit: 5', async () => {
		const small = await startDaemon({ config: { limits: { sandboxes_per_account: 0 } } });

		try {
			const { code, err } = await runSkerry(small, ['create']);

			assert.equal(code, 5, err);
		} finally {
			await small.stop();
		}
	});

	test('a full disk of our own is a failure', async () => {
		const { stdout } = await run('bash', ['-c', `'${skerryPath}' ls > /dev/full; echo $?`],
			{ env: { ...process.env, SKERRY_URL: daemon.url, SKERRY_API_KEY: daemon.key } });

		assert.equal(stdout, '1\n');
	});

	test('nothing is coloured or drawn where there is no terminal', async () => {
		for (const args of [['ls'], ['help'], ['doctor'], ['lst']]) {
			const { out, err } = await skerry(...args);

			assert.doesNotMatch(out + err, /\u001b/);
		}
	});
});

describe('the rest', () => {
	test('stats of one and of all that run, as a table and as lines of JSON', async () => {
		const sampled = async () => JSON.parse((await skerry('stats', 'main', '--json')).out).samples.length > 0;

		await until(sampled, 'the server has looked');
		const { code, out, err } = await skerry('stats');

		assert.equal(code, 0, err);
		assert.match(out, /^SANDBOX +NAME +CPU +VCPUS +CPU TIME +MEMORY +OF$/m);
		assert.match(out, new RegExp(`^${id} +main +\\d+ % +1 .* +[\\d.]+ MiB +1\\.0 GiB$`, 'm'));
		assert.match((await skerry('stats', id)).out, new RegExp(`^${id} +-? `, 'm'));
		assert.equal(JSON.parse((await skerry('stats', id, '--json')).out).id, id);
		assert.equal((await skerry('stats', 'sbx_0123abcd')).code, 3);
		const watched = startSkerry(daemon, ['stats', '--watch']);

		await until(() => watched.soFar().split('SANDBOX').length > 2, 'it is shown again', 60_000);
		watched.child.kill('SIGTERM');
		await watched.ended;
	});

	test('limits and prices are those of the server', async () => {
		const limits = (await daemon.request('GET', '/v1/limits')).json;
		const { out } = await skerry('limits');

		assert.match(out, /^tiny +0\.25 +512\.0 MiB +10\.0 GiB$/m);
		assert.match(out, new RegExp(`^sandboxes_per_account +${limits.sandboxes_per_account}$`, 'm'));
		assert.deepEqual(JSON.parse((await skerry('limits', '--json')).out), limits);
		const prices = (await daemon.request('GET', '/v1/prices')).json;

		assert.match((await skerry('prices')).out, new RegExp(`^small +1 .* ${prices.sizes.find(({ name }) => name === 'small').credits_per_hour.toFixed(2)} `, 'm'));
		assert.deepEqual(JSON.parse((await skerry('prices', '--json')).out), prices);
	});

	test('image ls, build of what is built, rm of what is not', async () => {
		assert.match((await skerry('image', 'ls')).out, /^NAME +DIGEST +SIZE +DISK +AGE +SOURCE\nbase +sha256:/m);
		assert.match((await skerry('image', 'ls', '-q')).out, /^base$/m);
		assert.ok(JSON.parse((await skerry('image', 'ls', '--json')).out).items.some(({ name }) => name === 'base'));
		const built = await skerry('image', 'build', 'base');

		assert.deepEqual([built.code, built.out], [0, 'base\n'], built.err);
		assert.equal(JSON.parse((await skerry('image', 'build', 'base', '--json')).out).name, 'base');
		assert.equal((await skerry('image', 'build', 'no-such-recipe')).code, 3);
		assert.equal((await skerry('image', 'rm', 'no-such-image')).code, 3);
		const used = await skerry('image', 'rm', 'base');

		assert.equal(used.code, 1);
		assert.match(used.err, /base/);
	});

	test('doctor names server, key and checks', async () => {
		const { out } = await skerry('doctor');

		assert.match(out, new RegExp(`^ok +server +${daemon.url}$`, 'm'));
		assert.match(out, /^ok +key +SKERRY_API_KEY$/m);
		assert.match(out, /^(ok|note) +isolation /m);
		assert.ok(JSON.parse((await skerry('doctor', '--json')).out).checks.length > 3);
		const down = await runSkerry(undefined, ['doctor', '--url', 'http://127.0.0.1:1', '--state-dir', daemon.stateDir]);

		assert.equal(down.code, 1);
		assert.match(down.out, /^FAIL server .*\n {5}start one/m);
		// The machine is looked at from here then, with the same checks.
		for (const name of ['kernel', 'features', 'kvm', 'cgroups', 'bpf', 'nftables', 'tun', 'disk', 'memory', 'descriptors', 'clock', 'qemu'])
			assert.match(down.out, new RegExp(`^(ok|note|FAIL) +${name} `, 'm'));
		const away = await runSkerry(undefined, ['doctor', '--url', 'http://skerry.invalid', '--json']);

		assert.equal(away.code, 1);
		assert.deepEqual(JSON.parse(away.out).checks.map(({ name, ok, level }) => [name, ok, level]), [['server', false, 'missing']]);
		const stranger = await runSkerry(daemon, ['doctor', '--json'], { env: { SKERRY_API_KEY: `sk_${'x'.repeat(40)}` } });

		assert.equal(stranger.code, 4);
		assert.ok(JSON.parse(stranger.out).checks.some(({ name, ok, fix }) => name === 'key' && !ok && fix));
	});

	test('doctor finds what is missing on this machine, each with what to do', async () => {
		const { code, out } = await runSkerry(undefined, ['doctor', '--local', '--json', '--state-dir', path.join(daemon.stateDir, 'a/b/c')]);
		const checks = JSON.parse(out).checks;

		assert.equal(code, checks.every(({ ok }) => ok) ? 0 : 1);
		for (const { name, level, detail, fix } of checks) {
			assert.ok(detail, name);
			assert.equal(level === 'ok', fix === null, name);
		}
		// As somebody who may nothing, most is missing; and a program that is not there is named.
		const nobody = await run('/usr/bin/setpriv', ['--reuid', '65534', '--clear-groups', skerryPath, 'doctor', '--local', '--json'],
			{ env: { PATH: '/nowhere' } }).catch((error) => error);
		const missing = JSON.parse(nobody.stdout).checks.filter(({ ok }) => !ok).map(({ name }) => name);

		assert.equal(nobody.code, 1);
		for (const name of ['root', 'bpf', 'tun', 'mke2fs', 'image tools'])
			assert.ok(missing.includes(name), `${name} in ${missing}`);
	});

	test('every command has help with examples, and knows --json', async () => {
		const overview = (await skerry('help')).out;
		const commands = [...overview.match(/^Commands\n((?: {2}.*\n)+)/m)[1].matchAll(/^ {2}(\S+(?: \S+)?) {2,}/gm)].map(([, name]) => name);

		assert.ok(commands.length >= 14, commands.join(', '));
		for (const command of commands) {
			const { code, out } = await skerry(...command.split(' '), '--help');

			assert.equal(code, 0);
			assert.match(out, new RegExp(`^skerry ${command} \\[OPTIONS\\]`));
			assert.match(out, /^Examples\n {2}# .*\n {2}.*skerry /m, command);
			assert.match(out, /--json/);
			// Of a command that is a group too, what belongs to the group follows.
			assert.ok((await skerry('help', ...command.split(' '))).out.startsWith(out), command);
		}
		const own = (await runSkerry(undefined, ['--version'])).out;

		assert.match(own, /^skerry \d+\.\d+\.\d+(-[\w.]+)?(\+[\w.]+)?\n$/);
		assert.equal((await skerry('version', '--client')).out, own);
		const both = await skerry('version');

		assert.deepEqual([both.code, both.err], [0, '']);
		assert.equal(both.out, `${own}skerryd ${own.trim().split(' ')[1]} at ${daemon.url.replace(/\/$/, '')}\n`);
		const alone = await runSkerry(undefined, ['version', '--url', 'http://127.0.0.1:1']);

		assert.deepEqual([alone.code, alone.out], [0, own]);
		assert.match(alone.err, /no server answers/);
		assert.equal(JSON.parse((await skerry('help', '--json')).out).commands.length, commands.length);
		assert.equal((await skerry()).code, 2);
	});

	test('mcp config: right for each client, and the key is never in it unless asked for', async () => {
		const config = async (client, ...more) => {
			const { code, out, err } = await skerry('mcp', 'config', '--client', client, ...more);

			assert.equal(code, 0, err);
			assert.ok(out.includes(`${daemon.url}/mcp`), out);
			assert.equal(out.includes(daemon.key), more.includes('--show-key'), client);
			return out;
		};

		assert.deepEqual(JSON.parse(await config('claude-code')).mcpServers.skerry, {
			type: 'http', url: `${daemon.url}/mcp`, headers: { Authorization: 'Bearer ${SKERRY_API_KEY}' },
		});
		assert.equal(JSON.parse(await config('claude-code', '--show-key')).mcpServers.skerry.headers.Authorization, `Bearer ${daemon.key}`);
		assert.equal(JSON.parse(await config('vscode')).inputs[0].password, true);
		assert.equal(JSON.parse(await config('vscode', '--show-key')).inputs, undefined);
		assert.equal(JSON.parse(await config('cursor')).mcpServers.skerry.headers.Authorization, 'Bearer ${env:SKERRY_API_KEY}');
		assert.equal(JSON.parse(await config('gemini')).mcpServers.skerry.httpUrl, `${daemon.url}/mcp`);
		assert.match(await config('codex'), /^bearer_token_env_var = "SKERRY_API_KEY"$/m);
		assert.match(await config('codex', '--show-key'), new RegExp(`Bearer ${daemon.key}`));
		assert.match(await config('goose'), /type: streamable_http/);
		for (const client of ['langchain', 'openai-agents'])
			for (const more of [[], ['--show-key']])
				await run('python3', ['-c', 'import sys; compile(sys.argv[1], "config", "exec")', await config(client, ...more)]);
		assert.deepEqual(JSON.parse(await (await skerry('mcp', 'config', '--client', 'stdio')).out).mcpServers.skerry, {
			command: 'skerry', args: ['mcp'], env: { SKERRY_URL: daemon.url.replace(/\/$/, ''), SKERRY_API_KEY: 'PUT THE KEY HERE' },
		});
		assert.equal((await skerry('mcp', 'config')).code, 2);
	});

	test('the key of a local server\'s file goes to this machine only', async () => {
		const seen = [];
		const server = http.createServer((req, res) => {
			seen.push(req.headers.authorization);
			res.writeHead(200, { 'Content-Type': 'application/json' });
			res.end('{"items":[],"next_cursor":null}');
		});

		await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
		const { port } = server.address();

		// no proxy is asked for a loopback address, whatever the environment says
		await runSkerry(undefined, ['ls', '--url', `http://127.0.0.1:${port}`],
			{ env: { SKERRY_API_KEY: 'sk_test', http_proxy: 'http://127.0.0.1:1', all_proxy: 'http://127.0.0.1:1' } });
		assert.deepEqual(seen, ['Bearer sk_test']);
		server.close();
	});
});

describe('manual pages', () => {
	const pages = {
		'skerry.1': path.join(build, 'src/cli/skerry.1'),
		'skerryd.8': path.join(repository, 'man/skerryd.8'),
		'skerryd.conf.5': path.join(repository, 'man/skerryd.conf.5'),
	};
	// As a reader sees it, with line breaks taken back.
	const text = async (page) => (await run('bash', ['-c', `MANWIDTH=1000 man -l -Tascii '${pages[page]}' | col -b`])).stdout;

	for (const [name, file] of Object.entries(pages))
		test(`${name} is without errors`, async () => {
			const { stdout, stderr } = await run('groff', ['-man', '-Tutf8', '-ww', '-z', file]);

			assert.equal(stdout + stderr, '');
		});

	test('skerry(1) has every command, option and example of --help, and the reverse', async () => {
		const whole = (await text('skerry.1')).replaceAll('\u2010', '-');
		const page = whole.replaceAll(/\s+/g, ' ');
		// What stands between the synopsis of a command and that of the next.
		const section = (synopsis) => {
			const from = whole.split('\n').findIndex((line) => line.trim() === synopsis);
			const rest = whole.split('\n').slice(from + 1);
			const end = rest.findIndex((line) => /^ {3}skerry |^[A-Z]/.test(line));

			assert.ok(from >= 0, synopsis);
			return rest.slice(0, end).join(' ').replaceAll(/\s+/g, ' ');
		};
		const overview = (await skerry('help')).out;
		const commands = [...overview.match(/^Commands\n((?: {2}.*\n)+)/m)[1].matchAll(/^ {2}(\S+(?: \S+)?) {2,}/gm)].map(([, name]) => name);
		const known = new Set();

		for (const command of commands) {
			const help = (await skerry(...command.split(' '), '--help')).out;

			assert.ok(page.includes(help.split('\n')[0].replaceAll('…', '...')), help.split('\n')[0]);
			const own = section(help.split('\n')[0].replaceAll('…', '...'));

			for (const [, option] of help.matchAll(/(--[a-z-]+)/g)) {
				known.add(option);
				assert.ok(page.includes(option), `${command} ${option}`);
			}
			// Its own options, with letter and metavariable, in its own section.
			for (const [, option] of (help.match(/^Options\n((?: {2}.*\n)+)/m)?.[1] ?? '').matchAll(/^ {2}((?:-\w, )?--\S+(?: [A-Z]\S*)?)/gm))
				assert.ok(own.includes(option), `${command} ${option} in '${own}'`);
			for (const [, example] of help.matchAll(/^ {2}# .*\n {2}(.*)$/gm))
				assert.ok(page.includes(example.replaceAll('…', '...').replaceAll(/\s+/g, ' ')), example);
		}
		for (const [, option] of page.matchAll(/(?<![\w-])(--[a-z][a-z-]+)/g))
			assert.ok(known.has(option), `${option} is in the page only`);
	});

	test('skerryd(8) has the options of --help, and the reverse', async () => {
		const page = await text('skerryd.8');
		const help = (await run(path.join(build, 'skerryd'), ['--help'])).stdout;
		const options = (from) => [...new Set([...from.matchAll(/--[a-z][a-z-]+/g)].map(([option]) => option))].sort();

		assert.deepEqual(options(page), options(help));
	});

	test('skerryd.conf(5) has every limit, and what it shows is accepted', async () => {
		const page = await text('skerryd.conf.5');
		const limits = (await daemon.request('GET', '/v1/limits')).json;

		for (const [name, value] of Object.entries(limits).filter(([, value]) => typeof value !== 'object')) {
			assert.ok(page.includes(name), name);
			// its default stands below it
			const entry = page.slice(page.indexOf(name)).split('\n').slice(0, 5).join(' ').replaceAll(/\s+/g, ' ');

			assert.ok(entry.includes(String(value)), `${name}: ${value} is not in '${entry}'`);
		}
		const example = page.slice(page.indexOf('\nEXAMPLE')).split('\n').slice(2)
			.map((line) => line.trim()).filter((line) => /^\[|=/.test(line) && !/^(listen|tls_)/.test(line)).join('\n');
		const file = path.join(daemon.stateDir, 'example.conf');

		fs.writeFileSync(file, `${example}\n`);
		const { stdout } = await run(path.join(build, 'skerryd'), ['--config', file, '--version']);

		assert.match(stdout, /^skerryd /);
	});
});
