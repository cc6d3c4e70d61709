// The way in: a client of one server with one key.

import { randomId } from './bytes.js';
import { ProtocolError, apiError } from './errors.js';
import { type FollowEventsOptions, followEvents } from './events.js';
import { Sandbox } from './sandbox.js';
import { parseData, readEvents } from './sse.js';
import { type CallOptions, type ClientOptions, type OperationName, Transport, readJson } from './transport.js';
import type * as types from './types.js';

export interface CreateOptions extends types.CreateSandboxArgs, CallOptions {
	/** Asking twice with the same one makes one sandbox. Default: one of its own. */
	idempotencyKey?: string;
}

export interface BuildOptions extends CallOptions {
	rebuild?: boolean;
	onProgress?: (percent: number, message: string) => void;
}

export class Skerry {
	readonly #transport: Transport;

	constructor(options: ClientOptions = {}) {
		this.#transport = new Transport(options);
	}

	/** Calls any operation of the server by its name. */
	call<Name extends OperationName>(
		name: Name, args: types.Operations[Name]['args'], options: CallOptions = {},
	): Promise<types.Operations[Name]['result']> {
		return this.#transport.call(name, args, options);
	}

	// ---- sandboxes ----

	/** Starts a sandbox. An answer that is lost is asked for again, and makes no second one. */
	async create(options: CreateOptions = {}): Promise<Sandbox> {
		const { idempotencyKey = randomId(), signal, ...args } = options;
		const headers = { 'Idempotency-Key': idempotencyKey };
		const info = await this.#transport.call('create_sandbox', args, { headers, signal, repeatable: true });

		return new Sandbox(this.#transport, info);
	}

	/** A sandbox that is there, by its id. */
	async attach(id: string, options: CallOptions = {}): Promise<Sandbox> {
		return new Sandbox(this.#transport, await this.call('get_sandbox', { id }, options));
	}

	/** Sandboxes, newest first; those that are alive, unless `status` says otherwise. */
	async *sandboxes(
		options: Omit<types.ListSandboxesArgs, 'cursor'> & CallOptions = {},
	): AsyncGenerator<Sandbox, void, undefined> {
		const { signal, ...filter } = options;
		let cursor: string | null | undefined;

		do {
			const args = { ...filter, ...(cursor && { cursor }) };
			const page: types.ListSandboxesResult = await this.call('list_sandboxes', args, { signal });

			yield* page.items.map((info) => new Sandbox(this.#transport, info));
			cursor = page.next_cursor;
		} while (cursor);
	}

	// ---- snapshots, networks, images ----

	async snapshots(options: CallOptions = {}): Promise<types.Snapshot[]> {
		return (await this.call('list_snapshots', {}, options)).items;
	}

	async removeSnapshot(name: string, options: CallOptions = {}): Promise<void> {
		await this.call('remove_snapshot', { name }, options);
	}

	createNetwork(name: string, options: CallOptions = {}): Promise<types.Network> {
		return this.call('create_network', { name }, options);
	}

	async networks(options: CallOptions = {}): Promise<types.Network[]> {
		return (await this.call('list_networks', {}, options)).items;
	}

	async removeNetwork(name: string, options: CallOptions = {}): Promise<void> {
		await this.call('remove_network', { name }, options);
	}

	async images(options: CallOptions = {}): Promise<types.Image[]> {
		return (await this.call('list_images', {}, options)).items;
	}

	/** Builds an image by its recipe, which takes a while the first time. */
	async buildImage(name: string, options: BuildOptions = {}): Promise<types.Image> {
		const { signal, onProgress, rebuild = false } = options;
		const headers = { Accept: 'text/event-stream' };
		const response = await this.#transport.send('build_image', { name, rebuild }, { headers, signal });

		if (!/event-stream/.test(response.headers.get('Content-Type') ?? ''))
			return (await readJson(response, signal)) as unknown as types.Image;
		for await (const event of readEvents(response.body!, this.#transport.silenceMs, signal)) {
			const data = parseData(event);

			if (event.event === 'result')
				return data as unknown as types.Image;
			if (event.event === 'error')
				throw apiError(data, Number(data['status']) || 500);
			if (event.event === 'progress')
				onProgress?.(Number(data['percent']), String(data['message']));
		}
		throw new ProtocolError('the build ended without a result');
	}

	async removeImage(name: string, options: CallOptions = {}): Promise<void> {
		await this.call('remove_image', { name }, options);
	}

	// ---- the account, and the server ----

	/** What happens to the account's sandboxes, as it does. */
	events(options: FollowEventsOptions = {}): AsyncGenerator<types.Event, never, undefined> {
		return followEvents(this.#transport, options);
	}

	/** A page of what has happened. */
	pastEvents(options: types.ListEventsArgs & CallOptions = {}): Promise<types.ListEventsResult> {
		const { signal, ...args } = options;

		return this.call('list_events', args, { signal });
	}

	/** Balance, spend by day, key and sandbox, the running rate, and when the credit ends at it. */
	usage(options: types.GetUsageArgs & CallOptions = {}): Promise<types.GetUsageResult> {
		const { signal, ...args } = options;

		return this.call('get_usage', args, { signal });
	}

	prices(options: CallOptions = {}): Promise<types.PricesResult> {
		return this.call('prices', {}, options);
	}

	/** Every size, limit and default in force. */
	limits(options: CallOptions = {}): Promise<types.Operations['limits']['result']> {
		return this.call('limits', {}, options);
	}
}
