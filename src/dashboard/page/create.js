// The dialog that makes a sandbox.

import { post } from './api.js';
import { el } from './dom.js';
import { formDialog } from './dialog.js';
import { checkbox, field, input, lines, pairs, radios, select } from './form.js';
import { nameOf, shape } from './format.js';
import { images, limits, networks, snapshots } from './server.js';
import { keep } from './sandbox_store.js';
import { toast } from './toast.js';

const OPEN = 'open', NONE = 'none', LIST = 'list';

// What can be chosen; an empty list where a key may not look.
async function offers() {
	const maybe = (promise) => promise.catch(() => []);
	const [known, ofImages, ofSnapshots, ofNetworks] =
		await Promise.all([limits(), maybe(images()), maybe(snapshots()), maybe(networks())]);

	return { limits: known, images: ofImages, snapshots: ofSnapshots, networks: ofNetworks };
}

function egressFields() {
	const rules = el('textarea', { rows: 3, spellcheck: 'false', placeholder: 'github.com:443\n*.debian.org' });
	const block = field('Rules', rules, 'One a line: a host, *.host, an address or a range, with :port if you like.');
	const mode = radios('It may reach', [
		[OPEN, 'The internet'], [NONE, 'Nothing'], [LIST, 'Only what you list'],
	], OPEN, (value) => (block.hidden = value !== LIST));

	block.hidden = true;
	return {
		element: [mode.element, block],
		get value() {
			return { [OPEN]: null, [NONE]: [], [LIST]: lines(rules.value) }[mode.value];
		},
	};
}

// Resolves with the new sandbox, or undefined.
export async function createDialog() {
	const offer = await offers();
	const sizes = offer.limits.sizes;
	const name = input({ pattern: '[a-z0-9]([a-z0-9\\-]*[a-z0-9])?', maxlength: 63, placeholder: 'none', autofocus: true });
	const size = select(sizes.map((one) => [one.name, `${one.name} – ${shape(one)}`]), offer.limits.default_size);
	const image = select(offer.images.map((one) => [one.name, one.name]), offer.limits.default_image);
	const start = select([['', 'An image'], ...offer.snapshots.map((one) => [one.name, `Snapshot ${one.name}`])], '');
	const minutes = input({
		type: 'number', min: 1, max: offer.limits.timeout_minutes_max, required: true, inputmode: 'numeric',
		value: offer.limits.timeout_minutes_default,
	});
	const atEnd = select([['destroy', 'it is destroyed'], ['pause', 'it is paused']], 'destroy');
	const egress = egressFields();
	const labels = el('textarea', { rows: 2, spellcheck: 'false', placeholder: 'team=search' });
	const member = offer.networks.map((one) => ({ ...checkbox(one.name), network: one.name }));
	const fromImage = el('div', { class: 'stack' }, field('Size', size), field('Image', image));

	start.addEventListener('change', () => (fromImage.hidden = start.value !== ''));
	return formDialog({
		title: 'New sandbox',
		action: 'Create',
		fields: [
			field('Name', name, 'Optional. Lower-case letters, digits and hyphens.'),
			offer.snapshots.length > 0 && field('Start from', start),
			fromImage,
			el('div', { class: 'pair' }, field('Lifetime in minutes', minutes), field('Then', atEnd)),
			egress.element,
			el('details', {}, el('summary', {}, 'Labels and networks'),
				field('Labels', labels, 'key=value, one a line.'),
				member.length > 0 && el('fieldset', {}, el('legend', {}, 'Networks'), member.map((one) => one.element))),
		].filter(Boolean),
		async submit() {
			const body = { timeout_minutes: Number(minutes.value), on_timeout: atEnd.value };
			const joins = member.filter((one) => one.box.checked).map((one) => one.network);

			if (name.value.trim())
				body.name = name.value.trim();
			if (start.value)
				body.snapshot = start.value;
			else
				Object.assign(body, { size: size.value, ...(image.value && { image: image.value }) });
			body.egress = egress.value;
			if (labels.value.trim())
				body.labels = pairs(labels.value);
			if (joins.length > 0)
				body.networks = joins;
			const sandbox = await post('/v1/sandboxes', body);

			keep(sandbox);
			toast(`${nameOf(sandbox)} runs`);
			return sandbox;
		},
	});
}
