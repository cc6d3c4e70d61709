// What commands print: chunks as they come, and the collection of them, of bounded size.

import { concat, toText, wholePrefix, wholeSuffix } from './bytes.js';

export type StreamName = 'stdout' | 'stderr';

/** A piece of what a command printed. */
export interface OutputChunk {
	stream: StreamName;
	/** Of its first byte in the whole of the stream. */
	offset: number;
	bytes: Uint8Array;
	text: string;
}

/** Bytes that the sandbox does not keep any more: the newest were kept, and the first ones. */
export interface OutputGap {
	stream: StreamName;
	from: number;
	to: number;
}

/** Keeps a stream whole up to `max` bytes; of a longer one its beginning and its end. */
export class Collector {
	readonly #max: number;
	#head: Uint8Array[] = [];
	#tail: Uint8Array[] = [];
	#headBytes = 0;
	#tailBytes = 0;
	/** Of bytes that are neither in the head nor in the tail. */
	leftOut = 0;

	constructor(max: number) {
		this.#max = max;
	}

	get #headMax(): number {
		return Math.ceil(this.#max / 2);
	}

	add(bytes: Uint8Array): void {
		const room = this.leftOut > 0 ? 0 : Math.max(0, this.#headMax - this.#headBytes);
		const first = bytes.subarray(0, room), rest = bytes.subarray(room);

		if (first.length > 0)
			this.#head.push(first);
		this.#headBytes += first.length;
		if (rest.length > 0)
			this.#tail.push(rest);
		this.#tailBytes += rest.length;
		this.#trim();
	}

	/** Bytes that never came. What was kept before them belongs to the head from here on. */
	skip(count: number): void {
		this.#trim(0);
		this.leftOut += count;
	}

	#trim(max = this.#max - this.#headMax): void {
		while (this.#tailBytes > max) {
			const first = this.#tail[0]!, excess = this.#tailBytes - max;

			if (first.length <= excess)
				this.#tail.shift();
			else
				this.#tail[0] = first.subarray(excess);
			this.leftOut += Math.min(first.length, excess);
			this.#tailBytes -= Math.min(first.length, excess);
		}
	}

	get raw(): Uint8Array {
		return concat([...this.#head, ...this.#tail]);
	}

	get text(): string {
		const head = concat(this.#head), tail = concat(this.#tail);

		if (this.leftOut === 0)
			return toText(concat([head, tail]));
		return `${toText(wholePrefix(head))}\n… ${this.leftOut} bytes were left out …\n${toText(wholeSuffix(tail))}`;
	}
}
