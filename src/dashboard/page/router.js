// Addresses within the page: #/sandboxes/sbx_1/files. A view gets its parts, and a signal that tells it that
// it is left.

import { el } from './dom.js';
import { errorState } from './states.js';

export const parts = () => location.hash.replace(/^#\/?/, '').split('/').filter(Boolean).map(decodeURIComponent);

export const to = (...segments) => `#/${segments.map(encodeURIComponent).join('/')}`;

export function go(...segments) {
	location.hash = to(...segments);
}

// views: {name: mount(root, rest, signal)}; mount gives a title, or {title, navigate(rest)} where navigate
// says whether it can show that itself. shown(name, title) is told what is shown.
export function startRouter(root, views, first, shown) {
	const leave = new AbortController();
	let current;

	async function show() {
		const [name, ...rest] = parts();
		const mount = views[name];

		if (!mount) {
			location.replace(to(first));
			return;
		}
		if (current?.name === name && current.view?.navigate?.(rest)) {
			shown(name, current.view.title);
			return;
		}
		const isFirst = !current;

		current?.left.abort();
		const mine = { name, left: new AbortController() };
		const place = el('div', { class: 'view' });

		current = mine;
		root.replaceChildren(place);
		try {
			mine.view = await mount(place, rest, mine.left.signal);
		} catch (error) {
			if (mine.left.signal.aborted)
				return;
			place.replaceChildren(errorState(error, show));
		}
		if (mine !== current)
			return;
		shown(name, mine.view?.title ?? name);
		if (!isFirst)
			root.focus({ preventScroll: true });
		scrollTo(0, 0);
	}

	addEventListener('hashchange', show, { signal: leave.signal });
	show();
	return () => {
		leave.abort();
		current?.left.abort();
		root.replaceChildren();
	};
}
