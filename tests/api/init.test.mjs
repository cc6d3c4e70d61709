// skerry init against real file systems: an ext4 image stands for the machine's disk, on which it makes
// and mounts an XFS image with reflink. Nothing outside of the test's directory is touched (--boot none).

import assert from 'node:assert/strict';
import { execFile, execFileSync } from 'node:child_process';
import fs from 'node:fs';
import http from 'node:http';
import os from 'node:os';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { promisify } from 'node:util';

import { runSkerry, skerryPath } from './lib/cli.mjs';

const DISK_BYTES = 6 * 2 ** 30; // sparse
const work = fs.mkdtempSync(path.join(os.tmpdir(), 'skerry-init-'));
const disk = path.join(work, 'disk');
const image = `${disk}.img`;
let skip = false;

const run = (program, ...args) => execFileSync(program, args, { stdio: 'pipe', encoding: 'utf8' });
const nobody = { SKERRY_URL: 'http://127.0.0.1:1' }; // no server answers there
const init = (dir, ...args) => runSkerry(undefined, ['init', '--state-dir', dir, '--boot', 'none', ...args], { env: nobody });
const isMounted = (dir) => fs.readFileSync('/proc/self/mountinfo', 'utf8').split('\n').some((line) => line.split(' ')[4] === dir);

function canClone(dir) {
	const from = path.join(dir, 'from'), to = path.join(dir, 'to');

	fs.writeFileSync(from, 'x'.repeat(100_000));
	try {
		fs.copyFileSync(from, to, fs.constants.COPYFILE_FICLONE_FORCE);
		return true;
	} catch (error) {
		assert.match(error.code, /ENOTSUP|EOPNOTSUPP|EXDEV|EINVAL/);
		return false;
	} finally {
		fs.rmSync(from);
		fs.rmSync(to, { force: true });
	}
}

before(() => {
	fs.mkdirSync(disk);
	fs.writeFileSync(image, '');
	fs.truncateSync(image, DISK_BYTES);
	try {
		if (process.getuid() !== 0)
			throw new Error('not root');
		run('mke2fs', '-q', '-F', '-t', 'ext4', image);
		run('mount', '-o', 'loop', image, disk);
	} catch (error) {
		skip = `SKIPPED: no loop mounts here: ${error.message.split('\n')[0]}`;
	}
});

after(() => {
	for (const dir of [path.join(disk, 'state'), disk])
		if (isMounted(dir))
			run('umount', dir);
	fs.rmSync(work, { recursive: true, force: true });
});

describe('init', () => {
	const state = path.join(disk, 'state');
	const xfs = `${state}.xfs`;
	const needed = (t) => skip && (process.stderr.write(`${skip}\n`), t.skip(skip), true);

	test('without being asked for it makes the directory alone, and says what it could do', async (t) => {
		if (needed(t))
			return;
		const { code, out, err } = await init(state);

		assert.equal(code, 0, err);
		assert.match(out, /done +state directory +\S+state\n/);
		assert.match(out, /skipped +file system .*--reflink=yes/);
		assert.match(out, /skipped +service .*skerryd --state-dir \S+state/);
		assert.match(out, /skipped +image .*no server answers.*skerry image build base/);
		assert.equal(fs.statSync(state).mode & 0o7777, 0o700);
		assert.equal(isMounted(state), false);
		assert.equal(canClone(state), false);
	});

	test('refuses what it cannot do, and leaves nothing half made', async (t) => {
		if (needed(t))
			return;
		const large = await init(state, '--reflink=yes', '--size-gb', '500');

		assert.equal(large.code, 1);
		assert.match(large.err, /no room for an image of 500 GB.*\nhint: /);
		fs.writeFileSync(path.join(state, 'skerry.db'), 'x');
		const used = await init(state, '--reflink=yes', '--size-gb', '1');

		assert.equal(used.code, 1);
		assert.match(used.err, /not empty.*\nhint: /);
		fs.rmSync(path.join(state, 'skerry.db'));
		fs.writeFileSync(xfs, 'no file system');
		const other = await init(state, '--reflink=yes', '--size-gb', '1');

		assert.equal(other.code, 1);
		assert.match(other.err, /no XFS image/);
		assert.equal(fs.readFileSync(xfs, 'utf8'), 'no file system');
		fs.rmSync(xfs);
		assert.deepEqual(fs.readdirSync(disk).sort(), ['lost+found', 'state']);
		assert.equal((await init(state, '--size-gb', '0')).code, 2);
	});

	test('mounts an image with reflink, and leaves it alone the next time', async (t) => {
		if (needed(t))
			return;
		fs.writeFileSync(`${xfs}.new`, 'left by one that was cut short');
		const { code, out, err } = await init(state, '--reflink=yes', '--size-gb', '1');

		assert.equal(code, 0, err);
		assert.match(out, /done +file system .*XFS with reflink, up to 1 GB/);
		assert.match(out, /to undo it:\n +umount '.*state'\n +rm '.*state\.xfs'/);
		assert.equal(isMounted(state), true);
		assert.equal(canClone(state), true);
		assert.equal(fs.statSync(state).mode & 0o7777, 0o700);
		assert.equal(fs.existsSync(`${xfs}.new`), false);
		assert.ok(fs.statSync(xfs).blocks * 512 < 2 ** 28, 'it is sparse');
		fs.writeFileSync(path.join(state, 'kept'), 'kept');
		const again = await init(state, '--reflink=yes');

		assert.equal(again.code, 0, again.err);
		assert.match(again.out, /already +file system .*has reflink/);
		assert.equal(fs.readFileSync(path.join(state, 'kept'), 'utf8'), 'kept');
	});

	test('mounts what it made before, unasked', async (t) => {
		if (needed(t))
			return;
		run('umount', state);
		const { code, out, err } = await init(`${state}//`, '--json');

		assert.equal(code, 0, err);
		assert.deepEqual(JSON.parse(out).steps.map(({ name, outcome }) => [name, outcome]),
			[['state directory', 'already'], ['file system', 'done'], ['service', 'skipped'], ['image', 'skipped']]);
		assert.equal(fs.readFileSync(path.join(state, 'kept'), 'utf8'), 'kept');
	});

	test('a file system that has reflink needs nothing', async (t) => {
		if (needed(t))
			return;
		const inside = path.join(state, 'inside');
		const { code, out, err } = await init(inside, '--reflink=yes');

		assert.equal(code, 0, err);
		assert.match(out, /already +file system .*has reflink/);
		assert.equal(fs.existsSync(`${inside}.xfs`), false);
		assert.equal(isMounted(inside), false);
	});

	test('--yes is the answer to every question', async (t) => {
		if (needed(t))
			return;
		const other = path.join(disk, 'unasked');

		try {
			const { code, out, err } = await init(other, '--yes', '--size-gb', '1');

			assert.equal(code, 0, err);
			assert.match(out, /done +file system .*XFS with reflink/);
			assert.equal(isMounted(other), true);
		} finally {
			if (isMounted(other))
				run('umount', other);
			fs.rmSync(`${other}.xfs`, { force: true });
		}
	});

	test('asks on a terminal, and takes a no', async (t) => {
		if (needed(t))
			return;
		const other = path.join(disk, 'asked');
		const answer = (text) => execFileSync('script', ['-qec',
			`${skerryPath} init --state-dir ${other} --boot none --size-gb 1`, '/dev/null'],
			{ input: text, encoding: 'utf8', env: { ...process.env, ...nobody } });

		try {
			assert.match(answer('n\n'), /Make it\? \[Y\/n\][^]*skipped/);
			assert.equal(isMounted(other), false);
			assert.match(answer('\n'), /Make it\? \[Y\/n\][^]*XFS with reflink/);
			assert.equal(isMounted(other), true);
		} finally {
			if (isMounted(other))
				run('umount', other);
		}
	});

	test('needs root, and says so', async (t) => {
		if (needed(t))
			return;
		let failed;

		try {
			run('setpriv', '--reuid', '65534', '--clear-groups', skerryPath, 'init', '--state-dir', path.join(disk, 'nobody'));
		} catch (error) {
			failed = error;
		}
		assert.equal(failed?.status, 4);
		assert.match(failed.stderr, /needs root\nhint: /);
	});
});

// systemctl is stood in for by a script that writes down what it was asked, and the server is a scripted one.
describe('init: the service and the image', () => {
	const bin = path.join(work, 'bin');
	const asked = path.join(work, 'asked');
	const requests = [];
	let server, images;

	before(async () => {
		fs.mkdirSync(bin);
		fs.writeFileSync(path.join(bin, 'systemctl'),
			`#!/bin/sh\necho "$*" >>'${asked}'\ncase "$1" in is-active|is-enabled) test -e '${asked}.runs' ;; enable) touch '${asked}.runs' ;; esac\n`,
			{ mode: 0o755 });
		server = http.createServer((req, res) => {
			const answers = {
				'GET /v1/limits': { default_image: 'base' },
				'GET /v1/images': { items: images },
				'POST /v1/images': { name: 'base', size_bytes: 1 << 20 },
			};
			let body = '';

			req.on('data', (bytes) => (body += bytes));
			req.on('end', () => {
				requests.push(`${req.method} ${req.url} ${body}`.trim());
				res.writeHead(200, { 'Content-Type': 'application/json' });
				res.end(JSON.stringify(answers[`${req.method} ${req.url}`]));
			});
		});
		await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
	});
	after(() => server?.close());

	const environment = () => ({
		PATH: `${bin}:${process.env.PATH}`, SKERRY_API_KEY: 'sk_test',
		SKERRY_URL: `http://127.0.0.1:${server.address().port}`,
	});
	const outcomes = (out) => Object.fromEntries(JSON.parse(out).steps.map(({ name, outcome }) => [name, outcome]));
	const prepare = async (...args) => {
		const { code, out, err } = await runSkerry(undefined, ['init', '--reflink=no', '--json', ...args], { env: environment() });

		assert.equal(code, 0, err);
		return outcomes(out);
	};
	// With an empty /var/lib of its own, as the service's state is in no other place.
	const prepareAnew = async (...args) => outcomes((await promisify(execFile)('unshare', ['--mount', 'sh', '-c',
		'mount -t tmpfs none /var/lib && exec "$0" init --reflink=no --boot systemd --json "$@"', skerryPath, ...args],
	{ env: environment() })).stdout);

	test('nothing is started or built that was not asked for', async (t) => {
		if (skip)
			return t.skip(skip);
		images = [];
		const { service, image } = await prepare('--state-dir', path.join(work, 'own'), '--boot', 'systemd');

		assert.deepEqual([service, image], ['skipped', 'skipped']);
		assert.doesNotMatch(fs.readFileSync(asked, 'utf8'), /enable --now/);
		assert.deepEqual(requests, ['GET /v1/limits', 'GET /v1/images']);
	});

	test('the service is started when it is wanted, and left alone when it runs', async (t) => {
		if (skip)
			return t.skip(skip);
		images = [{ name: 'base' }];
		assert.equal((await prepareAnew()).service, 'skipped');
		assert.equal((await prepareAnew('--yes')).service, 'done');
		assert.match(fs.readFileSync(asked, 'utf8'), /^enable --now skerryd\.service$/m);
		fs.writeFileSync(asked, '');
		assert.equal((await prepareAnew('--yes')).service, 'already');
		assert.doesNotMatch(fs.readFileSync(asked, 'utf8'), /^enable/m);
	});

	test('the image is built when it is wanted, and left alone when it is there', async (t) => {
		if (skip)
			return t.skip(skip);
		requests.length = 0;
		images = [];
		assert.equal((await prepare('--state-dir', path.join(work, 'own'), '--boot', 'none', '--yes')).image, 'done');
		assert.deepEqual(requests, ['GET /v1/limits', 'GET /v1/images', 'POST /v1/images {"name":"base"}']);
		images = [{ name: 'base' }];
		requests.length = 0;
		assert.equal((await prepare('--state-dir', path.join(work, 'own'), '--boot', 'none', '--yes')).image, 'already');
		assert.deepEqual(requests, ['GET /v1/limits', 'GET /v1/images']);
	});
});
