// The audit: who did what, newest first, with search, and followed as it happens.

import { all, get, url } from './api.js';
import { copyButton } from './copy.js';
import { el } from './dom.js';
import { input, select } from './form.js';
import { exactDuration, fullTime, shortTime } from './format.js';
import { to } from './router.js';
import { find } from './sandbox_store.js';
import { emptyState, errorState, loading } from './states.js';
import { toastError } from './toast.js';

const PAGE = 50;

const operations = [
	'create_sandbox', 'destroy_sandbox', 'pause_sandbox', 'resume_sandbox', 'extend_sandbox', 'fork_sandbox', 'exec',
	'exec_input', 'exec_signal', 'open_terminal', 'write_file', 'remove_file', 'set_egress', 'change_egress', 'expose_port',
	'create_key', 'rotate_key', 'revoke_key', 'open_session', 'close_session',
];

// What it was about, in one line.
const summary = ({ args = {} }) => args.command ?? args.path ?? args.name ?? args.label ?? args.rules?.join?.(', ')
	?? args.add?.join?.(', ') ?? '';

function details(record) {
	const shown = { ...record };

	delete shown.prev;
	delete shown.hash;
	return el('div', {},
		el('dl', { class: 'facts' },
			...[['Number', record.seq], ['When', fullTime(record.at)], ['By', `${record.surface} from ${record.peer}`], ['Request', record.request_id],
				['Took', record.duration_ms === undefined ? null : exactDuration(record.duration_ms)]]
				.filter(([, value]) => value !== null && value !== undefined)
				.map(([name, value]) => el('div', { class: 'fact' }, el('dt', {}, name), el('dd', {}, value)))),
		el('pre', { class: 'output', tabindex: '0', 'aria-label': 'The record' }, JSON.stringify(shown, null, 2)),
		el('p', { class: 'muted small' }, 'Hash ', el('code', {}, record.hash), ' ', copyButton(record.hash)));
}

export async function mount(root, rest, signal) {
	const search = input({ type: 'search', placeholder: 'Command, path, id, label', 'aria-label': 'Search the audit', 'data-search': true });
	const operation = select([['', 'Every operation'], ...operations.map((name) => [name, name.replaceAll('_', ' ')])], '', { 'aria-label': 'Operation' });
	const key = el('select', { 'aria-label': 'Key' }, el('option', { value: '' }, 'Every key'));
	const result = select([['', 'Every result'], ['ok', 'ok'], ['scope_denied', 'scope denied'], ['interrupted', 'interrupted']], '', { 'aria-label': 'Result' });
	const place = el('div', { class: 'items' });
	const foot = el('div', { class: 'buttons start' });
	const count = el('p', { class: 'muted', role: 'status' });
	const labels = new Map();
	let records = [], earlier = null, source;

	root.append(el('div', { class: 'head' }, el('h1', {}, 'Audit')),
		el('p', { class: 'muted lead' }, 'Every change and every command, by which key, and how it ended. Nothing is taken out unseen: each record names the one before it.'),
		el('div', { class: 'tools' }, search, el('div', { class: 'filters' }, operation, key, result), count), place, foot);

	// An id is asked of the server; words are looked for in what is here.
	const filters = () => ({
		operation: operation.value, key_id: key.value, result: result.value,
		sandbox_id: /^sbx_[0-9a-f]+$/.test(search.value.trim()) ? search.value.trim() : undefined,
		request_id: /^req_/.test(search.value.trim()) ? search.value.trim() : undefined,
	});

	function matches(record) {
		const text = JSON.stringify([record, labels.get(record.key_id), find(record.sandbox_id)?.name]).toLowerCase();

		return search.value.toLowerCase().split(/\s+/).filter(Boolean).every((word) => text.includes(word));
	}

	function row(record) {
		const inside = el('div');
		const sandbox = record.sandbox_id && el('a', { href: to('sandboxes', record.sandbox_id) }, find(record.sandbox_id)?.name || record.sandbox_id);
		const item = el('details', { class: 'item', 'data-seq': record.seq },
			el('summary', {}, el('span', { class: 'operation' }, record.operation.replaceAll('_', ' ')), el('code', { class: 'command' }, summary(record)),
				el('span', { class: 'item-end small' }, el('span', { class: record.result === 'ok' ? 'muted' : 'bad-text' }, record.result.replaceAll('_', ' ')),
					el('span', { class: 'muted' }, labels.get(record.key_id) ?? record.key_id ?? record.surface),
					el('time', { class: 'muted', datetime: record.at }, shortTime(record.at)))), inside);

		item.addEventListener('toggle', () => inside.replaceChildren(item.open
			? el('div', {}, sandbox && el('p', {}, 'Sandbox ', sandbox), details(record)) : ''));
		return item;
	}

	function show() {
		const found = records.filter(matches);
		const kept = new Map([...place.querySelectorAll('[data-seq]')].map((one) => [one.dataset.seq, one]));

		place.replaceChildren(...(found.length === 0
			? [emptyState('Nothing found', records.length > 0 && earlier ? 'Nothing of what is loaded matches. Load older records, or try fewer words.' : 'Nothing matches. Try fewer words or other filters.')]
			: found.map((record) => kept.get(String(record.seq)) ?? row(record))));
		count.textContent = `${found.length} of ${records.length} loaded`;
		foot.replaceChildren(earlier ? el('button', { type: 'button', on: { click: older } }, 'Load older records') : '');
	}

	async function older() {
		try {
			const page = await get(url('/v1/audit')({ ...filters(), newest: true, before: earlier, limit: PAGE }), { signal });

			records.push(...page.items.reverse());
			earlier = page.earlier ?? null;
			show();
		} catch (error) {
			toastError(error);
		}
	}

	function follow(cursor) {
		source?.close();
		source = new EventSource(url('/v1/audit')({ ...filters(), cursor }));
		source.addEventListener('record', (message) => {
			const record = JSON.parse(message.data);

			if (!records.some((one) => one.seq === record.seq))
				records.unshift(record);
			show();
		});
	}

	async function look() {
		source?.close();
		place.replaceChildren(loading());
		try {
			const page = await get(url('/v1/audit')({ ...filters(), newest: true, limit: PAGE }), { signal });

			records = page.items.reverse();
			earlier = page.earlier ?? null;
			show();
			if (!signal.aborted)
				follow(page.cursor);
		} catch (error) {
			if (!signal.aborted)
				place.replaceChildren(errorState(error, look));
		}
	}

	let asked = '';

	[operation, key, result].forEach((one) => one.addEventListener('change', look));
	search.addEventListener('input', () => {
		const now = JSON.stringify(filters());

		if (now !== asked)
			look();
		else
			show();
		asked = now;
	});
	asked = JSON.stringify(filters());
	signal.addEventListener('abort', () => source?.close());
	await all('/v1/keys', { limit: 200, status: 'all' }, { signal }).then((keys) => keys.forEach((one) => {
		labels.set(one.id, one.label || one.prefix);
		key.append(el('option', { value: one.id }, one.label || one.prefix));
	}), () => {}); // who may not see keys still sees what was done
	await look();
	return { title: 'Audit' };
}
