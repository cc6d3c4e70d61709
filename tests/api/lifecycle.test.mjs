// Pause, resume, fork and snapshots over REST, MCP and the command line, in real sandboxes.

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';

import { runSkerry } from './lib/cli.mjs';
import { startDaemon } from './lib/daemon.mjs';
import { post, request } from './lib/mcp.mjs';

const QUOTA = 5;

let daemon;
before(async () => {
	daemon = await startDaemon({ config: { limits: { sandboxes_per_account: QUOTA, snapshots_per_account: 1 } } });
	await daemon.ensureImage('base');
});
after(() => daemon?.stop());

const call = (method, route, body) => daemon.request(method, route, body);

async function good(method, route, body) {
	const answer = await call(method, route, body);

	assert.ok(answer.status < 300, `${method} ${route}: ${answer.status} ${answer.text}`);
	return answer.json;
}

async function refused(status, code, method, route, body) {
	const answer = await call(method, route, body);

	assert.equal(answer.status, status, answer.text);
	assert.equal(answer.json.code, code);
}

const create = (more = {}) => good('POST', '/v1/sandboxes', { timeout_minutes: 10, ...more });
const destroy = (id) => good('DELETE', `/v1/sandboxes/${id}`);
const run = async (id, command, more = {}) =>
	(await good('POST', `/v1/sandboxes/${id}/exec`, { command, ...more })).stdout;

describe('REST', () => {
	test('a paused sandbox is resumed by what is asked of it', async () => {
		const { id } = await create({
			name: 'paused', idle_pause_minutes: 30, on_timeout: 'pause', labels: { kind: 'cold' },
		});

		await run(id, 'echo kept >~/mark');
		const paused = await good('POST', `/v1/sandboxes/${id}/pause`);

		assert.equal(paused.status, 'paused');
		assert.equal(paused.expires_at, null);
		assert.equal(paused.on_timeout, 'pause');
		assert.equal(paused.idle_pause_minutes, 30);
		assert.ok(paused.remaining_seconds > 60 && paused.remaining_seconds <= 600);
		assert.equal((await good('POST', `/v1/sandboxes/${id}/pause`)).status, 'paused');
		const got = await good('GET', `/v1/sandboxes/${id}`);

		for (const query of ['', '?status=paused', '?status=all', '?image=base', '?label=kind%3Dcold'])
			assert.deepEqual((await good('GET', `/v1/sandboxes${query}`)).items, [got], query);
		for (const query of ['?status=running', '?label=kind%3Dwarm'])
			assert.deepEqual((await good('GET', `/v1/sandboxes${query}`)).items, [], query);
		assert.equal(await run(id, 'cat ~/mark'), 'kept\n');
		const running = await good('POST', `/v1/sandboxes/${id}/resume`);

		assert.equal(running.status, 'running');
		assert.equal(running.generation, 2);
		assert.equal(running.remaining_seconds, undefined);
		assert.ok(Date.parse(running.expires_at) > Date.now());
		await destroy(id);
		await refused(410, 'sandbox_ended', 'POST', `/v1/sandboxes/${id}/pause`);
		await refused(404, 'not_found', 'POST', '/v1/sandboxes/sbx_00000000/pause');
	});

	test('a command that runs goes on, and so does its caller', async () => {
		const { id } = await create();
		const output = run(id, 'for i in 1 2 3 4 5 6; do echo $i; sleep 1; done', { timeout_ms: 60_000 });

		await sleep(2000);
		await good('POST', `/v1/sandboxes/${id}/pause`);
		await sleep(1000);
		await good('POST', `/v1/sandboxes/${id}/resume`);
		assert.equal(await output, '1\n2\n3\n4\n5\n6\n');
		await destroy(id);
	});

	test('forks are all or none, and each its own', async () => {
		const { id } = await create({ labels: { job: '7' } });

		await run(id, 'echo shared >~/mark');
		await refused(429, 'quota_reached', 'POST', `/v1/sandboxes/${id}/fork`, { count: QUOTA });
		await refused(400, 'invalid_argument', 'POST', `/v1/sandboxes/${id}/fork`, { count: 17 });
		await refused(400, 'invalid_argument', 'POST', `/v1/sandboxes/${id}/fork`, { count: 0 });
		assert.equal((await good('GET', '/v1/sandboxes')).items.length, 1);
		const { sandboxes, fork_report: report } = await good('POST', `/v1/sandboxes/${id}/fork`, { count: 2, name: 'try' });

		assert.deepEqual(sandboxes.map((child) => child.name), ['try-1', 'try-2']);
		assert.ok(report.distinct.includes('kernel_entropy'));
		assert.ok(report.source_paused_ms >= 0);
		for (const child of sandboxes) {
			assert.equal(child.parent_id, id);
			assert.deepEqual(child.labels, { job: '7' });
			assert.equal(await run(child.id, 'cat ~/mark; hostname'), `shared\n${child.name}\n`);
			await destroy(child.id);
		}
		await destroy(id);
	});

	test('snapshots have names, a limit, and children that outlive them', async () => {
		const { id } = await create();

		await run(id, 'echo first >~/mark');
		const snapshot = await good('POST', `/v1/sandboxes/${id}/snapshots`, { name: 'one' });

		assert.equal(snapshot.source_id, id);
		assert.ok(snapshot.size_bytes > 0);
		await refused(429, 'quota_reached', 'POST', `/v1/sandboxes/${id}/snapshots`, { name: 'two' });
		await destroy(id);
		assert.deepEqual((await good('GET', '/v1/snapshots')).items, [snapshot]);
		await refused(400, 'invalid_argument', 'POST', '/v1/sandboxes', { snapshot: 'one', size: 'tiny' });
		const child = await create({ snapshot: 'one' });

		assert.deepEqual(await good('DELETE', '/v1/snapshots/one'), { name: 'one' });
		await refused(404, 'snapshot_not_found', 'DELETE', '/v1/snapshots/one');
		await refused(404, 'snapshot_not_found', 'POST', '/v1/sandboxes', { snapshot: 'one' });
		assert.equal(await run(child.id, 'cat ~/mark'), 'first\n');
		await destroy(child.id);
	});
});

describe('MCP', () => {
	const tool = async (name, args) => {
		const { result } = (await post(daemon, { body: request('tools/call', { name, arguments: args }) })).json;

		assert.notEqual(result.isError, true, JSON.stringify(result));
		return result.structuredContent;
	};

	test('pause, resume, fork', async () => {
		const { id } = await tool('create_sandbox', { on_timeout: 'pause' });

		assert.equal((await tool('pause_sandbox', { sandbox_id: id })).status, 'paused');
		assert.equal((await tool('resume_sandbox', { sandbox_id: id })).status, 'running');
		const { sandboxes, fork_report: report } = await tool('fork_sandbox', { sandbox_id: id });

		assert.equal(sandboxes.length, 1);
		assert.ok(report.shared.length > 0);
		await tool('destroy_sandbox', { sandbox_id: sandboxes[0].id });
		await tool('destroy_sandbox', { sandbox_id: id });
	});
});

describe('the command line', () => {
	const skerry = async (...args) => {
		const { code, out, err } = await runSkerry(daemon, args);

		assert.equal(code, 0, err);
		return out;
	};

	test('pause, resume, fork, snapshot', async () => {
		const id = (await skerry('create', '--quiet', '--on-timeout', 'pause', '--idle-pause', '1h')).trim();

		assert.equal(await skerry('pause', id), `${id}\n`);
		assert.match(await skerry('ls'), /paused/);
		assert.equal(await skerry('resume', id), `${id}\n`);
		const children = (await skerry('fork', id, '--count', '2', '--name', 'kid')).trim().split('\n');

		assert.equal(children.length, 2);
		assert.equal(await skerry('exec', 'kid-2', '--', 'hostname'), 'kid-2\n');
		await skerry('rm', ...children);
		assert.equal(await skerry('snapshot', 'create', id, 'kept', '--quiet'), 'kept\n');
		assert.match(await skerry('snapshot', 'ls'), new RegExp(`kept +${id}`));
		const child = (await skerry('create', '--quiet', '--snapshot', 'kept')).trim();

		assert.equal(await skerry('snapshot', 'rm', 'kept'), 'kept\n');
		await skerry('rm', child, id);
		assert.equal((await runSkerry(daemon, ['snapshot', 'rm', 'kept'])).code, 3);
	});
});
