// A strict reader of Prometheus' text format, version 0.0.4: what it does not allow is an error here, also
// where Prometheus itself would be lenient.

const NAME = '[a-zA-Z_:][a-zA-Z0-9_:]*';
const LABEL = '[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\\\\n]|\\\\["\\\\n])*"';
const SAMPLE = new RegExp(`^(${NAME})(?:\\{(${LABEL}(?:,${LABEL})*)\\})? (NaN|[+-]?Inf|-?[0-9]+(?:\\.[0-9]+)?(?:e[+-]?[0-9]+)?)$`);
const TYPES = ['counter', 'gauge', 'histogram'];

function labelsOf(text = '') {
	const labels = {};

	for (const [, name, value] of text.matchAll(/([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"/g)) {
		if (name in labels)
			throw new Error(`label ${name} twice in ${text}`);
		labels[name] = value.replace(/\\(.)/g, (_, c) => (c === 'n' ? '\n' : c));
	}
	return labels;
}

function checkHistogram(family) {
	const series = new Map();

	for (const sample of family.samples) {
		const { le, ...labels } = sample.labels;
		const key = JSON.stringify(Object.entries(labels).sort());
		const one = series.get(key) ?? { buckets: [] };
		const part = sample.name.slice(family.name.length);

		if (part === '_bucket')
			one.buckets.push([le, sample.value]);
		else if (part in one || !['_sum', '_count'].includes(part))
			throw new Error(`${sample.name} does not belong there`);
		else
			one[part] = sample.value;
		series.set(key, one);
	}
	for (const [key, { buckets, _sum, _count }] of series) {
		const bounds = buckets.map(([le]) => (le === '+Inf' ? Infinity : Number(le)));

		if (_sum === undefined || _count === undefined || bounds.at(-1) !== Infinity || bounds.some(Number.isNaN))
			throw new Error(`${family.name} ${key} is not complete`);
		if (bounds.some((bound, i) => i > 0 && bound <= bounds[i - 1]))
			throw new Error(`${family.name} ${key}: bounds do not rise`);
		if (buckets.some(([, n], i) => n < (i > 0 ? buckets[i - 1][1] : 0)) || buckets.at(-1)[1] !== _count)
			throw new Error(`${family.name} ${key}: buckets do not add up`);
	}
}

// {families: Map of name to {name, type, help, samples}, value(name, labels)}
export function parseMetrics(text) {
	const families = new Map();
	const seen = new Set();
	let family;

	if (!text.endsWith('\n') || text.includes('\r'))
		throw new Error('lines end with a newline, each of them');
	for (const line of text.slice(0, -1).split('\n')) {
		const help = line.match(new RegExp(`^# HELP (${NAME}) (.+)$`));
		const type = line.match(new RegExp(`^# TYPE (${NAME}) (.+)$`));
		const sample = line.match(SAMPLE);

		if (help) {
			if (families.has(help[1]))
				throw new Error(`${help[1]} is said twice`);
			family = { name: help[1], help: help[2], samples: [] };
			families.set(help[1], family);
		} else if (type) {
			if (type[1] !== family?.name || family.type || family.samples.length || !TYPES.includes(type[2]))
				throw new Error(`misplaced: ${line}`);
			family.type = type[2];
		} else if (sample) {
			const [, name, labels, value] = sample;

			if (!family?.type || !(name === family.name || (family.type === 'histogram' && name.startsWith(`${family.name}_`))))
				throw new Error(`not of its family: ${line}`);
			if (seen.has(`${name}{${labels}}`))
				throw new Error(`twice: ${line}`);
			seen.add(`${name}{${labels}}`);
			if (family.type === 'counter' && !name.endsWith('_total'))
				throw new Error(`a counter ends with _total: ${line}`);
			if (family.type !== 'gauge' && !(Number(value) >= 0))
				throw new Error(`negative: ${line}`);
			family.samples.push({ name, labels: labelsOf(labels), value: Number(value) });
		} else {
			throw new Error(`no line of the format: ${JSON.stringify(line)}`);
		}
	}
	for (const one of families.values()) {
		if (!one.type)
			throw new Error(`${one.name} has no type`);
		if (one.type === 'histogram')
			checkHistogram(one);
	}
	return {
		families,
		value(name, labels = {}) {
			const all = [...families.values()].flatMap(({ samples }) => samples).filter((sample) => sample.name === name &&
				Object.entries(labels).every(([key, value]) => sample.labels[key] === value));

			return all.length ? all.reduce((sum, sample) => sum + sample.value, 0) : undefined;
		},
	};
}
