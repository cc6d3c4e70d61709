// Keys of the account: made for each agent with what it may do, shown once, given a new text, revoked.

import { all, post, remove, url } from './api.js';
import { ago } from './clock.js';
import { copyButton } from './copy.js';
import { confirmDialog, formDialog, infoDialog } from './dialog.js';
import { el } from './dom.js';
import { checkbox, field, input, lines, pairs, select } from './form.js';
import { day, number } from './format.js';
import { dots, menuButton } from './menu.js';
import { limits } from './server.js';
import { emptyState, errorState, loading } from './states.js';
import { toast } from './toast.js';

// What people think of when they make one; scopes of operations behind it (docs: the server's own names).
const uses = [
	['', 'Everything the account may'],
	['exec', 'Run commands in sandboxes, and nothing else'],
	['exec,files', 'Run commands and move files'],
	['sandbox:read', 'Only look'],
	['own', 'Operations by name'],
];

const lifetimes = [['', 'never'], ['1440', 'in a day'], ['10080', 'in a week'], ['43200', 'in 30 days'], ['525600', 'in a year']];

// The one time that it is seen.
function showKey(title, key) {
	const text = el('input', { type: 'text', readonly: true, value: key.key, class: 'mono', 'aria-label': 'The key' });

	text.addEventListener('focus', () => text.select());
	return infoDialog({
		title, action: 'I have copied it',
		content: [
			el('p', {}, 'This is the only time that it is shown. The server keeps its hash alone.'),
			el('div', { class: 'inline' }, text, copyButton(key.key)),
		],
	});
}

function scopesOf(fields) {
	const scopes = {};
	const operations = fields.use.value === 'own' ? lines(fields.operations.value) : lines(fields.use.value);

	if (operations.length > 0)
		scopes.operations = operations;
	if (lines(fields.sandboxes.value).length > 0)
		scopes.sandboxes = lines(fields.sandboxes.value);
	if (fields.labels.value.trim())
		scopes.labels = pairs(fields.labels.value);
	const sizes = fields.sizes.filter((one) => one.box.checked).map((one) => one.size);

	if (sizes.length < fields.sizes.length)
		scopes.sizes = sizes;
	if (fields.lifetime.value)
		scopes.lifetime_minutes_max = Number(fields.lifetime.value);
	if (fields.spend.value)
		scopes.spend_credits_max = Number(fields.spend.value);
	if (!fields.root.box.checked)
		scopes.root = false;
	if (!fields.egress.box.checked)
		scopes.egress_loosen = false;
	return scopes;
}

async function create() {
	const { sizes } = await limits();
	const label = input({ maxlength: 64, required: true, placeholder: 'reviewer on ci' });
	const fields = {
		use: select(uses, ''), operations: input({ class: 'mono', placeholder: 'exec, exec_wait' }),
		sandboxes: el('textarea', { rows: 2, spellcheck: 'false', placeholder: 'sbx_…' }),
		labels: el('textarea', { rows: 2, spellcheck: 'false', placeholder: 'team=search' }),
		sizes: sizes.map((one) => ({ ...checkbox(one.name, true), size: one.name })),
		lifetime: input({ type: 'number', min: 1, placeholder: 'as the server', inputmode: 'numeric' }),
		spend: input({ type: 'number', min: 0, placeholder: 'no bound', inputmode: 'numeric' }),
		root: checkbox('Be root in a sandbox', true), egress: checkbox('Let sandboxes reach more', true),
	};
	const expires = select(lifetimes, '');
	const named = field('Operations', fields.operations, 'Names of scopes or operations, with commas between.');

	named.hidden = true;
	fields.use.addEventListener('change', () => (named.hidden = fields.use.value !== 'own'));
	return formDialog({
		title: 'New key',
		text: 'One for each agent, with what it needs and no more.',
		action: 'Make key',
		fields: [
			field('What it is for', label), field('It may', fields.use), named, field('Expires', expires),
			el('details', {}, el('summary', {}, 'Narrow it further'), el('div', { class: 'stack' },
				field('Only these sandboxes', fields.sandboxes, 'Ids, one a line. Others are not there for the key.'),
				field('Only with these labels', fields.labels, 'key=value. What it makes gets them.'),
				el('fieldset', { class: 'checks' }, el('legend', {}, 'Sizes'), fields.sizes.map((one) => one.element)),
				el('div', { class: 'pair' }, field('Longest lifetime, minutes', fields.lifetime), field('Most it may spend, credits', fields.spend)),
				el('div', { class: 'checks' }, fields.root.element, fields.egress.element))),
		],
		submit: () => post('/v1/keys', {
			label: label.value.trim(), scopes: scopesOf(fields), ...(expires.value && { ttl_minutes: Number(expires.value) }),
		}),
	});
}

// What narrows it, in a few words each.
function narrowings({ scopes, admin }) {
	const words = [
		admin && 'administrator',
		scopes.operations && scopes.operations.join(', '),
		scopes.sandboxes && (scopes.sandboxes.length === 1 ? scopes.sandboxes[0] : `${number(scopes.sandboxes.length)} sandboxes`),
		scopes.labels && Object.entries(scopes.labels).map(([key, value]) => `${key}=${value}`).join(', '),
		scopes.sizes && `sizes: ${scopes.sizes.join(', ') || 'none'}`,
		scopes.lifetime_minutes_max && `up to ${number(scopes.lifetime_minutes_max)} min`,
		scopes.spend_credits_max !== undefined && `up to ${number(scopes.spend_credits_max)} credits`,
		scopes.root === false && 'no root',
		scopes.egress_loosen === false && 'egress as it is',
	].filter(Boolean);

	return words.length > 0 ? words.map((text) => el('span', { class: 'label' }, text)) : el('span', { class: 'muted' }, 'Everything');
}

function expiry(key) {
	if (key.revoked_at)
		return el('span', { class: 'muted' }, 'revoked ', ago(key.revoked_at));
	return key.expires_at ? day(key.expires_at) : el('span', { class: 'muted' }, 'never');
}

export async function mount(root, rest, signal) {
	const ended = el('input', { type: 'checkbox' });
	const place = el('div');

	root.append(
		el('div', { class: 'head' }, el('h1', {}, 'Keys'), el('button', { type: 'button', class: 'primary', on: { click: make } }, 'New key')),
		el('p', { class: 'muted lead' }, 'Who has a key is this account, for what the key may do. A key that is revoked is refused at once, and what is open with it is cut.'),
		el('div', { class: 'tools' }, el('label', { class: 'check' }, ended, el('span', {}, 'Show revoked and expired'))), place);

	async function make() {
		const key = await create();

		if (!key)
			return;
		look();
		await showKey(key.label || 'New key', key);
	}

	async function rotate(key) {
		const overlap = select([['0', 'at once'], ['3600', 'after an hour'], ['86400', 'after a day']], '0');
		const fresh = await formDialog({
			title: `New text for ${key.label || key.prefix}`, action: 'Make new text', fields: [field('The old text ends', overlap)],
			text: 'The key stays what it is; only its text is another. Browsers that are signed in with it sign in again.',
			submit: () => post(url('/v1/keys', key.id, 'rotate')(), { overlap_seconds: Number(overlap.value) }),
		});

		if (!fresh)
			return;
		if (!key.current)
			look();
		await showKey(key.label || 'New text', fresh);
	}

	async function revoke(key) {
		if (await confirmDialog({
			title: `Revoke ${key.label || key.prefix}?`, action: 'Revoke',
			text: key.current ? 'This is the key that you are signed in with: you will be signed out.' : 'Whoever uses it is cut off within a second. It cannot be undone.',
			submit: () => remove(url('/v1/keys', key.id)()),
		})) {
			toast(`${key.label || key.prefix} is revoked`);
			if (!key.current)
				look();
		}
	}

	const row = (key) => el('tr', { class: key.status === 'valid' ? '' : 'over' },
		el('td', { class: 'main' }, el('span', { class: 'name' }, key.label || 'No label'),
			el('span', { class: 'muted small' }, el('code', {}, `${key.prefix}…`), key.current && ' · you')),
		el('td', { 'data-label': 'May' }, narrowings(key)),
		el('td', { class: 'figure', 'data-label': 'Made' }, ago(key.created_at)),
		el('td', { class: 'figure', 'data-label': 'Expires' }, expiry(key)),
		el('td', { class: 'actions' }, key.status === 'valid' && menuButton(dots(), () => [
			{ text: 'New text…', do: () => rotate(key) },
			{ text: 'Revoke…', danger: true, do: () => revoke(key) },
		], { class: 'quiet icon', 'aria-label': `Actions for ${key.label || key.prefix}` })));

	async function look() {
		try {
			const keys = await all('/v1/keys', { limit: 200, status: ended.checked ? 'all' : undefined }, { signal });

			place.replaceChildren(keys.length === 0
				? emptyState('No keys', 'Make one for each agent.', { text: 'New key', do: make })
				: el('table', { class: 'cards' }, el('caption', { class: 'hidden' }, 'Keys'),
					el('thead', {}, el('tr', {}, ['Key', 'May', 'Made', 'Expires'].map((text) => el('th', { scope: 'col' }, text)),
						el('th', { scope: 'col' }, el('span', { class: 'hidden' }, 'Actions')))),
					el('tbody', {}, keys.map(row))));
		} catch (error) {
			if (!signal.aborted)
				place.replaceChildren(errorState(error, look));
		}
	}

	ended.addEventListener('change', look);
	place.append(loading());
	await look();
	return { title: 'Keys' };
}
