// What can go wrong. The server says it as a problem document (RFC 9457), whose `code` is stable.

import type { Problem } from './types.js';

/** Every error that this package throws, but for those of an AbortSignal. */
export class SkerryError extends Error {
	constructor(message: string, options?: ErrorOptions) {
		super(message, options);
		this.name = new.target.name;
	}
}

/** The server refused, or failed. */
export class ApiError extends SkerryError {
	/** Stable, for programs: `not_found`, `quota_reached`, … */
	readonly code: string;
	/** Of HTTP. */
	readonly status: number;
	/** What failed and why. */
	readonly detail: string;
	/** What to do next, where the server knows. */
	readonly hint: string | undefined;
	/** The server's log has more under it. */
	readonly requestId: string | undefined;

	constructor(problem: Partial<Problem>, status: number) {
		const detail = problem.detail ?? `the server answered with status ${status}`;

		super(problem.hint ? `${detail} (${problem.hint})` : detail);
		this.code = problem.code ?? `http_${status}`;
		this.status = status;
		this.detail = detail;
		this.hint = problem.hint;
		this.requestId = problem.request_id;
	}
}

/** The key is missing or wrong, or may not do this. */
export class DeniedError extends ApiError {}
/** There is no such sandbox, file, command, snapshot … */
export class NotFoundError extends ApiError {}
/** What was asked for does not fit what is there. */
export class ConflictError extends ApiError {}
/** The sandbox has ended; `detail` has the reason. */
export class SandboxEndedError extends ApiError {}
/** A limit, a quota or the credit is reached. */
export class LimitError extends ApiError {}

/** The server could not be reached, or the connection broke. What was asked may have been done. */
export class ConnectionError extends SkerryError {
	/** Of a command that goes on: `sandbox.command(execId)` picks it up. */
	readonly execId: string | undefined;

	constructor(message: string, options: ErrorOptions & { execId?: string | undefined } = {}) {
		super(message, options);
		this.execId = options.execId;
	}
}

/** The answer is none of Skerry's: something else is listening there. */
export class ProtocolError extends SkerryError {}

/** With `check: true`: the command's exit code is not 0. */
export class CommandError<Result extends { exit_code: number; stderr: string }> extends SkerryError {
	readonly result: Result;

	constructor(result: Result) {
		const last = result.stderr.trimEnd().split('\n').at(-1);

		super(`the command ended with exit code ${result.exit_code}${last ? `: ${last}` : ''}`);
		this.result = result;
	}
}

function classOf(code: string | undefined, status: number): typeof ApiError {
	if (code === 'sandbox_ended' || code === 'already_ended')
		return SandboxEndedError;
	if (status === 402 || status === 429 || code === 'limit_reached')
		return LimitError;
	if (status === 401 || status === 403)
		return DeniedError;
	if (status === 404)
		return NotFoundError;
	return status === 409 ? ConflictError : ApiError;
}

/** The error for what a server answered: a problem document, or anything at all. */
export function apiError(body: unknown, status: number): ApiError {
	const problem: Partial<Problem> = {};

	if (typeof body === 'object' && body !== null) {
		for (const key of ['code', 'detail', 'hint', 'request_id'] as const) {
			const value = (body as Record<string, unknown>)[key];

			if (typeof value === 'string')
				problem[key] = value;
		}
	}
	return new (classOf(problem.code, status))(problem, status);
}
