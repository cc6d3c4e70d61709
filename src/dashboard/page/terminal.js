// Terminals of a sandbox: those that are open, one of them shown. A terminal goes on when the page is left.

import { get, remove, url } from './api.js';
import { el } from './dom.js';
import { isOver } from './sandbox_store.js';
import { emptyState, errorState, loading } from './states.js';
import './terminal_styles.js';
import { TerminalSocket } from './terminal_socket.js';
import { colour, onTheme } from './theme.js';
import { toastError } from './toast.js';
import { Terminal } from './xterm.js';
import { FitAddon } from './xterm_fit.js';

const encoder = new TextEncoder();

const theme = () => ({
	background: colour('terminal'), foreground: colour('terminal-text'), cursor: colour('terminal-text'),
	cursorAccent: colour('terminal'), selectionBackground: colour('terminal-selection'),
});

// Shows one terminal in place until the signal; id undefined: a new one. made(id) is called once it is there.
function showTerminal(place, sandbox, id, made, signal) {
	const box = el('div', { class: 'terminal-box' });
	const note = el('p', { class: 'muted terminal-note', role: 'status' }, 'Connecting…');
	const fit = new FitAddon();
	const terminal = new Terminal({
		theme: theme(), cursorBlink: true, minimumContrastRatio: 4.5, fontSize: 13, scrollback: 5000,
		fontFamily: 'ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace', screenReaderMode: false,
	});

	place.replaceChildren(box, note);
	terminal.loadAddon(fit);
	terminal.open(box);
	terminal.textarea.setAttribute('aria-label', 'Terminal. Control-Shift-Escape leaves it.');
	fit.fit();
	// Tab belongs to the shell, so there has to be another way out by keyboard.
	terminal.attachCustomKeyEventHandler((event) => {
		if (event.key !== 'Escape' || !event.ctrlKey || !event.shiftKey)
			return true;
		document.querySelector('.tabs a[aria-current]')?.focus();
		return false;
	});
	const socket = new TerminalSocket(sandbox.id, {
		terminalId: id, cols: terminal.cols, rows: terminal.rows,
		on: {
			data: (bytes) => terminal.write(bytes),
			ready(message) {
				note.textContent = 'Control-Shift-Escape leaves the terminal. It goes on when you leave the page.';
				made(message.terminal_id);
			},
			state(text) {
				note.textContent = { paused: 'Paused. Typing resumes the sandbox.', resumed: 'It runs again.', connecting: 'Connecting again…' }[text];
			},
			over(text) {
				note.textContent = text;
				made();
			},
		},
	});
	const resizer = new ResizeObserver(() => box.clientWidth > 0 && fit.fit());

	resizer.observe(box);
	terminal.onData((text) => socket.send(encoder.encode(text)));
	terminal.onBinary((text) => socket.send(Uint8Array.from(text, (c) => c.charCodeAt(0))));
	terminal.onResize(({ cols, rows }) => socket.resize(cols, rows));
	terminal.focus();
	onTheme(() => (terminal.options.theme = theme()), signal);
	signal.addEventListener('abort', () => {
		resizer.disconnect();
		socket.close();
		terminal.dispose();
	});
}

export function mount(root, first, signal) {
	const bar = el('div', { class: 'chips' });
	const place = el('div');
	let sandbox = first, shown, leave = new AbortController();

	root.append(bar, place);
	signal.addEventListener('abort', () => leave.abort());

	const listRoute = (...rest) => url('/v1/sandboxes', first.id, 'terminals', ...rest)();

	function drawBar(items) {
		bar.replaceChildren(
			...items.map((one, i) => el('button', {
				type: 'button', class: 'chip', 'aria-pressed': String(one.terminal_id === shown),
				on: { click: () => open(one.terminal_id) },
			}, `Terminal ${i + 1}`, one.busy && el('span', { class: 'muted' }, ' busy'))),
			el('button', { type: 'button', class: 'quiet', on: { click: () => open() } }, 'New terminal'),
			shown ? el('button', { type: 'button', class: 'quiet', on: { click: end } }, 'End this terminal') : '');
	}

	async function look() {
		if (signal.aborted)
			return;
		try {
			drawBar((await get(listRoute(), { signal })).items);
		} catch (error) {
			toastError(error);
		}
	}

	function open(id) {
		leave.abort();
		leave = new AbortController();
		shown = id;
		showTerminal(place, sandbox, id, (made) => {
			shown = made;
			look();
		}, leave.signal);
	}

	async function end() {
		try {
			await remove(listRoute(shown));
			shown = undefined;
			await look();
		} catch (error) {
			toastError(error);
		}
	}

	async function begin() {
		place.replaceChildren(loading('Looking for open terminals'));
		try {
			const { items } = await get(listRoute(), { signal });
			const free = items.filter((one) => !one.attached).at(-1);

			drawBar(items);
			open(free?.terminal_id);
		} catch (error) {
			if (!signal.aborted)
				place.replaceChildren(errorState(error, begin));
		}
	}

	if (isOver(first))
		place.append(emptyState('It has ended', 'A sandbox that has ended has no terminal. Create a new one, or start from a snapshot.'));
	else if (first.status === 'paused')
		place.append(emptyState('Paused', 'Its programs stand still and go on where they were.', { text: 'Resume and open a terminal', do: begin }));
	else
		begin();
	return { update: (next) => (sandbox = next) };
}
