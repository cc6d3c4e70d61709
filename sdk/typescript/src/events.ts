// What happens to the account's sandboxes, followed over lost connections and restarts of the server.

import { ConnectionError } from './errors.js';
import { backOffMs, isPassing, sleep } from './retry.js';
import { parseData, readEvents } from './sse.js';
import type { CallOptions, Transport } from './transport.js';
import type { Event, EventGap, ListEventsArgs } from './types.js';

export interface FollowEventsOptions extends CallOptions, Pick<ListEventsArgs, 'sandbox_id' | 'type'> {
	/** Id of the last event that was seen. 0: from the oldest that is kept on. Default: from now on. */
	cursor?: number;
	/** The stream has begun, behind this event. */
	onReady?: (cursor: number) => void;
	/** Events that are not kept any more were missed. */
	onGap?: (gap: EventGap) => void;
}

/** Yields events until the signal aborts, which throws its reason, or the loop is left. */
export async function* followEvents(
	transport: Transport, options: FollowEventsOptions = {},
): AsyncGenerator<Event, never, undefined> {
	const { signal, onReady, onGap, cursor: begin, ...filter } = options;
	let cursor = begin;
	let lostSince: number | undefined;

	for (let attempt = 0; ; attempt++) {
		try {
			const args = { ...filter, ...(cursor !== undefined && { cursor }) };
			const headers = { Accept: 'text/event-stream' };
			const response = await transport.send('list_events', args, { headers, signal, once: true });

			for await (const { event, data, id } of readEvents(response.body!, transport.silenceMs, signal)) {
				const value = parseData({ event, data, id });

				attempt = 0;
				lostSince = undefined;
				cursor = Number(id ?? cursor ?? 0);
				if (event === 'ready')
					onReady?.(cursor);
				else if (event === 'gap')
					onGap?.(value as unknown as EventGap);
				else
					yield value as unknown as Event;
			}
			throw new ConnectionError('the stream of events ended');
		} catch (error) {
			signal?.throwIfAborted();
			lostSince ??= Date.now();
			if (!isPassing(error) || Date.now() - lostSince > transport.reconnectMs)
				throw error;
		}
		await sleep(backOffMs(attempt), signal);
	}
}
