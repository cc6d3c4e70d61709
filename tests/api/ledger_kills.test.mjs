// A real daemon with real sandboxes, killed at random while it creates, pauses, resumes, forks and destroys:
// SKERRY_TEST_VM_KILLS times (default 5). After each death the whole ledger is right, and at the end nothing is left
// to be charged. Hundreds of deaths are tests/unit/test_ledger_kills.c, whose machines are played.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';

import { startDaemon } from './lib/daemon.mjs';

const KILLS = Number(process.env.SKERRY_TEST_VM_KILLS ?? 5);
const LIFE_MS = 4000;

let daemon;
before(async () => {
	daemon = await startDaemon({ config: { limits: { charge_interval_seconds: 1, sandboxes_per_account: 4 } } });
	await daemon.ensureImage('base');
});
after(() => daemon?.stop());

const pick = (list) => list[Math.floor(Math.random() * list.length)];

// Whatever comes of it: the daemon may be dead by then.
async function doSomething() {
	const { json } = await daemon.request('GET', '/v1/sandboxes');
	const id = pick(json.items)?.id;
	const [method, route, body] = !id || Math.random() < 0.3
		? ['POST', '/v1/sandboxes', {}]
		: pick([
			['POST', `/v1/sandboxes/${id}/pause`],
			['POST', `/v1/sandboxes/${id}/resume`],
			['POST', `/v1/sandboxes/${id}/fork`, { count: 1 }],
			['DELETE', `/v1/sandboxes/${id}`],
		]);

	return (await daemon.request(method, route, body)).status < 300;
}

test('a daemon that is killed at random owes nobody a second', async () => {
	let done = 0;

	for (let kill = 0; kill < KILLS; kill++) {
		let alive = true;
		const workers = Array.from({ length: 2 }, async () => {
			while (alive)
				if (await doSomething().catch(() => false))
					done++;
		});

		await sleep(Math.random() * LIFE_MS);
		alive = false;
		await daemon.kill();
		await Promise.all(workers);
		await daemon.start();
		const { json: check } = await daemon.request('GET', '/v1/ledger/check');

		assert.equal(check.first_finding, null, `after death ${kill + 1}`);
		assert.equal(check.granted_microcredits, check.balance_microcredits + check.charged_microcredits);
	}
	assert.ok(done > 0, 'nothing was ever done');
	for (const { id } of await daemon.sandboxes())
		assert.equal((await daemon.request('DELETE', `/v1/sandboxes/${id}`)).status, 200);
	const { json: usage } = await daemon.request('GET', '/v1/usage');

	assert.deepEqual([usage.running, usage.held_microcredits, usage.uncharged_microcredits], [0, 0, 0]);
	assert.ok(usage.charged_microcredits > 0);
	assert.equal((await daemon.request('GET', '/v1/ledger/check')).json.ok, true);
});
