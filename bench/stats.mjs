// Samples and what is said of them.

export function quantile(samples, q) {
	const sorted = [...samples].sort((a, b) => a - b);

	return sorted[Math.min(sorted.length - 1, Math.floor(q * sorted.length))];
}

export function summary(samples) {
	return {
		n: samples.length,
		min: Math.min(...samples),
		p50: quantile(samples, 0.5),
		p99: quantile(samples, 0.99),
		max: Math.max(...samples),
	};
}

// Takes one sample of each subject in turn, so that what the machine does meanwhile meets all alike;
// the order is turned round every time, so that none always follows the same other. subjects: {name:
// async () => ms}. Gives {name: [ms …]}.
export async function interleave(subjects, rounds, { warmup = 3 } = {}) {
	const names = Object.keys(subjects);
	const samples = Object.fromEntries(names.map((name) => [name, []]));

	for (let round = -warmup; round < rounds; round++) {
		const order = round % 2 ? [...names].reverse() : names;

		for (const name of order) {
			const ms = await subjects[name]();

			if (round >= 0)
				samples[name].push(ms);
		}
	}
	return samples;
}

export async function timed(fn) {
	const begun = process.hrtime.bigint();

	await fn();
	return Number(process.hrtime.bigint() - begun) / 1e6;
}

// The least-squares slope of samples over their index: what one more round costs.
export function slope(samples) {
	const n = samples.length;
	const mean_x = (n - 1) / 2;
	const mean_y = samples.reduce((a, b) => a + b, 0) / n;
	let above = 0, below = 0;

	samples.forEach((y, x) => {
		above += (x - mean_x) * (y - mean_y);
		below += (x - mean_x) ** 2;
	});
	return below ? above / below : 0;
}
