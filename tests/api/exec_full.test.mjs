// What a command prints is what its caller gets, whatever it is and however much, over every surface; what
// it costs meanwhile; and how calls end when something else does. rest.test, mcp.test and cli.test have the
// plain cases.

import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import fs from 'node:fs';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';

import { startDaemon } from './lib/daemon.mjs';
import { modern, post, request } from './lib/mcp.mjs';
import { events } from './lib/raw.mjs';

const MIB = 1 << 20;
const LOG_BYTES = 20 * MIB; // of each output, kept in the sandbox
const TIMEOUT = 10 * 60_000;

let daemon, id;
before(async () => {
	daemon = await startDaemon({ config: { limits: { stream_heartbeat_ms: 300, exec_log_bytes: LOG_BYTES } } });
	await daemon.ensureImage('base');
	id = await create();
});
after(() => daemon?.stop());

const call = (method, route, body, headers) => daemon.request(method, route, body, headers);

async function good(method, route, body) {
	const answer = await call(method, route, body);

	assert.ok(answer.status < 300, `${method} ${route}: ${answer.status} ${answer.text}`);
	return answer.json;
}

const create = async () => (await good('POST', '/v1/sandboxes', { timeout_minutes: 30 })).id;
const exec = (command, more = {}, sandbox = id) => good('POST', `/v1/sandboxes/${sandbox}/exec`, { command, ...more });

async function stream(command, more = {}, { signal, sandbox = id } = {}) {
	const response = await fetch(new URL(`/v1/sandboxes/${sandbox}/exec`, daemon.url), {
		method: 'POST',
		signal,
		headers: { Authorization: `Bearer ${daemon.key}`, 'Content-Type': 'application/json', Accept: 'text/event-stream' },
		body: JSON.stringify({ command, ...more }),
	});

	assert.equal(response.status, 200);
	return response;
}

const bytesOf = ({ data_base64, data }) => Buffer.from(data_base64 ?? data, data_base64 ? 'base64' : 'utf8');
const sha256 = (bytes) => createHash('sha256').update(bytes).digest('hex');

// What a stream gave: both outputs as bytes, each byte at its offset, and the exit.
async function collect(response, counts) {
	const outputs = { stdout: [], stderr: [] }, ends = { stdout: 0, stderr: 0 };
	let exit;

	for await (const { event, data } of events(response, counts)) {
		if (event === 'exit')
			exit = data;
		if (!outputs[event])
			continue;
		assert.equal(data.offset, ends[event]);
		outputs[event].push(bytesOf(data));
		ends[event] += outputs[event].at(-1).length;
	}
	return { stdout: Buffer.concat(outputs.stdout), stderr: Buffer.concat(outputs.stderr), exit };
}

async function tool(name, args, era) {
	const { json } = await post(daemon, era === 'modern'
		? modern('tools/call', { name, arguments: args })
		: { body: request('tools/call', { name, arguments: args }) });

	return json.result.structuredContent ?? JSON.parse(json.result.content[0].text);
}

const status = (pid, name) => Number(fs.readFileSync(`/proc/${pid}/status`, 'utf8').match(new RegExp(`${name}:\\s+(\\d+)`))[1]) * 1024;
const agentMemory = async (sandbox = id) =>
	Number((await exec('grep VmRSS /proc/1/status', { user: 'root' }, sandbox)).stdout.match(/(\d+) kB/)[1]) * 1024;

describe('every byte, over every surface', { timeout: TIMEOUT }, () => {
	const line = 'y'.repeat(5_000_000);
	const cases = [
		['each byte value, NUL among them', `python3 -c 'import sys; sys.stdout.buffer.write(bytes(range(256)) * 3)'`,
			Buffer.concat(Array(3).fill(Buffer.from(Array.from({ length: 256 }, (_, i) => i))))],
		['NULs alone', 'head -c 1000 /dev/zero', Buffer.alloc(1000)],
		['no newline at the end', "printf 'one\\ntwo'", Buffer.from('one\ntwo')],
		['nothing', 'true', Buffer.alloc(0)],
		['a character in two writes', "printf '\\360\\237'; sleep 0.3; printf '\\230\\200!'", Buffer.from('😀!')],
		['half a character at the end', "printf 'a\\360\\237\\230'", Buffer.from('a😀').subarray(0, 4)],
		['5 MB in one line', `head -c 5000000 /dev/zero | tr '\\0' y`, Buffer.from(line)],
	];

	for (const [what, command, expected] of cases)
		test(what, async () => {
			// UTF-8 as it stands in JSON: what is none becomes U+FFFD.
			const text = expected.toString('utf8');
			const options = { max_output_bytes: 6 * MIB };
			const plain = await exec(command, options);

			assert.equal(plain.stdout_bytes, expected.length);
			assert.equal(plain.truncated, false);
			if (expected.equals(Buffer.from(text)))
				assert.ok(plain.stdout === text);
			else
				assert.match(plain.stdout, /\ufffd/);
			const base64 = await exec(command, { ...options, encoding: 'base64' });

			assert.equal(sha256(Buffer.from(base64.stdout_base64, 'base64')), sha256(expected));
			const streamed = await collect(await stream(command));

			assert.equal(sha256(streamed.stdout), sha256(expected));
			assert.equal(streamed.stderr.length, 0);
			for (const era of ['modern', 'legacy']) {
				const answer = await tool('exec', { sandbox_id: id, command, ...options }, era);

				assert.equal(answer.stdout_bytes, expected.length);
				assert.ok(answer.stdout === plain.stdout, era);
			}
		});

	test('both outputs at once, and each over the cap with head, tail and the whole log', async () => {
		const both = `for i in $(seq 1 2000); do echo out $i; echo err $i >&2; done`;
		const whole = (word) => Array.from({ length: 2000 }, (_, i) => `${word} ${i + 1}\n`).join('');
		const streamed = await collect(await stream(both));

		assert.ok(streamed.stdout.toString() === whole('out') && streamed.stderr.toString() === whole('err'));
		const cut = await exec(both, { max_output_bytes: 3000 });

		for (const [name, word] of [['stdout', 'out'], ['stderr', 'err']]) {
			const [head, left_out, tail] = cut[name].split(/\n… (.*) …\n/);
			const log = `/run/skerry/exec/${cut.exec_id}/${name}`;

			assert.ok(whole(word).startsWith(head) && head.length > 500, cut[name]);
			assert.ok(whole(word).endsWith(tail) && tail.length > 500, cut[name]);
			assert.ok(left_out.includes(log), left_out);
			assert.ok(left_out.includes(String(whole(word).length - head.length - tail.length)), left_out);
			assert.equal((await exec(`sha256sum <${log}`)).stdout.split(' ')[0], sha256(whole(word)));
		}
		assert.deepEqual([cut.truncated, cut.stdout_bytes, cut.stderr_bytes], [true, whole('out').length, whole('err').length]);
	});
});

describe('much output is bounded memory', { timeout: TIMEOUT }, () => {
	const print = (bytes) => `head -c ${bytes} /dev/zero | tr '\\0' z`;
	const report = [];
	let daemonBefore, agentBefore;

	before(async () => {
		await exec('true');
		daemonBefore = status(daemon.pid, 'VmRSS');
		agentBefore = await agentMemory();
	});
	after(() => console.log(report.join('\n')));

	// The highest that the daemon has while something runs.
	async function watched(what, fn) {
		let top = 0, over = false;
		const watch = (async () => {
			while (!over) {
				top = Math.max(top, status(daemon.pid, 'VmRSS'));
				await sleep(20);
			}
		})();
		const result = await fn();

		over = true;
		await watch;
		const agent = await agentMemory();

		report.push(`${what}: daemon ${(daemonBefore / MIB).toFixed(1)} → ${(top / MIB).toFixed(1)} MiB at most, ` +
			`agent ${(agentBefore / MIB).toFixed(1)} → ${(agent / MIB).toFixed(1)} MiB`);
		assert.ok(top - daemonBefore < 160 * MIB, report.at(-1));
		assert.ok(agent - agentBefore < 8 * MIB, report.at(-1));
		return result;
	}

	test('100 MB through an answer of 16 MiB', async () => {
		const answer = await watched('one answer', () => exec(print(100_000_000), { max_output_bytes: 16 * MIB, timeout_ms: 600_000 }));

		assert.equal(answer.stdout_bytes, 100_000_000);
		assert.equal(answer.truncated, true);
		assert.ok(answer.stdout.length > 15 * MIB && answer.stdout.length < 16 * MIB + 400);
		assert.match(answer.stdout.slice(0, 1000), /^z+$/);
		assert.match(answer.stdout.slice(-1000), /^z+$/);
	});

	test('more than the log keeps through a stream, none of it missing', async () => {
		await watched('one stream', async () => {
			let bytes = 0, exit;

			for await (const { event, data } of events(await stream(print(30_000_000), { timeout_ms: 600_000 }))) {
				assert.notEqual(event, 'gap');
				if (event === 'stdout') {
					assert.equal(data.offset, bytes);
					assert.match(data.data, /^z+$/);
					bytes += data.data.length;
				}
				exit = event === 'exit' ? data : exit;
			}
			assert.equal(bytes, 30_000_000);
			assert.equal(exit.stdout_bytes, 30_000_000);
		});
	});

	// What nobody reads must not hold the command back: there is more of it than its log holds.
	test('a client that leaves in the middle of it does not stop the command', async () => {
		await watched('a client that left', async () => {
			const gone = new AbortController();
			const response = await stream(`${print(30_000_000)}; echo over >~/over`, { timeout_ms: 600_000 }, { signal: gone.signal });
			const seen = events(response);
			const { value: started } = await seen.next();

			await seen.next();
			gone.abort();
			const end = await good('GET', `/v1/sandboxes/${id}/exec/${started.data.exec_id}?wait_ms=300000`);

			assert.deepEqual([end.running, end.exit_code, end.stdout_bytes], [false, 0, 30_000_000]);
			assert.equal((await exec('cat ~/over')).stdout, 'over\n');
		});
	});
});

describe('many at once', { timeout: TIMEOUT }, () => {
	test('64 commands in one sandbox, each with its own answer; one more is refused with a reason', async () => {
		const numbers = Array.from({ length: 64 }, (_, i) => i);
		const answers = await Promise.all(numbers.map((i) =>
			exec(`read word; echo "out $word"; echo "err ${i}" >&2; exit ${i}`, { stdin: `${i}\n` })));

		for (const i of numbers)
			assert.deepEqual([answers[i].stdout, answers[i].stderr, answers[i].exit_code], [`out ${i}\n`, `err ${i}\n`, i]);
		const held = await Promise.all(numbers.map(() => exec('exec sleep 900', { background: true })));
		const refused = await call('POST', `/v1/sandboxes/${id}/exec`, { command: 'true' });

		assert.equal(refused.json?.code, 'exec_limit', refused.text);
		for (const { exec_id } of held)
			await good('POST', `/v1/sandboxes/${id}/exec/${exec_id}/signal`, { signal: 'SIGKILL' });
		for (const { exec_id } of held)
			assert.equal((await good('GET', `/v1/sandboxes/${id}/exec/${exec_id}?wait_ms=60000`)).signal, 'SIGKILL');
		assert.equal((await exec('echo again')).stdout, 'again\n');
	});
});

describe('ends', { timeout: TIMEOUT }, () => {
	test('commands are listed: those that run, then those that have ended, the newest first', async () => {
		const sandbox = await create();
		const list = async () => (await good('GET', `/v1/sandboxes/${sandbox}/exec`)).items;

		assert.deepEqual(await list(), []);
		const failed = await exec('echo out; echo error >&2; exit 7', {}, sandbox);
		const long = await exec(`: ${'x'.repeat(300)}`, {}, sandbox);
		const { exec_id: runs } = await exec('sleep 1000', { background: true }, sandbox);

		await good('GET', `/v1/sandboxes/${sandbox}/files/list?path=/`); // is no command
		const [first, second, third, ...rest] = await list();

		assert.deepEqual(rest, []);
		assert.deepEqual([first.exec_id, second.exec_id, third.exec_id], [runs, long.exec_id, failed.exec_id]);
		assert.equal(first.running, true);
		assert.equal(first.exit_code, null);
		assert.equal(first.command, 'sleep 1000');
		assert.equal(second.command_truncated, true);
		assert.equal(second.command, `: ${'x'.repeat(238)}`);
		assert.equal(third.command_truncated, undefined);
		assert.deepEqual([third.running, third.exit_code, third.stdout_bytes, third.stderr_bytes], [false, 7, 4, 6]);
		assert.ok(Math.abs(Date.now() - Date.parse(third.started_at)) < 5 * 60_000, third.started_at);
		await good('POST', `/v1/sandboxes/${sandbox}/exec/${runs}/signal`, { signal: 'SIGKILL' });
		await good('GET', `/v1/sandboxes/${sandbox}/exec/${runs}?wait_ms=60000`);
		assert.deepEqual((await list()).map((one) => [one.exec_id, one.signal]), [[runs, 'SIGKILL'], [long.exec_id, null], [failed.exec_id, null]]);
		assert.equal((await call('GET', '/v1/sandboxes/sbx_00000000/exec')).status, 404);
		await good('DELETE', `/v1/sandboxes/${sandbox}`);
	});

	test('a timeout leaves no descendant: setsid, nohup, a double fork, one that ignores signals', async () => {
		const answer = await exec(
			`trap '' TERM HUP INT; setsid sleep 7101 & nohup sleep 7102 >/dev/null 2>&1 & (setsid sleep 7103 &) ;
			python3 -c 'import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execlp("sleep", "sleep", "7104")
    os._exit(0)
os.wait()' ; echo began; sleep 7105`, { timeout_ms: 3000 });

		assert.deepEqual([answer.timed_out, answer.exit_code, answer.stdout], [true, 124, 'began\n']);
		assert.equal((await exec("pgrep -fc '^sleep 71' || true")).stdout, '0\n');
	});

	test('a quiet command has heartbeats, and a stream that broke goes on where it was', async () => {
		const gone = new AbortController(), counts = {};
		const response = await stream('echo early; sleep 4; echo late', {}, { signal: gone.signal });
		const seen = events(response, counts);
		const { value: started } = await seen.next();

		assert.equal((await seen.next()).value.data.data, 'early\n');
		const silent = seen.next().catch(() => undefined);

		while ((counts.comments ?? 0) < 3)
			await sleep(50);
		gone.abort();
		await silent;
		const again = await fetch(new URL(`/v1/sandboxes/${id}/exec/${started.data.exec_id}?from_offset=6`, daemon.url), {
			headers: { Authorization: `Bearer ${daemon.key}`, Accept: 'text/event-stream' },
		});
		const rest = [];

		for await (const event of events(again))
			rest.push(event);
		assert.deepEqual(rest.filter((e) => e.event === 'stdout').map((e) => e.data), [{ offset: 6, data: 'late\n' }]);
		assert.equal(rest.at(-1).event, 'exit');
	});

	for (const [what, end, reason] of [
		['its kernel panics', (victim) => exec('echo 1 >/proc/sys/kernel/sysrq; sleep 1; echo c >/proc/sysrq-trigger',
			{ user: 'root', background: true }, victim), 'guest_crashed'],
		['it is destroyed', (victim) => good('DELETE', `/v1/sandboxes/${victim}`), 'destroyed_by_user'],
	])
		test(`a sandbox that ends (${what}) ends what waits for it, with the reason; another goes on`, async () => {
			const victim = await create();
			const waiting = call('POST', `/v1/sandboxes/${victim}/exec`, { command: 'sleep 1000' });
			const streaming = stream('echo began; sleep 1000', {}, { sandbox: victim }).then(async (response) => {
				let last;

				for await (const event of events(response))
					last = event;
				return last;
			});

			await sleep(1000);
			await end(victim);
			const answer = await waiting, last = await streaming;

			assert.equal(answer.status, 410, answer.text);
			assert.equal(answer.json.code, 'sandbox_ended');
			assert.ok(answer.json.detail.includes(reason), answer.json.detail);
			assert.equal(last.event, 'error');
			assert.equal(last.data.code, 'sandbox_ended');
			assert.equal((await exec('echo fine')).stdout, 'fine\n');
			while ((await good('GET', `/v1/sandboxes/${victim}`)).status !== 'destroyed')
				await sleep(50); // its waiters hear of it while it is still being destroyed
			const late = await call('POST', `/v1/sandboxes/${victim}/exec`, { command: 'true' });

			assert.equal(late.json.code, 'sandbox_ended', late.text);
		});
});
