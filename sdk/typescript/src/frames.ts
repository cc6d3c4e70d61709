// Frames of RFC 6455, the client's side: what we send is masked, what we read must not be. Pure.

import { concat, toText } from './bytes.js';
import { ProtocolError } from './errors.js';

export const OPCODE = { continuation: 0, text: 1, binary: 2, close: 8, ping: 9, pong: 10 } as const;

const MESSAGE_MAX = 16 << 20;

export interface Message {
	opcode: number;
	payload: Uint8Array;
}

/** One whole frame; `mask` is four random bytes. */
export function encodeFrame(opcode: number, payload: Uint8Array, mask: Uint8Array): Uint8Array {
	const length = payload.length;
	const extra = length < 126 ? 0 : length < 0x10000 ? 2 : 8;
	const frame = new Uint8Array(2 + extra + 4 + length);
	const view = new DataView(frame.buffer);

	frame[0] = 0x80 | opcode;
	frame[1] = 0x80 | (extra === 0 ? length : extra === 2 ? 126 : 127);
	if (extra === 2)
		view.setUint16(2, length);
	else if (extra === 8)
		view.setBigUint64(2, BigInt(length));
	frame.set(mask, 2 + extra);
	for (let i = 0; i < length; i++)
		frame[2 + extra + 4 + i] = payload[i]! ^ mask[i & 3]!;
	return frame;
}

/** Makes messages of what a server sends. Throws where that is no WebSocket. */
export class FrameParser {
	#held: Uint8Array = new Uint8Array(0);
	#opcode = 0; // of the message whose pieces are gathered; 0: none
	#pieces: Uint8Array[] = [];
	#bytes = 0;

	push(bytes: Uint8Array): Message[] {
		const messages: Message[] = [];

		this.#held = this.#held.length > 0 ? concat([this.#held, bytes]) : bytes;
		for (let frame; (frame = this.#frame()) !== undefined;) {
			const message = this.#message(frame);

			if (message)
				messages.push(message);
		}
		return messages;
	}

	#frame(): (Message & { final: boolean }) | undefined {
		const held = this.#held;

		if (held.length < 2)
			return undefined;
		const view = new DataView(held.buffer, held.byteOffset, held.length);
		const first = held[0]!, second = held[1]!;

		if ((first & 0x70) !== 0 || (second & 0x80) !== 0)
			throw new ProtocolError('the server sent a frame with reserved bits or a mask');
		const short = second & 0x7f;
		const head = short < 126 ? 2 : short === 126 ? 4 : 10;

		if (held.length < head)
			return undefined;
		const length = short < 126 ? short : short === 126 ? view.getUint16(2) : Number(view.getBigUint64(2));

		if (length > MESSAGE_MAX)
			throw new ProtocolError(`the server sent a frame of ${length} bytes`);
		if (held.length < head + length)
			return undefined;
		this.#held = held.subarray(head + length);
		return { final: (first & 0x80) !== 0, opcode: first & 0xf, payload: held.slice(head, head + length) };
	}

	#message({ final, opcode, payload }: Message & { final: boolean }): Message | undefined {
		if (opcode >= OPCODE.close) {
			if (!final || payload.length > 125)
				throw new ProtocolError('the server sent a control frame that is too long');
			return { opcode, payload };
		}
		if ((opcode === OPCODE.continuation) !== (this.#opcode !== 0))
			throw new ProtocolError('the server mixed up the pieces of a message');
		this.#opcode ||= opcode;
		this.#pieces.push(payload);
		this.#bytes += payload.length;
		if (this.#bytes > MESSAGE_MAX)
			throw new ProtocolError('the server sent a message that is too long');
		if (!final)
			return undefined;
		const message = { opcode: this.#opcode, payload: concat(this.#pieces) };

		this.#opcode = this.#bytes = 0;
		this.#pieces = [];
		return message;
	}
}

/** The code in a frame that closes; 1005: there is none. */
export const closeCode = (payload: Uint8Array): number =>
	payload.length >= 2 ? (payload[0]! << 8) | payload[1]! : 1005;

export const closeReason = (payload: Uint8Array): string => toText(payload.subarray(2));
