// The host's disk fills up: a creation is refused or undone and leaves nothing, what runs goes on, what is
// destroyed is destroyed, and with room again everything is as before.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';

import { startDaemon } from './lib/daemon.mjs';

const KiB = 1024, MiB = 1024 * KiB;
const DISK_BYTES = 2048 * MiB;

function run(program, ...args) {
	const { status, stderr } = spawnSync(program, args, { encoding: 'utf8' });

	assert.equal(status, 0, `${program} ${args.join(' ')}: ${stderr}`);
}

// A file system of its own, which can be filled without harm to the host's.
const disk = fs.mkdtempSync(path.join(os.tmpdir(), 'skerry-disk-'));
const image = `${disk}.img`;
const filler = path.join(disk, 'filler');
let daemon;

const create = (name) => daemon.request('POST', '/v1/sandboxes', { name, size: 'tiny' });
const destroy = (id) => daemon.request('DELETE', `/v1/sandboxes/${id}`);
const exec = (id, command) =>
	daemon.request('POST', `/v1/sandboxes/${id}/exec`, { command, timeout_ms: 60_000 });

// The file system wants some blocks for itself, so the rest is filled piece by piece.
function fillUpTo(leftBytes) {
	const free = () => fs.statfsSync(disk).bavail * fs.statfsSync(disk).bsize;

	fs.rmSync(filler, { force: true });
	run('fallocate', '-l', String(free() - leftBytes - MiB), filler);
	try {
		while (free() > leftBytes)
			fs.appendFileSync(filler, Buffer.alloc(4 * KiB));
	} catch (error) {
		assert.equal(error.code, 'ENOSPC');
	}
}

before(async () => {
	fs.writeFileSync(image, '');
	fs.truncateSync(image, DISK_BYTES);
	run('mke2fs', '-q', '-F', '-t', 'ext4', '-m', '0', image);
	run('mount', '-o', 'loop', image, disk);
	process.env.TMPDIR = disk;
	daemon = await startDaemon({ config: { limits: { host_free_disk_mb_min: 0 } } });
	await daemon.ensureImage();
	assert.equal((await create('first')).status, 201); // with the template of its size
});

after(async () => {
	fs.rmSync(filler, { force: true });
	await daemon?.stop();
	run('umount', disk);
	fs.rmSync(image);
	fs.rmdirSync(disk);
});

async function assertAlive(id, word) {
	const answer = await exec(id, `echo ${word} | tee ~/file; sync; cat ~/file`);

	assert.equal(answer.json?.stdout, `${word}\n${word}\n`, answer.text);
}

test('a creation that does not fit is undone, and says why', async () => {
	const alive = (await daemon.sandboxes()).map((sandbox) => sandbox.id);
	let refused = 0;

	for (const left of [16 * KiB, 64 * KiB, 256 * KiB, MiB, 2 * MiB, 4 * MiB, 8 * MiB, 16 * MiB]) {
		fillUpTo(left);
		const answer = await create(`with-${left}`);

		if (answer.status === 201) {
			await destroy(answer.json.id);
		} else {
			assert.deepEqual([answer.status, answer.json.code], [507, 'disk_full'], answer.text);
			refused++;
		}
		assert.deepEqual((await daemon.sandboxes()).map((sandbox) => sandbox.id), alive);
		assert.deepEqual(fs.readdirSync(path.join(daemon.stateDir, 'sandboxes')), alive);
	}
	assert.ok(refused > 0, 'everything fitted');
});

test('what is destroyed on a full disk is gone', async () => {
	fs.rmSync(filler);
	const { json: { id } } = await create('second');

	fillUpTo(0);
	assert.equal((await destroy(id)).status, 200);
	assert.equal(fs.existsSync(path.join(daemon.stateDir, 'sandboxes', id)), false);
	assert.equal((await daemon.request('GET', `/v1/sandboxes/${id}`)).json.reason, 'destroyed_by_user');
});

test('what runs goes on when there is room again', async () => {
	const [{ id }] = await daemon.sandboxes();

	fillUpTo(0);
	// The guest does not wait for its disk, the host has no room for it: it is held still meanwhile.
	exec(id, 'head -c 8000000 /dev/urandom >~/large; sync; sha256sum <~/large >~/sum').catch(() => {});
	await new Promise((next) => setTimeout(next, 8000));
	fs.rmSync(filler);
	await assertAlive(id, 'after');
	assert.match(daemon.log(), /stood still for want of disk goes on/);
	assert.equal((await exec(id, 'while ! test -s ~/sum; do sleep 0.2; done; sha256sum <~/large | cmp - ~/sum'))
		.json?.exit_code, 0);
	const again = await create('third');

	assert.equal(again.status, 201, again.text);
	await assertAlive(again.json.id, 'third');
});
