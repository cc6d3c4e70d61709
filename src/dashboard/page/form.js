// Fields of forms: a label, the control, and a line that explains it.

import { el, nextId } from './dom.js';

export function field(label, control, hint) {
	const id = (control.id ||= nextId());
	const hintId = hint && nextId();

	if (hint)
		control.setAttribute('aria-describedby', hintId);
	return el('div', { class: 'field' }, el('label', { for: id }, label), control,
		hint && el('p', { class: 'hint', id: hintId }, hint));
}

export const input = (properties = {}) => el('input', { type: 'text', autocomplete: 'off', spellcheck: 'false', ...properties });

export function select(choices, value, properties = {}) {
	const element = el('select', properties,
		choices.map(([choice, text]) => el('option', { value: choice }, text)));

	element.value = value;
	return element;
}

export function checkbox(label, checked = false, properties = {}) {
	const control = el('input', { type: 'checkbox', ...properties });
	const element = el('label', { class: 'check' }, control, el('span', {}, label));

	control.checked = checked;
	return { element, box: control };
}

// One of several, as radio buttons: {element, value, set(value)}.
export function radios(legend, choices, value, onChange, { quiet = false } = {}) {
	const name = nextId();
	const controls = new Map();
	const element = el('fieldset', { class: 'radios' }, el('legend', { class: quiet && 'hidden' }, legend),
		choices.map(([choice, text, hint]) => {
			const control = el('input', { type: 'radio', name, value: choice });

			control.checked = choice === value;
			control.addEventListener('change', () => onChange?.(choice));
			controls.set(choice, control);
			return el('label', { class: 'radio' }, control, el('span', {}, el('span', {}, text),
				hint && el('span', { class: 'hint' }, hint)));
		}));

	return {
		element,
		get value() {
			return [...controls].find(([, control]) => control.checked)?.[0];
		},
		set(choice) {
			const control = controls.get(choice);

			if (control)
				control.checked = true;
		},
	};
}

// Lines of text as a list, without blanks.
export const lines = (text) => text.split(/[\n,]/).map((line) => line.trim()).filter(Boolean);

// "key=value" lines as an object.
export function pairs(text) {
	return Object.fromEntries(lines(text).map((line) => {
		const at = line.indexOf('=');

		return at < 0 ? [line, ''] : [line.slice(0, at).trim(), line.slice(at + 1).trim()];
	}));
}
