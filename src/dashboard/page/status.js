// A sandbox's status as a mark and a word. The mark tells by its form, not by colour alone.

import { el } from './dom.js';

const kinds = {
	running: 'on', paused: 'ring', creating: 'moving', pausing: 'moving', resuming: 'moving', destroying: 'moving',
	destroyed: 'off', failed: 'bad',
};

export function statusMark(status) {
	return el('span', { class: `status ${kinds[status] ?? 'off'}` },
		el('span', { class: 'mark', 'aria-hidden': 'true' }), el('span', {}, status));
}

// Keeps an element showing a status.
export function statusView(status) {
	const element = el('span');
	let shown;

	const update = (next) => {
		if (next !== shown)
			element.replaceChildren(statusMark(next));
		shown = next;
	};

	update(status);
	return { element, update };
}
