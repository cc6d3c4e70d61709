// A WebSocket as terminals need it. Browsers bring theirs, which cannot send headers and does not say why it
// was refused; in Node.js it is our own, which can and does.

import { ConnectionError } from './errors.js';

export interface SocketHandlers {
	onMessage(data: Uint8Array | string): void;
	onClose(code: number): void;
}

export interface Socket {
	send(data: Uint8Array | string): void;
	/** Says goodbye; onClose is still called. */
	close(): void;
	/** Stops reading, so that the other end has to wait; where the platform can. */
	pause(): void;
	resume(): void;
}

export type OpenSocket = (url: URL, key: string, handlers: SocketHandlers, signal?: AbortSignal) => Promise<Socket>;

export const PROTOCOL = 'skerry.terminal';
/** What closes a connection that was lost without a word. */
export const LOST = 1006;

function openInBrowser(url: URL, key: string, handlers: SocketHandlers, signal?: AbortSignal): Promise<Socket> {
	return new Promise((resolve, reject) => {
		// The key travels among the protocols, where no log shows it.
		const socket = new WebSocket(url, [PROTOCOL, ...(key ? [`skerry.key.${key}`] : [])]);
		const abort = () => socket.close();
		let open = false;

		socket.binaryType = 'arraybuffer';
		signal?.addEventListener('abort', abort, { once: true });
		socket.onopen = () => {
			open = true;
			signal?.removeEventListener('abort', abort);
			resolve({
				send: (data) => socket.send(data as Uint8Array<ArrayBuffer> | string),
				close: () => socket.close(1000),
				pause: () => {},
				resume: () => {},
			});
		};
		socket.onmessage = ({ data }) => handlers.onMessage(typeof data === 'string' ? data : new Uint8Array(data as ArrayBuffer));
		socket.onclose = ({ code }) => {
			if (open)
				handlers.onClose(code);
			else
				reject(signal?.aborted ? signal.reason : new ConnectionError(`no WebSocket at ${url.origin}`));
		};
	});
}

const isNode = (): boolean =>
	(globalThis as { process?: { versions?: { node?: string } } }).process?.versions?.node !== undefined;

export const openSocket: OpenSocket = async (url, key, handlers, signal) => {
	if (!isNode())
		return openInBrowser(url, key, handlers, signal);
	const { openInNode } = await import('./node_socket.js');

	return openInNode(url, key, handlers, signal);
};
