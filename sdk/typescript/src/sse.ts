// Server-sent events: a parser that is a pure function of the text it is given, and a reader of streams
// that notices when nothing comes any more, not even the server's heartbeats.

import { ConnectionError, ProtocolError } from './errors.js';

export interface ServerEvent {
	event: string;
	data: string;
	/** The last id that the stream gave, if any. */
	id: string | undefined;
}

const EVENT_CHARS_MAX = 64 << 20;

export class EventParser {
	#rest = '';
	#event = '';
	#data: string[] = [];
	#chars = 0;
	#id: string | undefined;

	/** The events that end in this piece of the stream. */
	push(text: string): ServerEvent[] {
		const events: ServerEvent[] = [];
		const lines = (this.#rest + text).split('\n');

		this.#rest = lines.pop()!;
		this.#count(this.#rest.length);
		for (const line of lines) {
			const event = this.#line(line.endsWith('\r') ? line.slice(0, -1) : line);

			if (event)
				events.push(event);
		}
		return events;
	}

	#count(more: number): void {
		if (this.#chars + more > EVENT_CHARS_MAX)
			throw new ProtocolError(`an event is longer than ${EVENT_CHARS_MAX} characters`);
	}

	#line(line: string): ServerEvent | undefined {
		if (line === '')
			return this.#end();
		const colon = line.indexOf(':');
		const field = colon < 0 ? line : line.slice(0, colon);
		const value = colon < 0 ? '' : line.slice(line[colon + 1] === ' ' ? colon + 2 : colon + 1);

		if (field === 'event') {
			this.#event = value;
		} else if (field === 'data') {
			this.#count(value.length);
			this.#chars += value.length;
			this.#data.push(value);
		} else if (field === 'id') {
			this.#id = value;
		}
		return undefined;
	}

	#end(): ServerEvent | undefined {
		const data = this.#data, event = this.#event || 'message';

		this.#data = [];
		this.#event = '';
		this.#chars = 0;
		return data.length > 0 ? { event, data: data.join('\n'), id: this.#id } : undefined;
	}
}

/** The object that an event carries. */
export function parseData(event: ServerEvent): Record<string, unknown> {
	try {
		const value: unknown = JSON.parse(event.data);

		if (typeof value === 'object' && value !== null && !Array.isArray(value))
			return value as Record<string, unknown>;
	} catch {
		// said below
	}
	throw new ProtocolError(`event "${event.event}" carries no JSON object: ${event.data.slice(0, 100)}`);
}

type Reader = ReadableStreamDefaultReader<Uint8Array>;

async function readWithin(reader: Reader, silenceMs: number) {
	let timer: ReturnType<typeof setTimeout> | undefined;
	const silence = new Promise<never>((_, reject) => {
		timer = setTimeout(() => reject(new ConnectionError(`the stream was silent for ${silenceMs} ms`)), silenceMs);
	});

	try {
		return await Promise.race([reader.read(), silence]);
	} finally {
		clearTimeout(timer);
	}
}

/** Events as they come. Ends with the stream; throws ConnectionError when it breaks or falls silent. */
export async function* readEvents(
	body: ReadableStream<Uint8Array>, silenceMs: number, signal?: AbortSignal,
): AsyncGenerator<ServerEvent, void, undefined> {
	const reader = body.getReader();
	const decoder = new TextDecoder();
	const parser = new EventParser();

	try {
		for (;;) {
			const { done, value } = await readWithin(reader, silenceMs);

			if (done)
				return;
			yield* parser.push(decoder.decode(value, { stream: true }));
		}
	} catch (error) {
		signal?.throwIfAborted();
		if (error instanceof ProtocolError || error instanceof ConnectionError)
			throw error;
		throw new ConnectionError('the stream broke', { cause: error });
	} finally {
		reader.cancel().catch(() => {}); // it may be broken already
	}
}
