// Questions in a dialog: a form that does something, or a yes or no. What goes wrong is shown in the dialog,
// with all that was entered still there.

import { el, nextId } from './dom.js';
import { errorLine } from './states.js';

// build(form) gives the fields; submit() does it (what it gives resolves the dialog) or throws. Resolves with
// undefined when it was cancelled.
export function formDialog({ title, text, fields = [], action, danger, wide, submit }) {
	const id = nextId();
	const problem = el('div');
	const button = el('button', { type: 'submit', class: danger ? 'danger' : 'primary' }, action);
	const cancel = el('button', { type: 'button' }, 'Cancel');
	const form = el('form', { method: 'dialog', novalidate: false },
		el('h2', { id }, title), text && el('p', { class: 'muted' }, text), fields, problem,
		el('div', { class: 'buttons' }, cancel, button));
	const dialog = el('dialog', { 'aria-labelledby': id, class: wide && 'wide' }, form);

	document.body.append(dialog);
	return new Promise((resolve) => {
		let result;

		cancel.addEventListener('click', () => dialog.close());
		dialog.addEventListener('close', () => {
			dialog.remove();
			resolve(result);
		});
		dialog.addEventListener('mousedown', (event) => event.target === dialog && dialog.close());
		form.addEventListener('submit', async (event) => {
			event.preventDefault();
			if (button.disabled)
				return;
			button.disabled = true;
			dialog.setAttribute('aria-busy', 'true');
			problem.replaceChildren();
			try {
				result = (await submit()) ?? true;
				dialog.close();
			} catch (error) {
				problem.replaceChildren(errorLine(error));
			} finally {
				button.disabled = false;
				dialog.removeAttribute('aria-busy');
			}
		});
		dialog.showModal();
		(form.querySelector('[autofocus]') ?? form.querySelector('input, select, textarea') ?? button).focus();
	});
}

export const confirmDialog = (options) => formDialog({ danger: true, ...options });

// Shows something to be read or copied.
export function infoDialog({ title, content, wide, action = 'Close' }) {
	const id = nextId();
	const button = el('button', { type: 'button', class: 'primary' }, action);
	const dialog = el('dialog', { 'aria-labelledby': id, class: wide && 'wide' },
		el('div', { class: 'form' }, el('h2', { id }, title), content, el('div', { class: 'buttons' }, button)));

	document.body.append(dialog);
	button.addEventListener('click', () => dialog.close());
	return new Promise((resolve) => {
		dialog.addEventListener('close', () => {
			dialog.remove();
			resolve();
		});
		dialog.showModal();
		button.focus();
	});
}
