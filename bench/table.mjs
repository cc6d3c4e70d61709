// A table for the terminal: columns as wide as they need to be, numbers to the right.

export const ms = (value) => `${value < 10 ? value.toFixed(2) : value.toFixed(1)} ms`;

export function table(titles, rows) {
	const widths = titles.map((title, i) => Math.max(title.length, ...rows.map((row) => String(row[i]).length)));
	const line = (cells) => cells.map((cell, i) =>
		i === 0 ? String(cell).padEnd(widths[i]) : String(cell).padStart(widths[i])).join('  ');

	return [line(titles), line(widths.map((width) => '-'.repeat(width))), ...rows.map(line)].join('\n');
}
