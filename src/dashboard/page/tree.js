// The fork tree: which sandbox came from which, drawn a line each, so that it is read on a phone too.

import { el, svg } from './dom.js';
import { nameOf, plural } from './format.js';
import { to } from './router.js';
import { isOver, list, load, watch } from './sandbox_store.js';
import { emptyState } from './states.js';
import { newSandbox } from './sandboxes.js';

const ROW = 40, STEP = 26, LEFT = 16, TEXT = 16;

// Parents before children, children oldest first: [{sandbox, depth, parent: index or undefined}]. Those that
// have ended are there as long as something living came from them.
function lay(sandboxes, withEnded) {
	const byId = new Map(sandboxes.map((one) => [one.id, one]));
	const children = Map.groupBy ? Map.groupBy(sandboxes, (one) => (byId.has(one.parent_id) ? one.parent_id : ''))
		: sandboxes.reduce((map, one) => {
			const key = byId.has(one.parent_id) ? one.parent_id : '';

			return map.set(key, [...(map.get(key) ?? []), one]);
		}, new Map());
	const of = (id) => (children.get(id) ?? []).sort((a, b) => a.created_at.localeCompare(b.created_at));
	const needed = (one) => withEnded || !isOver(one) || of(one.id).some(needed);
	const rows = [];

	function add(sandbox, depth, parent) {
		if (!needed(sandbox))
			return;
		const index = rows.push({ sandbox, depth, parent }) - 1;

		of(sandbox.id).forEach((child) => add(child, depth + 1, index));
	}

	of('').forEach((one) => add(one, 0));
	return rows;
}

const x = (row) => LEFT + row.depth * STEP;
const y = (index) => index * ROW + ROW / 2;

// Down from the parent, and round the corner to the child.
function edge(rows, index) {
	const row = rows[index], from = rows[row.parent];

	return svg('path', {
		class: 'edge', d: `M${x(from)} ${y(row.parent) + 6} V${y(index) - 10} Q${x(from)} ${y(index)} ${x(from) + 10} ${y(index)} H${x(row) - 7}`,
	});
}

function mark(status, cx, cy) {
	if (status === 'paused')
		return svg('circle', { class: 'node ring', cx, cy, r: 4.5 });
	if (status === 'destroyed' || status === 'failed')
		return svg('circle', { class: 'node off', cx, cy, r: 3 });
	return svg('circle', { class: 'node on', cx, cy, r: 5 });
}

function node(row, index) {
	const { sandbox } = row;
	const name = nameOf(sandbox);

	return svg('a', { href: to('sandboxes', sandbox.id), class: isOver(sandbox) ? 'over' : '' },
		svg('rect', { class: 'hit', x: x(row) - 12, y: y(index) - ROW / 2 + 3, width: '100%', height: ROW - 6, rx: 6 }),
		mark(sandbox.status, x(row), y(index)),
		svg('text', { x: x(row) + TEXT, y: y(index), 'dominant-baseline': 'central' }, svg('tspan', { class: 'name' }, name),
			svg('tspan', { class: 'muted', dx: 5 }, ` ${sandbox.status}`)));
}

export async function mount(root, rest, signal) {
	const ended = el('input', { type: 'checkbox' });
	const place = el('div', { class: 'tree' });
	const count = el('p', { class: 'muted', role: 'status' });

	root.append(el('div', { class: 'head' }, el('h1', {}, 'Forks')),
		el('p', { class: 'muted lead' }, 'Which sandbox came from which. A fork is made on a sandbox’s own page, or from the list.'),
		el('div', { class: 'tools' }, el('label', { class: 'check' }, ended, el('span', {}, 'Show ended')), count), place);

	function show() {
		const rows = lay(list(), ended.checked);
		const forks = rows.filter((row) => row.parent !== undefined).length;

		count.textContent = rows.length > 0 ? `${plural(rows.length, 'sandbox', 'sandboxes')}, ${plural(forks, 'fork')}` : '';
		if (rows.length === 0) {
			place.replaceChildren(emptyState('Nothing to draw', 'Create a sandbox and fork it: the family appears here.', { text: 'New sandbox', do: newSandbox }));
			return;
		}
		const focused = place.contains(document.activeElement) && document.activeElement.getAttribute('href');

		place.replaceChildren(svg('svg', { width: '100%', height: rows.length * ROW, role: 'group', 'aria-label': 'Fork tree' },
			rows.map((row, i) => (row.parent === undefined ? null : edge(rows, i))), rows.map(node)));
		if (focused)
			place.querySelector(`a[href="${CSS.escape(focused)}"]`)?.focus();
	}

	ended.addEventListener('change', show);
	await load({ ended: true });
	watch(show, signal);
	show();
	return { title: 'Forks' };
}
