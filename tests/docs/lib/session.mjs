// A page as a script: one shell that its blocks run in, one after the other, so that what one has made the
// next one has. Programs in other languages are run by that shell too.

import { spawn, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { createRequire } from 'node:module';
import { setTimeout as sleep } from 'node:timers/promises';

import { build, repository } from '../../api/lib/daemon.mjs';

const BLOCK_MS = 4 * 60_000; // on a busy machine
const ID = /\b(?:sbx|exec|term|key|acc|req|snap)_[0-9a-f]{8,}\b/g;

const ts = createRequire(path.join(repository, 'sdk/typescript/package.json'))('typescript');

export class Session {
	constructor(daemon) {
		this.dir = fs.mkdtempSync(path.join(os.tmpdir(), 'skerry-docs-'));
		this.n = 0;
		this.ids = new Map(); // as the page shows them, to those that there are
		fs.mkdirSync(path.join(this.dir, 'node_modules'));
		fs.symlinkSync(path.join(repository, 'sdk/typescript'), path.join(this.dir, 'node_modules/skerry'));
		fs.symlinkSync(path.join(repository, 'tests/node_modules/@modelcontextprotocol'),
			path.join(this.dir, 'node_modules/@modelcontextprotocol'));
		this.env = {
			PATH: `${build}:${process.env.PATH}`, HOME: this.dir, LANG: 'C.UTF-8', TZ: 'UTC',
			SKERRY_URL: daemon.url.replace(/\/$/, ''), SKERRY_API_KEY: daemon.key,
			PYTHONPATH: path.join(repository, 'sdk/python'), PYTHONDONTWRITEBYTECODE: '1',
			STATE: daemon.stateDir, NODE: path.join(repository, 'scripts/node'),
		};
		this.shell = spawn('bash', ['--noprofile', '--norc', '-s'], {
			cwd: this.dir, env: this.env, stdio: ['pipe', 'pipe', 'pipe'], detached: true,
		});
		this.said = '';
		this.shell.stdout.on('data', (bytes) => (this.said += bytes));
		this.shell.stderr.on('data', (bytes) => (this.said += bytes));
		this.shell.stdin.on('error', () => {});
		this.over = new Promise((resolve) => this.shell.once('exit', (code) => resolve(code ?? 1)));
		this.shell.stdin.write('set -eo pipefail\nshopt -s expand_aliases\n');
	}

	file(extension) {
		return path.join(this.dir, `block${++this.n}.${extension}`);
	}

	// Shell text in the page's shell: gives what it prints. Throws, with all that it has said, when it fails.
	async sh(text, { apart = false } = {}) {
		const file = this.file('sh'), log = `${file}.log`, mark = `done ${file}`;

		fs.writeFileSync(file, text);
		this.shell.stdin.write(`. '${file}' >'${log}' 2>${apart ? `'${log}.err'` : '&1'} </dev/null\necho '${mark}'\n`);
		let failed;
		const ended = this.over.then((code) => (failed = `it ended with ${code}`));

		for (const until = Date.now() + BLOCK_MS; !this.said.includes(mark) && !failed;) {
			if (Date.now() > until)
				failed = `it did not end within ${BLOCK_MS / 60_000} min`;
			await Promise.race([sleep(20), ended]);
		}
		const [out, err] = [log, `${log}.err`].map((name) => fs.existsSync(name) ? fs.readFileSync(name, 'utf8') : '');

		if (failed)
			throw new Error(`${failed}:\n${text}\nIt has said:\n${out}${err}${this.said}`);
		return out;
	}

	program(lang, text) {
		if (lang === 'python') {
			const file = this.file('py');

			fs.writeFileSync(file, text);
			return this.sh(`python3 -W error::ResourceWarning '${file}'\n`);
		}
		const file = this.file('mjs');
		const plain = lang === 'ts' ? ts.transpileModule(text, {
			compilerOptions: { target: ts.ScriptTarget.ES2022, module: ts.ModuleKind.ESNext },
		}).outputText : text;

		fs.writeFileSync(file, plain);
		return this.sh(`"$NODE" '${file}'\n`);
	}

	// What is shown after "$ ": commands, and what they print (progress and advice apart). Ids are those of the page until they are known;
	// "…" stands for anything.
	async console(text, { varies }) {
		const steps = [];

		for (const line of text.trimEnd().split('\n')) {
			if (line.startsWith('$ '))
				steps.push({ command: line.slice(2), shown: [] });
			else
				steps.at(-1).shown.push(line);
		}
		for (const { command, shown } of steps) {
			const out = await this.sh(`${command.replace(ID, (id) => this.ids.get(id) ?? id)}\n`, { apart: true });
			const lines = out.trimEnd() === '' ? [] : out.trimEnd().split('\n');

			if (lines.length !== shown.length)
				throw new Error(`$ ${command}\nshows ${shown.length} lines and prints ${lines.length}:\n${out}`);
			lines.forEach((line, i) => this.compare(command, shown[i], line, varies));
		}
	}

	compare(command, shown, printed, varies) {
		const there = printed.match(ID) ?? [];

		(shown.match(ID) ?? []).forEach((id, i) => there[i] && this.ids.set(id, there[i]));
		const wanted = shown.replace(ID, (id) => this.ids.get(id) ?? id)
			.split('…').map((part) => part.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')).join('.*');

		if (!varies && !new RegExp(`^${wanted}$`).test(printed))
			throw new Error(`$ ${command}\nshows:  ${shown}\nprints: ${printed}`);
	}

	// Runs what does not end by itself until its output matches, and interrupts it.
	async until(text, expression) {
		const log = this.file('log');
		const pid = (await this.sh(`set -m\n( ${text} ) >'${log}' 2>&1 &\nset +m\necho $!\n`)).trim().split('\n').at(-1);
		const wanted = new RegExp(expression);

		try {
			for (const end = Date.now() + BLOCK_MS; !wanted.test(fs.readFileSync(log, 'utf8')); await sleep(50)) {
				if (Date.now() > end)
					throw new Error(`no ${wanted} in what\n${text}\nhas said:\n${fs.readFileSync(log, 'utf8')}`);
			}
		} finally {
			spawnSync('kill', ['-INT', '--', `-${pid}`]);
		}
	}

	async close() {
		this.shell.stdin.end();
		if (this.shell.exitCode === null)
			await Promise.race([this.over, sleep(5000, undefined, { ref: false })]);
		try {
			process.kill(-this.shell.pid, 'SIGKILL'); // what runs in the background
		} catch {
			// nothing does
		}
		fs.rmSync(this.dir, { recursive: true, force: true });
	}
}
