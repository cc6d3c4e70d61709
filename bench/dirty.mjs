// How much of its guest's memory a sandbox has written: the pages of the VMM's private mapping of the
// template's memory file that are its own.

import fs from 'node:fs';

import { vmmPid } from './memory.mjs';

const MIB = 2 ** 20;

export function dirtyMib(daemon, id) {
	const text = fs.readFileSync(`/proc/${vmmPid(daemon, id)}/smaps`, 'utf8');
	let mine = false, kib = 0;

	for (const line of text.split('\n')) {
		if (/^[0-9a-f]+-[0-9a-f]+ /.test(line))
			mine = /\/memory( \(deleted\))?$/.test(line);
		else if (mine && line.startsWith('Anonymous:'))
			kib += Number(line.match(/\d+/)[0]);
	}
	return kib / 1024;
}

// A sandbox with about so many MiB written; what it has written of itself by then counts.
export async function sandboxWithDirty(http, daemon, mib, create) {
	const { id } = await http.rest('POST', '/v1/sandboxes', create);

	await http.rest('POST', `/v1/sandboxes/${id}/exec`, { command: 'true' });
	const more = Math.round((mib - dirtyMib(daemon, id)) * MIB);

	if (more > 0)
		await http.rest('POST', `/v1/sandboxes/${id}/exec`, { command: `head -c ${more} /dev/urandom >/dev/shm/written`, timeout_ms: 600_000 });
	return id;
}
