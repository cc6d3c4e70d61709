// Twenty sandboxes made at once, used at once, destroyed at once; against one alone.

import { Connection } from './http.mjs';
import { summary, timed } from './stats.mjs';
import { ms } from './table.mjs';

const CROWD = 20;

// Each its own connection, as twenty agents would have.
async function together(connections, fn) {
	const times = [];
	const whole = await timed(() => Promise.all(connections.map(async (http, i) => {
		times[i] = await timed(() => fn(http, i));
	})));

	return { times, whole };
}

export async function crowd({ daemon, image }) {
	const connections = Array.from({ length: CROWD }, () => new Connection(daemon));
	const ids = [];
	let alone;

	try {
		alone = await timed(async () => {
			ids[0] = (await connections[0].rest('POST', '/v1/sandboxes', { image })).id;
		});
		await connections[0].rest('DELETE', `/v1/sandboxes/${ids.pop()}`);

		const create = await together(connections, async (http, i) => {
			ids[i] = (await http.rest('POST', '/v1/sandboxes', { image })).id;
		});
		const exec = await together(connections, (http, i) =>
			http.rest('POST', `/v1/sandboxes/${ids[i]}/exec`, { command: 'true' }));
		const destroy = await together(connections, (http, i) =>
			http.rest('DELETE', `/v1/sandboxes/${ids[i]}`).then(() => { delete ids[i]; }));

		return {
			samples: { alone, create, exec, destroy },
			rows: [
				{
					what: `create, ${CROWD} at once: until the last`, value: ms(create.whole),
					baseline: `${ms(alone)} alone`, ratio: `${(create.whole / alone / CROWD).toFixed(2)} each`,
				},
				{ what: `create, ${CROWD} at once: p50`, value: ms(summary(create.times).p50) },
				{ what: `exec, ${CROWD} at once: until the last`, value: ms(exec.whole) },
				{ what: `destroy, ${CROWD} at once: until the last`, value: ms(destroy.whole) },
			],
		};
	} finally {
		for (const id of ids.filter(Boolean))
			await connections[0].rest('DELETE', `/v1/sandboxes/${id}`);
		connections.forEach((http) => http.close());
	}
}
