// What is around every view: the name, the ways, the state of the connection, and the way out.

import { remove } from './api.js';
import { el } from './dom.js';
import { onLive, stopEvents } from './events.js';
import { to } from './router.js';
import { themePicker } from './theme.js';
import { toastError, toastPlaces } from './toast.js';

export function shell(root, views, session, signedOut) {
	const links = views.map(([name, text]) => el('a', { href: to(name), 'data-view': name }, text));
	const main = el('main', { id: 'main', tabindex: '-1' });
	const live = el('p', { class: 'live', role: 'status' });
	const menu = el('button', { type: 'button', class: 'quiet menu-button', 'aria-expanded': 'false', 'aria-controls': 'ways' }, 'Menu');
	const out = el('button', { type: 'button', class: 'quiet' }, 'Sign out');
	const side = el('div', { id: 'ways', class: 'ways' },
		el('nav', { 'aria-label': 'Main' }, links),
		el('div', { class: 'side-foot' }, live,
			el('p', { class: 'muted small' }, 'Key ', el('code', { title: session.key_id }, session.key_id.slice(0, 12))),
			themePicker(), out,
			el('a', { class: 'muted small', href: new URL('licenses.txt', import.meta.url).href }, 'Licences')));
	const header = el('header', { class: 'side' },
		el('div', { class: 'brand' },
			el('a', { href: to('sandboxes'), class: 'wordmark' }, el('img', { src: new URL('icon.svg', import.meta.url).href, alt: '', width: 24, height: 24 }), 'Skerry'),
			menu),
		side);

	menu.addEventListener('click', () => {
		const open = header.classList.toggle('open');

		menu.setAttribute('aria-expanded', String(open));
	});
	out.addEventListener('click', async () => {
		try {
			stopEvents();
			await remove('/v1/session', { quiet: true });
			signedOut();
		} catch (error) {
			toastError(error);
		}
	});
	onLive((on) => {
		live.classList.toggle('on', on);
		live.textContent = on ? 'Live' : 'Connecting…';
	});
	root.replaceChildren(el('a', { class: 'skip', href: '#main', on: { click: (event) => {
		event.preventDefault();
		main.focus();
	} } }, 'Skip to content'), el('div', { class: 'frame' }, header, main), ...toastPlaces());

	return {
		main,
		shown(name, title) {
			document.title = `${title} – Skerry`;
			header.classList.remove('open');
			menu.setAttribute('aria-expanded', 'false');
			for (const link of links) {
				if (link.dataset.view === name)
					link.setAttribute('aria-current', 'page');
				else
					link.removeAttribute('aria-current');
			}
		},
	};
}
