// A plot of figures by day: bars, drawn by uPlot in the page's colours.

import { el } from './dom.js';
import { colour, onTheme } from './theme.js';
import uPlot from './uplot.js';

const HEIGHT = 220;

// With as many digits as tell them apart.
function amounts(splits) {
	const digits = Math.max(0, Math.ceil(-Math.log10(splits[1] - splits[0]))) + 1;

	return splits.map((at) => String(Number(at.toFixed(digits))));
}

function options(width, unit) {
	const line = colour('line'), muted = colour('muted'), accent = colour('accent');
	const font = `12px ${getComputedStyle(document.documentElement).fontFamily}`;

	return {
		width, height: HEIGHT, legend: { show: false }, cursor: { show: false }, padding: [12, 8, 0, 0],
		scales: { x: { time: true, range: (u, from, to) => [from - 43_200, to + 43_200] }, y: { range: (u, from, to) => [0, Math.max(to, 0.001) * 1.1] } },
		axes: [
			{ stroke: muted, font, grid: { show: false }, ticks: { show: false }, space: 60, incrs: [86_400, 172_800, 604_800],
				values: (u, splits) => splits.map((at) => new Date(at * 1000).toLocaleDateString(undefined, { day: 'numeric', month: 'short', timeZone: 'UTC' })) },
			{ stroke: muted, font, grid: { stroke: line, width: 1 }, ticks: { show: false }, size: 64, values: (u, splits) => amounts(splits) },
		],
		series: [{}, { label: unit, stroke: accent, fill: accent, width: 0, points: { show: false }, paths: uPlot.paths.bars({ size: [0.6, 28], radius: 0.15 }) }],
	};
}

// days: [[unix seconds, value]]; text says it all to who does not see it.
export function dayPlot(days, unit, text, signal) {
	const place = el('div', { class: 'plot', role: 'img', 'aria-label': text });
	const data = [days.map(([at]) => at), days.map(([, value]) => value)];
	let plot;

	function draw() {
		if (!place.isConnected || place.clientWidth === 0)
			return;
		plot?.destroy();
		plot = new uPlot(options(place.clientWidth, unit), data, place);
	}

	const resizer = new ResizeObserver(() => {
		if (!plot)
			draw();
		else if (place.clientWidth > 0 && plot.width !== place.clientWidth)
			plot.setSize({ width: place.clientWidth, height: HEIGHT });
	});

	resizer.observe(place);
	onTheme(draw, signal);
	signal.addEventListener('abort', () => {
		resizer.disconnect();
		plot?.destroy();
	});
	return place;
}
