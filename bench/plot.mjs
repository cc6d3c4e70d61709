// Line charts of bench results as plain SVG: `bench/plot RESULT.json … --out docs/plots`.
//
// One chart a question: how a fork's pause and a pause grow with the written memory, the guest's memory,
// the number of children. Results of several runs are put together, a later one in place of an earlier.

import fs from 'node:fs';
import path from 'node:path';
import { parseArgs } from 'node:util';

const WIDTH = 640, HEIGHT = 320;
const LEFT = 64, RIGHT = 150, TOP = 36, BOTTOM = 48;
const COLOURS = ['#1f6feb', '#d1571b', '#2e8b57', '#8a4fbf'];

// A step of 1, 2 or 5 times a power of ten that cuts max into at most six.
function step(max) {
	const power = 10 ** Math.floor(Math.log10(max / 6));

	return [1, 2, 5, 10].map((factor) => factor * power).find((one) => max / one <= 6);
}

const escape = (text) => text.replace(/&/g, '&amp;').replace(/</g, '&lt;');

// series: [{name, points: [[x, y] …]}]; both axes begin at 0.
export function chart({ title, x, y, series }) {
	const all = series.flatMap(({ points }) => points);
	const maxX = Math.max(...all.map(([at]) => at)) * 1.05;
	const stepY = step(Math.max(...all.map(([, value]) => value)) * 1.05);
	const maxY = Math.ceil(Math.max(...all.map(([, value]) => value)) * 1.05 / stepY) * stepY;
	const atX = (value) => (LEFT + value / maxX * (WIDTH - LEFT - RIGHT)).toFixed(1);
	const atY = (value) => (HEIGHT - BOTTOM - value / maxY * (HEIGHT - TOP - BOTTOM)).toFixed(1);
	const out = [
		`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${HEIGHT}" width="${WIDTH}" height="${HEIGHT}" font-family="sans-serif" font-size="12">`,
		`<rect width="${WIDTH}" height="${HEIGHT}" fill="#fff"/>`,
		`<text x="${LEFT}" y="20" font-size="14" font-weight="bold">${escape(title)}</text>`,
	];

	for (let value = 0; value <= maxY + stepY / 2; value += stepY)
		out.push(`<line x1="${LEFT}" x2="${WIDTH - RIGHT}" y1="${atY(value)}" y2="${atY(value)}" stroke="#ddd"/>`,
			`<text x="${LEFT - 8}" y="${Number(atY(value)) + 4}" text-anchor="end">${Number(value.toPrecision(3))}</text>`);
	for (const value of [...new Set(all.map(([at]) => at))].sort((a, b) => a - b))
		out.push(`<line x1="${atX(value)}" x2="${atX(value)}" y1="${HEIGHT - BOTTOM}" y2="${HEIGHT - BOTTOM + 5}" stroke="#888"/>`,
			`<text x="${atX(value)}" y="${HEIGHT - BOTTOM + 18}" text-anchor="middle">${Math.round(value)}</text>`);
	out.push(`<line x1="${LEFT}" x2="${WIDTH - RIGHT}" y1="${HEIGHT - BOTTOM}" y2="${HEIGHT - BOTTOM}" stroke="#888"/>`,
		`<text x="${(LEFT + WIDTH - RIGHT) / 2}" y="${HEIGHT - 10}" text-anchor="middle">${escape(x)}</text>`,
		`<text transform="translate(16 ${(TOP + HEIGHT - BOTTOM) / 2}) rotate(-90)" text-anchor="middle">${escape(y)}</text>`);
	series.forEach(({ name, points }, i) => {
		const colour = COLOURS[i % COLOURS.length];

		out.push(`<polyline fill="none" stroke="${colour}" stroke-width="2" points="${points.map(([at, value]) => `${atX(at)},${atY(value)}`).join(' ')}"/>`);
		out.push(...points.map(([at, value]) => `<circle cx="${atX(at)}" cy="${atY(value)}" r="3" fill="${colour}"/>`));
		out.push(`<line x1="${WIDTH - RIGHT + 12}" x2="${WIDTH - RIGHT + 30}" y1="${TOP + 12 + i * 20}" y2="${TOP + 12 + i * 20}" stroke="${colour}" stroke-width="2"/>`,
			`<text x="${WIDTH - RIGHT + 36}" y="${TOP + 16 + i * 20}">${escape(name)}</text>`);
	});
	return `${[...out, '</svg>'].join('\n')}\n`;
}

// What there is to draw, from the samples of the parts.
function charts({ fork, pause, growth }) {
	const line = (name, points, x, y) => ({ name, points: points.map((point) => [point[x], point[y]]) });
	const ms = 'milliseconds (p50)';

	return {
		...fork && {
			'fork-written': {
				title: 'Fork: written memory of the source', x: 'MiB written', y: ms,
				series: [line('source stands still', fork.written, 'mib', 'held'), line('child has answered', fork.written, 'mib', 'whole')],
			},
		},
		...pause && {
			'pause-written': {
				title: 'Pause and resume: written memory', x: 'MiB written', y: ms,
				series: [line('pause, durable', pause.pause, 'mib', 'pause'), line('resume', pause.pause, 'mib', 'resume'), line('write and fsync', pause.pause, 'mib', 'write')],
			},
		},
		...growth && {
			'fork-memory': {
				title: 'Fork: memory of the guest (25 MiB written)', x: 'MiB of memory', y: ms,
				series: [line('source stands still', growth.memory, 'memory_mb', 'held'), line('child has answered', growth.memory, 'memory_mb', 'whole')],
			},
			'fork-children': {
				title: 'Fork: number of children (25 MiB written)', x: 'children', y: ms,
				series: [line('source stands still', growth.children, 'count', 'held'), line('all have answered', growth.children, 'count', 'whole')],
			},
		},
	};
}

function main() {
	const { values, positionals } = parseArgs({ options: { out: { type: 'string', default: '.' } }, allowPositionals: true });
	const parts = {};

	for (const file of positionals)
		for (const { name, samples } of JSON.parse(fs.readFileSync(file, 'utf8')).results)
			parts[name] = samples;
	fs.mkdirSync(values.out, { recursive: true });
	for (const [name, what] of Object.entries(charts(parts))) {
		fs.writeFileSync(path.join(values.out, `${name}.svg`), chart(what));
		process.stdout.write(`${path.join(values.out, `${name}.svg`)}\n`);
	}
}

main();
