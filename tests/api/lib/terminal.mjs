// A viewer of a terminal, over the WebSocket client that Node.js programs use.

import WebSocket from 'ws';

// What takes longer has failed: far more than anything takes on a busy machine.
const LONG_MS = 120_000;

export function urlOf(daemon, id, query = {}) {
	const url = new URL(`/v1/sandboxes/${id}/terminal`, daemon.url);

	url.protocol = url.protocol.replace('http', 'ws');
	for (const [name, value] of Object.entries(query))
		url.searchParams.set(name, value);
	return url;
}

const withKey = (daemon) => ({ Authorization: `Bearer ${daemon.key}` });

// The answer to a request for a terminal that is refused: {status, json}.
export function refusal(daemon, id, query, { headers = withKey(daemon), protocols } = {}) {
	return new Promise((resolve, reject) => {
		const socket = new WebSocket(urlOf(daemon, id, query), protocols, { headers });

		socket.on('open', () => reject(new Error('it was not refused')));
		socket.on('error', reject);
		socket.on('unexpected-response', (request, response) => {
			const chunks = [];

			response.on('data', (chunk) => chunks.push(chunk));
			response.on('end', () => resolve({
				status: response.statusCode,
				headers: response.headers,
				json: JSON.parse(Buffer.concat(chunks).toString()),
			}));
		});
	});
}

export class Viewer {
	// Resolves once the terminal is ready.
	static async open(daemon, id, query, { headers = withKey(daemon), protocols } = {}) {
		const viewer = new Viewer();

		viewer.socket = new WebSocket(urlOf(daemon, id, query), protocols, { headers });
		viewer.chunks = [];
		viewer.length = 0;
		viewer.messages = [];
		viewer.wakers = new Set();
		viewer.socket.on('message', (data, isBinary) => {
			if (isBinary) {
				viewer.chunks.push(data);
				viewer.length += data.length;
			} else {
				viewer.messages.push(JSON.parse(data));
			}
			viewer.wake();
		});
		viewer.closed = new Promise((resolve) => viewer.socket.on('close', (code, reason) => {
			viewer.over = true;
			resolve({ code, reason: reason.toString() });
			viewer.wake();
		}));
		await new Promise((resolve, reject) => {
			viewer.socket.on('open', resolve);
			viewer.socket.on('error', reject);
		});
		viewer.socket.on('error', () => {});
		viewer.ready = await viewer.message('ready');
		viewer.id = viewer.ready.terminal_id;
		return viewer;
	}

	wake() {
		for (const waker of this.wakers)
			waker();
	}

	get bytes() {
		return Buffer.concat(this.chunks);
	}

	get text() {
		return this.bytes.toString('latin1');
	}

	// The offset of the next byte of output.
	get offset() {
		return this.ready.offset + this.length;
	}

	async until(what, look) {
		const deadline = Date.now() + LONG_MS;

		for (;;) {
			const found = look();

			if (found)
				return found;
			if (this.over || Date.now() > deadline)
				throw new Error(`${this.over ? 'closed' : 'silent'} before ${what}; so far: ` +
					JSON.stringify(this.text.slice(-400)) + JSON.stringify(this.messages));
			await new Promise((resolve) => {
				const timer = setTimeout(resolve, 1000);
				const waker = () => {
					clearTimeout(timer);
					this.wakers.delete(waker);
					resolve();
				};

				this.wakers.add(waker);
			});
		}
	}

	// Output that matches, looked for behind what was found before.
	async find(pattern) {
		const match = await this.until(pattern, () => {
			const rest = this.text.slice(this.seen ?? 0);
			const found = rest.match(pattern);

			if (found)
				this.seen = (this.seen ?? 0) + found.index + found[0].length;
			return found;
		});

		return match;
	}

	message(type) {
		return this.until(`a message "${type}"`, () => this.messages.find((one) => one.type === type));
	}

	bytesUpTo(length) {
		return this.until(`${length} bytes`, () => this.length >= length);
	}

	send(data) {
		this.socket.send(typeof data === 'string' ? Buffer.from(data) : data);
	}

	control(message) {
		this.socket.send(typeof message === 'string' ? message : JSON.stringify(message));
	}

	resize(cols, rows) {
		this.control({ type: 'resize', cols, rows });
	}

	// As a connection that is cut, without a word.
	drop() {
		this.socket.terminate();
		return this.closed;
	}

	leave() {
		this.socket.close(1000);
		return this.closed;
	}
}
