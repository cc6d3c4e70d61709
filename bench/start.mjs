// From nothing to an agent that answers: booted afresh, restored from a template, and created over REST.

import { Connection } from './http.mjs';
import { summary, timed } from './stats.mjs';
import { ms } from './table.mjs';

const BOOTS = 5;
const RESTORES = 50;
const CREATES = 30;

async function several(n, sample) {
	const samples = [];

	for (let i = 0; i < n; i++)
		samples.push(await sample());
	return samples;
}

export async function start({ daemon, baseline, image, few }) {
	const http = new Connection(daemon);
	const boots = await several(Math.max(2, BOOTS * few), () => baseline.ms('boot'));

	await baseline.ask('template');
	await baseline.ask('restore'); // the file cache has the template now
	const firstExecs = [], running = [];
	const restores = await several(RESTORES * few, async () => {
		const answer = await baseline.ask('restore');

		firstExecs.push(answer.first_exec_us / 1000);
		running.push(answer.run_us / 1000);
		return answer.us / 1000;
	});

	const warm = await http.rest('POST', '/v1/sandboxes', { image });
	await http.rest('DELETE', `/v1/sandboxes/${warm.id}`);
	const creates = await several(CREATES * few, async () => {
		let made;
		const time = await timed(async () => {
			made = await http.rest('POST', '/v1/sandboxes', { image });
		});

		await http.rest('DELETE', `/v1/sandboxes/${made.id}`);
		return time;
	});
	http.close();

	const boot = summary(boots), restore = summary(restores), create = summary(creates);
	const first = summary(firstExecs);

	return {
		samples: { boots, restores, running, firstExecs, creates },
		rows: [
			{ what: 'fresh boot to the agent, p50', value: ms(boot.p50) },
			{
				what: 'template restore to the agent, p50', value: ms(restore.p50),
				baseline: `${ms(boot.p50)} boot`, ratio: `1/${(boot.p50 / restore.p50).toFixed(0)}`,
				aim: '1/25, 120 ms', ok: restore.p50 <= boot.p50 / 25 && restore.p50 <= 120,
			},
			{ what: 'of that, until the guest runs, p50', value: ms(summary(running).p50) },
			{ what: 'template restore to the agent, p99', value: ms(restore.p99) },
			{ what: 'first exec after a restore, p50', value: ms(first.p50) },
			{
				what: 'create over REST, p50', value: ms(create.p50),
				baseline: `${ms(restore.p50)} restore`, ratio: `${(create.p50 / restore.p50).toFixed(1)}`,
			},
			{ what: 'create over REST, p99', value: ms(create.p99) },
		],
	};
}
