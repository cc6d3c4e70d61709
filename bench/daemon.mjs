// The daemon that is measured: a fresh one on loopback, with the image built and its template made.

import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';

import { startDaemon } from '../tests/api/lib/daemon.mjs';

// The parents of the VMs' cgroups outlive a daemon, which may come again; these do not.
function removeCgroups(name) {
	for (const dir of ['', ...fs.readdirSync('/sys/fs/cgroup')])
		try {
			fs.rmdirSync(path.join('/sys/fs/cgroup', dir, name));
		} catch {
			// not there, or in use by another run
		}
}

let daemons = 0;

export async function daemonFor({ image, limits = {} }) {
	if (process.getuid() !== 0)
		throw new Error('the benchmarks make virtual machines and need root');
	const cgroup = `skerry-bench-${process.pid}-${++daemons}`; // apart from those of other daemons of this machine
	const daemon = await startDaemon({ config: { limits: { sandboxes_per_account: 128, ...limits }, vm: { cgroup } } });

	const stop = daemon.stop.bind(daemon);

	daemon.stop = async () => {
		await stop();
		[cgroup, 'skerry-bench'].forEach(removeCgroups);
	};
	try {
		process.stderr.write(`image ${image} …\n`);
		await daemon.ensureImage(image);
		daemon.cgroup = cgroup;
		daemon.doctor = async () => (await daemon.request('GET', '/v1/doctor')).json;
		return daemon;
	} catch (error) {
		await daemon.stop();
		throw error;
	}
}

// The erofs file of an image.
export function imageFile(daemon, name) {
	const dir = daemon.args[daemon.args.indexOf('--image-dir') + 1];
	const { digest } = JSON.parse(fs.readFileSync(path.join(dir, `${name}.json`), 'utf8'));

	return path.join(dir, 'blobs', digest);
}

// Where the baseline's files lie: on the same file system as the daemon's.
export const makeWork = () => fs.mkdtempSync(path.join(os.tmpdir(), 'skerry-bench-'));
