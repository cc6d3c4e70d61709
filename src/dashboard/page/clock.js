// Texts that change with time: ages and countdowns. One timer for all of them.

import { el } from './dom.js';
import { duration, fullTime } from './format.js';

const ticking = new Set();
let timer;

function tick() {
	for (const element of ticking) {
		if (element.isConnected)
			element.tick();
		else if (element.wasConnected)
			ticking.delete(element);
		element.wasConnected ||= element.isConnected;
	}
	if (ticking.size === 0) {
		clearInterval(timer);
		timer = undefined;
	}
}

function live(at, text, properties = {}) {
	const element = el('time', { datetime: at, title: fullTime(at), ...properties });

	element.tick = () => {
		const now = text();

		if (element.textContent !== now)
			element.textContent = now;
	};
	element.tick();
	ticking.add(element);
	timer ??= setInterval(tick, 1000);
	return element;
}

// "5 min": since then.
export const age = (at) => live(at, () => duration(Date.now() - Date.parse(at)));

// "9 min": until then, and "ending" when it is over.
export const left = (at) => live(at, () => (Date.parse(at) > Date.now() ? duration(Date.parse(at) - Date.now()) : 'ending'));

// "5 min ago"
export const ago = (at) => live(at, () => `${duration(Date.now() - Date.parse(at))} ago`);
