// The documentation as text: marks on every block, links that lead somewhere, and completeness. What can be
// run is run by run.test.mjs.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { describe, test } from 'node:test';

import { skerryPath } from '../api/lib/cli.mjs';
import { repository } from '../api/lib/daemon.mjs';
import { allPages, anchorOf, partsOf, readPage } from './lib/pages.mjs';
import { howToRun } from './lib/run.mjs';

const pages = allPages();
const served = readPage('docs/llms.txt').text;
const isServed = (name) => served.includes(`](/${name})`);

describe('pages', () => {
	for (const page of pages)
		test(`${page.name}: every block is run, or says why not`, () => {
			for (const block of page.blocks)
				assert.doesNotThrow(() => howToRun(block), `${page.name}:${block.line}`);
		});

	for (const page of pages)
		test(`${page.name}: links lead somewhere`, () => {
			for (const { target, line, image } of page.links) {
				const [file, anchor] = target.split('#');
				const at = `${page.name}:${line}: ${target}`;

				if (/^[a-z]+:/.test(target))
					continue; // another site's
				const name = file ? path.posix.join(path.posix.dirname(page.name), file) : page.name;

				assert.ok(fs.existsSync(path.join(repository, name)), `${at} does not exist`);
				// What the server sends must not lead to what it does not have.
				assert.ok(image || !page.name.startsWith('docs/') || isServed(name), `${at} is not served`);
				if (anchor !== undefined)
					assert.ok(readPage(name).headings.map(anchorOf).includes(anchor), `${at}: there is no such heading`);
			}
		});

	test('each page is in llms.txt with a note, and nothing else is', () => {
		const listed = [...served.matchAll(/^- \[[^\]]+\]\(\/(\S+)\): \S.*$/gm)].map(([, name]) => name);
		const there = pages.map(({ name }) => name).filter((name) => name.startsWith('docs/'));

		assert.deepEqual(listed.toSorted(), there.toSorted());
	});

	test('llms.txt has the form of its kind', () => {
		assert.match(served, /^# [^\n]+\n\n> [^\n]+\n\n/);
		assert.deepEqual(served.match(/^#{3,} .*$/gm), null);
		for (const section of served.split(/^## /m).slice(1))
			for (const line of section.split('\n').slice(1).filter(Boolean))
				assert.match(line, /^- \[/);
	});

	test('each page begins with its title', () => {
		for (const { name, text } of pages)
			assert.match(text, /^# \S/, name);
	});
});

describe('nothing is left out', () => {
	const everything = pages.map(({ text }) => text).join('\n');

	test('every command of skerry is shown somewhere', () => {
		const help = execFileSync(skerryPath, ['help'], { encoding: 'utf8' });
		const commands = [...help.split('\nCommands\n')[1].split('\n\n')[0].matchAll(/^ {2}(\S.*?)(?: {2,}|$)/gm)].map(([, name]) => name);

		assert.ok(commands.length > 40, help);
		assert.deepEqual(commands.filter((name) => !new RegExp(`skerry ${name}\\b`).test(everything)), []);
	});

	test('every client that skerry mcp config knows has a page, with its configuration', () => {
		const help = execFileSync(skerryPath, ['help', 'mcp', 'config'], { encoding: 'utf8' });
		const [, known] = help.match(/--client CLIENT([^]*?)--show-key/);
		const shown = pages.filter(({ name }) => name.startsWith('docs/connect/'))
			.flatMap(({ blocks }) => blocks.map(({ directives }) => directives.config)).filter(Boolean);

		assert.deepEqual(shown.toSorted(), known.split(',').map((name) => name.trim()).toSorted());
		for (const name of shown)
			assert.ok(readPage('docs/connect.md').text.includes(`\`${name}\``), name);
	});

	// Codes are literals where an error is made, or stand in the table of statuses.
	test('every code of an error is explained, with its status', () => {
		const sources = fs.readdirSync(path.join(repository, 'src'), { recursive: true })
			.filter((name) => /\.[ch]$/.test(name) && !name.includes('node_modules'))
			.map((name) => fs.readFileSync(path.join(repository, 'src', name), 'utf8')).join('\n');
		const made = [...sources.matchAll(/err_code\(\s*&?[\w.>-]+,\s*[^",]+,\s*"([a-z_]+)"/g)].map(([, code]) => code);
		const table = fs.readFileSync(path.join(repository, 'src/api/problem.c'), 'utf8').split('by_num')[0];
		const statuses = new Map([...table.matchAll(/\{ "([a-z_]+)", (\d+) \}/g)].map(([, code, status]) => [code, status]));
		const { text } = readPage('docs/errors.md');
		const explained = new Map([...text.matchAll(/^\| `([a-z_]+)` \| (\d{3}) \|/gm)].map(([, code, status]) => [code, status]));
		const ofPrograms = [...text.split('## Of programs')[1].matchAll(/`([a-z_]+)`/g)].map(([, code]) => code);
		const known = new Set([...explained.keys(), ...ofPrograms]);

		assert.ok(made.length > 200 && statuses.size > 90);
		assert.deepEqual([...new Set([...made, ...statuses.keys()])].filter((code) => !known.has(code)), []);
		for (const [code, status] of statuses)
			assert.equal(explained.get(code), status, code);
		assert.deepEqual([...explained.keys()].filter((code) => !sources.includes(`"${code}"`)), []);
	});
});

describe('the marks', () => {
	const block = (before) => partsOf(`${before}\`\`\`sh\ntrue\n\`\`\`\n`).blocks[0];

	test('a block without one is run; one says why not', () => {
		assert.deepEqual(howToRun(block('')), { kind: 'sh' });
		assert.deepEqual(howToRun(block('<!-- not run: needs systemd -->\n')), { kind: 'not run', reason: 'needs systemd' });
		assert.deepEqual(block('<!-- before: a\nb -->\n').directives, { before: 'a\nb' });
		assert.deepEqual(block('<!-- not run: x -->\ntext\n').directives, {});
	});

	test('what is neither is refused', () => {
		for (const text of ['```\nx\n```\n', '```rust\nx\n```\n', '<!-- not run: -->\n```sh\nx\n```\n', '<!-- until: x -->\n```js\nx\n```\n'])
			assert.throws(() => howToRun(partsOf(text).blocks[0]), text);
		assert.throws(() => partsOf('```sh\nx\n'));
	});

	test('anchors are those of forges', () => {
		assert.equal(anchorOf('What is denied, and why'), 'what-is-denied-and-why');
		assert.equal(anchorOf('`GET /v1/keys`'), 'get-v1keys');
	});
});
