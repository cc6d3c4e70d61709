// Files of a sandbox. An upload is durable when it is answered, and whole or not at all.

import { toText } from './bytes.js';
import { ApiError, ConnectionError, NotFoundError } from './errors.js';
import { type CallOptions, type OperationName, type SendOptions, type Transport, readJson } from './transport.js';
import type { DirectoryEntry, FileEntry, Operations, WriteTreeResult } from './types.js';

/** Who does it in the sandbox; default `sandbox`. */
export interface UserOptions extends CallOptions {
	user?: string;
}

/** In a browser a stream is read to its end before it is sent. */
export type FileData = string | Uint8Array | ArrayBuffer | Blob | ReadableStream<Uint8Array>;

type Options<Name extends OperationName, Given extends string> = Omit<Operations[Name]['args'], Given> & CallOptions;

const TAR = 'application/x-tar';

async function bodyOf(data: FileData): Promise<BodyInit> {
	const inBrowser = typeof (globalThis as { document?: unknown }).document !== 'undefined';

	return data instanceof ReadableStream && inBrowser ? new Response(data).blob() : (data as BodyInit);
}

export class Files {
	readonly #transport: Transport;
	readonly #id: string;

	constructor(transport: Transport, id: string) {
		this.#transport = transport;
		this.#id = id;
	}

	#call<Name extends OperationName>(
		name: Name, args: object, { signal, ...more }: CallOptions,
	): Promise<Operations[Name]['result']> {
		const all = { ...more, ...args, id: this.#id } as unknown as Operations[Name]['args'];

		return this.#transport.call(name, all, { signal });
	}

	#send(name: OperationName, args: object, { signal, ...more }: CallOptions, options: SendOptions = {}): Promise<Response> {
		return this.#transport.send(name, { ...more, ...args, id: this.#id }, { ...options, signal });
	}

	/** The whole file. */
	async read(path: string, options: UserOptions = {}): Promise<Uint8Array> {
		const response = await this.#send('read_file', { path }, options);

		try {
			return new Uint8Array(await response.arrayBuffer());
		} catch (cause) {
			options.signal?.throwIfAborted();
			throw new ConnectionError(`the content of ${path} broke off`, { cause });
		}
	}

	async readText(path: string, options: UserOptions = {}): Promise<string> {
		return toText(await this.read(path, options));
	}

	/** The file's content as it comes, all of it or from `start` up to, without, `end`. */
	async stream(path: string, options: UserOptions & { start?: number; end?: number } = {}): Promise<ReadableStream<Uint8Array>> {
		const { start = 0, end, ...more } = options;
		const headers: Record<string, string> = {};

		if (start > 0 || end !== undefined)
			headers['Range'] = `bytes=${start}-${end === undefined ? '' : end - 1}`;
		return (await this.#send('read_file', { path }, more, { headers })).body!;
	}

	/** Makes the file or replaces it. */
	async write(path: string, data: FileData, options: Options<'write_file', 'id' | 'path'> = {}): Promise<FileEntry> {
		const { overwrite = true } = options;
		const body = await bodyOf(data);
		// One that may not overwrite would meet itself.
		const response = await this.#send('write_file', { path }, options, { body, repeatable: overwrite });

		return (await readJson(response, options.signal)) as unknown as FileEntry;
	}

	/** What is in a directory, by name. */
	async *entries(path: string, options: UserOptions = {}): AsyncGenerator<DirectoryEntry, void, undefined> {
		for (let cursor: string | null = ''; cursor !== null;) {
			const more: { cursor?: string } = cursor ? { cursor } : {};
			const page: Operations['list_files']['result'] = await this.#call('list_files', { path, limit: 1000, ...more }, options);

			yield* page.items;
			cursor = page.next_cursor;
		}
	}

	/** The same, all of it. */
	async list(path: string, options: UserOptions = {}): Promise<DirectoryEntry[]> {
		const all: DirectoryEntry[] = [];

		for await (const entry of this.entries(path, options))
			all.push(entry);
		return all;
	}

	/** What is at a path; a symbolic link is described itself. */
	stat(path: string, options: UserOptions = {}): Promise<FileEntry> {
		return this.#call('stat_file', { path }, options);
	}

	async exists(path: string, options: UserOptions = {}): Promise<boolean> {
		try {
			await this.stat(path, options);
			return true;
		} catch (error) {
			if (error instanceof NotFoundError && error.code === 'file_not_found')
				return false;
			if (error instanceof ApiError && error.code === 'not_a_directory')
				return false;
			throw error;
		}
	}

	mkdir(path: string, options: Options<'make_directory', 'id' | 'path'> = {}): Promise<FileEntry> {
		return this.#call('make_directory', { path }, options);
	}

	/** `to` is the new path, not a directory to put it in. */
	move(from: string, to: string, options: Options<'move_file', 'id' | 'from' | 'to'> = {}): Promise<FileEntry> {
		return this.#call('move_file', { from, to }, options);
	}

	async remove(path: string, options: Options<'remove_file', 'id' | 'path'> = {}): Promise<void> {
		await this.#call('remove_file', { path }, options);
	}

	/** What is below a directory, as an uncompressed tar archive. */
	async readTree(path: string, options: UserOptions = {}): Promise<ReadableStream<Uint8Array>> {
		return (await this.#send('read_tree', { path }, options)).body!;
	}

	/** Unpacks a tar archive below a directory. */
	async writeTree(path: string, tar: FileData, options: Options<'write_tree', 'id' | 'path'> = {}): Promise<WriteTreeResult> {
		const headers = { 'Content-Type': TAR };
		const response = await this.#send('write_tree', { path }, options, { body: await bodyOf(tar), headers });

		return (await readJson(response, options.signal)) as unknown as WriteTreeResult;
	}
}

