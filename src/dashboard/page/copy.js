// A button that copies a text.

import { el } from './dom.js';

const SHOWN_MS = 2000;

export function copyButton(text, label = 'Copy') {
	const button = el('button', { type: 'button', class: 'quiet copy' }, label);

	button.addEventListener('click', async () => {
		try {
			await navigator.clipboard.writeText(text);
			button.textContent = 'Copied';
		} catch {
			button.textContent = 'Not allowed here: select it and copy it by hand';
		}
		setTimeout(() => (button.textContent = label), SHOWN_MS);
	});
	return button;
}
