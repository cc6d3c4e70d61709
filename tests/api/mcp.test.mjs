// The tools end to end, in real sandboxes, by the official SDK clients in both eras.

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';

import { encode } from 'gpt-tokenizer';

import { Checker } from './lib/checker.mjs';
import { runSkerry } from './lib/cli.mjs';
import { startDaemon } from './lib/daemon.mjs';
import { LEGACY, clientKinds, connect, modern, post, request, textOf } from './lib/mcp.mjs';

const TOOLS = ['list_sandboxes', 'create_sandbox', 'exec', 'exec_wait', 'extend_sandbox', 'destroy_sandbox',
	'pause_sandbox', 'resume_sandbox', 'fork_sandbox', 'set_egress', 'expose_port'];
const EXEC_WAIT_MS = 8000; // shortened, so that a long command does not take the test's time
const HEARTBEAT_MS = 1000; // and so is this

let daemon;
before(async () => {
	daemon = await startDaemon({ config: { limits: { mcp_exec_wait_ms: EXEC_WAIT_MS, stream_heartbeat_ms: HEARTBEAT_MS } } });
	await daemon.ensureImage('base');
});
after(() => daemon?.stop());

// Asks again until the answer is as it should be: the machine may be busy with other things.
async function until(ask, good, withinMs = 60_000) {
	for (const end = Date.now() + withinMs; ; await sleep(200)) {
		const answer = await ask();

		if (good(answer))
			return answer;
		assert.ok(Date.now() < end, `still ${JSON.stringify(answer)}`);
	}
}

for (const kind of clientKinds)
	describe(kind.name, { concurrency: 1 }, () => {
		let mcp, checker, sandbox;
		const call = async (name, args, options) =>
			checker.check(name, await mcp.callTool({ name, arguments: args }, options));
		const exec = (command, more = {}, options) => call('exec', { sandbox_id: sandbox.id, command, ...more }, options);

		before(async () => {
			mcp = await connect(daemon, kind);
			checker = new Checker((await mcp.client.listTools()).tools);
		});
		after(() => mcp?.client.close());

		test('speaks the version and says how to begin', () => {
			if (!kind.old)
				assert.equal(mcp.client.getNegotiatedProtocolVersion(), kind.version);
			assert.equal(mcp.client.getServerVersion().name, 'skerry');
			assert.match(mcp.client.getInstructions(), /create_sandbox/);
		});

		test('create_sandbox', { timeout: 120_000 }, async () => {
			sandbox = await call('create_sandbox', { size: 'small', timeout_minutes: 10 });
			assert.match(sandbox.id, /^sbx_[0-9a-f]{8,16}$/);
			assert.equal(sandbox.status, 'running');
			assert.equal(sandbox.size, 'small');
			assert.ok(Math.abs(Date.parse(sandbox.expires_at) - Date.now() - 600_000) < 30_000);
		});

		test('exec: output apart, exit code, state between calls, cwd, env, stdin', async () => {
			const first = await exec('echo out; echo err >&2; echo kept > file; exit 3');
			assert.equal(first.stdout, 'out\n');
			assert.equal(first.stderr, 'err\n');
			assert.equal(first.exit_code, 3);
			assert.equal(first.truncated, false);

			const second = await exec('cat; echo $WHO in $PWD; cat ~/file', {
				cwd: '/tmp',
				env: { WHO: 'agent' },
				stdin: 'fed\n',
			});
			assert.equal(second.stdout, 'fed\nagent in /tmp\nkept\n');
		});

		test('exec: much output is cut in the middle, and small by default', async () => {
			const answer = await exec('seq 1 100000');

			assert.equal(answer.truncated, true);
			assert.equal(answer.stdout_bytes, 588895);
			assert.ok(answer.stdout.startsWith('1\n2\n') && answer.stdout.endsWith('99999\n100000\n'));
			assert.match(answer.stdout, /bytes left out/);
			assert.ok(answer.stdout.length < 11_000, `${answer.stdout.length} characters`);
			const whole = await exec('seq 1 100000', { max_output_bytes: 1 << 20 });
			assert.equal(whole.stdout.length, 588895);
		});

		test('exec: its own deadline', async () => {
			const answer = await exec('echo begun; sleep 60', { timeout_ms: 3000 });

			assert.equal(answer.timed_out, true);
			assert.equal(answer.exit_code, 124);
			assert.equal(answer.stdout, 'begun\n');
		});

		test('a long command answers with a handle, with progress on the way', { timeout: 120_000 }, async () => {
			const reports = [];
			const began = Date.now();
			const running = await exec(
				'for i in $(seq 1 100); do echo line $i; sleep 0.1; done; echo end',
				{},
				{ onprogress: (report) => reports.push(report) }
			);

			assert.equal(running.running, true);
			assert.equal(running.exit_code, null);
			assert.ok(Math.abs(Date.now() - began - EXEC_WAIT_MS) < 3000, `answered after ${Date.now() - began} ms`);
			assert.ok(reports.length > 0);
			assert.match(reports.at(-1).message, /line \d+\n?$/);
			for (let i = 1; i < reports.length; i++)
				assert.ok(reports[i].progress > reports[i - 1].progress);

			const ended = await until(
				() => call('exec_wait', { sandbox_id: sandbox.id, exec_id: running.exec_id }),
				(answer) => !answer.running
			);
			assert.equal(ended.exit_code, 0);
			assert.ok(ended.stdout.startsWith('line 1\n') && ended.stdout.endsWith('line 100\nend\n'));
		});

		test('exec_wait: background, input, offsets, signals', async () => {
			const { exec_id } = await exec('read x; echo got $x; sleep 100', { background: true, stdin_open: true });
			const wait = (args) => call('exec_wait', { sandbox_id: sandbox.id, exec_id, ...args });

			await wait({ stdin: 'word\n', wait_ms: 0 });
			const heard = await until(() => wait({ wait_ms: 500 }), (answer) => answer.stdout);
			assert.equal(heard.stdout, 'got word\n');
			const rest = await wait({ from_offset: 4, wait_ms: 0 });
			assert.equal(rest.stdout, 'word\n');
			await wait({ signal: 'SIGTERM', wait_ms: 0 });
			const ended = await until(wait, (answer) => !answer.running);
			assert.equal(ended.signal, 'SIGTERM');
			assert.equal(ended.exit_code, 143);
		});

		test('what the caller leaves behind goes on', { timeout: 120_000 }, async () => {
			const gone = new AbortController();
			const call = mcp.callTool(
				{ name: 'exec', arguments: { sandbox_id: sandbox.id, command: 'sleep 3; touch went-on' } },
				{ signal: gone.signal }
			);

			setTimeout(() => gone.abort(), 1000);
			await assert.rejects(call);
			assert.equal((await exec('test -e went-on')).exit_code, 1);
			await until(() => exec('test -e went-on'), (answer) => answer.exit_code === 0);
		});

		test('failures say what failed, the state now and what to do next', async () => {
			const failures = {
				'a sandbox that does not exist': ['exec', { sandbox_id: 'sbx_00000000', command: 'true' }, /not_found.*list_sandboxes/],
				'a command that does not exist': ['exec_wait', { sandbox_id: sandbox.id, exec_id: 'exec_0000000000000000' }, /exec_not_found.*State now: sandbox sbx_\w+ is running.*call exec/],
				'a folder that does not exist': ['exec', { sandbox_id: sandbox.id, command: 'true', cwd: '/no/such' }, /\/no\/such/],
				'a user who does not exist': ['exec', { sandbox_id: sandbox.id, command: 'true', user: 'nobody-here' }, /nobody-here/],
				'too long a life': ['extend_sandbox', { sandbox_id: sandbox.id, additional_minutes: 1440 }, /limit_reached.*1440/],
			};

			for (const [what, [name, args, expected]] of Object.entries(failures)) {
				const result = await mcp.callTool({ name, arguments: args });

				assert.equal(result.isError, true, what);
				assert.equal(result.structuredContent, undefined, what);
				assert.match(textOf(result).replaceAll('\n', ' '), expected, what);
			}
		});

		test('extend_sandbox, list_sandboxes, destroy_sandbox', async () => {
			const extended = await call('extend_sandbox', { sandbox_id: sandbox.id, additional_minutes: 5 });
			assert.equal(Date.parse(extended.expires_at) - Date.parse(sandbox.expires_at), 300_000);

			const { items } = await call('list_sandboxes', { sandbox_id: sandbox.id });
			assert.equal(items.length, 1);
			assert.equal(items[0].expires_at, extended.expires_at);

			assert.deepEqual(await call('destroy_sandbox', { sandbox_id: sandbox.id }), { id: sandbox.id, status: 'destroyed' });
			assert.deepEqual(await call('destroy_sandbox', { sandbox_id: sandbox.id }), { id: sandbox.id, status: 'destroyed' });
			assert.equal((await call('list_sandboxes', {})).items.length, 0);

			const late = await mcp.callTool({ name: 'exec', arguments: { sandbox_id: sandbox.id, command: 'true' } });
			assert.equal(late.isError, true);
			assert.match(textOf(late), /destroyed[^]*create_sandbox/);
		});
	});

describe('definitions', () => {
	let tools;
	before(async () => {
		tools = (await post(daemon, { body: request('tools/list') })).json.result.tools;
	});

	test('the order is fixed, the harmless one first', () => assert.deepEqual(tools.map((tool) => tool.name), TOOLS));

	test('are complete', () => {
		for (const tool of tools) {
			assert.match(tool.name, /^[a-z0-9_]{1,30}$/);
			assert.ok(tool.title && tool.description);
			assert.equal(tool.inputSchema.type, 'object');
			assert.equal(tool.inputSchema.additionalProperties, false);
			assert.equal(tool.outputSchema.type, 'object');
			for (const schema of [tool.inputSchema, tool.outputSchema])
				for (const word of ['oneOf', 'anyOf', 'allOf', '$ref'])
					assert.equal(schema[word], undefined);
			for (const hint of ['readOnlyHint', 'destructiveHint', 'idempotentHint', 'openWorldHint'])
				assert.equal(typeof tool.annotations[hint], 'boolean');
		}
		assert.equal(typeof tools[2]._meta['anthropic/maxResultSizeChars'], 'number');
	});

	test('are the same in both eras', async () => {
		assert.deepEqual((await post(daemon, modern('tools/list'))).json.result.tools, tools);
	});

	test('take less than 2000 tokens (o200k)', () => {
		const tokens = encode(JSON.stringify(tools)).length;

		assert.ok(tokens < 2000, `${tokens} tokens`);
	});

	test('the first one does no harm with {}', async () => {
		const answer = await post(daemon, { body: request('tools/call', { name: tools[0].name, arguments: {} }) });

		assert.deepEqual(answer.json.result.structuredContent.items, []);
	});
});

// Values that no argument of this schema takes.
function wrongValues(schema, required) {
	const others = { string: 'text', integer: 7, number: 1.5, boolean: true, object: { a: 'b' }, array: ['x'] };
	const types = [schema.type].flat();
	const wrong = Object.entries(others)
		.filter(([type]) => !types.includes(type) && !(type === 'integer' && schema.type === 'number'))
		.map(([, value]) => value);

	if (schema.type === 'integer') {
		wrong.push(-1e300, '7');
		if (schema.minimum !== undefined)
			wrong.push(schema.minimum - 1);
		if (schema.maximum !== undefined && schema.maximum < 2 ** 53)
			wrong.push(schema.maximum + 1);
	}
	if (schema.type === 'number')
		wrong.push(schema.minimum - 1, schema.maximum + 1);
	if (schema.type === 'string' && schema.enum)
		wrong.push('no-such-choice', '');
	if (schema.type === 'object')
		wrong.push({ key: 7 }, { '': 'x' });
	if (types.includes('array'))
		wrong.push([7], [null], [''], ['a\0b']);
	if (required)
		wrong.push(undefined, ...(types.includes('null') ? [] : [null]));
	return wrong;
}

describe('wrong arguments', { concurrency: 1 }, () => {
	let tools, sandbox;
	const call = async (name, args) => {
		const { status, json } = await post(daemon, { body: request('tools/call', { name, arguments: args }) });

		assert.equal(status, 200);
		return json;
	};
	const state = async () => JSON.stringify(await daemon.sandboxes());

	// Each with arguments that would do something if a wrong one were let through.
	const good = () => ({
		list_sandboxes: {},
		create_sandbox: { size: 'small' },
		exec: { sandbox_id: sandbox.id, command: 'touch /tmp/it-ran' },
		exec_wait: { sandbox_id: sandbox.id, exec_id: 'exec_0000000000000000' },
		extend_sandbox: { sandbox_id: sandbox.id, additional_minutes: 1 },
		destroy_sandbox: { sandbox_id: sandbox.id },
		set_egress: { sandbox_id: sandbox.id, rules: [] },
		expose_port: { sandbox_id: sandbox.id, port: 8000 },
	});

	before(async () => {
		tools = (await post(daemon, { body: request('tools/list') })).json.result.tools;
		sandbox = (await call('create_sandbox', { size: 'small' })).result.structuredContent;
	});

	for (const name of TOOLS)
		test(`${name}: every argument`, async () => {
			const { inputSchema } = tools.find((tool) => tool.name === name);
			const before = await state();
			const refused = async (args, argument, shown) => {
				const { result } = await call(name, args);

				assert.equal(result?.isError, true, `${shown} was taken`);
				assert.match(textOf(result), /invalid_argument/, shown);
				assert.ok(textOf(result).includes(argument), `${shown}: ${textOf(result)}`);
			};

			await refused({ ...good()[name], no_such_argument: 1 }, 'no_such_argument', 'an unknown argument');
			for (const [argument, schema] of Object.entries(inputSchema.properties)) {
				const required = inputSchema.required?.includes(argument);

				for (const value of wrongValues(schema, required))
					await refused({ ...good()[name], [argument]: value }, argument, `${argument}: ${JSON.stringify(value)}`);
				if (schema.type === 'string' && argument !== 'stdin')
					await refused({ ...good()[name], [argument]: 'a\0b' }, argument, `${argument} with a NUL`);
			}
			assert.equal(await state(), before);
		});

	test('and none of it was done', async () => {
		const { result } = await call('exec', { sandbox_id: sandbox.id, command: 'ls /tmp/it-ran' });

		assert.notEqual(result.structuredContent.exit_code, 0);
		await call('destroy_sandbox', { sandbox_id: sandbox.id });
	});
});

describe('streams', { concurrency: 1 }, () => {
	let sandbox;
	const exec = (command, meta, headers = {}) => ({
		body: request('tools/call', { name: 'exec', arguments: { sandbox_id: sandbox.id, command }, ...(meta && { _meta: meta }) }),
		headers,
	});

	before(async () => {
		const { json } = await post(daemon, { body: request('tools/call', { name: 'create_sandbox', arguments: { size: 'small' } }) });

		sandbox = json.result.structuredContent;
	});
	after(() => daemon.request('DELETE', `/v1/sandboxes/${sandbox.id}`));

	test('a command answers as a stream without ids, and proxies do not hold it back', async () => {
		const { headers, text, events } = await post(daemon, exec('echo hi'));

		assert.match(headers['content-type'], /^text\/event-stream/);
		assert.equal(headers['x-accel-buffering'], 'no');
		assert.doesNotMatch(text, /^id:/m);
		assert.equal(events.length, 1);
		assert.equal(events[0].result.structuredContent.stdout, 'hi\n');
	});

	test('the first bytes come at once', async () => {
		const began = Date.now();
		const { body, headers } = exec('sleep 3');
		const response = await fetch(new URL('/mcp', daemon.url), {
			method: 'POST',
			headers: {
				Authorization: `Bearer ${daemon.key}`,
				'Content-Type': 'application/json',
				Accept: 'text/event-stream, application/json',
				...headers,
			},
			body: JSON.stringify(body),
		});
		const reader = response.body.getReader();

		await reader.read();
		assert.ok(Date.now() - began < 1000, `first bytes after ${Date.now() - began} ms`);
		await reader.cancel();
	});

	test('a client that takes JSON only gets JSON', async () => {
		for (const accept of ['application/json', '*/*']) {
			const { headers, json } = await post(daemon, exec('echo hi', { progressToken: 1 }, { Accept: accept }));

			assert.match(headers['content-type'], /^application\/json/);
			assert.equal(json.result.structuredContent.stdout, 'hi\n');
		}
	});

	test('progress only with a token, which may be 0 or a word; comments while there is nothing else', async () => {
		const run = async (progressToken) => {
			const meta = progressToken === undefined ? {} : { progressToken };
			const { text, events } = await post(daemon, exec('echo begun; sleep 7', meta));

			return {
				comments: text.match(/^:/gm).length,
				reports: events.filter(({ method }) => method === 'notifications/progress').map(({ params }) => params),
			};
		};
		const [none, zero, word] = await Promise.all([run(), run(0), run('word')]);

		assert.deepEqual(none.reports, []);
		assert.ok(none.comments >= 4, `${none.comments} comments in 7 s`);
		for (const [{ reports }, token] of [[zero, 0], [word, 'word']]) {
			assert.ok(reports.length >= 3, `${reports.length} reports in 7 s`);
			assert.ok(reports.every(({ progressToken }) => progressToken === token));
			assert.ok(reports.every(({ progress }, i) => i === 0 || progress > reports[i - 1].progress));
			assert.equal(reports[0].message, 'still running');
			assert.equal(reports.at(-1).message, 'begun\n');
		}
	});

	test('notifications/cancelled of a legacy client ends its own call, with no answer', async () => {
		const headers = { 'MCP-Protocol-Version': LEGACY, 'User-Agent': 'one' };
		const cancel = (requestId, agent) =>
			post(daemon, {
				body: { jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId } },
				headers: { ...headers, 'User-Agent': agent },
			});
		const began = Date.now();
		const call = post(daemon, { ...exec('sleep 5; touch /tmp/cancelled-went-on', undefined, headers) });

		await sleep(1000);
		assert.equal((await cancel('1', 'one')).status, 202); // another id: a string
		assert.equal((await cancel(2, 'one')).status, 202);
		assert.equal((await cancel(1, 'two')).status, 202); // another client
		await sleep(500);
		assert.equal((await cancel(1, 'one')).status, 202);
		assert.deepEqual((await call).events, []);
		assert.ok(Date.now() - began > 1400 && Date.now() - began < 4000, `ended after ${Date.now() - began} ms`);
		await until(
			() => post(daemon, exec('test -e /tmp/cancelled-went-on')),
			({ json }) => json.result.structuredContent.exit_code === 0
		);
	});

	test('a batch of 2025-03-26 with commands in it', async () => {
		const body = [
			{ ...exec('sleep 1; echo slow').body, id: 'slow' },
			{ ...exec('echo quick').body, id: 'quick' },
			request('ping', undefined, 'ping'),
		];
		const { json } = await post(daemon, { body, headers: { Accept: 'application/json' } });
		const stdout = (id) => json.find((answer) => answer.id === id).result.structuredContent?.stdout;

		assert.equal(json.length, 3);
		assert.equal(stdout('slow'), 'slow\n');
		assert.equal(stdout('quick'), 'quick\n');
	});
});

describe('one sandbox, every surface', () => {
	test('MCP of both eras, REST and the command line drive the same', { timeout: 120_000 }, async () => {
		const clients = await Promise.all(clientKinds.map((kind) => connect(daemon, kind)));
		const { status, json: sandbox } = await daemon.request('POST', '/v1/sandboxes', { size: 'small' });

		assert.equal(status, 201);
		for (const [i, { callTool }] of clients.entries()) {
			const { structuredContent } = await callTool({
				name: 'exec',
				arguments: { sandbox_id: sandbox.id, command: `echo client ${i} >> shared; wc -l < shared` },
			});

			assert.equal(structuredContent.stdout, `${i + 1}\n`);
		}
		const exec = await daemon.request('POST', `/v1/sandboxes/${sandbox.id}/exec`, { command: 'cat shared' });
		assert.equal(exec.json.stdout, 'client 0\nclient 1\nclient 2\n');

		const typed = await runSkerry(daemon, ['exec', sandbox.id, '--', 'wc -l < shared; exit 7']);
		assert.deepEqual([typed.out, typed.code], ['3\n', 7], typed.err);

		const started = await daemon.request('POST', `/v1/sandboxes/${sandbox.id}/exec`, {
			command: 'sleep 1; echo by rest',
			background: true,
		});
		const picked = await clients[0].callTool({
			name: 'exec_wait',
			arguments: { sandbox_id: sandbox.id, exec_id: started.json.exec_id },
		});
		assert.equal(picked.structuredContent.stdout, 'by rest\n');

		await daemon.request('DELETE', `/v1/sandboxes/${sandbox.id}`);
		for (const { client, callTool } of clients) {
			const { structuredContent } = await callTool({ name: 'list_sandboxes', arguments: { sandbox_id: sandbox.id } });

			assert.equal(structuredContent.items[0].status, 'destroyed');
			await client.close();
		}
	});

	test('a legacy client that hangs up has cancelled nothing', { timeout: 120_000 }, async () => {
		const name = 'hung-up-on';
		const gone = new AbortController();
		const creating = fetch(new URL('/mcp', daemon.url), {
			method: 'POST',
			signal: gone.signal,
			headers: {
				Authorization: `Bearer ${daemon.key}`,
				'Content-Type': 'application/json',
				Accept: 'application/json, text/event-stream',
			},
			body: JSON.stringify(request('tools/call', { name: 'create_sandbox', arguments: { size: 'small', name } })),
		});

		await creating; // the head of the answer has come, the answer has not
		gone.abort();
		const made = await until(
			async () => (await daemon.sandboxes()).find((sandbox) => sandbox.name === name),
			(sandbox) => sandbox?.status === 'running'
		);

		await daemon.request('DELETE', `/v1/sandboxes/${made.id}`);
	});

	test('a sandbox whose creator has gone meanwhile is not left behind', { timeout: 120_000 }, async () => {
		const { callTool, client } = await connect(daemon, clientKinds[0]);
		const gone = new AbortController();
		const creating = callTool({ name: 'create_sandbox', arguments: { size: 'small' } }, { signal: gone.signal });

		setTimeout(() => gone.abort(), 5);
		await assert.rejects(creating);
		await sleep(3000);
		assert.deepEqual(await daemon.sandboxes(), []);
		await client.close();
	});
});
