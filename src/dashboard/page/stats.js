// CPU and memory of running sandboxes, asked every few seconds while they are looked at.

import { get, url } from './api.js';
import { bytes } from './format.js';
import { spark } from './spark.js';

const EVERY_MS = 5000;

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
		const { samples } = stats;
		const last = samples.at(-1);

		if (!last)
			return;
		const most = 100 * stats.vcpus, memoryMost = stats.memory_mb * 1024 * 1024;

		cpu.show(samples.map((one) => Math.min(most, one.cpu_percent)), most, `${Math.round((100 * last.cpu_percent) / most)} %`);
		memory.show(samples.map((one) => Math.min(memoryMost, one.memory_bytes)), memoryMost, bytes(last.memory_bytes));
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
