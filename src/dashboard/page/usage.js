// What running sandboxes cost: the balance and how long it lasts, by day as a plot, by sandbox and by key.

import { get, url } from './api.js';
import { el } from './dom.js';
import { select } from './form.js';
import { duration, nameOf, plural } from './format.js';
import { dayPlot } from './plot.js';
import { to } from './router.js';
import { find } from './sandbox_store.js';
import { emptyState, errorState, loading } from './states.js';

const MICRO = 1_000_000;
const AGAIN_MS = 10_000;

const credits = (micro) => {
	const n = micro / MICRO;

	return n.toLocaleString(undefined, { maximumFractionDigits: Math.abs(n) >= 100 ? 0 : Math.abs(n) >= 1 ? 2 : 4 });
};

const figure = (name, value, note) => el('div', { class: 'fact big' }, el('dt', {}, name), el('dd', {}, value), note && el('dd', { class: 'muted small' }, note));

function figures(usage) {
	return el('dl', { class: 'facts' },
		figure('Balance', `${credits(usage.balance_microcredits)} credits`, usage.unlimited ? 'not limited' : `${credits(usage.granted_microcredits)} granted`),
		figure('Spent', credits(usage.charged_microcredits), usage.uncharged_microcredits > 0 && `and ${credits(usage.uncharged_microcredits)} not charged yet`),
		figure('Now', `${credits(usage.microcredits_per_second * 3600)} an hour`, `${plural(usage.running, 'sandbox runs', 'sandboxes run')}`),
		usage.unlimited ? null : figure('Lasts', usage.seconds_to_zero === null ? '–' : duration(usage.seconds_to_zero * 1000),
			usage.seconds_to_zero === null ? 'nothing runs' : 'then sandboxes are paused'));
}

// Every day of the span, those without spending too.
function days(usage, n) {
	const known = new Map(usage.by_day.map((one) => [one.day, one.microcredits / MICRO]));
	const today = Math.floor(Date.now() / 86_400_000);

	return Array.from({ length: n }, (_, i) => {
		const at = (today - n + 1 + i) * 86_400;

		return [at, known.get(new Date(at * 1000).toISOString().slice(0, 10)) ?? 0];
	});
}

function table(title, head, items, name) {
	return el('section', {}, el('h2', {}, title),
		items.length === 0 ? el('p', { class: 'muted' }, 'Nothing in this time.')
			: el('table', { class: 'plain sums' }, el('caption', { class: 'hidden' }, title),
				el('thead', {}, el('tr', {}, el('th', { scope: 'col' }, head), el('th', { scope: 'col', class: 'number' }, 'Running'), el('th', { scope: 'col', class: 'number' }, 'Credits'))),
				el('tbody', {}, items.map((one) => el('tr', {}, el('td', {}, name(one)),
					el('td', { class: 'number' }, duration(one.running_seconds * 1000)), el('td', { class: 'number' }, credits(one.microcredits)))))));
}

export async function mount(root, rest, signal) {
	const span = select([['7', '7 days'], ['30', '30 days'], ['90', '90 days']], '30', { 'aria-label': 'Time' });
	const place = el('div', { class: 'stack wide-gap' });
	let timer, plotLeft = new AbortController();

	root.append(el('div', { class: 'head' }, el('h1', {}, 'Usage'), el('div', {}, span)), place);
	signal.addEventListener('abort', () => {
		clearTimeout(timer);
		plotLeft.abort();
	});

	function draw(usage) {
		const n = Number(span.value);
		const spent = days(usage, n);
		const total = spent.reduce((sum, [, value]) => sum + value, 0);

		plotLeft.abort();
		plotLeft = new AbortController();
		place.replaceChildren(figures(usage),
			total === 0 ? emptyState('Nothing spent', 'A second of running time costs by size; paused sandboxes cost nothing.')
				: el('section', {}, el('h2', {}, 'Credits by day'),
					dayPlot(spent, 'credits', `Credits by day: ${credits(total * MICRO)} in ${plural(n, 'day')}`, plotLeft.signal)),
			el('div', { class: 'columns' },
				table('Sandboxes', 'Sandbox', usage.by_sandbox, (one) =>
					el('a', { href: to('sandboxes', one.sandbox_id) }, one.name ?? nameOf(find(one.sandbox_id) ?? { id: one.sandbox_id }))),
				table('Keys', 'Key', usage.by_key, (one) => one.label ?? el('code', {}, one.key_id))));
	}

	async function look() {
		clearTimeout(timer);
		try {
			const usage = await get(url('/v1/usage')({ days: span.value }), { signal });

			draw(usage);
			if (usage.running > 0)
				timer = setTimeout(look, AGAIN_MS);
		} catch (error) {
			if (!signal.aborted)
				place.replaceChildren(errorState(error, look));
		}
	}

	span.addEventListener('change', look);
	place.append(loading());
	await look();
	return { title: 'Usage' };
}
