// The audit of real sandboxes: commands by every way, files, trees, terminals and lives have one record
// each, with what came of them, and nothing that is secret. What sandboxes take of their host.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';

import { startDaemon } from './lib/daemon.mjs';
import { clientKinds, connect } from './lib/mcp.mjs';
import { parseMetrics } from './lib/prometheus.mjs';
import { Viewer } from './lib/terminal.mjs';

const WAIT_MS = 120_000;
const SECRETS = ['env-is-a-secret', 'stdin-is-a-secret', 'typed-is-a-secret', 'content-is-a-secret', 'output-is-a-secret'];
const [ENV, STDIN, TYPED, CONTENT, OUTPUT] = SECRETS;

let daemon, id, n = 0;
before(async () => {
	daemon = await startDaemon();
	await daemon.ensureImage('base');
});
after(() => daemon?.stop());

// A request and its record.
async function act(method, route, body, headers = {}) {
	const requestId = `vm-${++n}`;
	const answer = await daemon.request(method, route, body, { 'X-Request-Id': requestId, ...headers });

	assert.ok(answer.status < 300, `${method} ${route}: ${answer.status} ${answer.text}`);
	return { answer, record: await recordOf(requestId) };
}

async function recordOf(requestId) {
	for (const until = Date.now() + WAIT_MS; ; await sleep(20)) {
		const { items } = (await daemon.request('GET', `/v1/audit?request_id=${requestId}`)).json;

		if (items.length > 0) {
			assert.equal(items.length, 1, requestId);
			return items[0];
		}
		assert.ok(Date.now() < until, `no record of ${requestId}`);
	}
}

function assertRecord(record, operation, { args = {}, outcome = {}, sandbox = id } = {}) {
	assert.deepEqual([record.operation, record.result, record.sandbox_id], [operation, 'ok', sandbox]);
	for (const [key, value] of Object.entries(args))
		assert.deepEqual(record.args[key], value, `${operation}: ${key} in ${JSON.stringify(record.args)}`);
	for (const [key, value] of Object.entries(outcome))
		assert.deepEqual(record.outcome[key], value, `${operation}: ${key} in ${JSON.stringify(record.outcome)}`);
}

test('a sandbox is made, and its commands are run, by every way', { timeout: 10 * 60_000 }, async () => {
	const made = await act('POST', '/v1/sandboxes', { timeout_minutes: 20, labels: { job: '7' } });

	id = made.answer.json.id;
	assertRecord(made.record, 'create_sandbox', { args: { labels: { job: '7' }, timeout_minutes: 20 }, outcome: { id, status: 'running' } });

	const route = `/v1/sandboxes/${id}/exec`;
	const command = 'cat; echo $SECRET; exit 3';
	const body = { command, env: { SECRET: ENV }, stdin: STDIN };
	const plain = await act('POST', route, body);

	assertRecord(plain.record, 'exec', { args: { command }, outcome: { exit_code: 3, exec_id: plain.answer.json.exec_id } });
	assert.equal(plain.record.args.env, undefined);

	const streamed = await act('POST', route, body, { Accept: 'text/event-stream' });

	assert.match(streamed.answer.text, /event: exit/);
	assertRecord(streamed.record, 'exec', { args: { command }, outcome: { exit_code: 3 } });

	const background = await act('POST', route, { command: 'cat >/dev/null; echo $X', stdin_open: true, background: true, env: { X: OUTPUT } });
	const { exec_id: execId } = background.answer.json;

	assertRecord(background.record, 'exec', { outcome: { running: true, exec_id: execId } });
	const fed = await act('POST', `${route}/${execId}/input`, { data: STDIN, close: true });

	assertRecord(fed.record, 'exec_input', { args: { exec_id: execId, close: true }, outcome: { accepted_bytes: STDIN.length } });
	await daemon.request('GET', `${route}/${execId}?wait_ms=60000`);

	// Quick ones, many at once: each answer has its record already, or soon.
	const many = await Promise.all(Array.from({ length: 24 }, (_, i) => act('POST', route, { command: `exit ${i}` })));

	many.forEach(({ record }, i) => assertRecord(record, 'exec', { args: { command: `exit ${i}` }, outcome: i ? { exit_code: i } : {} }));
});

test('MCP commands are one record, however many steps they take', { timeout: 5 * 60_000 }, async () => {
	const { cursor } = (await daemon.request('GET', '/v1/audit?newest=true&limit=1')).json;
	const { client, callTool } = await connect(daemon, clientKinds[0]);
	const command = 'for i in 1 2 3; do echo $i; sleep 1; done; exit 4';

	await callTool({ name: 'exec', arguments: { sandbox_id: id, command } }, { onprogress: () => {} });
	await client.close();
	await sleep(500);
	const { items } = (await daemon.request('GET', `/v1/audit?cursor=${cursor}`)).json;

	assert.deepEqual(items.map(({ operation, surface, args }) => [operation, surface, args.command]), [['exec', 'mcp', command]]);
});

test('files, trees and terminals', { timeout: 5 * 60_000 }, async () => {
	const sandbox = `/v1/sandboxes/${id}`;
	const put = await act('PUT', `${sandbox}/files?path=/home/sandbox/f&mode=0600`, CONTENT);

	assertRecord(put.record, 'write_file', { args: { path: '/home/sandbox/f', mode: '0600' } });
	const { stdout: tar } = spawnSync('tar', ['-cf', '-', '-C', path.dirname(daemon.logFile), path.basename(daemon.logFile)]);

	assertRecord((await act('PUT', `${sandbox}/tree?path=/home/sandbox`, tar)).record, 'write_tree', { args: { path: '/home/sandbox' } });
	assertRecord((await act('POST', `${sandbox}/files/mkdir`, { path: 'd' })).record, 'make_directory', { args: { path: 'd' } });
	assertRecord((await act('POST', `${sandbox}/files/move`, { from: 'f', to: 'd/f' })).record, 'move_file', { args: { from: 'f', to: 'd/f' } });
	const before = (await daemon.request('GET', '/v1/audit?newest=true&limit=1')).json.cursor;

	assert.equal((await daemon.request('GET', `${sandbox}/files?path=/home/sandbox/d/f`)).text, CONTENT);
	assert.equal((await daemon.request('GET', '/v1/audit?newest=true&limit=1')).json.cursor, before); // reading is none
	assertRecord((await act('DELETE', `${sandbox}/files?path=d&recursive=true`)).record, 'remove_file', { args: { path: 'd', recursive: true } });

	const viewer = await Viewer.open(daemon, id, { command: 'cat' }, {
		headers: { Authorization: `Bearer ${daemon.key}`, 'X-Request-Id': 'terminal-1' },
	});

	viewer.socket.send(Buffer.from(`${TYPED}\n`));
	assertRecord(await recordOf('terminal-1'), 'open_terminal', { args: { command: 'cat' }, outcome: { terminal_id: viewer.id } });
	assertRecord((await act('DELETE', `${sandbox}/terminals/${viewer.id}`)).record, 'end_terminal', { args: { terminal_id: viewer.id } });
	await viewer.closed;
});

test('lives', { timeout: 10 * 60_000 }, async () => {
	const sandbox = `/v1/sandboxes/${id}`;

	assertRecord((await act('POST', `${sandbox}/pause`)).record, 'pause_sandbox', { outcome: { status: 'paused' } });
	assertRecord((await act('POST', `${sandbox}/resume`)).record, 'resume_sandbox', { outcome: { status: 'running' } });
	assertRecord((await act('POST', `${sandbox}/extend`, { additional_minutes: 3 })).record, 'extend_sandbox', { args: { additional_minutes: 3 } });
	const fork = await act('POST', `${sandbox}/fork`, { count: 2 });
	const children = fork.answer.json.sandboxes.map((child) => child.id);

	assertRecord(fork.record, 'fork_sandbox', { args: { count: 2 }, outcome: { sandboxes: children } });
	for (const child of children)
		assertRecord((await act('DELETE', `/v1/sandboxes/${child}`)).record, 'destroy_sandbox', { sandbox: child, outcome: { status: 'destroyed' } });
});

test('stats: what it takes of its host is seen', { timeout: 5 * 60_000 }, async () => {
	const route = `/v1/sandboxes/${id}/stats`;

	await act('POST', `/v1/sandboxes/${id}/exec`, { command: 'while :; do :; done', background: true, timeout_ms: 300_000 });
	for (const until = Date.now() + WAIT_MS; ; await sleep(500)) {
		const { json: stats } = await daemon.request('GET', route);

		if (stats.samples.some(({ cpu_percent: percent }) => percent > 20)) {
			assert.ok(stats.samples.length <= 60 && stats.cpu_seconds > 0 && stats.vcpus === 1 && stats.memory_mb === 1024);
			for (const sample of stats.samples) {
				assert.ok(sample.memory_bytes > 0 && sample.memory_bytes < 4 * 2 ** 30, JSON.stringify(sample));
				assert.ok(sample.cpu_percent >= 0 && sample.cpu_percent < 800, JSON.stringify(sample));
			}
			assert.deepEqual(stats.samples.map(({ at }) => at), stats.samples.map(({ at }) => at).sort());
			break;
		}
		assert.ok(Date.now() < until, JSON.stringify(stats));
	}
	const read = async () => parseMetrics((await daemon.request('GET', '/metrics')).text);
	let metrics = await read();

	// A look at all sandboxes ends some time after its first sample is shown.
	for (const until = Date.now() + WAIT_MS; !(metrics.value('skerry_sandbox_cpus') > 0) && Date.now() < until; await sleep(200))
		metrics = await read();
	assert.equal(metrics.value('skerry_sandboxes', { status: 'running' }), 1);
	assert.equal(metrics.value('skerry_commands'), 1);
	assert.ok(metrics.value('skerry_sandbox_memory_bytes') > 0 && metrics.value('skerry_sandbox_cpus') > 0);
	assert.equal(metrics.value('skerry_sandbox_memory_promised_bytes'), 1024 * 2 ** 20);
	for (const [step, count] of Object.entries({ create: 1, pause: 1, resume: 1, fork: 1, destroy: 2 }))
		assert.equal(metrics.value('skerry_lifecycle_seconds_count', { step }), count, step);
	assert.ok(metrics.value('skerry_lifecycle_seconds_count', { step: 'command_start' }) >= 25);
	assert.equal(metrics.value('skerry_events_total', { type: 'sandbox_forked' }), 1);
});

test('a command whose daemon dies is interrupted, and nothing secret is in any file', { timeout: 5 * 60_000 }, async () => {
	const running = daemon.request('POST', `/v1/sandboxes/${id}/exec`, { command: 'sleep 600' }, { 'X-Request-Id': 'interrupted-1' }).catch(() => {});

	for (const until = Date.now() + WAIT_MS; ; await sleep(50)) {
		const { json } = await daemon.request('GET', '/v1/events?newest=true&limit=5&type=exec_started');

		if (json.items.some(({ data }) => data.command === 'sleep 600'))
			break;
		assert.ok(Date.now() < until);
	}
	await daemon.kill();
	await running;
	await daemon.start();
	const record = await recordOf('interrupted-1');

	assert.deepEqual([record.operation, record.result, record.sandbox_id, record.args.command], ['exec', 'interrupted', id, 'sleep 600']);
	assert.equal((await daemon.request('GET', '/v1/audit/verify')).json.ok, true);
	for (const name of fs.readdirSync(daemon.stateDir).filter((file) => file.startsWith('audit.db'))) {
		const bytes = fs.readFileSync(path.join(daemon.stateDir, name));

		for (const secret of [...SECRETS, daemon.key])
			assert.equal(bytes.includes(secret), false, `${name} has ${secret}`);
	}
});
