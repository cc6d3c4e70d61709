// Agents at work over MCP, with a network: every tool by every client and by the inspector, then long
// sessions whose connections are cut again and again. Afterwards nothing is left.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';

import { Checker } from './lib/checker.mjs';
import { repository, startDaemon } from './lib/daemon.mjs';
import { LEGACY, MODERN, clientKinds, connect, modern, post, request, textOf } from './lib/mcp.mjs';
import { startProxy } from './lib/proxy.mjs';
import { inside, makeWorld, runInside } from './lib/world.mjs';

const CALLS = 200; // of a session
const CUT_EVERY = 6; // calls, one is cut off

let daemon, world;

async function until(what, condition, seconds = 60) {
	for (const end = Date.now() + seconds * 1000; ; await sleep(100)) {
		const found = await condition();

		if (found)
			return found;
		assert.ok(Date.now() < end, `${what} did not come about within ${seconds} s`);
	}
}

// ---- every tool ----

// call(name, args) gives the checked answer of a tool.
async function useEveryTool(call) {
	const used = new Set();
	const use = (name, args) => {
		used.add(name);
		return call(name, args);
	};
	const { id } = await use('create_sandbox', { size: 'small', timeout_minutes: 10, name: 'worker' });
	const on = (name, args = {}) => use(name, { sandbox_id: id, ...args });

	assert.equal((await on('exec', { command: 'echo kept > file; curl -sS http://a.example/' })).stdout, 'a.example at 8.8.4.4\n');
	assert.deepEqual((await on('set_egress', { rules: ['b.example:80'] })).rules, ['b.example:80']);
	const denied = await on('exec', { command: 'curl -sS --max-time 5 http://c.example/' });

	assert.notEqual(denied.exit_code, 0);
	assert.match(JSON.stringify(denied.egress_denied), /c\.example/);
	await on('set_egress', { rules: null });

	const { exec_id } = await on('exec', { command: 'python3 -m http.server 8000', background: true });
	const { url } = await on('expose_port', { port: 8000 });

	await until('a preview', async () => (await fetch(url)).status === 200);
	await on('exec_wait', { exec_id, signal: 'SIGTERM', wait_ms: 0 });
	await until('the end of the server', async () => !(await on('exec_wait', { exec_id, wait_ms: 500 })).running);

	assert.equal((await on('pause_sandbox')).status, 'paused');
	assert.equal((await on('resume_sandbox')).status, 'running');
	const { sandboxes: [child] } = await on('fork_sandbox', { count: 1 });

	assert.equal((await use('exec', { sandbox_id: child.id, command: 'cat file' })).stdout, 'kept\n');
	await on('extend_sandbox', { additional_minutes: 5 });
	assert.equal((await use('list_sandboxes', {})).items.length, 2);
	for (const gone of [child.id, id])
		assert.equal((await use('destroy_sandbox', { sandbox_id: gone })).status, 'destroyed');
	return used;
}

async function inspector(...args) {
	const build = path.join(repository, 'tests/node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js');
	const child = spawn(path.join(repository, 'scripts/node'),
		[build, '--cli', new URL('/mcp', daemon.url).href, '--transport', 'http', '--header', `Authorization: Bearer ${daemon.key}`, ...args],
		{
			stdio: ['ignore', 'pipe', 'pipe'],
			env: { PATH: process.env.PATH, HOME: daemon.stateDir, SKERRY_NODE_MINIMUM: '22' },
		});
	let out = '', err = '';

	child.stdout.on('data', (data) => (out += data));
	child.stderr.on('data', (data) => (err += data));
	const [code] = await once(child, 'close');

	assert.equal(code, 0, `${args.join(' ')}: ${err}${out}`);
	return { answer: JSON.parse(out), err };
}

// ---- sessions ----

// The same numbers in every run.
class Dice {
	constructor(seed) {
		this.state = seed;
	}

	below(n) {
		this.state = (Math.imul(this.state, 1664525) + 1013904223) >>> 0;
		return Math.floor((this.state / 2 ** 32) * n);
	}
}

// One agent: it calls tools through a proxy that cuts its connections, and looks what was done before it
// goes on. What it believes to be true is checked at the end.
class Agent {
	calls = 0;
	cuts = 0;
	marks = 0;

	constructor(proxy, era) {
		this.proxy = proxy;
		this.era = era;
		this.dice = new Dice(era.length * 7919);
	}

	// The answer of a tool, or undefined when the connection was lost before there was one.
	async call(name, args, mayCut = true) {
		const params = { name, arguments: args };
		const what = this.era === MODERN ? modern('tools/call', params, { id: this.calls })
			: { body: request('tools/call', params, this.calls), headers: { 'MCP-Protocol-Version': LEGACY } };
		const cut = mayCut && ++this.calls % CUT_EVERY === 0;

		if (cut)
			setTimeout(() => {
				this.cuts++;
				this.proxy.cut();
			}, this.dice.below(40));
		const answer = await post(this.proxy, what).catch(() => undefined);

		if (!answer?.json)
			return undefined;
		assert.equal(answer.json.id, what.body.id, answer.text);
		assert.notEqual(answer.json.result.isError, true, textOf(answer.json.result));
		return answer.json.result.structuredContent;
	}

	// Calls until there is an answer: for what may be done twice.
	async insist(name, args) {
		return (await this.call(name, args)) ?? this.insist(name, args);
	}

	list = async (args = {}) => (await this.insist('list_sandboxes', args)).items;

	// By its name: after a lost answer it is there, or it is made again.
	async create(name) {
		const made = await this.call('create_sandbox', { size: 'small', timeout_minutes: 30, name });

		if (made)
			return made.id;
		// What is being made for a caller that has gone may still come, or go.
		await this.proxy.settled();
		const found = await until('a state that lasts', async () => {
			const all = (await this.list()).filter((sandbox) => sandbox.name === name);

			return all.every(({ status }) => status === 'running') && { all };
		});

		await sleep(500);
		return (await this.list()).find((sandbox) => sandbox.name === name && found.all.some(({ id }) => id === sandbox.id))?.id ??
			this.create(name);
	}

	// A command that can be done once only. Its caller makes sure that it was.
	async mark() {
		const mark = `m${this.marks++}`;

		for (;;) {
			const { id } = this;
			const done = await this.call('exec', { sandbox_id: id, command: `mkdir ~/marks/${mark} && echo ${mark}` });

			if (done) {
				assert.equal(done.stdout, `${mark}\n`);
				return;
			}
			const seen = await until('an end of the command', async () => {
				const look = await this.insist('exec', { sandbox_id: id, command: `pgrep -f '[m]kdir.*${mark}' >&2; test -d ~/marks/${mark} && echo yes || echo no` });

				return !look.stderr && look;
			});

			if (seen.stdout === 'yes\n')
				return;
		}
	}

	// A long command, whose output is put together across lost connections.
	async follow() {
		const lines = 30 + this.dice.below(40);
		const command = `for i in $(seq ${lines}); do echo line $i; sleep 0.01; done`;
		const started = await this.call('exec', { sandbox_id: this.id, command, background: true });

		if (!started)
			return; // it runs without us
		let output = '', running = true;

		while (running) {
			const more = await this.insist('exec_wait', {
				sandbox_id: this.id, exec_id: started.exec_id, from_offset: output.length, wait_ms: 300,
			});

			output += more.stdout;
			running = more.running;
		}
		assert.equal(output, Array.from({ length: lines }, (_, i) => `line ${i + 1}\n`).join(''));
	}

	async extend() {
		const before = Date.parse((await this.list({ sandbox_id: this.id }))[0].expires_at);

		if (!(await this.call('extend_sandbox', { sandbox_id: this.id, additional_minutes: 1 })))
			await sleep(100);
		const moved = Date.parse((await this.list({ sandbox_id: this.id }))[0].expires_at) - before;

		assert.ok(moved === 0 || moved === 60_000, `moved by ${moved} ms`);
	}

	// Whatever becomes of the calls, the sandbox and its work are there.
	async pauseAndResume() {
		await this.call('pause_sandbox', { sandbox_id: this.id });
		await this.call('resume_sandbox', { sandbox_id: this.id });
		assert.equal((await this.insist('exec', { sandbox_id: this.id, command: 'echo here' })).stdout, 'here\n');
	}

	async fork() {
		const forked = await this.call('fork_sandbox', { sandbox_id: this.id, count: 1 });
		await this.proxy.settled();
		const children = await until('children that are whole or gone', async () => {
			const all = (await this.list()).filter(({ id }) => id !== this.id);

			return all.every(({ status }) => status === 'running') && { all };
		});

		for (const { id } of forked?.sandboxes ?? children.all) {
			await this.call('exec', { sandbox_id: id, command: 'rm -rf ~/marks' });
			await this.insist('destroy_sandbox', { sandbox_id: id });
		}
	}

	async step() {
		const dice = this.dice.below(100);

		if (dice < 60)
			await this.mark();
		else if (dice < 70)
			await this.follow();
		else if (dice < 78)
			await this.list();
		else if (dice < 84)
			await this.extend();
		else if (dice < 90)
			await this.insist('set_egress', { sandbox_id: this.id, rules: this.dice.below(2) ? [] : null });
		else if (dice < 95)
			await this.insist('expose_port', { sandbox_id: this.id, port: 8000 });
		else if (dice < 98)
			await this.pauseAndResume();
		else
			await this.fork();
	}

	// Whether there is nothing but its own sandbox. What was made for a modern client that has gone ends by itself.
	// For an older one going away means nothing: it finds what it has not seen the answer to, and ends it.
	async alone() {
		const others = (await this.list()).filter(({ id }) => id !== this.id);

		if (this.era === LEGACY)
			for (const { id } of others.filter(({ status }) => status === 'running'))
				await this.insist('destroy_sandbox', { sandbox_id: id });
		return others.length === 0;
	}

	async work() {
		this.id = await this.create(`session-${this.era}`);
		await this.insist('exec', { sandbox_id: this.id, command: 'mkdir -p ~/marks' });
		while (this.calls < CALLS)
			await this.step();
	}
}

// Processes of this daemon's sandboxes, by the paths in their command lines.
function processesBelow(folder) {
	return fs.readdirSync('/proc').filter((pid) => /^\d+$/.test(pid) && Number(pid) !== daemon.pid).filter((pid) => {
		try {
			return fs.readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes(folder);
		} catch {
			return false; // it has ended
		}
	});
}

if (!inside)
	runInside(import.meta.url);
else
	describe('MCP with a network', { concurrency: 1 }, () => {
		let tools;
		before(async () => {
			world = await makeWorld();
			daemon = await startDaemon({ config: world.config });
			await daemon.ensureImage('base');
			tools = (await post(daemon, { body: request('tools/list') })).json.result.tools;
		});
		after(async () => {
			await daemon?.stop();
			world?.close();
		});

		for (const kind of clientKinds)
			test(`every tool, by ${kind.name}`, { timeout: 180_000 }, async () => {
				const mcp = await connect(daemon, kind);
				const listed = (await mcp.client.listTools()).tools;
				const checker = new Checker(listed);
				const used = await useEveryTool(async (name, args) => checker.check(name, await mcp.callTool({ name, arguments: args })));

				assert.deepEqual([...used].sort(), listed.map(({ name }) => name).sort());
				await mcp.client.close();
			});

		// Each call is a process of its own, so that there is one for each tool.
		test('every tool, by the inspector', { timeout: 300_000 }, async () => {
			const { answer, err } = await inspector('--method', 'tools/list', '--strict');
			const checker = new Checker(tools);
			const called = [];
			const call = async (name, args = {}) => {
				const pairs = Object.entries(args).map(([key, value]) => `${key}=${typeof value === 'string' ? value : JSON.stringify(value)}`);
				const { answer: result } = await inspector('--method', 'tools/call', '--tool-name', name, ...(pairs.length ? ['--tool-arg', ...pairs] : []));

				called.push(name);
				return checker.check(name, result);
			};

			assert.deepEqual(answer.tools.map(({ name }) => name), tools.map(({ name }) => name));
			assert.match(err, /\b0 errors/);
			const { id: sandbox_id } = await call('create_sandbox', { size: 'small' });
			const { exec_id } = await call('exec', { sandbox_id, command: 'sleep 1; echo done', background: true });

			assert.equal((await call('exec_wait', { sandbox_id, exec_id })).stdout, 'done\n');
			await call('extend_sandbox', { sandbox_id, additional_minutes: 1 });
			await call('set_egress', { sandbox_id, rules: ['a.example'] });
			await call('expose_port', { sandbox_id, port: 8000 });
			await call('pause_sandbox', { sandbox_id });
			await call('resume_sandbox', { sandbox_id });
			const { sandboxes } = await call('fork_sandbox', { sandbox_id, count: 1 });

			assert.equal((await call('list_sandboxes')).items.length, 2);
			await call('destroy_sandbox', { sandbox_id });
			await daemon.request('DELETE', `/v1/sandboxes/${sandboxes[0].id}`);
			assert.deepEqual(called.sort(), tools.map(({ name }) => name).sort());
		});

		for (const era of [MODERN, LEGACY])
			test(`a session of ${CALLS} calls with connections that are lost, ${era}`, { timeout: 300_000 }, async () => {
				const proxy = await startProxy(daemon);
				const agent = new Agent(proxy, era);

				await agent.work();
				const { stdout } = await agent.insist('exec', { sandbox_id: agent.id, command: 'ls ~/marks | wc -l' });

				assert.equal(Number(stdout), agent.marks, 'every mark was made, once');
				assert.ok(agent.cuts >= CALLS / CUT_EVERY - 2, `${agent.cuts} connections were cut`);
				await proxy.settled();
				await until('a server with nothing but the session\'s own sandbox', () => agent.alone());
				assert.equal((await agent.list()).length, 1);
				await agent.insist('destroy_sandbox', { sandbox_id: agent.id });
				await proxy.close();
			});

		test('nothing is left', async () => {
			assert.deepEqual(await daemon.sandboxes(), []);
			const folder = path.join(daemon.stateDir, 'sandboxes');

			await until('the end of all wardens', () => processesBelow(folder).length === 0);
			assert.deepEqual(fs.readdirSync(folder), []);
		});
	});
