// The programs of examples/, run as their READMEs say, against a daemon with real sandboxes. The agent frameworks
// are those that are published; only their language model is a stand-in.

import assert from 'node:assert/strict';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';

import { repository, startDaemon } from '../api/lib/daemon.mjs';
import { startModel } from './lib/model.mjs';
import { folderOf, run, runExample } from './lib/run.mjs';

const idIn = (result) => /sbx_[0-9a-f]+/.exec(result)[0];

// What a model would do with the task; the text at the end is made of what the command has printed.
const script = [
	() => ({ tool: 'create_sandbox', args: { size: 'small', timeout_minutes: 10 } }),
	([created]) => ({ tool: 'exec', args: { sandbox_id: idIn(created), command: `python3 -c 'print("answer =", 6 * 7)'` } }),
	([created]) => ({ tool: 'exec', args: { sandbox_id: idIn(created), command: 'true', cwd: '/nowhere' } }),
	([created]) => ({ tool: 'destroy_sandbox', args: { sandbox_id: idIn(created) } }),
	([, ran, refused]) => ({ text: `It is ${/answer = (\d+)/.exec(ran)[1]}; ${/\/nowhere/.exec(refused)[0]} is missing.` }),
];

describe('examples', { timeout: 20 * 60_000 }, () => {
	let daemon, env;

	before(async () => {
		daemon = await startDaemon();
		await daemon.ensureImage('base');
		env = { SKERRY_URL: daemon.url, SKERRY_API_KEY: daemon.key };
	});
	after(() => daemon?.stop());

	const nothingIsLeft = async () => assert.deepEqual(await daemon.sandboxes(), []);

	for (const name of ['mcp-client', 'openai-agents', 'langchain', 'ai-sdk'])
		test(`${name}: a sandbox is made, used and destroyed`, async () => {
			const model = await startModel(script);

			try {
				const { code, stdout, stderr } = await runExample(name, ['main.mjs', 'What is 6 times 7?'], {
					...env, OPENAI_BASE_URL: model.url, OPENAI_API_KEY: 'none', OPENAI_MODEL: 'stand-in', OPENAI_AGENTS_DISABLE_TRACING: '1',
				});

				assert.equal(code, 0, stderr);
				assert.equal(stdout, 'It is 42; /nowhere is missing.\n');
				assert.match(JSON.stringify(model.requests[0]), /What is 6 times 7\?/);
				for (const tool of ['create_sandbox', 'exec', 'fork_sandbox', 'destroy_sandbox'])
					assert.ok(model.tools.some((one) => one.name === tool), `the model was offered ${tool}`);
				assert.ok(model.tools.find((one) => one.name === 'exec').parameters.properties.command);
				const { items } = (await daemon.request('GET', '/v1/sandboxes?status=destroyed')).json;

				assert.equal(items[0].id, idIn(JSON.stringify(model.requests.at(-1))));
				await nothingIsLeft();
			} finally {
				model.close();
			}
		});

	test('fork-patterns: the smaller of two fixes that work wins, and goes on', async () => {
		const { code, stdout, stderr } = await runExample('fork-patterns', ['main.mjs', '3', '4', '7'], env);

		assert.equal(code, 0, stderr);
		assert.match(stdout, /^fails {3}4 of 8 tests {2}3-rest-to-last/m);
		assert.match(stdout, /^passes {2}8 of 8 tests {2}4-largest-remainder/m);
		assert.match(stdout, /^winner: 7-running-total$/m);
		assert.match(stdout, /^diff --git a\/shop\/money\.py[^]*^-.*round\([^]*^\+.*sum\(shares/m);
		assert.match(stdout, /Fix split\(\): 7-running-total\n[^]*The shop, with a bug[^]*\nOK\n/);
		await nothingIsLeft();
	});

	test('fork-patterns in Python: where no fix works, that is said', async () => {
		const { code, stdout, stderr } = await run('python3', ['fork_patterns.py', '1'], {
			cwd: folderOf('fork-patterns'), env: { ...env, PYTHONPATH: path.join(repository, 'sdk/python'), PYTHONDONTWRITEBYTECODE: '1' },
		});

		assert.equal(code, 1, stderr);
		assert.match(stdout, /^fails {3}2 of 8 tests {2}1-round-down\n\nno candidate passes$/m);
		await nothingIsLeft();
	});

	// By the key that workflow.yml advises.
	test('test-matrix: each combination in a fork', async () => {
		const scopes = { labels: { job: 'test-matrix' }, lifetime_minutes_max: 30, egress_loosen: false, root: false };
		const { json: { key } } = await daemon.request('POST', '/v1/keys', { label: 'ci', scopes });
		const { code, stdout, stderr } = await runExample('test-matrix', ['matrix.mjs'], { ...env, SKERRY_API_KEY: key });

		assert.equal(code, 0, stdout + stderr);
		for (const zone of ['UTC', 'Asia/Kathmandu'])
			for (const seed of [0, 1])
				assert.ok(stdout.includes(`passes  TZ=${zone} PYTHONHASHSEED=${seed}  (`), stdout);
		assert.match(stdout, /^4 of 4 combinations pass$/m);
		await nothingIsLeft();
	});

	test('test-matrix: one that fails fails the job, and shows why', async () => {
		const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'skerry-matrix-'));

		try {
			fs.writeFileSync(path.join(folder, 'matrix.json'), JSON.stringify({
				sandbox: { egress: [] }, setup: 'echo ready >state', test: 'cat state; echo "LEVEL is $LEVEL" >&2; test "$LEVEL" = 1', axes: { LEVEL: [1, 2] },
			}));
			const { code, stdout } = await runExample('test-matrix', ['matrix.mjs', folder], env);

			assert.equal(code, 1);
			assert.match(stdout, /^passes {2}LEVEL=1 .*\nfails {2}LEVEL=2 .*\n {4}ready\n {4}LEVEL is 2\n1 of 2 combinations pass$/m);
			await nothingIsLeft();
		} finally {
			fs.rmSync(folder, { recursive: true });
		}
	});
});
