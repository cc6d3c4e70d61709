// A Debian of its own for tests of the package: a container (tests/package/container) with systemd in it, in
// a tree whose lower layer is the root that `scripts/setup --package` has made. Nothing of this machine is
// changed, and what is in it is seen from outside.

import { execFileSync, spawn, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

import { repository } from '../../api/lib/daemon.mjs';

const START_MS = 120_000;
const root = path.join(repository, '.cache/package-root');

// Systemd's own, and what a package leaves by the rules: logs, and dpkg's memory of what was there.
const passing = /^\/(proc|sys|dev|run|tmp|root|var\/(log|cache|tmp)|var\/lib\/(apt|systemd)|var\/lib\/dpkg\/(lock|triggers|updates))(\/|$)/;

export class Machine {
	static async boot() {
		if (!fs.existsSync(path.join(root, 'usr/lib/systemd/systemd')))
			throw new Error(`${root} is missing: run scripts/setup --package`);
		const machine = new Machine();

		await machine.start();
		return machine;
	}

	constructor() {
		this.work = fs.mkdtempSync(path.join(os.tmpdir(), 'skerry-package-'));
		this.tree = path.join(this.work, 'tree');
		this.name = path.basename(this.work).toLowerCase();
		for (const folder of ['upper', 'overlay', 'tree'])
			fs.mkdirSync(path.join(this.work, folder));
		fs.chmodSync(path.join(this.work, 'upper'), 0o755);
	}

	async start() {
		const layers = `lowerdir=${root},upperdir=${this.work}/upper,workdir=${this.work}/overlay`;

		execFileSync('mount', ['-t', 'overlay', '-o', layers, 'overlay', this.tree]);
		const log = fs.openSync(path.join(this.work, 'log'), 'w');

		// A test that is killed takes it along.
		this.child = spawn('setpriv', ['--pdeathsig', 'KILL', 'unshare', '--fork', '--pid', '--mount', '--net', '--ipc',
			'--uts', '--kill-child', path.join(repository, 'tests/package/container'), this.tree, this.name],
			{ stdio: ['ignore', log, log] });
		fs.closeSync(log);
		this.ended = new Promise((resolve) => this.child.once('exit', resolve));
		for (const until = Date.now() + START_MS; ; await sleep(200)) {
			this.pid ??= this.findInit();
			const state = this.pid && this.try('systemctl', 'is-system-running').out.trim();

			if (/^(running|degraded)$/.test(state))
				return;
			if (this.child.exitCode !== null || Date.now() > until)
				throw new Error(`systemd is '${state}':\n${fs.readFileSync(path.join(this.work, 'log'), 'utf8')}`);
		}
	}

	// The child of unshare, once it is systemd.
	findInit() {
		const children = `/proc/${this.child.pid}/task/${this.child.pid}/children`;
		const pid = fs.existsSync(children) && fs.readFileSync(children, 'utf8').trim();

		return pid && /systemd$/.test(fs.readlinkSync(`/proc/${pid}/exe`)) ? Number(pid) : undefined;
	}

	enter(args) {
		return ['--target', String(this.pid), '--all', 'env', '-i', 'PATH=/usr/sbin:/usr/bin:/sbin:/bin', 'HOME=/root',
			'DEBIAN_FRONTEND=noninteractive', ...this.env ?? [], ...args];
	}

	// {code, out}: both streams, in order of their arrival.
	try(...args) {
		const { status, stdout, stderr } = spawnSync('nsenter', this.enter(args), { encoding: 'utf8' });

		return { code: status, out: stdout + stderr, stdout };
	}

	run(...args) {
		const { code, out, stdout } = this.try(...args);

		if (code !== 0)
			throw new Error(`${args.join(' ')} failed (${code}):\n${out}`);
		return stdout;
	}

	// In the background: {out, ended}.
	spawn(...args) {
		const child = spawn('nsenter', this.enter(args), { stdio: ['ignore', 'pipe', 'pipe'] });
		const running = { out: '', err: '' };

		child.stdout.on('data', (bytes) => (running.out += bytes));
		child.stderr.on('data', (bytes) => (running.err += bytes));
		running.ended = new Promise((resolve) => child.once('close', resolve));
		return running;
	}

	path(inside) {
		return path.join(this.tree, inside);
	}

	// By apt, which finds no mirror here: what the package depends on must be there.
	install(deb) {
		const target = this.path(`/root/${path.basename(deb)}`);

		fs.copyFileSync(deb, target);
		const { code, out } = this.try('apt-get', '-q', '-y', '--no-install-recommends', '-o', 'Dpkg::Use-Pty=0',
			'install', `/root/${path.basename(deb)}`);

		fs.rmSync(target);
		if (code !== 0)
			throw new Error(`apt-get install failed (${code}):\n${out}`);
		return out;
	}

	unit(property, unit = 'skerryd') {
		return this.run('systemctl', 'show', '--value', '-p', property, unit).trim();
	}

	// What there is, as sets of lines by kind.
	inventory() {
		const lines = (...args) => this.run(...args).split('\n').filter(Boolean).sort();
		const processes = lines('ps', '-e', '-o', 'comm=').filter((name) => /skerry|qemu/.test(name));

		return {
			files: lines('find', '/', '-xdev', '-printf', '%p %y %m %U %l\n').filter((line) => !passing.test(line)),
			cgroups: lines('find', '/sys/fs/cgroup', '-type', 'd').filter((line) => !/\.(service|scope|mount)$/.test(line)),
			mounts: lines('sh', '-c', 'cut -d " " -f 5,9- /proc/1/mountinfo'),
			pinned: lines('find', '/sys/fs/bpf'),
			nftables: lines('nft', 'list', 'ruleset'),
			devices: lines('ip', '-o', '-br', 'link'),
			addresses: lines('ip', '-o', 'address'),
			rules: lines('ip', 'rule'),
			routes: lines('ip', 'route', 'show', 'table', 'all'),
			namespaces: lines('ip', 'netns'),
			settings: lines('sh', '-c', 'grep -r . /proc/sys/net/ipv4/conf/all /proc/sys/net/ipv4/ip_forward 2>/dev/null || true'),
			units: lines('systemctl', 'list-unit-files', '--no-legend', '--plain').map((line) => line.split(/\s/)[0]),
			processes,
		};
	}

	log() {
		return this.try('journalctl', '--no-pager', '-n', '60').out;
	}

	async stop() {
		this.child.kill('SIGKILL'); // and with it all that is in the namespace of processes
		await this.ended;
		for (const end = Date.now() + START_MS; this.pid && fs.existsSync(`/proc/${this.pid}`); await sleep(50))
			if (Date.now() > end)
				throw new Error(`the container's systemd, ${this.pid}, does not end`);
		execFileSync('umount', [this.tree]);
		this.removeGroups();
		fs.rmSync(this.work, { recursive: true, force: true });
	}

	removeGroups() {
		const mounts = fs.readFileSync('/proc/self/mounts', 'utf8').split('\n').map((line) => line.split(' '));

		for (const [, hierarchy, type] of mounts) {
			const own = path.join(hierarchy ?? '', this.name);

			if (/^cgroup2?$/.test(type) && fs.existsSync(own))
				execFileSync('find', [own, '-depth', '-type', 'd', '-exec', 'rmdir', '{}', ';']);
		}
	}
}

// What has come and gone between two inventories: {kind: {more, less}} where they differ.
export function difference(before, after) {
	const changed = {};

	for (const kind of Object.keys(before)) {
		const more = after[kind].filter((line) => !before[kind].includes(line));
		const less = before[kind].filter((line) => !after[kind].includes(line));

		if (more.length || less.length)
			changed[kind] = { more, less };
	}
	return changed;
}
