// Keys for those who like them: / searches, c creates. Never while something is typed, or in a terminal.

import { newSandbox } from './sandboxes.js';

const typing = (target) => target.closest?.('input, textarea, select, [contenteditable], .terminal-box, dialog');

export function startShortcuts(signal) {
	document.addEventListener('keydown', (event) => {
		if (event.ctrlKey || event.metaKey || event.altKey || typing(event.target) || document.querySelector('dialog[open]'))
			return;
		if (event.key === '/') {
			const search = document.querySelector('[data-search]');

			if (search) {
				event.preventDefault();
				search.focus();
			}
		} else if (event.key === 'c') {
			event.preventDefault();
			newSandbox();
		}
	}, { signal });
}
