// What happens on the server, as it happens: one stream for the whole page. It is closed while the page is
// hidden, because a browser opens few connections to a server, and goes on where it was.

import { onSignedOut } from './api.js';

const TYPES = [
	'sandbox_created', 'sandbox_running', 'sandbox_pausing', 'sandbox_paused', 'sandbox_resumed', 'sandbox_forked',
	'sandbox_extended', 'sandbox_expired', 'sandbox_destroyed', 'sandbox_failed', 'snapshot_created',
	'snapshot_removed', 'egress_changed', 'egress_denied', 'network_joined', 'network_left', 'exec_started',
	'exec_ended', 'credit_exhausted', 'credit_granted', 'events_lost',
];
const RETRY_MS = 3000;

const listeners = new Set(), watchers = new Set();
let source, cursor, retry, wanted = false, live = false;

function setLive(value) {
	if (live === value)
		return;
	live = value;
	watchers.forEach((fn) => fn(live));
}

function receive(message) {
	const event = JSON.parse(message.data);

	cursor = event.id;
	listeners.forEach((fn) => fn(event));
}

function open() {
	clearTimeout(retry);
	if (source || !wanted || document.hidden)
		return;
	source = new EventSource(cursor === undefined ? '/v1/events' : `/v1/events?cursor=${cursor}`);
	source.addEventListener('ready', (message) => {
		const resumed = cursor !== undefined;

		cursor ??= JSON.parse(message.data).cursor;
		setLive(true);
		if (!resumed)
			listeners.forEach((fn) => fn({ type: 'ready' }));
	});
	// What is missing cannot be told any more: whoever shows something looks again.
	source.addEventListener('gap', (message) => {
		cursor = JSON.parse(message.data).to;
		listeners.forEach((fn) => fn({ type: 'ready' }));
	});
	for (const type of TYPES)
		source.addEventListener(type, receive);
	source.addEventListener('error', () => {
		setLive(false);
		if (source?.readyState !== EventSource.CLOSED)
			return; // it tries again by itself
		close();
		cursor = undefined; // it may have been refused
		retry = setTimeout(open, RETRY_MS);
	});
}

function close() {
	source?.close();
	source = undefined;
}

export function startEvents() {
	wanted = true;
	open();
}

export function stopEvents() {
	wanted = false;
	close();
	cursor = undefined;
	setLive(false);
}

document.addEventListener('visibilitychange', () => (document.hidden ? close() : open()));
onSignedOut(stopEvents);

// Calls fn with each event until the signal; {type: 'ready'} says that everything is to be asked anew.
export function onEvent(fn, signal) {
	listeners.add(fn);
	signal?.addEventListener('abort', () => listeners.delete(fn));
}

// Calls fn now and whenever the stream comes or goes.
export function onLive(fn) {
	watchers.add(fn);
	fn(live);
}
