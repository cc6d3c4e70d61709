// What a command prints, as it prints it, bounded: the newest part of long output is kept.

import { url } from './api.js';
import { el } from './dom.js';

const KEPT = 200_000; // characters

const codes = /\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b[@-Z\\-_]|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]/g;

// {element, ended: promise of the exit, or of an error's text}
export function followOutput(sandboxId, execId, signal) {
	const element = el('pre', { class: 'output', tabindex: '0', 'aria-label': 'Output' });
	const note = el('p', { class: 'muted small' });
	let length = 0, dropped = false;

	function add(text, kind) {
		const clean = text.replace(/\r\n/g, '\n').replace(codes, '');
		const atEnd = element.scrollHeight - element.scrollTop - element.clientHeight < 40;
		const last = element.lastChild;

		if (last?.className === kind)
			last.firstChild.appendData(clean);
		else if (clean)
			element.append(el('span', { class: kind }, clean));
		for (length += clean.length; length > KEPT && element.childNodes.length > 0; dropped = true) {
			const text0 = element.firstChild.firstChild, cut = Math.min(length - KEPT, text0.length);

			text0.deleteData(0, cut);
			length -= cut;
			if (text0.length === 0)
				element.firstChild.remove();
		}
		if (dropped)
			note.textContent = 'Only the newest part is shown. All of it is in the sandbox, below /run/skerry/exec.';
		if (atEnd)
			element.scrollTop = element.scrollHeight;
	}

	const ended = new Promise((resolve) => {
		const source = new EventSource(url('/v1/sandboxes', sandboxId, 'exec', execId)());
		const done = (result) => {
			source.close();
			resolve(result);
		};

		signal.addEventListener('abort', () => done());
		for (const name of ['stdout', 'stderr'])
			source.addEventListener(name, (message) => add(JSON.parse(message.data).data ?? '', name));
		source.addEventListener('gap', () => add('\n… some output is no longer kept …\n', 'stderr'));
		source.addEventListener('exit', (message) => done(JSON.parse(message.data)));
		// The server's own event, with data; or the connection's, without.
		source.addEventListener('error', (message) => {
			if (message.data)
				done({ error: JSON.parse(message.data).detail });
			else
				done({ error: 'its output is not kept any more, or the connection broke' });
		});
	});

	return { element: el('div', {}, element, note), ended, text: element };
}
