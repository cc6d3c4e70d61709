// Commands of a sandbox: those that run and those that have ended, with what they printed, and a line to run
// another.

import { all, post, url } from './api.js';
import { ago } from './clock.js';
import { el, keyed } from './dom.js';
import { onEvent } from './events.js';
import { checkbox, input } from './form.js';
import { exactDuration } from './format.js';
import { followOutput } from './output.js';
import { isOver } from './sandbox_store.js';
import { emptyState, errorLine, errorState, loading } from './states.js';
import { toastError } from './toast.js';

function outcome(command) {
	if (command.running)
		return el('span', { class: 'status moving' }, el('span', { class: 'mark', 'aria-hidden': 'true' }), 'running');
	const bad = command.exit_code !== 0;
	const text = command.timed_out ? 'timed out' : command.out_of_memory ? 'out of memory'
		: command.signal ? `ended by ${command.signal}` : command.exit_code === undefined || command.exit_code === null ? 'ended'
			: `exit ${command.exit_code}`;

	return el('span', { class: bad ? 'bad-text' : 'muted' }, text);
}

function makeRow(sandboxId, first, signal) {
	let command = first, followed;
	const text = el('code', { class: 'command' });
	const result = el('span', { class: 'small' });
	const place = el('div');
	const stop = el('button', { type: 'button', class: 'quiet' }, 'Stop');
	const element = el('details', { class: 'item' },
		el('summary', {}, text, el('span', { class: 'item-end' }, result, el('span', { class: 'muted small' }, first.started_at ? ago(first.started_at) : ''))),
		place);

	element.addEventListener('toggle', () => {
		followed?.abort();
		place.replaceChildren();
		if (!element.open)
			return;
		followed = new AbortController();
		signal.addEventListener('abort', () => followed.abort());
		const output = followOutput(sandboxId, command.exec_id, followed.signal);

		place.append(output.element, el('div', { class: 'buttons start' }, stop));
		output.ended.then((how) => {
			if (how?.error)
				place.append(el('p', { class: 'muted' }, `There is no more to show: ${how.error}.`));
			else if (how && output.text.textContent === '')
				place.prepend(el('p', { class: 'muted' }, 'It printed nothing.'));
		});
	});
	stop.addEventListener('click', () =>
		post(url('/v1/sandboxes', sandboxId, 'exec', command.exec_id, 'signal')(), { signal: 'SIGTERM' }).catch(toastError));

	function update(next) {
		command = next;
		text.textContent = next.command ?? next.exec_id;
		result.replaceChildren(outcome(next), next.duration_ms !== undefined && !next.running ? el('span', { class: 'muted' }, ` · ${exactDuration(next.duration_ms)}`) : '');
		stop.hidden = !next.running;
	}

	update(first);
	return { element, update, close: () => followed?.abort() };
}

function runForm(sandbox, started) {
	const line = input({ class: 'mono', placeholder: 'uname -a', 'aria-label': 'Command', required: true });
	const root = checkbox('as root');
	const problem = el('div');
	const form = el('form', { class: 'run' }, el('span', { class: 'prompt', 'aria-hidden': 'true' }, '$'), line, root.element,
		el('button', { type: 'submit', class: 'primary' }, 'Run'));

	form.addEventListener('submit', async (event) => {
		event.preventDefault();
		const command = line.value;

		problem.replaceChildren();
		try {
			const body = { command, background: true, ...(root.box.checked && { user: 'root' }) };
			const { exec_id: id } = await post(url('/v1/sandboxes', sandbox.id, 'exec')(), body);

			line.value = '';
			started({ exec_id: id, command, running: true, started_at: new Date().toISOString() });
		} catch (error) {
			problem.replaceChildren(errorLine(error));
		}
	});
	return el('div', {}, form, problem);
}

export function mount(root, sandbox, signal) {
	const place = el('div', { class: 'items' });
	const nothing = el('div');
	const commands = new Map();
	const rows = keyed(place, (one) => one.exec_id, (one) => makeRow(sandbox.id, one, signal));
	const show = () => {
		const items = [...commands.values()].sort((a, b) => (b.started_at ?? '').localeCompare(a.started_at ?? ''));

		nothing.replaceChildren();
		if (items.length === 0)
			nothing.append(emptyState('No commands yet', 'What you or an agent runs in this sandbox is listed here, with its output.'));
		rows.update(items);
	};
	const change = (id, values) => {
		commands.set(id, { ...commands.get(id), exec_id: id, ...values });
		show();
	};

	if (isOver(sandbox)) {
		root.append(emptyState('It has ended', 'The output of its commands went with its disk. What was run is kept in the audit.'));
		return {};
	}
	root.append(runForm(sandbox, (one) => {
		change(one.exec_id, one);
		place.querySelector('details').open = true;
	}), nothing, place);
	onEvent((event) => {
		if (event.sandbox_id !== sandbox.id || event.data?.terminal)
			return;
		if (event.type === 'exec_started')
			change(event.data.exec_id, { command: event.data.command, running: true, started_at: event.at });
		else if (event.type === 'exec_ended' && commands.has(event.data.exec_id))
			change(event.data.exec_id, { running: false, ...event.data });
	}, signal);

	async function look() {
		nothing.replaceChildren(loading());
		try {
			const items = await all(url('/v1/sandboxes', sandbox.id, 'exec')(), {}, { signal });

			items.forEach((one) => commands.set(one.exec_id, one));
			show();
		} catch (error) {
			if (!signal.aborted)
				nothing.replaceChildren(errorState(error, look));
		}
	}

	if (sandbox.status === 'paused')
		nothing.append(emptyState('Paused', 'Its commands stand still. To list them the sandbox is resumed.', { text: 'Resume and list', do: look }));
	else
		look();
	return {};
}
