// What a daemon and its sandboxes hold of the machine, to be compared before and after: everything
// that a destroyed sandbox could leave behind.

import fs from 'node:fs';
import path from 'node:path';

const read = (file) => {
	try {
		return fs.readFileSync(file, 'utf8');
	} catch {
		return '';
	}
};

function processes(stateDir) {
	return fs.readdirSync('/proc').filter((name) => /^\d+$/.test(name)).filter((pid) => {
		const command = read(`/proc/${pid}/cmdline`).replaceAll('\0', ' ');

		// wardens and VMMs name their run directory or socket below it, or are children of such
		return command.includes(stateDir) && Number(pid) !== process.pid;
	});
}

function childrenOf(pid) {
	const all = fs.readdirSync('/proc').filter((name) => /^\d+$/.test(name));
	const parents = new Map(all.map((name) => [name, read(`/proc/${name}/stat`).split(') ').at(-1).split(' ')[1]]));
	const found = [];

	for (let queue = [String(pid)]; queue.length;) {
		const parent = queue.pop();

		for (const [child, of] of parents)
			if (of === parent) {
				found.push(child);
				queue.push(child);
			}
	}
	return found;
}

function cgroups(name) {
	const found = [];
	const walk = (dir, depth) => {
		let entries;
		try {
			entries = fs.readdirSync(dir, { withFileTypes: true });
		} catch {
			return;
		}
		for (const entry of entries)
			if (entry.isDirectory()) {
				const at = path.join(dir, entry.name);

				if (at.includes(`/${name}/`))
					found.push(at);
				if (depth < 6)
					walk(at, depth + 1);
			}
	};

	walk('/sys/fs/cgroup', 0);
	return found;
}

function files(dir) {
	try {
		return fs.readdirSync(dir, { recursive: true }).map(String);
	} catch {
		return [];
	}
}

// The database and its journals grow and shrink by themselves; their size is not residue.
const isOwn = (name) => !/\.db(-wal|-shm)?$/.test(name);

export function take(daemon) {
	const statm = read(`/proc/${daemon.pid}/statm`).split(' ');

	return {
		processes: [...new Set([...childrenOf(daemon.pid), ...processes(daemon.stateDir)])]
			.filter((pid) => Number(pid) !== daemon.pid),
		mounts: read('/proc/self/mountinfo').split('\n').length - 1,
		cgroups: cgroups(daemon.cgroup),
		files: files(daemon.stateDir).filter(isOwn),
		descriptors: fs.readdirSync(`/proc/${daemon.pid}/fd`).length,
		threads: fs.readdirSync(`/proc/${daemon.pid}/task`).length,
		rss_kib: Number(statm[1]) * 4,
	};
}

// What is there after and was not before, by kind: {} when nothing is.
export function added(before, after) {
	const found = {};

	for (const kind of ['processes', 'cgroups', 'files']) {
		const extra = after[kind].filter((item) => !before[kind].includes(item));

		if (extra.length)
			found[kind] = extra;
	}
	for (const kind of ['mounts', 'descriptors'])
		if (after[kind] > before[kind])
			found[kind] = after[kind] - before[kind];
	return found;
}
