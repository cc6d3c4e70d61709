// A shell in a terminal of its own, which outlives the connections to it.
//
// Output has offsets: a connection that was lost is taken up again at the next byte. Of the input, the server
// says when it is joined how much had arrived; what had not is sent again.

import { concat, toBytes } from './bytes.js';
import { ApiError, ConnectionError, NotFoundError, ProtocolError, SkerryError, apiError } from './errors.js';
import { backOffMs, isPassing, sleep } from './retry.js';
import { type Socket, openSocket } from './socket.js';
import { type CallOptions, type Transport, locate } from './transport.js';
import type { OpenTerminalArgs } from './types.js';

export interface TerminalOptions extends Omit<OpenTerminalArgs, 'id'>, CallOptions {
	/** Called with output as it comes; without it, output is read with `for await`. */
	onData?: (bytes: Uint8Array) => void;
	/** Output that is no longer kept was missed. */
	onGap?: (from: number, to: number) => void;
	/** The sandbox was paused, or goes on. */
	onPause?: (paused: boolean) => void;
	/** Takes a lost connection up again; default true. */
	reconnect?: boolean;
}

/** How what ran in a terminal ended. */
export interface TerminalExit {
	exit_code: number;
	signal: string | null;
	out_of_memory: boolean;
	output_bytes: number;
	duration_ms: number;
}

const CLOSED = { error: 4000, takenOver: 4001, ended: 4002 } as const;
const QUEUE_BYTES = 1 << 20; // output that nobody reads holds the program back from here on
const UNSENT_BYTES = 256 << 10; // input that is kept to be sent again

/** Input that may not have arrived yet, the newest of it. */
class SentInput {
	#chunks: Uint8Array[] = [];
	#bytes = 0;
	/** Bytes that the terminal was given, as far as this end knows. */
	total = 0;

	add(bytes: Uint8Array): void {
		this.#chunks.push(bytes);
		this.#bytes += bytes.length;
		this.total += bytes.length;
		while (this.#bytes - this.#chunks[0]!.length >= UNSENT_BYTES)
			this.#bytes -= this.#chunks.shift()!.length;
	}

	/** What follows the first `count` bytes; undefined where that is not kept any more. */
	after(count: number): Uint8Array | undefined {
		const missing = Math.max(0, this.total - count);

		return missing > this.#bytes ? undefined : concat(this.#chunks).subarray(this.#bytes - missing);
	}
}

export class Terminal implements AsyncIterable<Uint8Array>, AsyncDisposable {
	readonly #transport: Transport;
	readonly #sandboxId: string;
	readonly #options: TerminalOptions;
	readonly #input = new SentInput();
	#socket: Socket | undefined;
	#id: string | undefined;
	#offset = 0;
	#left = false; // by this end
	#misses = 0; // refused and not listed, one after the other
	#complaint: ApiError | undefined; // what the server said last
	#exit: TerminalExit | undefined;
	/** While a connection is being made: what was written waits. */
	#ready: { resolve(arrived: number): void; reject(error: unknown): void } | undefined;
	#queue: Uint8Array[] = [];
	#queued = 0;
	#wake: (() => void) | undefined;
	#over: { error?: unknown } | undefined;
	#settle!: { resolve(exit: TerminalExit): void; reject(error: unknown): void };
	/** How it ended. Rejects where this end has left it, or lost it. */
	readonly exited: Promise<TerminalExit>;

	/** Use `sandbox.terminal()`. */
	constructor(transport: Transport, sandboxId: string, options: TerminalOptions) {
		this.#transport = transport;
		this.#sandboxId = sandboxId;
		this.#options = options;
		this.exited = new Promise((resolve, reject) => (this.#settle = { resolve, reject }));
		this.exited.catch(() => {}); // of those who do not ask
	}

	/** For `terminal_id`, to join it later or from elsewhere. */
	get id(): string {
		return this.#id!;
	}

	/** Of the next byte of output. */
	get offset(): number {
		return this.#offset;
	}

	async open(): Promise<this> {
		const { onData, onGap, onPause, reconnect, signal, ...args } = this.#options;

		try {
			await this.#connect(args, signal);
		} catch (error) {
			this.#finish(error);
			throw error;
		}
		return this;
	}

	async #connect(args: Omit<OpenTerminalArgs, 'id'>, signal?: AbortSignal): Promise<void> {
		const url = new URL(locate('open_terminal', { ...args, id: this.#sandboxId }).path, this.#transport.url);
		const ready = new Promise<number>((resolve, reject) => (this.#ready = { resolve, reject }));

		ready.catch(() => {}); // the socket may not even open
		url.protocol = url.protocol.replace('http', 'ws');
		try {
			const socket: Socket = await openSocket(url, this.#transport.key, {
				onMessage: (data) => this.#message(data),
				onClose: (code) => this.#closed(code),
			}, signal);

			this.#socket = socket;
		} catch (error) {
			throw error instanceof ConnectionError ? await this.#explain(error, args.terminal_id, signal) : error;
		}
		const arrived = await ready;

		// From here on without a pause, so that what is written meanwhile comes after it.
		this.#sendAgain(arrived);
		this.#ready = undefined;
	}

	#sendAgain(arrived: number): void {
		const missing = this.#input.after(arrived);

		if (missing === undefined)
			throw new SkerryError(`${this.#input.total - arrived} bytes of input were lost with the connection`);
		if (missing.length > 0)
			this.#socket?.send(missing);
	}

	/** A browser does not say why a WebSocket was refused; a request for something near it may. */
	async #explain(error: ConnectionError, id: string | undefined, signal?: AbortSignal): Promise<unknown> {
		try {
			const { items } = await this.#transport.call('list_terminals', { id: this.#sandboxId }, { signal, once: true });

			if (id === undefined || items.some(({ terminal_id }) => terminal_id === id))
				return error;
		} catch (reason) {
			return reason;
		}
		// One that has ended is not listed, but can still be joined for a while: a server that was not there
		// and is again has to be asked once more.
		if (this.#id !== undefined && this.#misses++ === 0)
			return error;
		return new NotFoundError({ code: 'terminal_not_found', detail: `no terminal '${id}' in this sandbox` }, 404);
	}

	#message(data: Uint8Array | string): void {
		if (typeof data === 'string') {
			this.#control(data);
			return;
		}
		this.#offset += data.length;
		if (this.#options.onData) {
			this.#options.onData(data);
			return;
		}
		this.#queue.push(data);
		this.#queued += data.length;
		if (this.#queued > QUEUE_BYTES)
			this.#socket?.pause();
		this.#wake?.();
	}

	#control(text: string): void {
		const message = this.#parse(text);

		switch (message['type']) {
		case 'ready':
			this.#begin(message);
			break;
		case 'gap':
			this.#offset = Number(message['to']);
			this.#options.onGap?.(Number(message['from']), this.#offset);
			break;
		case 'paused':
		case 'resumed':
			this.#options.onPause?.(message['type'] === 'paused');
			break;
		case 'exit': {
			const { type, ...exit } = message;

			this.#exit = exit as unknown as TerminalExit;
			break;
		}
		case 'error':
			this.#complaint = apiError(message, 0);
			break;
		default: // of a newer server
		}
	}

	/** Something else speaks there if it is no object: it is left. */
	#parse(text: string): Record<string, unknown> {
		try {
			return Object(JSON.parse(text)) as Record<string, unknown>;
		} catch (cause) {
			const error = new ProtocolError(`the server said what is no JSON: ${text.slice(0, 100)}`, { cause });

			this.#ready?.reject(error);
			this.#finish(error);
			this.#socket?.close();
			return {};
		}
	}

	#begin(message: Record<string, unknown>): void {
		const arrived = Number(message['input_bytes']);

		if (this.#id === undefined)
			this.#input.total = arrived;
		this.#id = String(message['terminal_id']);
		this.#misses = 0;
		this.#offset = Number(message['offset']);
		this.#ready?.resolve(arrived);
	}

	#closed(code: number): void {
		const reason = this.#reasonOf(code);
		const opening = this.#ready;

		this.#socket = undefined;
		opening?.reject(reason);
		if (this.#over)
			return;
		if (this.#exit || !isPassing(reason) || this.#options.reconnect === false)
			this.#finish(reason);
		else if (!opening)
			void this.#reconnect();
	}

	#reasonOf(code: number): Error {
		if (this.#left)
			return new SkerryError('the terminal was left');
		if (code === CLOSED.takenOver)
			return new SkerryError('somebody else has taken the terminal over');
		if (code === CLOSED.error || code === CLOSED.ended)
			return this.#complaint ?? new SkerryError('the sandbox has ended');
		if (code === 1002 || code === 1007 || code === 1009)
			return new ProtocolError(`the server did not understand this client (${code})`);
		return new ConnectionError(`the terminal's connection was closed (${code})`);
	}

	async #reconnect(): Promise<void> {
		const until = Date.now() + this.#transport.reconnectMs;

		for (let attempt = 0; !this.#left; attempt++) {
			try {
				await sleep(backOffMs(attempt), this.#options.signal);
				await this.#connect({ terminal_id: this.id, from_offset: this.#offset }, this.#options.signal);
				return;
			} catch (error) {
				if (!isPassing(error) || Date.now() > until) {
					this.#finish(error);
					return;
				}
			}
		}
		this.#finish(new SkerryError('the terminal was left'));
	}

	#finish(error?: unknown): void {
		if (this.#over)
			return;
		this.#over = { error };
		if (this.#exit)
			this.#settle.resolve(this.#exit);
		else
			this.#settle.reject(error);
		this.#wake?.();
	}

	/** Sends keys. */
	write(data: string | Uint8Array): void {
		const bytes = typeof data === 'string' ? toBytes(data) : data;

		if (this.#over)
			throw new SkerryError('the terminal is not connected any more');
		this.#input.add(bytes);
		if (!this.#ready)
			this.#socket?.send(bytes);
	}

	resize(cols: number, rows: number): void {
		this.#socket?.send(JSON.stringify({ type: 'resize', cols, rows }));
	}

	/** Output as it comes, up to the terminal's end. */
	async *[Symbol.asyncIterator](): AsyncGenerator<Uint8Array, void, undefined> {
		for (;;) {
			const bytes = this.#queue.shift();

			if (bytes) {
				this.#queued -= bytes.length;
				if (this.#queued <= QUEUE_BYTES / 2)
					this.#socket?.resume();
				yield bytes;
			} else if (this.#over) {
				if (!this.#exit && !this.#left)
					throw this.#over.error;
				return;
			} else {
				await new Promise<void>((resolve) => (this.#wake = resolve));
			}
		}
	}

	/** Lets go of it; what runs in it goes on. */
	async leave(): Promise<void> {
		this.#left = true;
		this.#socket?.close();
		await this.exited.catch(() => {});
	}

	/** Ends it and all that runs in it. */
	async end(options: CallOptions = {}): Promise<void> {
		const args = { id: this.#sandboxId, terminal_id: this.id };

		this.#left = true;
		await this.#transport.call('end_terminal', args, options);
		this.#socket?.close();
		await this.exited.catch(() => {});
	}

	async [Symbol.asyncDispose](): Promise<void> {
		await this.leave();
	}
}
