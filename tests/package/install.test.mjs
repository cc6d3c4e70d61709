// What `make install` puts into a root of its own works without the build folder, which is hidden from it; and
// `make uninstall` takes all of it away.

import assert from 'node:assert/strict';
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';

import { build, repository } from '../api/lib/daemon.mjs';

const START_MS = 60_000;
const work = fs.mkdtempSync(path.join(os.tmpdir(), 'skerry-install-'));
const root = path.join(work, 'root');
const run = (program, ...args) => execFileSync(program, args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });

describe('make install', { timeout: 5 * 60_000 }, () => {
	let prefix, share;
	const at = (...parts) => path.join(prefix, ...parts);

	before(() => {
		const options = JSON.parse(run('meson', 'introspect', '--buildoptions', build));

		run('meson', 'install', '-C', build, '--no-rebuild', '--quiet', '--destdir', root);
		prefix = path.join(root, options.find(({ name }) => name === 'prefix').value);
		share = at('share');
	});

	after(() => fs.rmSync(work, { recursive: true, force: true }));

	test('installs all of it', () => {
		for (const file of ['bin/skerry', 'sbin/skerryd', 'libexec/skerry/skerry-warden', 'libexec/skerry/libskerry-qemu.so',
			'share/skerry/guest/vmlinux', 'share/skerry/guest/initramfs.cpio', 'share/skerry/images/build-root',
			'share/skerry/images/base.recipe', 'share/man/man1/skerry.1', 'share/man/man8/skerryd.8',
			'share/man/man5/skerryd.conf.5', 'share/doc/skerry/LICENSE', 'share/doc/skerry/README.md',
			'share/doc/skerry/docs/operations.md', 'lib/systemd/system/skerryd.service'])
			assert.ok(fs.existsSync(at(file)), `${file} is not installed`);
		assert.ok(fs.existsSync(path.join(root, 'etc/skerry/skerryd.conf')) || fs.existsSync(at('etc/skerry/skerryd.conf')));
	});

	test('shells read the completion', () => {
		run('bash', '-n', path.join(share, 'bash-completion/completions/skerry'));
		assert.match(fs.readFileSync(path.join(share, 'zsh/site-functions/_skerry'), 'utf8'), /^#compdef skerry/);
		assert.match(fs.readFileSync(path.join(share, 'fish/vendor_completions.d/skerry.fish'), 'utf8'), /complete -c skerry/);
	});

	test('systemd understands the unit', () => {
		const unit = path.join(work, 'skerryd.service');
		const text = fs.readFileSync(at('lib/systemd/system/skerryd.service'), 'utf8');

		assert.match(text, new RegExp(`^ExecStart=${prefix.slice(root.length)}/sbin/skerryd --config .*/skerryd\\.conf$`, 'm'));
		fs.writeFileSync(unit, text.replace(/^(ExecStart=)/m, `$1${root}`));
		const { status, stderr } = spawnSync('systemd-analyze', ['verify', '--man=no', unit], { encoding: 'utf8' });

		assert.equal(stderr.split('\n').filter((line) => line.includes('skerryd.service')).join('\n'), '');
		assert.equal(status, 0, stderr);
	});

	test('the daemon finds its companions, and the client the daemon', async () => {
		const state = path.join(work, 'state');
		const listen = path.join(state, 'listen');
		const log = path.join(work, 'log');
		const script = 'mount -t tmpfs none "$1"; shift; exec "$@"';
		const out = fs.openSync(log, 'w');
		const daemon = spawn('unshare', ['--mount', '--propagation', 'private', 'sh', '-ec', script, 'sh', build,
			at('sbin/skerryd'), '--state-dir', state, '--listen', '127.0.0.1:0', '--network', 'off'],
			{ stdio: ['ignore', out, out] });
		const ended = new Promise((resolve) => daemon.once('exit', resolve));

		fs.closeSync(out);
		try {
			for (const end = Date.now() + START_MS; !fs.existsSync(listen); await sleep(50))
				if (daemon.exitCode !== null || Date.now() > end)
					assert.fail(fs.readFileSync(log, 'utf8'));
			const said = execFileSync(at('bin/skerry'), ['--json', 'image', 'ls'], {
				encoding: 'utf8',
				env: {
					SKERRY_URL: fs.readFileSync(listen, 'utf8').trim(),
					SKERRY_API_KEY: fs.readFileSync(path.join(state, 'admin.key'), 'utf8').trim(),
				},
			});

			assert.doesNotThrow(() => JSON.parse(said));
		} finally {
			daemon.kill('SIGTERM');
			await ended;
		}
	});

	test('a configuration that was changed is kept', () => {
		const file = [path.join(root, 'etc/skerry/skerryd.conf'), at('etc/skerry/skerryd.conf')].find(fs.existsSync);

		fs.appendFileSync(file, '# mine\n');
		run('meson', 'install', '-C', build, '--no-rebuild', '--quiet', '--destdir', root);
		assert.match(fs.readFileSync(file, 'utf8'), /^# mine$/m);
		assert.match(run(path.join(repository, 'scripts/uninstall'), build), /left, because it was changed/);
		fs.rmSync(file);
		fs.rmdirSync(path.dirname(file));
		assert.deepEqual(run('find', root, '-not', '-type', 'd').trim(), '');
		assert.deepEqual(run('find', prefix, '-mindepth', '1', '-name', '*skerry*').trim(), '');
	});
});
