// What a sandbox may reach: the rules, what was denied as it happens with "allow this", and its private
// networks.

import { get, post, put, remove, url } from './api.js';
import { ago } from './clock.js';
import { el } from './dom.js';
import { onEvent } from './events.js';
import { input, radios, select } from './form.js';
import { number } from './format.js';
import { to } from './router.js';
import { isOver, refresh } from './sandbox_store.js';
import { networks } from './server.js';
import { errorLine, errorState } from './states.js';
import { toast, toastError } from './toast.js';

const OPEN = 'open', NONE = 'none', LIST = 'list';

const modeOf = (rules) => (rules === null ? OPEN : rules.length === 0 ? NONE : LIST);

// ---- rules ----

function rulesPart(sandbox, first, signal) {
	const route = url('/v1/sandboxes', sandbox.id, 'egress')();
	const list = el('ul', { class: 'rules' });
	const problem = el('div');
	const text = input({ class: 'mono', placeholder: 'github.com:443', 'aria-label': 'New rule', required: true });
	const form = el('form', { class: 'inline' }, text, el('button', { type: 'submit' }, 'Add rule'));
	const over = isOver(sandbox);
	let rules = first, wanted = modeOf(first);
	const mode = radios('It may reach', [
		[OPEN, 'The internet', 'Everything but private ranges, the host and other sandboxes.'],
		[NONE, 'Nothing', 'Members of its private networks all the same.'],
		[LIST, 'Only what is listed', 'Everything else is denied, and shown on this page.'],
	], wanted, choose, { quiet: true });

	const apply = async (work) => {
		problem.replaceChildren();
		try {
			show((await work()).rules);
			refresh(sandbox.id).catch(() => {});
			return true;
		} catch (error) {
			problem.replaceChildren(errorLine(error));
			show(rules);
			return false;
		}
	};
	const change = (add, take) => apply(() => post(route, { ...(add && { add }), ...(take && { remove: take }) }));

	function choose(next) {
		wanted = next;
		if (next === LIST)
			draw(); // nothing is changed until there is a rule
		else
			apply(() => put(route, { rules: next === OPEN ? null : [] }));
	}

	function draw() {
		const listed = wanted === LIST;

		mode.set(wanted);
		form.hidden = !listed || over;
		list.hidden = !listed;
		list.replaceChildren(...(rules ?? []).map((rule) => el('li', {}, el('code', {}, rule),
			!over && el('button', {
				type: 'button', class: 'quiet', 'aria-label': `Remove rule ${rule}`, on: { click: () => change(null, [rule]) },
			}, 'Remove'))));
	}

	function show(next) {
		rules = next;
		if (!(wanted === LIST && modeOf(next) !== LIST && form.contains(document.activeElement)))
			wanted = modeOf(next);
		draw();
	}

	// The first rule of a sandbox that may reach everything makes a list of it.
	const add = (rule) => (rules === null ? apply(() => put(route, { rules: [rule] })) : change([rule]));

	form.addEventListener('submit', async (event) => {
		event.preventDefault();
		if (await add(text.value.trim()))
			text.value = '';
	});
	if (over)
		mode.element.disabled = true;
	onEvent((event) => {
		if (event.type === 'egress_changed' && event.sandbox_id === sandbox.id)
			get(route, { signal }).then((answer) => show(answer.rules), () => {});
	}, signal);
	draw();
	return {
		element: el('section', { 'aria-labelledby': 'rules' }, el('h2', { id: 'rules' }, 'It may reach'), mode.element, list, form, problem),
		allow: (rule) => add(rule),
	};
}

// ---- denials ----

const target = (denial) => `${denial.protocol === 'udp' ? 'udp://' : ''}${denial.host ?? denial.address ?? '?'}${denial.port ? `:${denial.port}` : ''}`;

function denialsPart(sandbox, allow, signal) {
	const route = url('/v1/sandboxes', sandbox.id, 'egress', 'denials')();
	const place = el('div', { role: 'log', 'aria-label': 'Denials' });
	const allowed = new Set();
	let soon;

	function row(denial) {
		const button = denial.rule && el('button', { type: 'button', 'data-key': `allow ${denial.rule}` }, 'Allow this');

		button?.setAttribute('aria-label', `Allow this: ${denial.rule}`);
		button?.addEventListener('click', async () => {
			button.disabled = true;
			if (await allow(denial.rule)) {
				allowed.add(denial.rule);
				toast(`${denial.rule} is allowed now`);
				look();
			}
			button.disabled = false;
		});
		return el('li', {},
			el('div', {}, el('code', {}, target(denial)),
				el('p', { class: 'muted small' }, denial.reason, ' · ',
					denial.count > 1 && `${number(denial.count)} times, the last `, ago(denial.at))),
			allowed.has(denial.rule) ? el('span', { class: 'muted' }, 'Allowed') : button ?? el('span', { class: 'muted small' }, 'No rule can allow this'));
	}

	async function look() {
		try {
			const { items, unreported } = await get(route, { signal });

			place.replaceChildren(items.length === 0
				? el('p', { class: 'muted' }, 'Nothing was denied. What is, appears here as it happens.')
				: el('ul', { class: 'denials' }, items.map(row)),
				unreported > 0 ? el('p', { class: 'muted small' }, `${number(unreported)} more came too fast to be told one by one.`) : '');
		} catch (error) {
			if (!signal.aborted)
				place.replaceChildren(errorState(error, look));
		}
	}

	onEvent((event) => {
		if (event.sandbox_id !== sandbox.id || event.type !== 'egress_denied')
			return;
		clearTimeout(soon);
		soon = setTimeout(look, 150);
	}, signal);
	look();
	return el('section', { 'aria-labelledby': 'denials' }, el('h2', { id: 'denials' }, 'Denied'), place);
}

// ---- private networks ----

function networksPart(sandbox, signal) {
	const list = el('ul', { class: 'rules' });
	const choice = el('div');
	const problem = el('div');

	const act = async (work) => {
		problem.replaceChildren();
		try {
			await work();
			await refresh(sandbox.id);
			await look();
		} catch (error) {
			problem.replaceChildren(errorLine(error));
		}
	};
	const member = (name) => url('/v1/networks', name, 'members', sandbox.id)();

	async function look() {
		const known = await networks();
		const mine = known.flatMap((one) => one.members.filter((other) => other.id === sandbox.id).map((other) => ({ ...other, network: one.name })));
		const others = known.filter((one) => !mine.some((other) => other.network === one.name));
		const names = others.length > 0 && select(others.map((one) => [one.name, one.name]), others[0].name, { 'aria-label': 'Network' });

		list.replaceChildren(...mine.map((one) => el('li', {},
			el('span', {}, el('code', {}, one.host), one.address && el('span', { class: 'muted small' }, ` ${one.address}`)),
			el('button', { type: 'button', class: 'quiet', 'aria-label': `Leave ${one.network}`, on: { click: () => act(() => remove(member(one.network))) } }, 'Leave'))));
		choice.replaceChildren(mine.length === 0 ? el('p', { class: 'muted' }, 'It is in no private network.') : '',
			names ? el('div', { class: 'inline' }, names,
				el('button', { type: 'button', on: { click: () => act(() => put(member(names.value), {})) } }, 'Join'))
				: known.length === 0 ? el('p', { class: 'muted' }, el('a', { href: to('networks') }, 'Make a network'), ' to let sandboxes reach each other by name.') : '');
	}

	if (!isOver(sandbox))
		look().catch((error) => !signal.aborted && choice.replaceChildren(errorState(error)));
	return el('section', { 'aria-labelledby': 'private' }, el('h2', { id: 'private' }, 'Private networks'), list, choice, problem);
}

export function mount(root, sandbox, signal) {
	const rules = rulesPart(sandbox, sandbox.egress, signal);

	root.append(el('div', { class: 'columns' },
		el('div', {}, rules.element, networksPart(sandbox, signal)),
		denialsPart(sandbox, (rule) => rules.allow(rule).then((done) => {
			if (!done)
				toastError(new Error('The rule was not added'));
			return done;
		}), signal)));
	return {};
}
