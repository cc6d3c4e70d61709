// A button with a menu: opened by click, Enter, Space or the down arrow; arrows, Home and End move in it,
// Escape closes it.

import { el, nextId, svg } from './dom.js';

let open;

function close(focus) {
	const was = open;

	open = undefined;
	if (!was)
		return;
	was.list.remove();
	was.button.setAttribute('aria-expanded', 'false');
	was.button.removeAttribute('aria-controls');
	if (focus)
		was.button.focus();
}

document.addEventListener('pointerdown', (event) => {
	if (open && !open.list.contains(event.target) && !open.button.contains(event.target))
		close();
});
addEventListener('hashchange', () => close());
addEventListener('resize', () => close());
// Told of a scroll that was over before it was opened, too: only one that moves its button away from it counts.
addEventListener('scroll', () => {
	if (open && Math.abs(open.button.getBoundingClientRect().top - open.top) > 1)
		close();
}, { passive: true });

// Below the button, or above where there is no room.
function place(list, button) {
	const at = button.getBoundingClientRect(), size = list.getBoundingClientRect();
	const top = at.bottom + 4 + size.height > innerHeight && at.top > size.height + 4 ? at.top - size.height - 4 : at.bottom + 4;

	list.style.top = `${top}px`;
	list.style.left = `${Math.max(8, Math.min(at.right - size.width, innerWidth - size.width - 8))}px`;
}

function show(button, items) {
	const id = nextId();
	const choices = items().filter(Boolean).map((item) => {
		const choice = el('button', { type: 'button', role: 'menuitem', tabindex: '-1', class: item.danger && 'danger-text' }, item.text);

		choice.addEventListener('click', () => {
			close(true);
			item.do();
		});
		return choice;
	});
	const list = el('div', { role: 'menu', class: 'menu', id, 'aria-label': button.getAttribute('aria-label') ?? button.textContent }, choices);

	list.addEventListener('keydown', (event) => {
		const at = choices.indexOf(document.activeElement);
		const next = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: -1 }[event.key];

		if (next !== undefined) {
			event.preventDefault();
			choices.at(next % choices.length).focus();
		} else if (event.key === 'Escape' || event.key === 'Tab') {
			event.preventDefault();
			close(true);
		}
	});
	(button.closest('main') ?? document.body).append(list); // where it belongs, for who reads by landmarks
	place(list, button);
	open = { button, list, top: button.getBoundingClientRect().top };
	button.setAttribute('aria-expanded', 'true');
	button.setAttribute('aria-controls', id);
	choices[0]?.focus();
}

// What stands for "more" where there is no room for a word; the button needs an aria-label.
export const dots = () => svg('svg', { viewBox: '0 0 16 16', width: 16, height: 16, 'aria-hidden': 'true' },
	[3, 8, 13].map((cx) => svg('circle', { cx, cy: 8, r: 1.4, fill: 'currentColor' })));

// items() gives [{text, do, danger}], asked when it is opened.
export function menuButton(label, items, properties = {}) {
	const button = el('button', { type: 'button', 'aria-haspopup': 'menu', 'aria-expanded': 'false', ...properties }, label);

	button.addEventListener('click', () => {
		const mine = open?.button === button;

		close();
		if (!mine)
			show(button, items);
	});
	button.addEventListener('keydown', (event) => {
		if (event.key === 'ArrowDown') {
			event.preventDefault();
			close();
			show(button, items);
		}
	});
	return button;
}
