// A command's output as one sequence, whatever happens to the connections that carry it.
//
// Each chunk has its offset. When a connection is lost, the next one asks for what follows the last byte
// that was taken, and what comes twice all the same is cut off here: nothing is lost, nothing is doubled.

import { fromBase64, toBytes, toText } from './bytes.js';
import { ConnectionError, ProtocolError, apiError } from './errors.js';
import type { OutputChunk, OutputGap, StreamName } from './output.js';
import { backOffMs, isPassing, sleep } from './retry.js';
import { type ServerEvent, parseData, readEvents } from './sse.js';
import type { CallOptions, Transport } from './transport.js';
import type { ExecResult } from './types.js';

export type FollowEvent = { chunk: OutputChunk } | { gap: OutputGap };

const EVENT_STREAM = { Accept: 'text/event-stream' };

export const isStreamName = (name: unknown): name is StreamName => name === 'stdout' || name === 'stderr';

/** Where a view of a command is. */
export class Position {
	execId: string | undefined;
	readonly offsets: Record<StreamName, number>;

	constructor(execId?: string, offsets: Partial<Record<StreamName, number>> = {}) {
		this.execId = execId;
		this.offsets = { stdout: offsets.stdout ?? 0, stderr: offsets.stderr ?? 0 };
	}

	/** What of an event is new; undefined where nothing is. */
	take(event: ServerEvent): FollowEvent[] {
		const data = parseData(event);

		if (event.event === 'started' && typeof data['exec_id'] === 'string')
			this.execId = data['exec_id'];
		if (isStreamName(event.event))
			return this.#chunk(event.event, data);
		if (event.event === 'gap' && isStreamName(data['stream']))
			return this.#skipTo(data['stream'], wholeNumber(data['to'], event));
		return [];
	}

	#skipTo(stream: StreamName, to: number): FollowEvent[] {
		const from = this.offsets[stream];

		if (to <= from)
			return [];
		this.offsets[stream] = to;
		return [{ gap: { stream, from, to } }];
	}

	#chunk(stream: StreamName, data: Record<string, unknown>): FollowEvent[] {
		const offset = wholeNumber(data['offset'], stream);
		const gap = this.#skipTo(stream, offset);
		const whole = bytesOf(data, stream);
		const at = this.offsets[stream];
		const bytes = whole.subarray(Math.min(at - offset, whole.length));

		if (bytes.length === 0)
			return gap;
		this.offsets[stream] = at + bytes.length;
		return [...gap, { chunk: { stream, offset: at, bytes, text: toText(bytes) } }];
	}
}

function wholeNumber(value: unknown, what: ServerEvent | string): number {
	if (!Number.isSafeInteger(value) || (value as number) < 0)
		throw new ProtocolError(`event "${typeof what === 'string' ? what : what.event}" has no offset`);
	return value as number;
}

function bytesOf(data: Record<string, unknown>, stream: string): Uint8Array {
	if (typeof data['data'] === 'string')
		return toBytes(data['data']);
	if (typeof data['data_base64'] === 'string') {
		try {
			return fromBase64(data['data_base64']);
		} catch {
			// said below
		}
	}
	throw new ProtocolError(`event "${stream}" carries no bytes`);
}

export interface FollowOptions extends CallOptions {
	/** The answer that has begun already. */
	first?: Response | undefined;
}

/** Yields what is new of a command until it has ended, and returns how it ended. */
export async function* follow(
	transport: Transport, sandboxId: string, position: Position, options: FollowOptions = {},
): AsyncGenerator<FollowEvent, ExecResult, undefined> {
	let response = options.first;
	let lostSince: number | undefined;

	for (let attempt = 0; ; attempt++) {
		try {
			response ??= await resume(transport, sandboxId, position, options.signal);
			for await (const event of readEvents(response.body!, transport.silenceMs, options.signal)) {
				attempt = 0;
				lostSince = undefined;
				if (event.event === 'exit')
					return parseData(event) as unknown as ExecResult;
				if (event.event === 'error') {
					const problem = parseData(event);

					throw apiError(problem, Number(problem['status']) || 500);
				}
				yield* position.take(event);
			}
			throw new ConnectionError('the stream ended before the command');
		} catch (error) {
			lostSince ??= Date.now();
			if (!isPassing(error) || !position.execId || Date.now() - lostSince > transport.reconnectMs)
				throw error instanceof ConnectionError ? lost(error, position) : error;
		}
		response = undefined;
		await sleep(backOffMs(attempt), options.signal);
	}
}

const lost = (error: ConnectionError, { execId }: Position): ConnectionError =>
	new ConnectionError(
		execId ? `${error.message}; command ${execId} goes on` : `${error.message}; the command may have been started`,
		{ cause: error, execId });

function resume(transport: Transport, id: string, position: Position, signal?: AbortSignal): Promise<Response> {
	const { stdout, stderr } = position.offsets;
	const args = { id, exec_id: position.execId!, from_offset: stdout, from_stderr_offset: stderr };

	return transport.send('exec_wait', args, { headers: EVENT_STREAM, signal, once: true });
}

/** Starts a command whose answer is its output. */
export const startStream = (transport: Transport, args: object, signal?: AbortSignal): Promise<Response> =>
	transport.send('exec', args, { headers: EVENT_STREAM, signal });
