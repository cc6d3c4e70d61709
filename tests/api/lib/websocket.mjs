// The little of RFC 6455 that tests need, at both ends: short text frames and the closing ones.

import assert from 'node:assert/strict';
import crypto from 'node:crypto';

const GUID = '258EAFA5-E914-47DA-95CA-C5AB0DC85B11';

export const acceptOf = (key) => crypto.createHash('sha1').update(key + GUID).digest('base64');

// Calls fn with the opcode and the text of each frame that comes over a socket.
export function onFrame(socket, head, fn) {
	let held = Buffer.from(head);
	const look = () => {
		while (held.length >= 2) {
			const masked = held[1] >> 7, length = held[1] & 0x7f, at = masked ? 6 : 2;

			assert.ok(length < 126);
			if (held.length < at + length)
				return;
			const text = Buffer.from(held.subarray(at, at + length));

			if (masked)
				text.forEach((byte, i) => (text[i] = byte ^ held[2 + (i % 4)]));
			fn(held[0] & 0xf, text.toString());
			held = held.subarray(at + length);
		}
	};

	socket.on('data', (chunk) => {
		held = Buffer.concat([held, chunk]);
		look();
	});
	look();
}

export function frame(opcode, text, mask) {
	const payload = Buffer.from(text);

	if (!mask)
		return Buffer.concat([Buffer.from([0x80 | opcode, payload.length]), payload]);
	payload.forEach((byte, i) => (payload[i] = byte ^ mask[i % 4]));
	return Buffer.concat([Buffer.from([0x80 | opcode, 0x80 | payload.length]), mask, payload]);
}

// A server's 'upgrade' listener: greets, answers every text in upper case, closes when asked to.
export function upper(request, socket, head) {
	socket.on('error', () => {});
	socket.write('HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n' +
		`Sec-WebSocket-Accept: ${acceptOf(request.headers['sec-websocket-key'])}\r\n\r\n`);
	socket.write(frame(1, 'hi'));
	onFrame(socket, head, (opcode, text) =>
		opcode === 8 ? socket.end(frame(8, '')) : socket.write(frame(1, text.toUpperCase())));
}

// A client: request is that of node:http or node:https, not sent yet. {send, next, close, closed}
export async function connect(request, key) {
	request.end();
	const [response, socket, head] = await new Promise((resolve, reject) => {
		request.on('upgrade', (...all) => resolve(all));
		request.on('response', ({ statusCode }) => reject(new Error(`answered ${statusCode}`)));
		request.on('error', reject);
	});
	const texts = [];
	let wake, clean = false;
	const closed = new Promise((resolve) => socket.on('close', () => resolve(clean)));

	assert.equal(response.headers['sec-websocket-accept'], acceptOf(key));
	socket.on('error', () => {});
	onFrame(socket, head, (opcode, text) => {
		if (opcode === 8)
			clean = true;
		else
			texts.push(text);
		wake?.();
	});
	return {
		send: (text) => socket.write(frame(1, text, crypto.randomBytes(4))),
		next: async () => {
			while (texts.length === 0)
				await new Promise((resolve) => (wake = resolve));
			return texts.shift();
		},
		close: () => socket.write(frame(8, '', crypto.randomBytes(4))),
		closed, // whether the other end said so before
	};
}
