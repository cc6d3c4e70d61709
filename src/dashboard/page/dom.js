// Elements made by functions. Text is always text: nothing here (and nothing anywhere, by the page's
// policy) takes markup, so what a guest has printed or named cannot become any.

// el('button', {class: 'quiet', type: 'button', on: {click: fn}}, 'Text', child, …). Properties that are
// null, undefined or false are left out; children may be nested lists.
export function el(name, properties = {}, ...children) {
	return fill(document.createElement(name), properties, children);
}

const SVG = 'http://www.w3.org/2000/svg';

export function svg(name, properties = {}, ...children) {
	return fill(document.createElementNS(SVG, name), properties, children);
}

function fill(element, properties, children) {
	for (const [name, value] of Object.entries(properties)) {
		if (value === null || value === undefined || value === false)
			continue;
		if (name === 'on')
			Object.entries(value).forEach(([type, fn]) => element.addEventListener(type, fn));
		else if (name === 'value')
			element.value = value;
		else
			element.setAttribute(name, value === true ? '' : value);
	}
	element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
	return element;
}

// Children anew; focus that was on one with a data-key goes to its successor.
export function replace(element, ...children) {
	const key = element.contains(document.activeElement) && document.activeElement.dataset?.key;

	element.replaceChildren(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
	if (key)
		element.querySelector(`[data-key="${CSS.escape(key)}"]`)?.focus();
}

// Rows of a list, kept by key: {update(items)}. make(item) gives {element, update(item)}; a row that stays
// is updated in place, so that it keeps its focus and its open menu.
export function keyed(parent, keyOf, make) {
	const rows = new Map();

	return {
		update(items) {
			const keys = new Set(items.map(keyOf));
			let before = null;

			for (const [key, row] of rows) {
				if (!keys.has(key)) {
					row.element.remove();
					row.close?.();
					rows.delete(key);
				}
			}
			for (const item of items) {
				let row = rows.get(keyOf(item));

				if (row)
					row.update(item);
				else
					rows.set(keyOf(item), (row = make(item)));
				if (before ? before.nextSibling !== row.element : parent.firstChild !== row.element)
					parent.insertBefore(row.element, before ? before.nextSibling : parent.firstChild);
				before = row.element;
			}
		},
	};
}

let serial = 0;

// An id for a label or a description.
export const nextId = () => `e${++serial}`;
