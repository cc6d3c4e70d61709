// Short words on what was done, read out by screen readers and gone by themselves; those on what went wrong
// stay until they are closed.

import { el } from './dom.js';
import { sentence } from './states.js';

const SHOWN_MS = 5000;

const done = el('div', { class: 'toasts', role: 'status', 'aria-live': 'polite' });
const failed = el('div', { class: 'toasts failed', role: 'alert' });

export const toastPlaces = () => [done, failed];

export function toast(text) {
	const element = el('p', { class: 'toast' }, text);

	done.append(element);
	setTimeout(() => element.remove(), SHOWN_MS);
}

export function toastError(error) {
	if (error.name === 'AbortError')
		return;
	const close = el('button', { type: 'button', class: 'quiet', 'aria-label': 'Close this message' }, '✕');
	const element = el('div', { class: 'toast' },
		el('p', {}, sentence(error.message), error.hint && el('span', { class: 'muted' }, ` ${sentence(error.hint)}`)), close);

	close.addEventListener('click', () => element.remove());
	failed.append(element);
}
