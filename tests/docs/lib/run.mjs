// What is done with a block of code, by its language and its marks.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';

import YAML from 'yaml';

import { runSkerry } from '../../api/lib/cli.mjs';
import { startDaemon } from '../../api/lib/daemon.mjs';

const PLAIN = ['text', 'http']; // no code: drawings, what a program prints, what goes over the wire
const KINDS = ['sh', 'console', 'js', 'ts', 'python', 'json', 'toml', 'yaml', 'ini'];

// {kind, reason}: one of KINDS, "text", or "not run". Throws for a block that nobody would know how to run.
export function howToRun({ lang, directives }) {
	if ('not run' in directives) {
		assert.ok(directives['not run'].length > 3, 'a block that is not run says why');
		return { kind: 'not run', reason: directives['not run'] };
	}
	if (PLAIN.includes(lang))
		return { kind: 'text' };
	assert.ok(KINDS.includes(lang), `a block is of a language that is run (${KINDS.join(', ')}), ` +
		`of none (${PLAIN.join(', ')}), or has a comment <!-- not run: reason --> before it; this one is of "${lang}"`);
	assert.ok(lang === 'sh' || !('until' in directives), 'only shell is interrupted');
	return { kind: lang };
}

function parseToml(text) {
	const { status, stdout, stderr } = spawnSync('python3',
		['-c', 'import json, sys, tomllib; json.dump(tomllib.load(sys.stdin.buffer), sys.stdout)'], { input: text, encoding: 'utf8' });

	assert.equal(status, 0, stderr);
	return JSON.parse(stdout);
}

// A daemon starts with it.
async function startWith(text) {
	const config = {};
	let section;

	for (const line of text.split('\n').filter((line) => /^[^#;\s]/.test(line))) {
		const [, name] = line.match(/^\[(.*)\]$/) ?? [];

		if (name)
			section = config[name] = {};
		else
			section[line.split('=')[0].trim()] = line.split('=').slice(1).join('=').trim();
	}
	const daemon = await startDaemon({ config });

	await daemon.stop();
}

const languages = { json: JSON.parse, toml: parseToml, yaml: (text) => YAML.parse(text), ini: startWith };

export async function runBlock(session, block) {
	const { kind } = howToRun(block);
	const { before, until, varies, config } = block.directives;

	if (before)
		await session.sh(`${before}\n`);
	if (config) {
		const { out } = await runSkerry(null, ['mcp', 'config', '--client', config]);

		assert.equal(block.text, out, `what skerry mcp config --client ${config} prints`);
	}
	if (until)
		return session.until(block.text, until);
	if (kind === 'sh')
		return session.sh(block.text);
	if (kind === 'console')
		return session.console(block.text, { varies });
	if (config && kind === 'python')
		return session.sh(`python3 - <<'EOF'\ncompile(${JSON.stringify(block.text)}, "config", "exec")\nEOF\n`);
	if (['js', 'ts', 'python'].includes(kind))
		return session.program(kind, block.text);
	return languages[kind](block.text);
}
