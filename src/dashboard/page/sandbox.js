// One sandbox: what it is and how it is, what can be done, and its terminal, commands, files and network.

import { choices, extend, pause, resume } from './actions.js';
import { age, left } from './clock.js';
import { mount as mountCommands } from './commands.js';
import { copyButton } from './copy.js';
import { mount as mountDetails } from './details.js';
import { el } from './dom.js';
import { mount as mountFiles } from './files.js';
import { duration, fullTime, nameOf, shape } from './format.js';
import { menuButton } from './menu.js';
import { mount as mountNetwork } from './network.js';
import { to } from './router.js';
import { find, isOver, refresh, watch } from './sandbox_store.js';
import { errorState, loading } from './states.js';
import { sparksOf } from './stats.js';
import { statusView } from './status.js';
import { mount as mountTerminal } from './terminal.js';
import { toastError } from './toast.js';

const tabs = [
	['terminal', 'Terminal', mountTerminal],
	['commands', 'Commands', mountCommands],
	['files', 'Files', mountFiles],
	['network', 'Network', mountNetwork],
	['details', 'Details', mountDetails],
];

const fact = (name, ...value) => el('div', { class: 'fact' }, el('dt', {}, name), el('dd', {}, value));

function facts(sandbox, sparks) {
	return [
		fact('Size', shape(sandbox)),
		fact('Image', sandbox.image),
		fact(isOver(sandbox) ? 'Made' : 'Age', isOver(sandbox) ? fullTime(sandbox.created_at) : age(sandbox.created_at)),
		isOver(sandbox) ? fact('Ended', sandbox.ended_at ? fullTime(sandbox.ended_at) : '–')
			: sandbox.expires_at ? fact(sandbox.on_timeout === 'pause' ? 'Pauses in' : 'Ends in', left(sandbox.expires_at))
				: fact('Left', `${duration((sandbox.remaining_seconds ?? 0) * 1000)} when resumed`),
		!isOver(sandbox) && [fact('CPU', sparks.cpu.element), fact('Memory', sparks.memory.element)],
	];
}

// The head of the page: {element, update(sandbox)}.
function head(first, signal) {
	let sandbox = first;
	const sparks = sparksOf(first.id, signal);
	const title = el('h1', {});
	const status = statusView(first.status);
	const list = el('dl', { class: 'facts' });
	const over = el('p', { class: 'muted' });
	const quick = el('button', { type: 'button' });
	const longer = el('button', { type: 'button', on: { click: () => extend(sandbox).catch(toastError) } }, 'Extend');
	const menu = menuButton('More', () => choices(sandbox).filter((one) => !/^(Pause|Resume|Extend)/.test(one.text)));
	let shown;

	quick.addEventListener('click', () => (sandbox.status === 'paused' ? resume : pause)(sandbox));
	signal.addEventListener('abort', sparks.close);

	function update(next) {
		const facet = JSON.stringify([next.status, next.expires_at, next.remaining_seconds, next.on_timeout]);

		sandbox = next;
		title.textContent = nameOf(next);
		status.update(next.status);
		sparks.follow(next);
		if (facet !== shown)
			list.replaceChildren(...facts(next, sparks).flat(2).filter(Boolean));
		shown = facet;
		over.hidden = !isOver(next);
		over.textContent = next.reason_text ?? '';
		quick.textContent = next.status === 'paused' ? 'Resume' : 'Pause';
		quick.hidden = next.status !== 'running' && next.status !== 'paused';
		longer.hidden = next.status !== 'running';
		menu.hidden = isOver(next);
	}

	update(first);
	return {
		element: el('div', {},
			el('nav', { class: 'crumbs', 'aria-label': 'Where you are' }, el('a', { href: to('sandboxes') }, 'Sandboxes'), ' / ',
				el('code', {}, first.id), copyButton(first.id)),
			el('div', { class: 'head' }, el('div', { class: 'title' }, title, status.element),
				el('div', { class: 'buttons' }, longer, quick, menu)),
			over, list),
		update,
	};
}

export async function mount(root, [id, first], signal) {
	root.append(loading());
	await refresh(id);
	if (!find(id)) {
		root.replaceChildren(el('div', { class: 'head' }, el('h1', {}, 'Not here')), errorState({ message: `There is no sandbox ${id}`, hint: 'It may belong to another account, or have ended long ago' }));
		return { title: 'Not found' };
	}
	const top = head(find(id), signal);
	const bar = el('nav', { class: 'tabs', 'aria-label': 'Of this sandbox' });
	const place = el('div', { class: 'tab' });
	let leave = new AbortController(), current;

	root.replaceChildren(top.element, bar, place);
	signal.addEventListener('abort', () => leave.abort());
	watch(() => {
		const sandbox = find(id);

		if (sandbox) {
			top.update(sandbox);
			current?.update?.(sandbox);
		}
	}, signal);

	function show(name) {
		const [key, , mountTab] = tabs.find(([one]) => one === name) ?? tabs[isOver(find(id)) ? tabs.length - 1 : 0];

		leave.abort();
		leave = new AbortController();
		bar.replaceChildren(...tabs.map(([one, text]) =>
			el('a', { href: to('sandboxes', id, one), 'aria-current': one === key && 'page' }, text)));
		place.replaceChildren();
		try {
			current = mountTab(place, find(id), leave.signal);
		} catch (error) {
			place.replaceChildren(errorState(error, () => show(name)));
		}
	}

	show(first);
	return {
		get title() {
			return nameOf(find(id) ?? { id });
		},
		navigate([next, tab]) {
			if (next !== id)
				return false;
			show(tab);
			return true;
		},
	};
}
