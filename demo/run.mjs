// The demo: the official MCP client does a whole piece of work in a microVM, as an agent would. Every
// answer is checked; the exit code is 0 only if all of it was as it should be.
//
//   make demo     (or: BUILD=build scripts/node demo/run.mjs)

import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import fs from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';

import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';

import { runCli, startDaemon } from './daemon.mjs';
import { commands, directory } from './project.mjs';
import * as screen from './screen.mjs';

const now = () => performance.now();

function expect(condition, what) {
	if (!condition)
		throw new Error(what);
}

// ---- what has to be put away at the end, whatever happens ----

const cleanups = [];
let cleaning;
let interrupted = false;

function cleanUp() {
	cleaning ??= (async () => {
		for (const { what, fn } of cleanups.reverse()) {
			try {
				await fn();
			} catch (error) {
				screen.failed(`${what}: ${error.message}`);
				process.exitCode = 1;
			}
		}
	})();
	return cleaning;
}

function onSignal(signal, code) {
	process.once(signal, () => {
		interrupted = true;
		screen.failed(`interrupted by ${signal}; putting everything away`);
		cleanUp().finally(() => process.exit(code));
	});
}

// ---- calls, shown with their time and answer ----

const oneLine = (text) => text.trim().replace(/\s*\n\s*/g, ' ⏎ ');
const textOf = (result) => result.content.map((part) => part.text ?? '').join('');

async function call(client, name, args) {
	const shown = Object.entries(args).map(([key, value]) => `${key}=${oneLine(String(value))}`);
	const began = now();
	const result = await client.callTool({ name, arguments: args });

	screen.call([name, ...shown].join('  '), now() - began);
	if (result.isError)
		screen.answer(textOf(result));
	expect(!result.isError, `${name} failed: ${oneLine(textOf(result))}`);
	return result.structuredContent;
}

// Runs a command to its end and shows what it printed.
async function exec(client, sandbox, command, options = {}) {
	const { cwd, lines } = options;
	const args = { sandbox_id: sandbox.id, command, ...(cwd && { cwd }) };
	const began = now();
	const result = await client.callTool({ name: 'exec', arguments: args });
	const answer = result.structuredContent;

	screen.call(`exec  ${oneLine(command)}`, now() - began);
	expect(!result.isError, `exec failed: ${oneLine(textOf(result))}`);
	expect(!answer.running, 'the command did not end in time');
	screen.answer(answer.stdout + answer.stderr || '(no output)', lines);
	return answer;
}

// ---- the chapters ----

async function prepare(daemon) {
	let began = now();
	await daemon.ready();
	screen.done(`skerryd listens on ${daemon.url}`, now() - began);

	began = now();
	const image = await daemon.buildImage('base', screen.progress);
	screen.done(`image ${image.name}: Debian with python3 and git, ${mebibytes(image.size_bytes)}`, now() - began);
}

const mebibytes = (bytes) => `${Math.round(bytes / 2 ** 20)} MiB`;

async function connect(daemon) {
	const client = new Client(
		{ name: 'skerry-demo', version: '1.0.0' },
		{ versionNegotiation: { mode: 'auto' } }
	);
	const began = now();

	await client.connect(
		new StreamableHTTPClientTransport(new URL('/mcp', daemon.url), {
			requestInit: { headers: { Authorization: `Bearer ${daemon.key}` } },
		})
	);
	const { tools } = await client.listTools();

	screen.done(`@modelcontextprotocol/client speaks MCP ${client.getNegotiatedProtocolVersion()}`, now() - began);
	screen.answer(tools.map((tool) => tool.name).join('  '));
	return client;
}

async function create(client, daemon) {
	const sandbox = await call(client, 'create_sandbox', { size: 'small', timeout_minutes: 10 });

	screen.answer(`${sandbox.id}  ${sandbox.status}  until ${sandbox.expires_at}`);
	expect(sandbox.status === 'running', `the sandbox is ${sandbox.status}`);

	const began = now();
	const shape = await daemon.get(`/v1/sandboxes/${sandbox.id}`);
	const boundary = { kvm: 'hardware virtualization', emulated: 'emulated: this host has no usable KVM' };
	screen.call(`GET /v1/sandboxes/${sandbox.id}`, now() - began);
	screen.answer(
		`${shape.image}  ${shape.vcpus} vCPU  ${shape.memory_mb} MiB  ${shape.disk_gb} GiB  ` +
			boundary[shape.isolation]
	);
	expect(boundary[shape.isolation], `isolation is ${shape.isolation}`);
	return sandbox;
}

async function work(client, sandbox) {
	const written = await exec(client, sandbox, commands.write);
	expect(written.exit_code === 0, 'the project could not be written');

	const red = await exec(client, sandbox, commands.test, { cwd: `/home/sandbox/${directory}` });
	expect(red.exit_code === 1 && /failures=2/.test(red.stderr), 'two tests should have failed');

	const fixed = await exec(client, sandbox, commands.fix, { cwd: `/home/sandbox/${directory}` });
	expect(fixed.exit_code === 0, 'the change could not be applied');

	const green = await exec(client, sandbox, commands.test, { cwd: `/home/sandbox/${directory}` });
	expect(green.exit_code === 0 && /Ran 6 tests[^]*OK/.test(green.stderr), 'all six tests should pass');
	screen.done('2 of 6 tests failed, now all 6 pass');
}

// The guest runs a kernel of its own and sees nothing of the host.
async function compare(client, sandbox, secret) {
	const uname = await exec(client, sandbox, 'uname -a');
	const host = `${os.type()} ${os.hostname()} ${os.release()}`;

	screen.answer(`${host}   (this host)`);
	expect(!uname.stdout.includes(os.hostname()), 'the guest has the name of the host');
	expect(uname.stdout.split(' ')[2] !== os.release(), 'the guest has the kernel of the host');

	const boot = await exec(client, sandbox, 'cat /proc/sys/kernel/random/boot_id');
	const hostBoot = readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
	screen.answer(`${hostBoot}   (this host)`);
	expect(boot.stdout.trim() !== hostBoot, 'the guest shares its boot with the host');

	expect((await fs.readFile(secret.file, 'utf8')) === secret.text, 'the secret is not on the host');
	const theft = await exec(client, sandbox, `sudo cat ${secret.file}`);
	expect(theft.exit_code !== 0 && !theft.stdout.includes(secret.text), 'the guest read a file of the host');
	const processes = await exec(client, sandbox, 'ps --ppid 2 -p 2 --deselect -o pid,user,args');
	expect(!/skerryd|qemu/.test(processes.stdout), 'the guest sees processes of the host');
	screen.done('another kernel, another boot, and nothing of the host');
}

async function finish(client, sandbox) {
	const extended = await call(client, 'extend_sandbox', { sandbox_id: sandbox.id, additional_minutes: 5 });
	const gained = Date.parse(extended.expires_at) - Date.parse(sandbox.expires_at);
	screen.answer(`expires ${extended.expires_at}`);
	expect(Math.abs(gained - 5 * 60_000) < 1000, `the deadline moved by ${gained} ms`);

	const destroyed = await call(client, 'destroy_sandbox', { sandbox_id: sandbox.id });
	screen.answer(`${destroyed.id}  ${destroyed.status}`);
	expect(destroyed.status === 'destroyed', `the sandbox is ${destroyed.status}`);

	const { items } = await call(client, 'list_sandboxes', {});
	screen.answer(items.length === 0 ? '(no sandboxes)' : JSON.stringify(items));
	expect(items.length === 0, 'sandboxes are left');
}

async function explain() {
	const server = 'http://127.0.0.1:7171';
	const config = (client) => runCli(['mcp', 'config', '--client', client, '--url', server]);

	screen.chapter('Your own agent');
	screen.say('  Start the server:');
	screen.say();
	screen.answer(
		'build/skerryd --state-dir /var/lib/skerry --listen 127.0.0.1:7171\n' +
			'export SKERRY_API_KEY=$(sudo cat /var/lib/skerry/admin.key)'
	);
	screen.say();
	screen.say('  Claude Code, on the command line:');
	screen.say();
	screen.answer(
		`claude mcp add --transport http skerry ${server}/mcp \\\n` +
			'    --header "Authorization: Bearer $SKERRY_API_KEY"'
	);
	for (const [client, name] of [['codex', 'Codex'], ['vscode', 'VS Code'], ['cursor', 'Cursor']]) {
		const { text, place } = await config(client);

		screen.say();
		screen.say(`  ${name}: ${place}`);
		screen.say();
		screen.answer(text, 40);
	}
	screen.say();
	screen.say('  All clients: build/skerry mcp config --help');
	screen.say();
}

async function main() {
	const began = now();
	onSignal('SIGINT', 130);
	onSignal('SIGTERM', 143);

	screen.title('Skerry: a Linux machine of its own for an agent', 'driven by the official MCP client');
	const folder = await fs.mkdtemp(path.join(os.tmpdir(), 'skerry-demo-'));
	cleanups.push({ what: `remove ${folder}`, fn: () => fs.rm(folder, { recursive: true }) });
	const secret = { file: path.join(folder, 'secret-of-the-host.txt'), text: randomBytes(16).toString('hex') };
	await fs.writeFile(secret.file, secret.text, { mode: 0o600 });

	screen.chapter('A server');
	const daemon = startDaemon(folder);
	cleanups.push({ what: 'stop the daemon', fn: () => daemon.stop() });
	await prepare(daemon);
	const client = await connect(daemon);
	cleanups.push({ what: 'close the client', fn: () => client.close() });

	screen.chapter('A machine');
	const sandbox = await create(client, daemon);
	screen.chapter('A project with failing tests');
	await work(client, sandbox);
	screen.chapter('What it can see');
	await compare(client, sandbox, secret);
	screen.chapter('The end');
	await finish(client, sandbox);

	await cleanUp();
	expect(!process.exitCode, 'not everything could be put away');
	screen.done('everything is put away; the whole took', now() - began);
	await explain();
}

main().catch(async (error) => {
	if (interrupted)
		return; // what was under way has failed, as it should
	screen.failed(error.message);
	process.exitCode = 1;
	await cleanUp();
	process.exit(1);
});
