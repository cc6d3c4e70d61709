// Small line charts of the last minutes: CPU and memory of a sandbox. The figure beside it says the same in
// words.

import { el, svg } from './dom.js';

const WIDTH = 60, HEIGHT = 20;

function points(values, most) {
	const step = WIDTH / Math.max(1, values.length - 1);

	return values.map((value, i) => `${(i * step).toFixed(1)},${(HEIGHT - 1 - (value / most) * (HEIGHT - 2)).toFixed(1)}`);
}

// {element, show(values, most, text)}
export function spark(label) {
	const line = svg('polyline', { class: 'line' }), area = svg('polygon', { class: 'area' });
	const figure = el('span', { class: 'figure' }, '–');
	const chart = svg('svg', { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, width: WIDTH, height: HEIGHT, 'aria-hidden': 'true' }, area, line);
	const element = el('span', { class: 'spark', title: label }, chart,
		el('span', { class: 'hidden' }, `${label}: `), figure);

	chart.setAttribute('hidden', '');
	return {
		element,
		show(values, most, text) {
			const at = values.length > 1 ? points(values, most) : [];

			line.setAttribute('points', at.join(' '));
			area.setAttribute('points', at.length > 0 ? `0,${HEIGHT} ${at.join(' ')} ${WIDTH},${HEIGHT}` : '');
			chart.toggleAttribute('hidden', at.length === 0);
			figure.textContent = text;
		},
		clear() {
			this.show([], 1, '–');
		},
	};
}
