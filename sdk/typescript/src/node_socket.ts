// The WebSocket of Node.js, over its own HTTP client: versions before 22 have none, and those that have one
// cannot show the problem document of an answer that refuses.

import { createHash, randomBytes } from 'node:crypto';
import * as http from 'node:http';
import * as https from 'node:https';
import type { Duplex } from 'node:stream';

import { toBytes, toText } from './bytes.js';
import { ConnectionError, ProtocolError, apiError } from './errors.js';
import { FrameParser, OPCODE, closeCode, encodeFrame } from './frames.js';
import { LOST, PROTOCOL, type Socket, type SocketHandlers } from './socket.js';

const GUID = '258EAFA5-E914-47DA-95CA-C5AB0DC85B11';
const ANSWER_BYTES_MAX = 64 << 10;
const GOODBYE_MS = 5000;

const acceptOf = (nonce: string): string => createHash('sha1').update(nonce + GUID).digest('base64');

function requestOf(url: URL, key: string, nonce: string, signal?: AbortSignal): http.ClientRequest {
	const { request } = url.protocol === 'wss:' || url.protocol === 'https:' ? https : http;
	const target = new URL(url);

	target.protocol = request === https.request ? 'https:' : 'http:';
	return request(target, {
		agent: false,
		...(signal && { signal }),
		headers: {
			Connection: 'Upgrade',
			Upgrade: 'websocket',
			'Sec-WebSocket-Version': '13',
			'Sec-WebSocket-Key': nonce,
			'Sec-WebSocket-Protocol': PROTOCOL,
			...(key && { Authorization: `Bearer ${key}` }),
		},
	});
}

function refusal(response: http.IncomingMessage): Promise<Error> {
	return new Promise((resolve) => {
		const chunks: Buffer[] = [];
		let bytes = 0;
		const finish = () => {
			let body: unknown;

			try {
				body = JSON.parse(Buffer.concat(chunks).toString());
			} catch {
				body = undefined; // the status is all there is
			}
			resolve(apiError(body, response.statusCode ?? 0));
		};

		response.on('data', (chunk: Buffer) => {
			bytes += chunk.length;
			if (bytes > ANSWER_BYTES_MAX)
				response.destroy();
			else
				chunks.push(chunk);
		});
		response.on('close', finish);
		response.on('error', finish);
	});
}

export function openInNode(url: URL, key: string, handlers: SocketHandlers, signal?: AbortSignal): Promise<Socket> {
	const nonce = randomBytes(16).toString('base64');
	const request = requestOf(url, key, nonce, signal);

	return new Promise((resolve, reject) => {
		request.on('upgrade', (response, stream: Duplex, head: Buffer) => {
			if (response.headers['sec-websocket-accept'] !== acceptOf(nonce)) {
				stream.destroy();
				reject(new ProtocolError('what answered is no WebSocket'));
				return;
			}
			resolve(new NodeSocket(stream, head, handlers));
		});
		request.on('response', (response) => void refusal(response).then(reject));
		request.on('error', (cause) =>
			reject(signal?.aborted ? signal.reason : new ConnectionError(`no answer from ${url.host}`, { cause })));
		request.end();
	});
}

class NodeSocket implements Socket {
	readonly #stream: Duplex;
	readonly #parser = new FrameParser();
	readonly #handlers: SocketHandlers;
	#code = LOST;
	#closing = false;

	constructor(stream: Duplex, head: Buffer, handlers: SocketHandlers) {
		this.#stream = stream;
		this.#handlers = handlers;
		stream.on('data', (bytes: Buffer) => this.#take(bytes));
		stream.on('error', () => {}); // 'close' follows
		stream.on('end', () => stream.destroy());
		stream.on('close', () => handlers.onClose(this.#code));
		if (head.length > 0)
			queueMicrotask(() => this.#take(head));
	}

	#frame(opcode: number, payload: Uint8Array): void {
		if (!this.#stream.destroyed)
			this.#stream.write(encodeFrame(opcode, payload, randomBytes(4)));
	}

	#take(bytes: Uint8Array): void {
		try {
			for (const { opcode, payload } of this.#parser.push(bytes))
				this.#message(opcode, payload);
		} catch (error) {
			if (!(error instanceof ProtocolError))
				throw error; // of whoever listens
			this.#stream.destroy();
		}
	}

	#message(opcode: number, payload: Uint8Array): void {
		if (opcode === OPCODE.text)
			this.#handlers.onMessage(toText(payload));
		else if (opcode === OPCODE.binary)
			this.#handlers.onMessage(payload);
		else if (opcode === OPCODE.ping)
			this.#frame(OPCODE.pong, payload);
		else if (opcode === OPCODE.close)
			this.#closed(payload);
	}

	#closed(payload: Uint8Array): void {
		this.#code = closeCode(payload);
		if (!this.#closing)
			this.#frame(OPCODE.close, payload.subarray(0, 2));
		this.#stream.end(() => this.#stream.destroy());
	}

	send(data: Uint8Array | string): void {
		if (typeof data === 'string')
			this.#frame(OPCODE.text, toBytes(data));
		else
			this.#frame(OPCODE.binary, data);
	}

	close(): void {
		this.#closing = true;
		this.#code = 1000;
		this.#frame(OPCODE.close, Uint8Array.of(0x03, 0xe8)); // 1000
		this.#stream.resume();
		setTimeout(() => this.#stream.destroy(), GOODBYE_MS).unref();
	}

	pause(): void {
		this.#stream.pause();
	}

	resume(): void {
		this.#stream.resume();
	}
}
