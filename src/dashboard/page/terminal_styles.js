// xterm.js writes style elements and style attributes, which the page's policy forbids: a policy that let them
// through would let them through for everybody. So in this page a style element that a script makes is a style
// sheet that the document adopts, and a style attribute is set property by property. Both are what the policy
// allows to scripts, and to scripts alone.

const create = document.createElement;
const set = Element.prototype.setAttribute;

function adoptSheet() {
	const sheet = new CSSStyleSheet();

	document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];
	return sheet;
}

// Stands for a style element: what is written into it goes to the sheet, until it is removed.
function styleElement() {
	const element = create.call(document, 'span');
	const sheet = adoptSheet();

	element.hidden = true;
	Object.defineProperty(element, 'textContent', { get: () => '', set: (text) => sheet.replaceSync(text) });
	element.remove = () => {
		document.adoptedStyleSheets = document.adoptedStyleSheets.filter((one) => one !== sheet);
		Element.prototype.remove.call(element);
	};
	return element;
}

document.createElement = (name, options) => (name === 'style' ? styleElement() : create.call(document, name, options));

Element.prototype.setAttribute = function setAttribute(name, value) {
	if (name === 'style')
		this.style.cssText = value;
	else
		set.call(this, name, value);
};
