// The pages of the documentation as their parts: headings, links, and fenced blocks of code with what the
// comment before them says of them.
//
//	<!-- not run: REASON -->	the block is not run
//	<!-- before: COMMANDS -->	shell that comes before it, unseen by readers: a sandbox to work in …
//	<!-- until: EXPRESSION -->	it does not end by itself: it is interrupted once its output matches
//	<!-- varies: REASON -->		(console) what is shown stands for what comes, line by line
//	<!-- config: CLIENT -->		is what `skerry mcp config --client CLIENT` prints

import fs from 'node:fs';
import path from 'node:path';

import { repository } from '../../api/lib/daemon.mjs';

const DIRECTIVES = ['not run', 'before', 'until', 'varies', 'config'];

// Pages by their path in the repository, in the order in which they are run.
export function allPages() {
	const docs = fs.readdirSync(path.join(repository, 'docs'), { recursive: true })
		.filter((name) => name.endsWith('.md')).sort().map((name) => `docs/${name}`);

	return ['README.md', 'sdk/typescript/README.md', 'sdk/python/README.md', ...docs].map(readPage);
}

export function readPage(name) {
	const text = fs.readFileSync(path.join(repository, name), 'utf8');

	return { name, text, ...partsOf(text) };
}

// {blocks, headings, links}. A block: {lang, text, line, directives: {name: text}}.
export function partsOf(text) {
	const lines = text.split('\n');
	const blocks = [], headings = [], links = [];
	let directives = {};

	for (let i = 0; i < lines.length; i++) {
		const fence = lines[i].match(/^( *)(`{3,})(.*)$/);

		if (fence) {
			const [, indent, ticks, info] = fence, from = i + 1;

			while (++i < lines.length && lines[i].trim() !== ticks);
			if (i === lines.length)
				throw new Error(`line ${from}: the block is not closed`);
			const body = lines.slice(from, i).map((line) => line.startsWith(indent) ? line.slice(indent.length) : line);

			blocks.push({ lang: info.trim(), text: body.join('\n') + '\n', line: from, directives });
			directives = {};
			continue;
		}
		const comment = lines[i].match(/^ *<!-- *([a-z ]+): ?(.*)$/);

		if (comment && DIRECTIVES.includes(comment[1])) {
			let said = comment[2];

			while (!said.includes('-->'))
				said += `\n${lines[++i]}`;
			directives[comment[1]] = said.replace(/ *-->[^]*$/, '').trim();
			continue;
		}
		if (lines[i].trim())
			directives = {}; // they are about what follows at once
		const heading = lines[i].match(/^#+ (.*)$/);

		if (heading)
			headings.push(heading[1]);
		for (const [, image, target] of lines[i].replace(/`[^`]*`/g, '').matchAll(/(!?)\[[^\]]*\]\(([^)\s]+)\)/g))
			links.push({ target, line: i + 1, image: image === '!' });
	}
	return { blocks, headings, links };
}

// As forges make it of a heading.
export const anchorOf = (heading) => heading.toLowerCase().replace(/<!--.*?-->/g, '')
	.replace(/[^\p{L}\p{N}\p{M} _-]/gu, '').replaceAll(' ', '-');
