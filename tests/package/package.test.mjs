// The Debian package in a clean Debian with systemd: installed, used, upgraded while a command runs and
// another sandbox is paused, removed, purged; and then nothing is left.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';

import { build, images, repository } from '../api/lib/daemon.mjs';
import { Machine, difference } from './lib/machine.mjs';

const NEXT = '99.0.0';
const WAIT_MS = 120_000;
const work = path.join(build, 'test/package');

// The second build compiles what says the version, and nothing else.
function makePackage(version) {
	const out = execFileSync('nice', [path.join(repository, 'scripts/deb'), path.join(work, 'debs')], {
		encoding: 'utf8',
		env: {
			...process.env,
			SKERRY_DEB_WORK: path.join(work, 'work'),
			DEB_BUILD_OPTIONS: 'nocheck noautodbgsym',
			DPKG_DEB_COMPRESSOR_TYPE: 'none',
			...(version && { SKERRY_VERSION: version }),
		},
	});

	return out.trim().split('\n').at(-1);
}

async function until(what, condition) {
	for (const end = Date.now() + WAIT_MS; !condition(); await sleep(200))
		if (Date.now() > end)
			assert.fail(`not within ${WAIT_MS} ms: ${what}`);
}

describe('the Debian package', { timeout: 30 * 60_000 }, () => {
	let machine, packages, clean, worker, sleeper, command;
	const skerry = (...args) => machine.run('skerry', ...args);
	const json = (...args) => JSON.parse(skerry('--json', ...args));
	const bootOf = (id) => skerry('exec', id, '--', 'cat /proc/sys/kernel/random/boot_id').trim();
	const wardenOf = (id) => machine.run('pgrep', '-f', `^/usr/libexec/skerry/skerry-warden --name ${id} `).trim();

	before(async () => {
		fs.rmSync(path.join(work, 'debs'), { recursive: true, force: true });
		packages = [makePackage(), makePackage(NEXT)];
		machine = await Machine.boot();
		clean = machine.inventory();
	});

	after(async () => {
		await machine?.stop();
	});

	test('is installed, and serves', () => {
		const said = machine.install(packages[0]);

		assert.match(said, /admin\.key/);
		assert.equal(machine.unit('ActiveState'), 'active', machine.log());
		assert.equal(machine.unit('StatusText'), 'Serving http://127.0.0.1:7171');
		assert.equal(machine.unit('UnitFileState'), 'enabled');
		assert.notEqual(machine.unit('WatchdogTimestampMonotonic'), '0'); // it is fed
		assert.equal(machine.run('stat', '-c', '%a %U', '/var/lib/skerry').trim(), '700 root');
		assert.equal(machine.run('stat', '-c', '%a %U', '/var/lib/skerry/admin.key').trim(), '600 root');
		machine.env = [`SKERRY_API_KEY=${machine.run('cat', '/var/lib/skerry/admin.key').trim()}`];
		assert.ok(skerry('version').startsWith(`skerry ${json('version').version}\n`));
		assert.match(path.basename(packages[0]), new RegExp(`_${json('version').version.replace('-', '~').replaceAll('+', '\\+')}_`));
	});

	test('runs sandboxes', () => {
		// As `skerry image build base` makes it, which wants a mirror.
		fs.cpSync(images, machine.path('/var/lib/skerry/images'), { recursive: true });
		worker = json('create', '--name', 'worker', '--timeout', '60m').id;
		sleeper = json('create', '--name', 'sleeper', '--timeout', '60m').id;
		assert.match(skerry('exec', worker, '--', 'id -un'), /^sandbox$/m);
		assert.equal(machine.inventory().nftables.filter((line) => line.includes('table ip skerry')).length, 1);
	});

	test('is upgraded: sandboxes and their commands go on', async () => {
		const daemon = machine.unit('MainPID');
		const warden = wardenOf(worker);
		const boots = [bootOf(worker), bootOf(sleeper)];

		skerry('exec', sleeper, '--', 'nohup sleep 1000 >/dev/null 2>&1 & echo kept >kept');
		skerry('pause', sleeper);
		command = machine.spawn('skerry', 'exec', worker, '--',
			'i=0; until [ -e go ]; do i=$((i + 1)); echo "line $i"; sleep 0.1; done; echo "all $i"');
		await until('the command has begun', () => command.out.includes('line 5\n'));

		machine.install(packages[1]);
		assert.equal(machine.unit('ActiveState'), 'active', machine.log());
		assert.notEqual(machine.unit('MainPID'), daemon);
		assert.equal(json('version').version, NEXT);
		assert.equal(wardenOf(worker), warden);
		assert.equal(bootOf(worker), boots[0]);

		skerry('exec', worker, '--', 'touch go');
		assert.equal(await command.ended, 0, command.err);
		const lines = command.out.trim().split('\n');
		const count = lines.length - 1;

		assert.deepEqual(lines, [...Array.from({ length: count }, (_, i) => `line ${i + 1}`), `all ${count}`]);

		// What was paused under the older version, with its guest's older agent, resumes under this one.
		assert.equal(skerry('exec', sleeper, '--', 'cat kept; pgrep -c sleep'), 'kept\n1\n');
		assert.equal(bootOf(sleeper), boots[1]);
		skerry('pause', sleeper);
	});

	test('goes on after a daemon that hangs', async () => {
		const daemon = machine.unit('MainPID');
		const warden = wardenOf(worker);

		// As the watchdog ends it.
		machine.run('systemctl', 'kill', '--kill-whom=main', '--signal=ABRT', 'skerryd');
		await until('another daemon serves', () =>
			!['0', daemon].includes(machine.unit('MainPID')) && machine.unit('ActiveState') === 'active');
		assert.equal(wardenOf(worker), warden);
		assert.match(skerry('exec', worker, '--', 'id -un'), /^sandbox$/m);
	});

	test('is removed: nothing runs, what was paused is kept', () => {
		machine.run('apt-get', '-q', '-y', 'remove', 'skerry');
		const left = difference(clean, machine.inventory());

		assert.deepEqual(Object.keys(left), ['files'], JSON.stringify({ ...left, files: undefined }));
		assert.deepEqual(left.files.less, []);
		assert.ok(fs.existsSync(machine.path(`/var/lib/skerry/sandboxes/${sleeper}`)));
		assert.ok(!fs.existsSync(machine.path(`/var/lib/skerry/sandboxes/${worker}`)));
		assert.deepEqual(left.files.more.filter((line) =>
			!/^\/(var\/lib\/skerry|etc\/skerry|var\/lib\/dpkg\/info\/skerry\.(list|postrm)|etc\/systemd\/system\/multi-user\.target\.wants\/skerryd)/.test(line)), []);
	});

	test('is purged: nothing is left', () => {
		machine.run('apt-get', '-q', '-y', 'purge', 'skerry');
		assert.deepEqual(difference(clean, machine.inventory()), {});
	});
});
