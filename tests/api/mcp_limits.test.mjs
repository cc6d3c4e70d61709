// How often a key may ask, and what those who ask too often are told.

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';

import { runSkerry } from './lib/cli.mjs';
import { startDaemon } from './lib/daemon.mjs';
import { MODERN, modern, post, request } from './lib/mcp.mjs';

const PER_SECOND = 1;
const BURST = 10 * PER_SECOND;

describe('requests_per_second', { concurrency: 1 }, () => {
	let daemon;
	before(async () => {
		daemon = await startDaemon({ config: { limits: { requests_per_second: PER_SECOND } } });
	});
	after(async () => {
		await sleep(3000);
		await daemon.stop();
	});

	const rest = () => daemon.request('GET', '/v1/limits');

	// Asks until it is refused: {answer: the refusal, passed: how many were not}.
	async function untilRefused(ask = rest) {
		for (let passed = 0; ; passed++) {
			const answer = await ask();

			if (answer.status === 429)
				return { answer, passed };
			assert.ok(passed < 10 * BURST, 'nothing is refused');
		}
	}

	test('is served with the other limits', async () => {
		assert.equal((await daemon.request('GET', '/v1/limits')).json.requests_per_second, PER_SECOND);
	});

	test('a burst passes, what is more is 429 with a problem that says when to come back', async () => {
		const { answer, passed } = await untilRefused();

		assert.ok(passed >= BURST - 1, `${passed} have passed`);
		assert.equal(answer.headers.get('retry-after'), '1');
		assert.equal(answer.json.code, 'rate_limited');
		assert.match(answer.json.detail, /requests_per_second \(1\)/);
		assert.match(answer.json.hint, /again/);
	});

	test('over MCP it is an error with the id of its request, in both eras', async () => {
		for (const what of [{ body: request('ping', undefined, 'p') }, modern('tools/list', {}, { id: 7 })]) {
			const { headers, json } = (await untilRefused(() => post(daemon, what))).answer;

			assert.equal(headers['retry-after'], '1');
			assert.equal(json.id, what.body.id);
			assert.equal(json.error.code, 429);
			assert.match(json.error.message, /requests_per_second/);
		}
		const { answer } = await untilRefused(() => post(daemon, { body: '{', headers: { 'MCP-Protocol-Version': MODERN } }));

		assert.equal(answer.json.id, undefined);
	});

	test('a second later it goes on', async () => {
		await untilRefused();
		await sleep(1100);
		assert.deepEqual((await post(daemon, { body: request('ping') })).json.result, {});
	});

	test('a key that is wrong is refused as such, however often', async () => {
		await untilRefused();
		for (let i = 0; i < 2 * BURST; i++)
			assert.equal((await post(daemon, { body: request('ping'), key: 'sk_wrong' })).status, 401);
	});

	test('what needs no key is not counted', async () => {
		await untilRefused();
		assert.equal((await fetch(new URL('/healthz', daemon.url))).status, 200);
	});

	test('the command line says so, with the exit code of a limit', async () => {
		let listed;

		for (let i = 0; i < BURST && !listed?.code; i++) {
			await untilRefused();
			listed = await runSkerry(daemon, ['ls']);
		}
		assert.equal(listed.code, 5);
		assert.match(listed.err, /requests_per_second/);
	});
});
