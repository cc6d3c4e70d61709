// The account's sandboxes as the server has them, kept true by its events: whoever shows them is told when
// something has changed.

import { all, get, url } from './api.js';
import { onEvent } from './events.js';

const TOGETHER_MS = 60; // several events of one sandbox are one question

const sandboxes = new Map();
const watchers = new Set();
const asked = new Map();
let loaded, withEnded = false;

const tell = () => watchers.forEach((fn) => fn());

export const isOver = (sandbox) => sandbox.status === 'destroyed' || sandbox.status === 'failed';

// Newest first.
export const list = () => [...sandboxes.values()].sort((a, b) => b.created_at.localeCompare(a.created_at) || (a.id < b.id ? 1 : -1));

export const find = (id) => sandboxes.get(id);

export function keep(sandbox) {
	sandboxes.set(sandbox.id, sandbox);
	tell();
}

// All that live, and those that have ended too when ended is true. Asked once; events do the rest.
export function load({ ended = false, again = false } = {}) {
	if (loaded && !again && (withEnded || !ended))
		return loaded;
	withEnded ||= ended;
	loaded = all('/v1/sandboxes', { limit: 200, status: withEnded ? 'all' : undefined }).then((items) => {
		sandboxes.clear();
		items.forEach((item) => sandboxes.set(item.id, item));
		tell();
	}).catch((error) => {
		loaded = undefined;
		throw error;
	});
	return loaded;
}

export async function refresh(id) {
	try {
		keep(await get(url('/v1/sandboxes', id)()));
	} catch (error) {
		if (error.status !== 404)
			throw error;
		sandboxes.delete(id);
		tell();
	}
}

function refreshSoon(id) {
	if (asked.has(id))
		return;
	asked.set(id, setTimeout(() => {
		asked.delete(id);
		refresh(id).catch(() => {}); // its view says so when it is asked for again
	}, TOGETHER_MS));
}

export function watch(fn, signal) {
	watchers.add(fn);
	signal?.addEventListener('abort', () => watchers.delete(fn));
}

export function forget() {
	sandboxes.clear();
	loaded = undefined;
	withEnded = false;
}

onEvent((event) => {
	if (event.type === 'ready' && loaded)
		load({ again: true }).catch(() => {});
	else if (event.sandbox_id && /^(sandbox_|egress_changed|network_)/.test(event.type))
		refreshSoon(event.sandbox_id);
});
