// A whole daemon with guests that are in the hands of an attacker (evil_agent.c), and an honest one beside
// them: what an evil guest does costs its own sandbox, and nobody else.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';

import { startDaemon } from '../api/lib/daemon.mjs';

const MiB = 1024 * 1024;
const CREATE_DEADLINE_MS = 30_000; // those that never greet are waited for so long
const MEMORY_GROWTH_MAX = 48 * MiB; // an answer may have 16 MiB, and nothing here asks for one

const initramfs = process.env.SKERRY_TEST_EVIL_INITRAMFS;
let daemon, neighbour, watch;

const create = (name) => daemon.request('POST', '/v1/sandboxes', { name, size: 'tiny', timeout_minutes: 15 });
const exec = (id, command, more = {}) =>
	daemon.request('POST', `/v1/sandboxes/${id}/exec`, { command, timeout_ms: 30_000, ...more });

function memory(kind) {
	const status = fs.readFileSync(`/proc/${daemon.pid}/status`, 'utf8');

	return Number(status.match(new RegExp(`^${kind}:\\s+(\\d+) kB`, 'm'))[1]) * 1024;
}

// Commands of the honest sandbox, one after the other, while the others do what they do.
function watchNeighbour() {
	const seen = { commands: 0, wrong: [], stop: false };

	seen.done = (async () => {
		while (!seen.stop) {
			const answer = await exec(neighbour, `echo ${seen.commands}`);

			if (answer.status !== 200 || answer.json.stdout !== `${seen.commands}\n`)
				seen.wrong.push(answer.text);
			seen.commands++;
			await sleep(200);
		}
	})();
	return seen;
}

before(async () => {
	assert.ok(initramfs, 'SKERRY_TEST_EVIL_INITRAMFS is not set');
	daemon = await startDaemon({
		config: { vm: { initramfs }, limits: { create_deadline_ms: CREATE_DEADLINE_MS, files_silence_ms: 5000 } },
	});
	await daemon.ensureImage();
	const answer = await create('honest');

	assert.equal(answer.status, 201, answer.text);
	neighbour = answer.json.id;
	assert.equal((await exec(neighbour, 'true')).status, 200);
	watch = watchNeighbour();
	fs.writeFileSync(`/proc/${daemon.pid}/clear_refs`, '5'); // the peak is counted from here
	watch.memory = memory('VmHWM');
});

after(async () => {
	if (watch)
		watch.stop = true;
	await watch?.done;
	await daemon?.stop();
});

function assertNoResidue(id) {
	assert.equal(fs.existsSync(path.join(daemon.stateDir, 'sandboxes', id)), false);
	assert.equal(spawnSync('pgrep', ['-f', id]).status, 1, `a process of ${id} is left`);
}

async function assertDestroyed(id) {
	assert.equal((await daemon.request('DELETE', `/v1/sandboxes/${id}`)).status, 200);
	assert.equal((await daemon.request('GET', `/v1/sandboxes/${id}`)).json.status, 'destroyed');
	assertNoResidue(id);
}

// Of an agent that does not keep to the protocol.
const broken = ['agent_gone', 'agent_unresponsive'];

async function sandboxNamed(name) {
	const all = (await daemon.request('GET', '/v1/sandboxes?status=all&limit=200')).json.items;

	return all.find((sandbox) => sandbox.name === name);
}

// All at once, as most of them are waited for.
describe('at the greeting', { concurrency: true }, () => {
	for (const name of ['silence', 'noise', 'lie', 'length', 'markers'])
		test(name, async () => {
			const answer = await create(`evil-${name}`);
			const sandbox = await sandboxNamed(`evil-${name}`);

			assert.equal(answer.json.code, 'start_failed', answer.text);
			assert.match(answer.json.detail, /agent/);
			assert.equal(sandbox.status, 'failed');
			assertNoResidue(sandbox.id);
		});
});

// Until the command must have ended, where nothing else tells that it never will.
describe('to a command', { concurrency: true }, () => {
	for (const name of ['claim', 'handles', 'flood', 'pongs', 'garbage', 'beyond', 'mute', 'started', 'deaf',
		'lost', 'anew', 'promise'])
		test(name, async () => {
			const { json: { id } } = await create(`evil-${name}`);
			const answers = await Promise.all([1, 2].map(() => exec(id, 'true', { timeout_ms: 1000 })));

			for (const answer of answers)
				assert.ok(broken.includes(answer.json.code), answer.text);
			for (const [method, body] of [['GET'], ['PUT', 'x'.repeat(MiB)]]) {
				const answer = await daemon.request(method, `/v1/sandboxes/${id}/files?path=x`, body);

				assert.ok([...broken, 'file_io_error', 'guest_resources'].includes(answer.json.code), answer.text);
			}
			assert.equal((await daemon.request('GET', `/v1/sandboxes/${id}`)).json.status, 'running');
			await assertDestroyed(id);
		});
});

describe('to a file', { concurrency: true }, () => {
	const route = (id, more = '') => `/v1/sandboxes/${id}/files${more}?path=x`;

	for (const name of ['record', 'error', 'answer'])
		test(name, async () => {
			const { json: { id } } = await create(`evil-${name}`);

			for (const [method, more, body] of [['GET'], ['GET', '/list'], ['GET', '/stat'], ['PUT', '', 'x']]) {
				const answer = await daemon.request(method, route(id, more), body);

				if (name === 'answer' && more === '/list')
					assert.deepEqual(answer.json, { items: [], next_cursor: null });
				else
					assert.ok([...broken, 'file_io_error', 'guest_resources'].includes(answer.json?.code), answer.text);
				assert.doesNotMatch(answer.text, /\x1b/);
			}
			await assertDestroyed(id);
		});

	for (const name of ['more', 'less'])
		test(`${name} than was announced`, async () => {
			const { json: { id } } = await create(`evil-${name}`);
			const answer = await fetch(new URL(route(id), daemon.url), { headers: { Authorization: `Bearer ${daemon.key}` } });

			assert.equal(answer.status, 200);
			assert.equal(answer.headers.get('x-evil'), null);
			assert.equal(answer.headers.get('x-file-user'), '0');
			await assert.rejects(answer.arrayBuffer());
			await assertDestroyed(id);
		});
});

test('to a command: boast, whose answer is well-formed', async () => {
	const { json: { id } } = await create('evil-boast');
	const { status, json, text } = await exec(id, 'true', { timeout_ms: 5000 });

	assert.equal(status, 200, text);
	assert.ok(json.duration_ms >= 0, text);
	assert.equal(json.stdout, '');
	await assertDestroyed(id);
});

test('to a command: tongue, a failure in no language, which is an error in ours', async () => {
	const { json: { id } } = await create('evil-tongue');
	const { status, json, text } = await exec(id, 'true');

	assert.equal(status, 503, text);
	assert.equal(json.code, 'guest_resources');
	await assertDestroyed(id);
});

test('a command that waits for an evil guest ends with its sandbox', async () => {
	const { json: { id } } = await create('evil-started');
	const waiting = exec(id, 'sleep 1000', { timeout_ms: 600_000 });

	await sleep(1000);
	await assertDestroyed(id);
	assert.equal((await waiting).json.code, 'sandbox_ended');
});

test('neither the honest sandbox nor the daemon has suffered', async () => {
	watch.stop = true;
	await watch.done;
	assert.deepEqual(watch.wrong, []);
	assert.ok(watch.commands > 10, `only ${watch.commands} commands were run`);
	assert.equal(daemon.child.exitCode, null);
	const grown = memory('VmHWM') - watch.memory;

	assert.ok(grown < MEMORY_GROWTH_MAX, `the daemon grew by ${Math.round(grown / MiB)} MiB`);
	assert.deepEqual((await daemon.sandboxes()).map((sandbox) => sandbox.id), [neighbour]);
});
