// Light, dark, or as the system has it. The only thing that the page keeps in the browser.

import { el } from './dom.js';

const KEY = 'theme';
const choices = [['auto', 'System'], ['light', 'Light'], ['dark', 'Dark']];
const watchers = new Set();

const stored = () => {
	try {
		return localStorage.getItem(KEY) ?? 'auto';
	} catch {
		return 'auto';
	}
};

function apply(choice) {
	document.documentElement.dataset.theme = choice;
	watchers.forEach((fn) => fn());
}

export function startTheme() {
	apply(stored());
	matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => watchers.forEach((fn) => fn()));
}

// Calls fn whenever colours have changed: for what is drawn and does not know of CSS.
export function onTheme(fn, signal) {
	watchers.add(fn);
	signal?.addEventListener('abort', () => watchers.delete(fn));
}

// The value of a colour that the style sheet names, as it is now.
export function colour(name) {
	const probe = el('span');

	probe.style.color = `var(--${name})`;
	document.body.append(probe);
	const value = getComputedStyle(probe).color;

	probe.remove();
	return value;
}

export function themePicker() {
	const select = el('select', { 'aria-label': 'Colours' },
		choices.map(([value, text]) => el('option', { value }, text)));

	select.value = stored();
	select.addEventListener('change', () => {
		try {
			localStorage.setItem(KEY, select.value);
		} catch { /* then for this visit alone */ }
		apply(select.value);
	});
	return select;
}
