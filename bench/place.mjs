// Where the state lies: on a file system with reflink, as `skerry init` makes one, because a fork's copy
// of the disk is O(1) there. Where none can be had it is the one of the temporary directory.

import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';

const SIZE_BYTES = 48 * 2 ** 30; // sparse

const run = (program, ...args) => execFileSync(program, args, { stdio: 'pipe' });

function hasReflink(dir) {
	const from = path.join(dir, '.reflink-a'), to = path.join(dir, '.reflink-b');

	try {
		fs.writeFileSync(from, Buffer.alloc(65536, 1));
		fs.copyFileSync(from, to, fs.constants.COPYFILE_FICLONE_FORCE);
		return true;
	} catch {
		return false;
	} finally {
		fs.rmSync(from, { force: true });
		fs.rmSync(to, { force: true });
	}
}

// {kind, leave}: makes it the temporary directory of this process and its children.
export function enterPlace(wanted) {
	const before = os.tmpdir();

	if (wanted === 'plain' || hasReflink(before))
		return { kind: wanted === 'plain' ? 'as it is' : 'with reflink', leave() {} };
	const dir = fs.mkdtempSync(path.join(before, 'skerry-bench-disk-'));
	const image = `${dir}.img`;

	try {
		fs.writeFileSync(image, '', { mode: 0o600 });
		fs.truncateSync(image, SIZE_BYTES);
		run('mkfs.xfs', '-q', '-m', 'reflink=1', image);
		run('mount', '-o', 'loop', image, dir);
	} catch (error) {
		fs.rmSync(image, { force: true });
		fs.rmdirSync(dir);
		process.stderr.write(`no file system with reflink (${error.message.split('\n')[0]}): the host's is used\n`);
		return { kind: 'without reflink', leave() {} };
	}
	process.env.TMPDIR = dir;
	return {
		kind: 'XFS with reflink, loop-mounted',
		leave() {
			process.env.TMPDIR = before;
			run('umount', dir);
			fs.rmdirSync(dir);
			fs.rmSync(image, { force: true });
		},
	};
}
