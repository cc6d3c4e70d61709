// Requests: where arguments go, the key, retries, and answers checked for what they claim to be.
//
// What is asked again after a lost answer is what the server calls idempotent, and what carries an
// Idempotency-Key; what the server refused before it did anything ("rate_limited", 503 with Retry-After)
// is asked again whatever it was.

import { ApiError, ConnectionError, ProtocolError, SkerryError, apiError } from './errors.js';
import { backOffMs, retryAfterMs, sleep, wasRefused } from './retry.js';
import { type Operations, operations } from './types.js';

export interface ClientOptions {
	/** Default: the environment's SKERRY_URL, in a page its origin, or http://127.0.0.1:7171. */
	url?: string;
	/** Default: the environment's SKERRY_API_KEY. */
	key?: string;
	/** How often a request is asked again; default 4. */
	retries?: number;
	/** A stream on which nothing comes for so long, not even heartbeats, is taken for lost; default 60 s. */
	silenceMs?: number;
	/** How long a stream or terminal that is lost is looked for; default 60 s. */
	reconnectMs?: number;
	/** Instead of the global one. */
	fetch?: typeof globalThis.fetch;
}

/** What every call takes. */
export interface CallOptions {
	signal?: AbortSignal | undefined;
}

export interface SendOptions extends CallOptions {
	headers?: Record<string, string>;
	/** Bytes in place of JSON. */
	body?: BodyInit;
	/** Overrides what is known of the operation: whether it may be asked again. */
	repeatable?: boolean;
	/** Asks once, whoever asks again. */
	once?: boolean;
}

export type OperationName = keyof Operations;
type Values = Record<string, unknown>;

const environment = (name: string): string | undefined =>
	(globalThis as { process?: { env?: Record<string, string | undefined> } }).process?.env?.[name];

function defaultUrl(): string {
	const origin = (globalThis as { location?: { origin?: string } }).location?.origin;

	return environment('SKERRY_URL') || (origin?.startsWith('http') ? origin : 'http://127.0.0.1:7171');
}

/** The path and query of an operation, and the arguments that are left for its body. */
export function locate(name: OperationName, args: Values): { path: string; body: Values } {
	const { path, query } = operations[name];
	const body = Object.fromEntries(Object.entries(args).filter(([, value]) => value !== undefined));
	const search = new URLSearchParams();
	const take = (key: string): string => {
		const value = body[key];

		if (value === undefined || value === '')
			throw new SkerryError(`${name} needs the argument "${key}"`);
		delete body[key];
		return encodeURIComponent(String(value));
	};
	const filled = path.replace(/\{(\w+)\}/g, (_, key: string) => take(key));

	for (const key of query) {
		if (body[key] !== undefined)
			search.set(key, String(body[key]));
		delete body[key];
	}
	return { path: search.size > 0 ? `${filled}?${search}` : filled, body };
}

// Node.js says in error.cause why a request failed: one that found no listener was never sent.
const wasNeverSent = (error: unknown): boolean =>
	((error as { cause?: { code?: unknown } }).cause?.code ?? '') === 'ECONNREFUSED';

export class Transport {
	readonly url: URL;
	readonly key: string;
	readonly silenceMs: number;
	readonly reconnectMs: number;
	readonly #retries: number;
	readonly #fetch: typeof globalThis.fetch;

	constructor(options: ClientOptions = {}) {
		this.url = new URL(options.url ?? defaultUrl());
		this.key = options.key ?? environment('SKERRY_API_KEY') ?? '';
		this.silenceMs = options.silenceMs ?? 60_000;
		this.reconnectMs = options.reconnectMs ?? 60_000;
		this.#retries = options.retries ?? 4;
		this.#fetch = options.fetch ?? globalThis.fetch.bind(globalThis);
	}

	/** Calls an operation that answers with JSON. */
	async call<Name extends OperationName>(
		name: Name, args: Operations[Name]['args'], options: SendOptions = {},
	): Promise<Operations[Name]['result']> {
		const response = await this.send(name, args, options);

		return (await readJson(response, options.signal)) as Operations[Name]['result'];
	}

	/** Calls an operation; the answer's status is one of success, its body was not read. */
	async send(name: OperationName, args: object, options: SendOptions = {}): Promise<Response> {
		const { path, body } = locate(name, args as Values);
		const { method, idempotent } = operations[name];
		const headers: Record<string, string> = { ...options.headers };
		const init: RequestInit & { duplex?: 'half' } = { method, headers, redirect: 'error' };

		if (this.key)
			headers['Authorization'] = `Bearer ${this.key}`;
		if (options.signal)
			init.signal = options.signal;
		if (options.body !== undefined) {
			init.body = options.body;
			init.duplex = 'half'; // what Node.js wants to hear of streams
			headers['Content-Type'] ??= 'application/octet-stream';
		} else if (method !== 'GET' && method !== 'DELETE') {
			init.body = JSON.stringify(body);
			headers['Content-Type'] = 'application/json';
		}
		return this.#attempts(new URL(path, this.url), init, options, options.repeatable ?? idempotent);
	}

	async #attempts(url: URL, init: RequestInit, options: SendOptions, repeatable: boolean): Promise<Response> {
		for (let attempt = 0; ; attempt++) {
			const { response, error, again, afterMs } = await this.#attempt(url, init, repeatable);

			if (response)
				return response;
			if (!again || options.once || attempt >= this.#retries || options.signal?.aborted)
				throw error;
			await sleep(Math.max(afterMs ?? 0, backOffMs(attempt)), options.signal);
		}
	}

	async #attempt(url: URL, init: RequestInit, repeatable: boolean): Promise<{
		response?: Response; error?: unknown; again?: boolean; afterMs?: number | undefined;
	}> {
		let response: Response;

		try {
			response = await this.#fetch(url, init);
		} catch (cause) {
			init.signal?.throwIfAborted();
			const error = new ConnectionError(`no answer from ${url.origin}`, { cause });

			// A stream that was read in part cannot be sent again.
			return { error, again: isReplayable(init.body) && (repeatable || wasNeverSent(cause)) };
		}
		if (response.ok)
			return { response };
		const error = await readError(response);
		const afterMs = retryAfterMs(response.headers.get('Retry-After'));
		const again = isReplayable(init.body) && (wasRefused(error, afterMs) || (repeatable && isTransient(error)));

		return { error, again, afterMs };
	}
}

const isReplayable = (body: unknown): boolean => !(body instanceof ReadableStream);

// The first attempt of a creation may still be under way when the second one comes.
const isTransient = (error: unknown): boolean =>
	error instanceof ApiError &&
	(error.code === 'idempotency_in_progress' || [502, 503, 504].includes(error.status));

const isJson = (response: Response): boolean => /\bjson\b/.test(response.headers.get('Content-Type') ?? '');

async function readError(response: Response): Promise<ApiError> {
	let body: unknown;

	try {
		body = isJson(response) ? await response.json() : undefined;
		if (!isJson(response))
			await response.body?.cancel();
	} catch {
		body = undefined; // the status is all there is
	}
	return apiError(body, response.status);
}

/** The object that an answer holds. */
export async function readJson(response: Response, signal?: AbortSignal): Promise<Values> {
	let text: string;

	try {
		text = await response.text();
	} catch (cause) {
		signal?.throwIfAborted();
		throw new ConnectionError('the answer broke off', { cause });
	}
	try {
		const value: unknown = JSON.parse(text);

		if (typeof value === 'object' && value !== null && !Array.isArray(value))
			return value as Values;
	} catch {
		// said below
	}
	throw new ProtocolError(`the answer is no JSON object: ${text.slice(0, 100)}`);
}
