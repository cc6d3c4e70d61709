// What is shown where there is nothing, not yet, or where something went wrong. Each says what to do.

import { el } from './dom.js';

export const loading = (what = 'Loading') => el('p', { class: 'state muted', role: 'status' }, `${what}…`);

// action: {text, do} or an element.
export function emptyState(title, text, action) {
	const button = action && (action instanceof Node ? action
		: el('button', { type: 'button', class: 'primary', on: { click: action.do } }, action.text));

	return el('div', { class: 'state' }, el('h2', {}, title), el('p', { class: 'muted' }, text), button);
}

export const sentence = (text) => {
	const first = text.charAt(0).toUpperCase() + text.slice(1);

	return /[.!?…]$/.test(first) ? first : `${first}.`;
};

export function errorState(error, retry) {
	const next = error.status === 403 ? 'Sign in with a key that may do this, or ask an administrator for one.' : '';

	return el('div', { class: 'state error', role: 'alert' },
		el('h2', {}, 'This did not work'),
		el('p', {}, sentence(error.message)),
		(error.hint || next) && el('p', { class: 'muted' }, sentence(error.hint || next)),
		retry && el('button', { type: 'button', on: { click: retry } }, 'Try again'));
}

// In a form or a row: one line.
export const errorLine = (error) =>
	el('p', { class: 'error-line', role: 'alert' }, sentence(error.message), error.hint && ` ${sentence(error.hint)}`);
