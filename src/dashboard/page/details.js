// The rest of what is known of a sandbox.

import { el } from './dom.js';
import { bytes, fullTime, nameOf, number } from './format.js';
import { to } from './router.js';
import { find, list, load } from './sandbox_store.js';

const row = (name, value) => el('tr', {}, el('th', { scope: 'row' }, name), el('td', {}, value));

const linkTo = (id) => el('a', { href: to('sandboxes', id) }, nameOf(find(id) ?? { id }));

const between = (links) => links.flatMap((link, i) => (i > 0 ? [', ', link] : [link]));

const isolations = {
	kvm: 'Hardware virtualization (KVM)',
	emulated: 'Emulated: there is no hardware boundary',
};

function rows(sandbox) {
	const children = list().filter((one) => one.parent_id === sandbox.id);
	const labels = Object.entries(sandbox.labels);
	const { out_bytes: out, in_bytes: into, denied_packets: denied } = sandbox.traffic;

	return [
		row('Id', el('code', {}, sandbox.id)),
		row('Isolation', isolations[sandbox.isolation] ?? sandbox.isolation),
		row('Made', fullTime(sandbox.created_at)),
		sandbox.expires_at && row(sandbox.on_timeout === 'pause' ? 'Pauses' : 'Ends', fullTime(sandbox.expires_at)),
		sandbox.idle_pause_minutes && row('Paused when idle for', `${sandbox.idle_pause_minutes} min`),
		row('Labels', labels.length > 0 ? labels.map(([key, value]) => el('span', { class: 'label' }, `${key}=${value}`)) : '–'),
		row('Forked from', sandbox.parent_id ? linkTo(sandbox.parent_id) : '–'),
		row('Forks', children.length > 0 ? between(children.map((one) => linkTo(one.id))) : '–'),
		row('Restores', number(sandbox.generation)),
		row('Traffic', `${bytes(out)} out, ${bytes(into)} in, ${number(denied)} packets denied`),
	];
}

export function mount(root, first) {
	const body = el('tbody');
	const update = (sandbox) => body.replaceChildren(...rows(sandbox).filter(Boolean));

	root.append(el('table', { class: 'plain' }, el('caption', { class: 'hidden' }, 'Details'), body));
	update(first);
	load({ ended: true }).then(() => update(find(first.id) ?? first), () => {});
	return { update };
}
