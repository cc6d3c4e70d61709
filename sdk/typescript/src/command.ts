// Commands: run to their end, or started and held by a handle.

import { toBase64, toBytes } from './bytes.js';
import { ApiError, CommandError } from './errors.js';
import { type FollowEvent, Position, follow, startStream } from './follow.js';
import { Collector, type OutputChunk, type OutputGap, type StreamName } from './output.js';
import { sleep } from './retry.js';
import type { CallOptions, Transport } from './transport.js';
import type { ExecArgs, ExecResult, ExecSignalArgs } from './types.js';

type Output = 'stdout' | 'stderr' | 'stdout_base64' | 'stderr_base64' | 'running' | 'exit_code';

/** How a command ended, and what it printed. */
export interface CommandResult extends Omit<ExecResult, Output> {
	/** 124: timed out; 128 + n: ended by signal n. */
	exit_code: number;
	stdout: string;
	stderr: string;
	/** The same, byte for byte. */
	stdout_raw: Uint8Array;
	stderr_raw: Uint8Array;
}

/** What is told of a command while it runs. */
export interface WatchOptions extends CallOptions {
	onStdout?: (text: string, chunk: OutputChunk) => void;
	onStderr?: (text: string, chunk: OutputChunk) => void;
	onGap?: (gap: OutputGap) => void;
	/** Of each stream, kept for the result: more loses its middle. Default: 1 MiB. */
	max_output_bytes?: number;
	/** Throws a CommandError where the exit code is not 0. */
	check?: boolean;
}

type Given = 'id' | 'command' | 'stdin' | 'stdin_base64' | 'background' | 'max_output_bytes' | 'encoding';

export interface StartOptions extends Omit<ExecArgs, Given>, CallOptions {
	stdin?: string | Uint8Array;
}

export interface RunOptions extends StartOptions, WatchOptions {}

export type Signal = ExecSignalArgs['signal'];

const OUTPUT_BYTES = 1 << 20;
const INPUT_PIECE = 256 << 10; // what a request carries: the server caps its body
const INPUT_PAUSE_MS = 200;

const isString = (value: unknown): value is string => typeof value === 'string';

function execArgs(id: string, command: string, options: RunOptions): Record<string, unknown> {
	const { stdin, signal, onStdout, onStderr, onGap, max_output_bytes, check, ...args } = options;
	const input = stdin === undefined ? {} : isString(stdin) ? { stdin } : { stdin_base64: toBase64(stdin) };

	return { ...args, ...input, id, command };
}

async function collect(
	events: AsyncGenerator<FollowEvent, ExecResult, undefined>, options: WatchOptions,
): Promise<CommandResult> {
	const max = options.max_output_bytes ?? OUTPUT_BYTES;
	const kept = { stdout: new Collector(max), stderr: new Collector(max) };
	const listeners = { stdout: options.onStdout, stderr: options.onStderr };

	for (;;) {
		const { done, value } = await events.next();

		if (done)
			return checked(resultOf(value, kept), options);
		if ('gap' in value) {
			kept[value.gap.stream].skip(value.gap.to - value.gap.from);
			options.onGap?.(value.gap);
			continue;
		}
		kept[value.chunk.stream].add(value.chunk.bytes);
		listeners[value.chunk.stream]?.(value.chunk.text, value.chunk);
	}
}

function resultOf(exit: ExecResult, kept: Record<StreamName, Collector>): CommandResult {
	const { running, stdout_base64, stderr_base64, ...rest } = exit;

	return {
		...rest,
		exit_code: exit.exit_code ?? -1,
		truncated: kept.stdout.leftOut + kept.stderr.leftOut > 0,
		stdout: kept.stdout.text,
		stderr: kept.stderr.text,
		stdout_raw: kept.stdout.raw,
		stderr_raw: kept.stderr.raw,
	};
}

function checked(result: CommandResult, options: WatchOptions): CommandResult {
	if (options.check && result.exit_code !== 0)
		throw new CommandError(result);
	return result;
}

/** Runs a command to its end. A connection that is lost meanwhile is taken up again where it was. */
export async function run(transport: Transport, id: string, command: string, options: RunOptions): Promise<CommandResult> {
	const first = await startStream(transport, execArgs(id, command, options), options.signal);

	return collect(follow(transport, id, new Position(), { first, signal: options.signal }), options);
}

/** Starts a command that goes on by itself. */
export async function start(transport: Transport, id: string, command: string, options: StartOptions): Promise<Command> {
	const args = { ...execArgs(id, command, options), background: true } as unknown as ExecArgs;
	const { exec_id } = await transport.call('exec', args, { signal: options.signal });

	return new Command(transport, id, exec_id);
}

/** A command that runs, or has run, in a sandbox. */
export class Command {
	readonly #transport: Transport;
	readonly sandboxId: string;
	readonly execId: string;

	constructor(transport: Transport, sandboxId: string, execId: string) {
		this.#transport = transport;
		this.sandboxId = sandboxId;
		this.execId = execId;
	}

	get #ids() {
		return { id: this.sandboxId, exec_id: this.execId };
	}

	/** Waits for its end; callbacks and the result get all of its output, from the first byte on. */
	wait(options: WatchOptions = {}): Promise<CommandResult> {
		return collect(follow(this.#transport, this.sandboxId, new Position(this.execId), options), options);
	}

	/** Its output as it comes, from the given bytes on; ends with the command. */
	async *output(
		options: CallOptions & Partial<Record<StreamName, number>> = {},
	): AsyncGenerator<OutputChunk, ExecResult, undefined> {
		const events = follow(this.#transport, this.sandboxId, new Position(this.execId, options), options);

		for (;;) {
			const { done, value } = await events.next();

			if (done)
				return value;
			if ('chunk' in value)
				yield value.chunk;
		}
	}

	/** How it stands: `running`, and its exit code once it has ended. */
	poll(options: CallOptions & { wait_ms?: number } = {}): Promise<ExecResult> {
		const { signal, wait_ms } = options;
		const args = { ...this.#ids, max_output_bytes: 1, ...(wait_ms !== undefined && { wait_ms }) };

		return this.#transport.call('exec_wait', args, { signal });
	}

	/** Writes to its stdin, which it was started with `stdin_open: true` for; waits while it does not read. */
	async write(data: string | Uint8Array, options: CallOptions = {}): Promise<void> {
		const bytes = isString(data) ? toBytes(data) : data;

		for (let at = 0; at < bytes.length; at += INPUT_PIECE)
			await this.#feed({ data_base64: toBase64(bytes.subarray(at, at + INPUT_PIECE)) }, options.signal);
	}

	async closeStdin(options: CallOptions = {}): Promise<void> {
		await this.#feed({ close: true }, options.signal);
	}

	async #feed(input: { data_base64?: string; close?: boolean }, signal?: AbortSignal): Promise<void> {
		for (;;) {
			try {
				await this.#transport.call('exec_input', { ...this.#ids, ...input }, { signal, once: true });
				return;
			} catch (error) {
				const again = error instanceof ApiError && ['input_full', 'rate_limited'].includes(error.code);

				if (!again)
					throw error;
			}
			await sleep(INPUT_PAUSE_MS, signal);
		}
	}

	/** Sends a signal to all of its processes. */
	async signal(signal: Signal, options: CallOptions = {}): Promise<void> {
		await this.#transport.call('exec_signal', { ...this.#ids, signal }, options);
	}

	/** Ends it and all that it started. */
	kill(options: CallOptions = {}): Promise<void> {
		return this.signal('SIGKILL', options);
	}
}
