// Files of real sandboxes over REST: round trips of every kind of content and name, ranges, modes and
// owners, what is refused and what that leaves, clients and daemons that vanish, archives, pauses.

import assert from 'node:assert/strict';
import crypto from 'node:crypto';
import fs from 'node:fs';
import http from 'node:http';
import net from 'node:net';
import os from 'node:os';
import nodePath from 'node:path';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';

import { runSkerry } from './lib/cli.mjs';
import { startDaemon } from './lib/daemon.mjs';

const MB = 1 << 20;
const HUGE = 100 * MB;
const TRANSFERS = 6;

let daemon, id;

before(async () => {
	daemon = await startDaemon({ config: { limits: { transfers_per_sandbox: TRANSFERS } } });
	await daemon.ensureImage('base');
	id = (await good('POST', '/v1/sandboxes', { timeout_minutes: 30 })).id;
});
after(() => daemon?.stop());

async function good(method, route, body) {
	const answer = await daemon.request(method, route, body);

	assert.ok(answer.status < 300, `${method} ${route}: ${answer.status} ${answer.text}`);
	return answer.json;
}

const query = (args) => new URLSearchParams(args).toString();
const route = (part, args, sandbox = id) => `/v1/sandboxes/${sandbox}/${part}?${query(args)}`;
const headers = (more = {}) => ({ Authorization: `Bearer ${daemon.key}`, ...more });

// {status, headers, bytes, json}
async function send(method, path, { body, more, duplex } = {}) {
	const response = await fetch(new URL(path, daemon.url), { method, body, duplex, headers: headers(more) });
	const bytes = Buffer.from(await response.arrayBuffer());
	const isJson = /json/.test(response.headers.get('content-type') ?? '');

	return { status: response.status, headers: response.headers, bytes, json: isJson && bytes.length ? JSON.parse(bytes) : undefined };
}

async function put(path, body, args = {}, wanted = [200, 201]) {
	const answer = await send('PUT', route('files', { path, ...args }), { body });

	assert.ok([wanted].flat().includes(answer.status), `PUT ${path}: ${answer.status} ${answer.bytes}`);
	return answer.json;
}

async function get(path, { more, args = {}, wanted = 200 } = {}) {
	const answer = await send('GET', route('files', { path, ...args }), { more });

	assert.equal(answer.status, wanted, `GET ${path}: ${answer.status} ${answer.bytes.subarray(0, 500)}`);
	return answer;
}

async function refused(status, code, method, path, options) {
	const answer = await send(method, path, options);

	assert.equal(answer.status, status, `${method} ${path}: ${answer.bytes}`);
	assert.equal(answer.json.code, code);
	return answer.json;
}

async function run(command, more = {}) {
	const result = await good('POST', `/v1/sandboxes/${id}/exec`, { command, ...more });

	assert.equal(result.exit_code, 0, `${command}: ${result.stderr}`);
	return result.stdout;
}

const sha = (bytes) => crypto.createHash('sha256').update(bytes).digest('hex');

// Bytes of every value, the same each time.
function pattern(n, seed = 1) {
	const bytes = Buffer.alloc(n);
	let x = seed;

	for (let i = 0; i < n; i++) {
		x = (Math.imul(x, 1103515245) + 12345) >>> 0;
		bytes[i] = x >>> 16;
	}
	return bytes;
}

describe('one file', () => {
	test('contents come back as they were', async () => {
		const contents = {
			empty: Buffer.alloc(0), nul: Buffer.from([0]), every: Buffer.from(Array.from({ length: 256 }, (_, i) => i)),
			'no-newline': Buffer.from('no newline'), 'half-utf8': Buffer.from([0xc3]), odd: pattern(1_000_003),
		};

		for (const [name, bytes] of Object.entries(contents)) {
			const entry = await put(name, bytes);

			assert.equal(entry.size, bytes.length, name);
			assert.equal(entry.user, 'sandbox');
			assert.equal((await run(`sha256sum <${name}`)).split(' ')[0], sha(bytes), name);
			assert.ok((await get(name)).bytes.equals(bytes), name);
		}
	});

	test('a hundred megabytes, in a body of unknown length', async () => {
		const bytes = pattern(MB);
		const hash = crypto.createHash('sha256');

		async function* chunks() {
			for (let i = 0; i < HUGE / MB; i++)
				yield bytes;
		}
		for (let i = 0; i < HUGE / MB; i++)
			hash.update(bytes);
		const answer = await send('PUT', route('files', { path: 'huge' }), { body: chunks(), duplex: 'half' });

		assert.equal(answer.status, 201, String(answer.bytes));
		assert.equal(answer.json.size, HUGE);
		const back = (await get('huge')).bytes;

		assert.equal(back.length, HUGE);
		assert.equal(sha(back), hash.digest('hex'));
		assert.equal(await run('stat -c %s huge; rm huge'), `${HUGE}\n`);
	});

	test('names of every kind', async () => {
		const names = ['with space', 'ünïcode ✓', 'new\nline', '-dash', '.hidden', "quote'\"", 'per%41cent', 'a+b&c=d', 'x'.repeat(255)];

		await run('mkdir names');
		for (const name of names) {
			await put(`names/${name}`, name);
			assert.equal((await get(`names/${name}`)).bytes.toString(), name);
		}
		const listed = (await good('GET', route('files/list', { path: 'names' }))).items;

		assert.deepEqual(listed.map((item) => item.name).sort(), [...names].sort());
		assert.equal(await run('cd names && ls -A | wc -l; cat ./new*'), `${names.length + 1}\nnew\nline`);
		await refused(400, 'invalid_path', 'PUT', route('files', { path: 'x'.repeat(256) }), { body: 'x' });
	});

	test('ranges and validators', async () => {
		await put('ranged', '0123456789');
		const whole = await get('ranged');
		const etag = whole.headers.get('etag');
		const part = (range, more = {}, wanted = 206) => get('ranged', { more: { Range: range, ...more }, wanted });

		assert.equal(whole.headers.get('accept-ranges'), 'bytes');
		assert.equal((await part('bytes=2-4')).bytes.toString(), '234');
		assert.equal((await part('bytes=2-4')).headers.get('content-range'), 'bytes 2-4/10');
		assert.equal((await part('bytes=-3')).bytes.toString(), '789');
		assert.equal((await part('bytes=8-')).bytes.toString(), '89');
		assert.equal((await part('bytes=10-', {}, 416)).headers.get('content-range'), 'bytes */10');
		assert.equal((await part('bytes=2-4', { 'If-Range': etag })).bytes.toString(), '234');
		assert.equal((await get('ranged', { more: { 'If-None-Match': etag }, wanted: 304 })).bytes.length, 0);
		await put('ranged', 'abcdefghij');
		assert.notEqual((await get('ranged')).headers.get('etag'), etag);
		assert.equal((await part('bytes=2-4', { 'If-Range': etag }, 200)).bytes.toString(), 'abcdefghij');
		const head = await send('HEAD', route('files', { path: 'ranged' }));

		assert.equal(head.status, 200);
		assert.equal(head.headers.get('content-length'), '10');
		assert.match((await get('/proc/meminfo')).bytes.toString(), /^MemTotal:/);
	});

	test('modes and owners are given, kept and told', async () => {
		await put('script', '#!/bin/sh\necho ran\n', { mode: '0755' });
		assert.equal(await run('./script'), 'ran\n');
		assert.equal((await put('script', '#!/bin/sh\necho again\n')).mode, '0755');
		assert.equal(await run('./script'), 'again\n');
		const answer = await get('script');

		assert.equal(answer.headers.get('x-file-mode'), '0755');
		assert.equal(answer.headers.get('x-file-user'), 'sandbox');
		const owned = await put('/root/secret', 'x', { user: 'root', mode: '600' });

		assert.deepEqual([owned.user, owned.uid, owned.mode], ['root', 0, '0600']);
		await refused(403, 'permission_denied', 'GET', route('files', { path: '/root/secret' }));
		await refused(403, 'permission_denied', 'PUT', route('files', { path: '/etc/passwd' }), { body: 'x' });
		assert.equal((await get('/root/secret', { args: { user: 'root' } })).bytes.toString(), 'x');
		await put('script', 'kept', { user: 'root' });
		assert.equal(await run('stat -c %U:%a script'), 'sandbox:755\n');
		await refused(422, 'user_not_found', 'GET', route('files', { path: 'script', user: 'nobody-here' }));
	});

	test('what is refused leaves what there was', async () => {
		await put('old', 'as it was');
		await refused(409, 'file_exists', 'PUT', route('files', { path: 'old', overwrite: false }), { body: 'x' });
		await refused(409, 'is_a_directory', 'PUT', route('files', { path: 'names' }), { body: 'x' });
		await refused(409, 'is_a_directory', 'GET', route('files', { path: 'names' }));
		await refused(409, 'not_a_directory', 'PUT', route('files', { path: 'old/below' }), { body: 'x' });
		await refused(404, 'file_not_found', 'PUT', route('files', { path: 'no/such/dir' }), { body: 'x' });
		await refused(404, 'file_not_found', 'GET', route('files', { path: 'no' }));
		await put('no/such/dir', 'x', { parents: true });
		await refused(400, 'invalid_argument', 'PUT', route('files', { path: 'old', mode: '0999' }), { body: 'x' });
		await refused(404, 'not_found', 'GET', route('files', { path: 'old' }, 'sbx_00000000'));
		assert.equal(await run('cat old'), 'as it was');
	});

	test('directories, moves and removals', async () => {
		await good('POST', `/v1/sandboxes/${id}/files/mkdir`, { path: 'd/e', parents: true, mode: '0700' });
		for (const name of ['c', 'a', 'b'])
			await put(`d/e/${name}`, name);
		const page = await good('GET', route('files/list', { path: 'd/e', limit: 2 }));

		assert.deepEqual(page.items.map((item) => item.name), ['a', 'b']);
		const rest = await good('GET', route('files/list', { path: 'd/e', limit: 2, cursor: page.next_cursor }));

		assert.deepEqual([rest.items.map((item) => item.name), rest.next_cursor], [['c'], null]);
		await run('ln -s e/a d/link');
		const link = await good('GET', route('files/stat', { path: 'd/link' }));

		assert.deepEqual([link.type, link.target], ['symlink', 'e/a']);
		const move = (body) => send('POST', `/v1/sandboxes/${id}/files/move`,
			{ body: JSON.stringify(body), more: { 'Content-Type': 'application/json' } });

		assert.equal((await move({ from: 'd/e/a', to: 'd/e/b' })).json.code, 'file_exists');
		assert.equal((await move({ from: 'd/e/a', to: 'd/e/b', overwrite: true })).status, 200);
		assert.equal(await run('cat d/e/b'), 'a');
		await refused(409, 'directory_not_empty', 'DELETE', route('files', { path: 'd' }));
		await good('DELETE', route('files', { path: 'd', recursive: true }));
		await refused(404, 'file_not_found', 'DELETE', route('files', { path: 'd' }));
	});
});

describe('what goes wrong on the way', () => {
	// "An upload says ok and the file is absent or short", and "a disk quota is not one".
	test('a disk that is full is said, and the old file stays', async () => {
		await run('mkdir -p /mnt/small && mount -t tmpfs -o size=4m none /mnt/small && chmod 777 /mnt/small', { user: 'root' });
		await put('/mnt/small/kept', 'as it was');
		const announced = await refused(507, 'disk_full', 'PUT', route('files', { path: '/mnt/small/kept' }), { body: pattern(5 * MB) });

		assert.match(announced.detail, /kept/);
		async function* chunks() {
			for (let i = 0; i < 5; i++)
				yield pattern(MB, i + 1);
		}
		await refused(507, 'disk_full', 'PUT', route('files', { path: '/mnt/small/kept' }), { body: chunks(), duplex: 'half' });
		assert.equal(await run('cat /mnt/small/kept; ls -A /mnt/small'), 'as it waskept\n');
		await put('/mnt/small/fits', pattern(2 * MB));
		// The sandbox's own disk, at its quota: said before a byte was sent.
		await run('fallocate -l $(($(df --output=avail -B1 . | tail -1) - 50000000)) filler');
		assert.match(await askFirst(100 * MB, 'too-much'), /^HTTP\/1.1 507 /);
		assert.match(await askFirst(MB, 'little'), /^HTTP\/1.1 100 /);
		await run('rm filler');
		assert.match(await askFirst(100 * MB, 'too-much'), /^HTTP\/1.1 100 /);
		await refused(404, 'file_not_found', 'GET', route('files', { path: 'too-much' }));
	});

	test('a client that vanishes leaves the old file, and nothing else', async () => {
		await put('vanish/file', 'as it was', { parents: true });
		for (const framing of [`Content-Length: ${MB}`, 'Transfer-Encoding: chunked']) {
			const { hostname, port } = new URL(daemon.url);
			const socket = net.connect(Number(port), hostname);

			socket.write(`PUT ${route('files', { path: 'vanish/file' })} HTTP/1.1\r\nHost: ${hostname}\r\n` +
				`Authorization: Bearer ${daemon.key}\r\n${framing}\r\n\r\n`);
			socket.write(framing.startsWith('T') ? '5\r\nthese\r\n' : 'these');
			await sleep(500);
			socket.destroy();
		}
		await put('vanish/other', 'x'); // what came before has been dealt with
		assert.equal(await run('cat vanish/file; ls -A vanish'), 'as it wasfile\nother\n');
	});

	test('a daemon that is killed leaves an unanswered upload undone', async () => {
		await put('killed', 'as it was');
		const { hostname, port } = new URL(daemon.url);
		const socket = net.connect(Number(port), hostname);

		socket.on('error', () => {});
		socket.write(`PUT ${route('files', { path: 'killed' })} HTTP/1.1\r\nHost: ${hostname}\r\n` +
			`Authorization: Bearer ${daemon.key}\r\nContent-Length: ${MB}\r\n\r\n${'x'.repeat(MB / 2)}`);
		await sleep(500);
		await daemon.kill();
		socket.destroy();
		await daemon.start();
		assert.equal((await get('killed')).bytes.toString(), 'as it was');
		assert.equal(await run('ls -A | grep -c skerry- || true'), '0\n');
	});

	test('a client that does not read costs nothing, and others go on', async () => {
		await run('head -c 50000000 /dev/zero >zeros');
		const before = await memoryKib(daemon.pid);
		const sockets = Array.from({ length: TRANSFERS - 1 }, () => stalled('zeros'));

		await sleep(1500);
		await put('beside', 'x');
		assert.equal(await run('echo beside'), 'beside\n');
		assert.ok(await memoryKib(daemon.pid) - before < 16 * 1024, 'the daemon keeps what nobody reads');
		sockets.push(stalled('zeros'));
		await sleep(500);
		await refused(429, 'files_limit', 'GET', route('files/stat', { path: 'zeros' }));
		for (const socket of sockets)
			socket.destroy();
		while ((await send('GET', route('files/stat', { path: 'zeros' }))).status === 429)
			await sleep(20);
		await run('rm zeros');
	});
});

describe('trees', () => {
	const tree = (path, args = {}) => route('tree', { path, ...args });

	test('an archive comes out as it went in', async () => {
		await run(`mkdir -p t/sub/empty && cd t && printf a >sub/a && printf '\\0' >'n\nl' && ln -s ../sub/a sub/link &&
			ln -s /etc/hostname abs && chmod 750 sub && chmod 4711 sub/a && mkfifo pipe &&
			touch -d '2001-02-03 04:05:06.789 UTC' sub/a && mkdir -p ${'long/'.repeat(50)} && touch ${'long/'.repeat(50)}end`);
		const answer = await send('GET', tree('t'));

		assert.equal(answer.status, 200);
		assert.equal(answer.headers.get('content-type'), 'application/x-tar');
		// The sandbox's own tar understands it …
		await put('t.tar', answer.bytes);
		const names = (await run('tar -tf t.tar --quoting-style=escape')).split('\n');

		for (const name of ['./', 'sub/', 'sub/empty/', 'sub/a', 'sub/link', 'abs', 'n\\nl', `${'long/'.repeat(50)}end`])
			assert.ok(names.includes(name), `${name} in ${names}`);
		assert.ok(!names.includes('pipe'));
		// … and so does what unpacks.
		const made = await send('PUT', tree('u/v', { parents: true }), { body: answer.bytes });

		assert.equal(made.status, 200, String(made.bytes));
		assert.equal(made.json.bytes, 2);
		assert.equal(await run('cd u/v && stat -c "%n %a %Y" sub sub/a && readlink sub/link abs && find . | wc -l'),
			await run('cd t && rm pipe && stat -c "%n %a %Y" sub && stat -c "%n 711 %Y" sub/a && readlink sub/link abs && find . | wc -l'));
	});

	test("another tar's archives are understood", async () => {
		for (const format of ['gnu', 'pax', 'ustar', 'v7']) {
			await run(`rm -rf in out && mkdir -p in/d out && seq 1000 >in/d/seq && ln in/d/seq in/d/hard && ln -s seq in/d/soft &&
				tar --format=${format} -C in -cf x.tar . && mkdir x-${format}`);
			const archive = (await get('x.tar')).bytes;
			const answer = await send('PUT', tree(`x-${format}`), { body: archive });

			assert.equal(answer.status, 200, `${format}: ${answer.bytes}`);
			assert.equal(await run(`diff -r in x-${format} && stat -c %h x-${format}/d/seq`), '2\n', format);
		}
	});

	test('what would lead out is refused', async () => {
		await run(`rm -rf evil && mkdir -p evil/target && cd evil && printf x >f &&
			tar -cPf abs.tar --transform 's|^f$|/tmp/evil-abs|' f && tar -cPf dots.tar --transform 's|^f$|../evil-dots|' f &&
			mkdir l && ln -s /tmp l/out && tar -cf link.tar -C l out && rm l/out && mkdir l/out && cp f l/out/evil-link &&
			tar -rf link.tar -C l out/evil-link && mkfifo p && tar -cf fifo.tar p && head -c 3000 f abs.tar >noise`);
		await run('cd /home/sandbox/evil && mknod null c 1 3 && tar -cf device.tar null && chmod 644 device.tar', { user: 'root' });
		for (const name of ['abs.tar', 'dots.tar', 'link.tar', 'fifo.tar', 'device.tar', 'noise']) {
			const archive = (await get(`evil/${name}`)).bytes;

			for (const user of ['sandbox', 'root'])
				await refused(400, 'invalid_archive', 'PUT', tree('/home/sandbox/evil/target', { user }), { body: archive });
		}
		assert.equal(await run('ls -d /tmp/evil-* /home/sandbox/evil/evil-* 2>/dev/null | wc -l'), '0\n');
		await refused(400, 'invalid_archive', 'PUT', tree('evil/target'), { body: '' });
		await refused(404, 'file_not_found', 'GET', tree('nowhere'));
		await refused(409, 'not_a_directory', 'GET', tree('evil/f'));
	});

	test('owners as the archive has them, for root', async () => {
		await run('rm -rf /srv/own && mkdir -p /srv/own && cd /srv/own && touch a b && chown sandbox a && chmod 4755 a', { user: 'root' });
		const archive = (await send('GET', tree('/srv/own', { user: 'root' }))).bytes;

		assert.equal((await send('PUT', tree('/srv/own2', { user: 'root', parents: true, owners: true }), { body: archive })).status, 200);
		assert.equal(await run('cd /srv/own2 && stat -c "%n %U %a" a b'), 'a sandbox 4755\nb root 644\n');
	});
});

describe('skerry cp', () => {
	const work = fs.mkdtempSync(nodePath.join(os.tmpdir(), 'skerry-cp-'));
	const here = (name) => nodePath.join(work, name);
	const text = (name) => fs.readFileSync(here(name), 'utf8');

	after(() => fs.rmSync(work, { recursive: true }));

	async function cp(...args) {
		const result = await runSkerry(daemon, ['cp', ...args]);

		assert.equal(result.code, 0, `cp ${args.join(' ')}: ${result.err}`);
		return result;
	}

	async function cpFails(code, words, ...args) {
		const result = await runSkerry(daemon, ['cp', ...args]);

		assert.equal(result.code, code, `cp ${args.join(' ')}: ${result.err}`);
		assert.match(result.err, words);
	}

	test('a file there and back', async () => {
		fs.writeFileSync(here('f'), pattern(3_000_001), { mode: 0o751 });
		await cp(here('f'), `${id}:`);
		assert.equal(await run('stat -c "%s %a" f && rm -rf cpd && mkdir cpd'), '3000001 751\n');
		await cp(here('f'), `${id}:cpd`);
		await cp(here('f'), `${id}:cpd/g`);
		await cp('--parents', here('f'), `${id}:cpd/deep/er/`);
		assert.equal(await run('cmp f cpd/f && cmp f cpd/g && cmp f cpd/deep/er/f && echo same'), 'same\n');
		await cp(`${id}:cpd/g`, here('back'));
		assert.ok(fs.readFileSync(here('back')).equals(fs.readFileSync(here('f'))));
		assert.equal(fs.statSync(here('back')).mode & 0o777, 0o751);
		await cp(`${id}:f`, work);
		await run(': >empty && chmod 600 empty');
		await cp(`${id}:empty`, here('empty'));
		assert.equal(fs.statSync(here('empty')).size, 0);
		assert.equal(fs.statSync(here('empty')).mode & 0o777, 0o600);
		assert.deepEqual(fs.readdirSync(work).filter((name) => name.startsWith('.skerry')), []);
	});

	test('standard input and output', async () => {
		const result = await runSkerry(daemon, ['cp', '-', `${id}:piped`], { input: 'through a pipe\0' });

		assert.equal(result.code, 0, result.err);
		assert.equal((await cp(`${id}:piped`, '-')).out, 'through a pipe\0');
		const nameless = await runSkerry(daemon, ['cp', '-', `${id}:`], { input: 'x' });

		assert.equal(nameless.code, 2);
		assert.match(nameless.err, /has no name/);
	});

	test('directories there and back', async () => {
		fs.mkdirSync(here('tree/sub/empty'), { recursive: true });
		fs.writeFileSync(here('tree/sub/run'), '#!/bin/sh\n', { mode: 0o755 });
		fs.writeFileSync(here('tree/a file'), 'content');
		fs.symlinkSync('sub/run', here('tree/link'));
		await cpFails(2, /is a directory[^]*-r/, here('tree'), `${id}:`);
		await cp('-r', here('tree'), `${id}:`);
		await cp('-r', here('tree'), `${id}:renamed`);
		assert.equal(await run('diff -r tree renamed && cat "tree/a file" && readlink tree/link && stat -c %a tree/sub/run && ls tree/sub'),
			'contentsub/run\n755\nempty\nrun\n');
		await cpFails(2, /is a directory[^]*-r/, `${id}:tree`, here('t'));
		await cp('-r', `${id}:tree`, here('t'));
		await cp('-r', `${id}:tree`, here('t'));
		for (const top of ['t', 't/tree']) {
			assert.equal(text(`${top}/a file`), 'content');
			assert.equal(fs.readlinkSync(here(`${top}/link`)), 'sub/run');
			assert.equal(fs.statSync(here(`${top}/sub/run`)).mode & 0o777, 0o755);
			assert.ok(fs.statSync(here(`${top}/sub/empty`)).isDirectory());
		}
		await cp('-r', `${id}:tree/a file`, here('single'));
		assert.equal(text('single'), 'content');
	});

	test('failures say what and what next, and leave what was there', async () => {
		fs.writeFileSync(here('kept'), 'kept');
		await cpFails(3, /No such file/, `${id}:nowhere`, here('kept'));
		assert.equal(text('kept'), 'kept');
		await cpFails(1, /cannot read '.*absent'/, here('absent'), `${id}:x`);
		await cpFails(4, /Permission denied[^]*user=root/, here('kept'), `${id}:/etc/kept`);
		await cp('-u', 'root', here('kept'), `${id}:/etc/kept`);
		await cpFails(2, /no end is in a sandbox/, here('kept'), here('x'));
		await cpFails(2, /both ends/, `${id}:a`, `${id}:b`);
		await cpFails(3, /no living sandbox named/, `nobody:a`, here('x'));
		await run('mkdir -p unreadable && cd unreadable && touch a && chmod 600 a && chown root a', { user: 'root', cwd: '/home/sandbox' });
		await cpFails(4, /Permission denied/, '-r', `${id}:unreadable`, here('u'));
	});
});

describe('sandboxes', () => {
	test('a paused one is resumed by what is asked of its files, and a pause ends a transfer', async () => {
		await put('before', 'the pause');
		await good('POST', `/v1/sandboxes/${id}/pause`);
		assert.equal((await get('before')).bytes.toString(), 'the pause');
		await good('POST', `/v1/sandboxes/${id}/pause`);
		assert.equal((await put('before', 'changed')).size, 7);
		await run('head -c 20000000 /dev/zero >zeros');
		const cut = new Promise((resolve, reject) => {
			http.get(new URL(route('files', { path: 'zeros' }), daemon.url), { headers: headers(), agent: false }, (response) => {
				response.pause(); // until it is paused
				setTimeout(() => response.resume(), 3000);
				response.on('data', () => {});
				response.on('end', () => resolve(response.complete));
				response.on('error', () => resolve(false));
			}).on('error', reject);
		});

		await sleep(500);
		await good('POST', `/v1/sandboxes/${id}/pause`);
		assert.equal(await cut, false);
		assert.equal(await run('cat before; rm zeros'), 'changed');
	});

	test('its end is told', async () => {
		const other = await good('POST', '/v1/sandboxes', {});

		await good('POST', `/v1/sandboxes/${other.id}/exec`, { command: 'head -c 20000000 /dev/zero >zeros' });
		const socket = stalled('zeros', other.id);
		const closed = new Promise((resolve) => socket.once('close', resolve));

		await sleep(500);
		await good('DELETE', `/v1/sandboxes/${other.id}`);
		socket.resume();
		await closed; // broken off, not waited for
		await refused(410, 'sandbox_ended', 'GET', route('files', { path: 'x' }, other.id));
		await refused(410, 'sandbox_ended', 'PUT', route('files', { path: 'x' }, other.id), { body: pattern(MB) });
	});

	test('files are no commands', async () => {
		const list = await daemon.request('GET', `/v1/sandboxes/${id}/exec/file_0123456789abcdef`);

		assert.equal(list.status, 404);
		assert.equal(await run('ls /run/skerry/exec | grep -c file_ || true'), '0\n');
	});
});

// Announces a body and gives the first words of the answer: nothing is sent of it.
function askFirst(length, path) {
	const { hostname, port } = new URL(daemon.url);

	return new Promise((resolve, reject) => {
		const socket = net.connect(Number(port), hostname);

		socket.once('error', reject);
		socket.once('data', (bytes) => {
			socket.destroy();
			resolve(bytes.toString());
		});
		socket.write(`PUT ${route('files', { path })} HTTP/1.1\r\nHost: ${hostname}\r\nExpect: 100-continue\r\n` +
			`Authorization: Bearer ${daemon.key}\r\nContent-Length: ${length}\r\n\r\n`);
	});
}

// A download that nobody reads.
function stalled(path, sandbox = id) {
	const { hostname, port } = new URL(daemon.url);
	const socket = net.connect(Number(port), hostname);

	socket.on('error', () => {});
	socket.pause();
	socket.write(`GET ${route('files', { path }, sandbox)} HTTP/1.1\r\nHost: ${hostname}\r\nAuthorization: Bearer ${daemon.key}\r\n\r\n`);
	return socket;
}

async function memoryKib(pid) {
	const { readFile } = await import('node:fs/promises');

	return Number((await readFile(`/proc/${pid}/status`, 'utf8')).match(/VmRSS:\s+(\d+)/)[1]);
}
