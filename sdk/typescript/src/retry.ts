// When to ask again, and how long to wait before.

import { ApiError, ConnectionError } from './errors.js';

const FIRST_MS = 200;
const LONGEST_MS = 5000;
const RETRY_AFTER_MAX_MS = 30_000;

/** Waits, unless the signal ends the wait: then it throws the signal's reason. */
export function sleep(ms: number, signal?: AbortSignal): Promise<void> {
	return new Promise((resolve, reject) => {
		signal?.throwIfAborted();
		const stop = () => {
			clearTimeout(timer);
			reject(signal!.reason);
		};
		const timer = setTimeout(() => {
			signal?.removeEventListener('abort', stop);
			resolve();
		}, ms);

		signal?.addEventListener('abort', stop, { once: true });
	});
}

/** Doubles with each attempt (0, 1, 2 …); half of it is left to chance, so that many do not return at once. */
export function backOffMs(attempt: number, random = Math.random): number {
	const most = Math.min(FIRST_MS * 2 ** attempt, LONGEST_MS);

	return most / 2 + (random() * most) / 2;
}

/** Of a header Retry-After in seconds; undefined where there is none. */
export function retryAfterMs(header: string | null): number | undefined {
	if (header === null || !/^\d+$/.test(header))
		return undefined;
	return Math.min(Number(header) * 1000, RETRY_AFTER_MAX_MS);
}

/** The server was asked and did nothing: it is safe to ask again, whatever it was. */
export const wasRefused = (error: unknown, retryAfter: number | undefined): boolean =>
	error instanceof ApiError && retryAfter !== undefined && (error.status === 429 || error.status === 503);

/** A stream or a request that may be taken up again: nobody has said no. */
export const isPassing = (error: unknown): boolean =>
	error instanceof ConnectionError ||
	(error instanceof ApiError && (error.code === 'rate_limited' || error.code === 'agent_gone' ||
		[502, 503, 504].includes(error.status)));
