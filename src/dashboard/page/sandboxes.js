// The list of sandboxes, live: state, age, time left, CPU and memory, and what can be done.

import { choices, pause, resume } from './actions.js';
import { age, left } from './clock.js';
import { createDialog } from './create.js';
import { el, keyed } from './dom.js';
import { input } from './form.js';
import { duration, nameOf, plural } from './format.js';
import { dots, menuButton } from './menu.js';
import { go, to } from './router.js';
import { isOver, list, load, watch } from './sandbox_store.js';
import { emptyState, errorState, loading } from './states.js';
import { sparksOf } from './stats.js';
import { statusView } from './status.js';
import { toastError } from './toast.js';

export const newSandbox = async () => {
	try {
		const made = await createDialog();

		if (made)
			go('sandboxes', made.id);
	} catch (error) {
		toastError(error);
	}
};

function timeLeft(sandbox) {
	if (isOver(sandbox))
		return el('span', { class: 'muted' }, sandbox.reason_text ? sandbox.reason.replaceAll('_', ' ') : '–');
	if (sandbox.expires_at)
		return left(sandbox.expires_at);
	return el('span', { class: 'muted' }, `${duration((sandbox.remaining_seconds ?? 0) * 1000)} left`);
}

function makeRow(first, signal) {
	let sandbox = first;
	const status = statusView(first.status);
	const sparks = sparksOf(first.id, signal);
	const name = el('a', { href: to('sandboxes', first.id), class: 'name' });
	const what = el('span', { class: 'muted small' });
	const rest = el('td', { class: 'figure', 'data-label': 'Left' });
	const quick = el('button', { type: 'button', class: 'quiet' });
	const menu = menuButton(dots(), () => choices(sandbox), { class: 'quiet icon' });
	const buttons = el('td', { class: 'actions' }, quick, menu);
	const element = el('tr', {},
		el('td', { class: 'main' }, name, what),
		el('td', { class: 'state-cell' }, status.element),
		el('td', { class: 'figure', 'data-label': 'Age' }, age(first.created_at)), rest,
		el('td', { 'data-label': 'CPU' }, sparks.cpu.element),
		el('td', { 'data-label': 'Memory' }, sparks.memory.element), buttons);

	quick.addEventListener('click', () => (sandbox.status === 'paused' ? resume : pause)(sandbox));

	function update(next) {
		sandbox = next;
		status.update(next.status);
		sparks.follow(next);
		name.textContent = nameOf(next);
		what.textContent = [next.image, next.size].join(' · ');
		rest.replaceChildren(timeLeft(next));
		quick.hidden = next.status !== 'running' && next.status !== 'paused';
		quick.textContent = next.status === 'paused' ? 'Resume' : 'Pause';
		quick.setAttribute('aria-label', `${quick.textContent} ${nameOf(next)}`);
		menu.setAttribute('aria-label', `Actions for ${nameOf(next)}`);
		menu.hidden = isOver(next);
		element.classList.toggle('over', isOver(next));
	}

	update(first);
	return { element, update, close: sparks.close };
}

function matches(sandbox, words) {
	const text = [sandbox.id, sandbox.name, sandbox.image, sandbox.size, sandbox.status,
		...Object.entries(sandbox.labels).map(([key, value]) => `${key}=${value}`)].join(' ').toLowerCase();

	return words.every((word) => text.includes(word));
}

export async function mount(root, rest, signal) {
	const search = input({ type: 'search', placeholder: 'Name, id, label, image', 'aria-label': 'Search sandboxes', 'data-search': true });
	const ended = el('input', { type: 'checkbox' });
	const count = el('p', { class: 'muted', role: 'status' });
	const body = el('tbody');
	const table = el('div', { class: 'table-box' }, el('table', { class: 'cards' },
		el('caption', { class: 'hidden' }, 'Sandboxes'),
		el('thead', {}, el('tr', {}, ['Sandbox', 'State', 'Age', 'Left', 'CPU', 'Memory'].map((text) => el('th', { scope: 'col' }, text)),
			el('th', { scope: 'col' }, el('span', { class: 'hidden' }, 'Actions')))),
		body));
	const nothing = el('div');
	const rows = keyed(body, (sandbox) => sandbox.id, (sandbox) => makeRow(sandbox, signal));

	root.append(
		el('div', { class: 'head' }, el('h1', {}, 'Sandboxes'),
			el('button', { type: 'button', class: 'primary', on: { click: newSandbox } }, 'New sandbox')),
		el('div', { class: 'tools' }, search, el('label', { class: 'check' }, ended, el('span', {}, 'Show ended')), count),
		nothing, table);

	function show() {
		const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
		const known = list().filter((sandbox) => ended.checked || !isOver(sandbox));
		const found = known.filter((sandbox) => matches(sandbox, words));

		table.hidden = found.length === 0;
		nothing.replaceChildren();
		if (known.length === 0)
			nothing.append(emptyState('No sandboxes yet',
				'A sandbox is a small virtual machine for an agent or for you. It is there in about a second, and ends by itself.',
				{ text: 'Create the first', do: newSandbox }));
		else if (found.length === 0)
			nothing.append(emptyState('Nothing found', `None of ${plural(known.length, 'sandbox', 'sandboxes')} matches. Try fewer words, or show ended ones.`));
		count.textContent = known.length > 0 ? `${plural(found.length, 'sandbox', 'sandboxes')}` : '';
		rows.update(found);
	}

	async function reload(again) {
		nothing.replaceChildren(loading());
		try {
			await load({ ended: ended.checked, again });
			watch(show, signal);
			show();
		} catch (error) {
			table.hidden = true;
			nothing.replaceChildren(errorState(error, () => reload(true)));
		}
	}

	table.hidden = true;
	search.addEventListener('input', show);
	ended.addEventListener('change', () => reload(false));
	await reload(false);
	return { title: 'Sandboxes' };
}
