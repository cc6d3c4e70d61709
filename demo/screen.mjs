// What the demo looks like: steps with their time at the right edge, calls with their answers indented
// below. Colours and the progress line only where a person watches.

const out = process.stdout;
const fancy = Boolean(out.isTTY) && !process.env.NO_COLOR && process.env.TERM !== 'dumb';
const width = Math.max(60, Math.min(out.columns || 88, 100));

const paint = (code) => (text) => (fancy ? `\x1b[${code}m${text}\x1b[0m` : text);
export const bold = paint('1');
export const dim = paint('2');
export const red = paint('31');
export const green = paint('32');
const cyan = paint('36');

export function say(text = '') {
	clearProgress();
	out.write(`${text}\n`);
}

const duration = (ms) => (ms < 1000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(1)} s`);

// Text at the left, time at the right; text is plain, so that its length is what is seen.
function timed(mark, text, ms, colour) {
	const time = ms === undefined ? '' : duration(ms);
	const room = width - 4 - time.length - 1;
	const shown = text.length > room ? `${text.slice(0, room - 1)}…` : text;

	say(`  ${mark} ${colour(shown)}${' '.repeat(Math.max(1, room - shown.length + 1))}${dim(time)}`);
}

export function title(text, below) {
	say();
	say(`  ${bold(text)}`);
	say(`  ${dim(below)}`);
}

export function chapter(text) {
	say();
	say(`  ${bold(text)} ${dim('─'.repeat(Math.max(3, width - 3 - text.length)))}`);
}

export const done = (text, ms) => timed(green('✓'), text, ms, (t) => t);
export const call = (text, ms) => timed(cyan('→'), text, ms, cyan);

// An answer: at most `most` lines, from its end, as that is where the outcome stands.
export function answer(text, most = 12) {
	const lines = text.replace(/\n+$/, '').split('\n');

	if (lines.length > most) {
		say(`    ${dim(`│ … ${lines.length - most} lines more`)}`);
		lines.splice(0, lines.length - most);
	}
	for (const line of lines) {
		const printable = line.replace(/[\x00-\x08\x0b-\x1f\x7f]/g, '?').replaceAll('\t', '    ');

		say(`    ${dim('│')} ${printable.slice(0, width - 6)}`);
	}
}

let progressShown = false;

function clearProgress() {
	if (progressShown)
		out.write('\r\x1b[K');
	progressShown = false;
}

// One line that is replaced; without a terminal, a line for each new step.
let lastStep = '';
export function progress(percent, what) {
	if (fancy) {
		clearProgress();
		out.write(`    ${dim(`${String(percent).padStart(3)} % ${what}`.slice(0, width - 6))}`);
		progressShown = true;
	} else if (what !== lastStep) {
		say(`    ${String(percent).padStart(3)} % ${what}`);
		lastStep = what;
	}
}

export function failed(reason) {
	say();
	say(`  ${red('✗')} ${red(reason)}`);
	say();
}
