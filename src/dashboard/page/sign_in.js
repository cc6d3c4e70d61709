// The door: a key is exchanged for a session, and kept nowhere.

import { call } from './api.js';
import { el, nextId } from './dom.js';
import { errorLine } from './states.js';
import { themePicker } from './theme.js';

// Resolves with the session once somebody has signed in. why: a Problem, when a session has ended.
export function signIn(root, why) {
	const id = nextId();
	const key = el('input', {
		id, type: 'password', name: 'key', required: true, autocomplete: 'current-password', spellcheck: 'false',
		placeholder: 'sk_…', 'aria-describedby': `${id}-hint`,
	});
	const button = el('button', { type: 'submit', class: 'primary' }, 'Sign in');
	const problem = el('div', {}, why && el('p', { class: 'muted', role: 'status' }, 'Your session has ended. Sign in again.'));
	const form = el('form', {},
		el('div', { class: 'field' }, el('label', { for: id }, 'Key'), key,
			el('p', { class: 'hint', id: `${id}-hint` }, 'The first one is in the file ', el('code', {}, 'admin.key'), ' of the server’s state directory. It is not kept in this browser.')),
		problem, button);

	root.replaceChildren(el('main', { class: 'door' },
		el('img', { src: new URL('icon.svg', import.meta.url).href, alt: '', width: 40, height: 40 }),
		el('h1', {}, 'Skerry'), el('p', { class: 'muted' }, 'Sandboxes for agents, on your own machine.'), form,
		el('div', { class: 'door-foot' }, themePicker())));
	key.focus();
	return new Promise((resolve) => {
		form.addEventListener('submit', async (event) => {
			event.preventDefault();
			button.disabled = true;
			problem.replaceChildren();
			try {
				resolve(await call('POST', '/v1/session', undefined, { headers: { Authorization: `Bearer ${key.value.trim()}` }, quiet: true }));
			} catch (error) {
				problem.replaceChildren(errorLine(error.status === 401 ? { message: 'This key is not valid', hint: 'check that all of it was copied, and that it was not revoked' } : error));
				key.select();
			} finally {
				button.disabled = false;
			}
		});
	});
}
