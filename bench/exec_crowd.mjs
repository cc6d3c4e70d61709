// `true` over REST and MCP of both eras, 1, 16 and 64 at once in one sandbox, each caller with a connection of its
// own and its next request as soon as it has an answer: how long one waits. The baseline is the same surface with
// one caller; a machine that is busy with one guest cannot give 64 what it gives to one, so that besides the
// time of one the commands a second count.

import { Connection } from './http.mjs';
import { summary, timed } from './stats.mjs';
import { ms } from './table.mjs';

const CROWDS = [1, 16, 64];
const EACH = 640; // commands of a crowd

const modern = {
	'io.modelcontextprotocol/protocolVersion': '2026-07-28',
	'io.modelcontextprotocol/clientCapabilities': {},
};

async function modernTool(connection, args) {
	const { status, text } = await connection.request('POST', '/mcp', {
		jsonrpc: '2.0', id: ++connection.id, method: 'tools/call', params: { name: 'exec', arguments: args, _meta: modern },
	}, {
		Accept: 'application/json, text/event-stream', 'MCP-Protocol-Version': '2026-07-28',
		'Mcp-Method': 'tools/call', 'Mcp-Name': 'exec',
	});

	if (status !== 200 || !text.includes('"structuredContent"') || text.includes('"isError":true'))
		throw new Error(`exec over MCP: ${status} ${text}`);
}

const surfaces = (id) => ({
	REST: (connection) => connection.rest('POST', `/v1/sandboxes/${id}/exec`, { command: 'true' }),
	'MCP, modern': (connection) => modernTool(connection, { sandbox_id: id, command: 'true' }),
	'MCP, legacy': (connection) => connection.tool('exec', { sandbox_id: id, command: 'true' }),
});

// {samples: [ms …], rate}
async function crowd(daemon, n, total, call) {
	const connections = Array.from({ length: n }, () => new Connection(daemon));
	const samples = [];
	let left = total;

	try {
		for (const connection of connections)
			await connection.request('GET', '/healthz'); // connected
		const seconds = await timed(() => Promise.all(connections.map(async (connection) => {
			while (left-- > 0)
				samples.push(await timed(() => call(connection)));
		}))) / 1000;

		return { samples, rate: total / seconds };
	} finally {
		connections.forEach((connection) => connection.close());
	}
}

export async function execCrowd({ daemon, image, few }) {
	const rest = new Connection(daemon);
	const { id } = await rest.rest('POST', '/v1/sandboxes', { image, timeout_minutes: 60 });
	const total = Math.max(64, Math.round(EACH * few));
	const all = surfaces(id), rows = [], samples = {};

	try {
		for (const call of Object.values(all))
			await crowd(daemon, 4, 32, call);
		for (const [name, call] of Object.entries(all)) {
			let alone;

			for (const n of CROWDS) {
				const { samples: took, rate } = await crowd(daemon, n, n === 1 ? Math.ceil(total / 4) : total, call);
				const of = summary(took);

				samples[`${name} ${n}`] = took;
				alone ??= { ...of, rate };
				rows.push({
					what: `exec true over ${name}, ${n} at once: p50 · p99 · a second`,
					value: `${ms(of.p50)} · ${ms(of.p99)} · ${rate.toFixed(0)}`,
					...(n > 1 && { baseline: `${ms(alone.p50)} alone`,
						ratio: `${(of.p50 / alone.p50).toFixed(1)}, ${(rate / alone.rate).toFixed(2)} a second` }),
				});
			}
		}
		return { samples, rows };
	} finally {
		await rest.rest('DELETE', `/v1/sandboxes/${id}`);
		rest.close();
	}
}
