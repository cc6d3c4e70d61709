// Private networks and who is in them.

import { post, put, remove, url } from './api.js';
import { el } from './dom.js';
import { confirmDialog, formDialog } from './dialog.js';
import { onEvent } from './events.js';
import { field, input, select } from './form.js';
import { nameOf, plural } from './format.js';
import { to } from './router.js';
import { find, isOver, list, load } from './sandbox_store.js';
import { networks } from './server.js';
import { emptyState, errorState, loading } from './states.js';
import { toast, toastError } from './toast.js';

export async function mount(root, rest, signal) {
	const place = el('div', { class: 'panels' });

	root.append(
		el('div', { class: 'head' }, el('h1', {}, 'Networks'), el('button', { type: 'button', class: 'primary', on: { click: create } }, 'New network')),
		el('p', { class: 'muted lead' }, 'Members of a private network reach each other by name, on every port. Nobody else reaches them.'), place);

	async function create() {
		const name = input({ required: true, pattern: '[a-z0-9]([a-z0-9\\-]*[a-z0-9])?', maxlength: 63 });

		if (await formDialog({
			title: 'New network', action: 'Create', fields: [field('Name', name, 'Lower-case letters, digits and hyphens. Members are MEMBER.NAME.internal.')],
			submit: () => post('/v1/networks', { name: name.value.trim() }),
		}))
			look();
	}

	async function join(network) {
		const others = list().filter((one) => !isOver(one) && !network.members.some((member) => member.id === one.id));

		if (others.length === 0) {
			toast('Every sandbox is a member already');
			return;
		}
		const who = select(others.map((one) => [one.id, nameOf(one)]), others[0].id);

		if (await formDialog({
			title: `Add to ${network.name}`, action: 'Add', fields: [field('Sandbox', who)],
			submit: () => put(url('/v1/networks', network.name, 'members', who.value)(), {}),
		}))
			look();
	}

	async function leave(network, member) {
		try {
			await remove(url('/v1/networks', network.name, 'members', member.id)());
			look();
		} catch (error) {
			toastError(error);
		}
	}

	async function drop(network) {
		if (await confirmDialog({
			title: `Remove ${network.name}?`, action: 'Remove', text: 'Only a network without members can be removed.',
			submit: () => remove(url('/v1/networks', network.name)()),
		}))
			look();
	}

	const panel = (network) => el('section', { class: 'panel', 'aria-label': network.name },
		el('div', { class: 'head' }, el('h2', {}, network.name), el('div', { class: 'buttons' },
			el('button', { type: 'button', 'aria-label': `Add a sandbox to ${network.name}`, on: { click: () => join(network) } }, 'Add'),
			el('button', { type: 'button', class: 'quiet', 'aria-label': `Remove network ${network.name}`, on: { click: () => drop(network) } }, 'Remove'))),
		network.members.length === 0 ? el('p', { class: 'muted' }, 'No members yet.')
			: el('ul', { class: 'rules' }, network.members.map((member) => el('li', {},
				el('span', {}, el('a', { href: to('sandboxes', member.id, 'network') }, nameOf(find(member.id) ?? member)), ' ',
					el('code', { class: 'muted' }, member.host), member.address ? el('span', { class: 'muted small' }, ` ${member.address}`) : ''),
				el('button', { type: 'button', class: 'quiet', 'aria-label': `Take out ${member.name} from ${network.name}`, on: { click: () => leave(network, member) } }, 'Take out')))));

	async function look() {
		try {
			const known = await networks();

			place.replaceChildren(...(known.length === 0
				? [emptyState('No networks', 'Make one, and sandboxes that join it find each other by name.', { text: 'New network', do: create })]
				: [el('p', { class: 'muted', role: 'status' }, plural(known.length, 'network')), ...known.map(panel)]));
		} catch (error) {
			if (!signal.aborted)
				place.replaceChildren(errorState(error, look));
		}
	}

	place.append(loading());
	await load();
	onEvent((event) => /^(network_|sandbox_(destroyed|expired|created))/.test(event.type) && look(), signal);
	await look();
	return { title: 'Networks' };
}
