// What the daemon adds to a command: `true` over REST and over MCP, in turn with the same command by
// the agent's channel alone, in VMs of the same image and size. Never twice in a row in one VM: a guest is
// busy for some milliseconds after a command, and the next one would wait for that. Two VMs of a kind differ
// by milliseconds, so that REST and MCP change places with every round. "http" is an
// operation without a guest on the same connection: what HTTP and a look-up cost by themselves. The
// clients are programs in C, as that of the agent is, so that the difference is the daemon's.

import { Connection } from './http.mjs';
import { LeanConnection } from './lean.mjs';
import { interleave, quantile, summary } from './stats.mjs';
import { ms } from './table.mjs';

const ROUNDS = 300;
const AIM_MS = 2;

export async function exec({ daemon, baseline, build, image, few }) {
	const http = new Connection(daemon);
	const rest = new LeanConnection(daemon, build), mcp = new LeanConnection(daemon, build);

	await baseline.ask('template');
	await baseline.ask('hold');
	const create = () => http.rest('POST', '/v1/sandboxes', { image, timeout_minutes: 60 });
	const sandboxes = [await create(), await create()];
	const { id } = sandboxes[0];
	let commands = 0;
	const place = (n) => sandboxes[(Math.floor(commands++ / 2) + n) % 2].id;

	try {
		const samples = await interleave({
			agent: () => baseline.ms('exec'),
			rest: () => rest.ms('POST', `/v1/sandboxes/${place(0)}/exec`, { command: 'true' }),
			mcp: () => mcp.toolMs('exec', { sandbox_id: place(1), command: 'true' }),
			http: () => rest.ms('GET', `/v1/sandboxes/${id}`),
		}, ROUNDS * few, { warmup: 10 });
		const pings = (await interleave({ ping: () => baseline.ms('ping') }, ROUNDS * few)).ping;
		const agent = summary(samples.agent);
		const row = (name, label) => {
			const of = summary(samples[name]);
			const added = of.p50 - agent.p50;

			return [
				{
					what: `exec true over ${label}, p50`, value: ms(of.p50),
					baseline: `${ms(agent.p50)} agent`, ratio: `${(of.p50 / agent.p50).toFixed(2)}, +${ms(added)}`,
					aim: `+${AIM_MS} ms`, ok: added <= AIM_MS,
				},
				{
					what: `exec true over ${label}, p99`, value: ms(of.p99), baseline: `${ms(agent.p99)} agent`,
					ratio: (of.p99 / agent.p99).toFixed(2),
				},
			];
		};

		return {
			samples: { ...samples, pings },
			rows: [
				{ what: "the agent's round trip (ping), p50", value: ms(quantile(pings, 0.5)) },
				{ what: 'an operation without the guest (get) over REST, p50', value: ms(summary(samples.http).p50) },
				...row('rest', 'REST'),
				...row('mcp', 'MCP'),
			],
		};
	} finally {
		for (const sandbox of sandboxes)
			await http.rest('DELETE', `/v1/sandboxes/${sandbox.id}`);
		http.close();
		rest.close();
		mcp.close();
	}
}
