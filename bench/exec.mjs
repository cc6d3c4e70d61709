// What the daemon adds to a command: `true` over REST and over MCP, in turn with the same command by
// the agent's channel alone, in a VM of the same image and size.

import { Connection } from './http.mjs';
import { interleave, quantile, summary, timed } from './stats.mjs';
import { ms } from './table.mjs';

const ROUNDS = 300;
const AIM_MS = 2;

export async function exec({ daemon, baseline, image, few }) {
	const rest = new Connection(daemon), mcp = new Connection(daemon);

	await baseline.ask('template');
	await baseline.ask('hold');
	const sandbox = await rest.rest('POST', '/v1/sandboxes', { image, timeout_minutes: 60 });
	const path = `/v1/sandboxes/${sandbox.id}/exec`;

	try {
		const samples = await interleave({
			agent: () => baseline.ms('exec'),
			rest: () => timed(() => rest.rest('POST', path, { command: 'true' })),
			mcp: () => timed(() => mcp.tool('exec', { sandbox_id: sandbox.id, command: 'true' })),
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
				...row('rest', 'REST'),
				...row('mcp', 'MCP'),
			],
		};
	} finally {
		await rest.rest('DELETE', `/v1/sandboxes/${sandbox.id}`);
		rest.close();
		mcp.close();
	}
}
