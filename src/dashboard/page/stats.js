// CPU and memory of running sandboxes, asked every few seconds while they are looked at.

import { get, url } from './api.js';
import { bytes } from './format.js';
import { spark } from './spark.js';

const EVERY_MS = 5000;

const percent = (share) => `${share >= 0.0995 || share === 0 ? Math.round(share * 100) : (share * 100).toFixed(1)} %`;

// {cpu, memory: spark, follow(sandbox), close()}
export function sparksOf(id, signal) {
	const cpu = spark('CPU'), memory = spark('Memory');
	let timer, sandbox;

	async function ask() {
		clearTimeout(timer);
		if (sandbox?.status !== 'running' || signal.aborted)
			return;
		if (!document.hidden) {
			try {
				show(await get(url('/v1/sandboxes', id, 'stats')(), { signal }));
			} catch (error) {
				if (error.status >= 400 && error.status < 500)
					return; // not for this key, or it has ended meanwhile
			}
		}
		timer = setTimeout(ask, EVERY_MS);
	}

	function show(stats) {
		const samples = stats.samples ?? stats.items ?? [];
		const last = samples.at(-1);

		if (!last)
			return;
		cpu.show(samples.map((one) => Math.min(1, one.cpu)), 1, percent(last.cpu));
		memory.show(samples.map((one) => one.memory_bytes), sandbox.memory_mb * 1024 * 1024, bytes(last.memory_bytes));
	}

	return {
		cpu, memory,
		follow(next) {
			const was = sandbox?.status;

			sandbox = next;
			if (next.status === 'running' && was !== 'running')
				ask();
			if (next.status !== 'running') {
				cpu.clear();
				memory.clear();
			}
		},
		close: () => clearTimeout(timer),
	};
}
