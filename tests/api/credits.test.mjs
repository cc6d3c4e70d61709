// Metering and credit over REST and the command line, with real sandboxes: what is charged and to whom, grants,
// the last credit, what becomes of sandboxes when credit is used up, spend caps of keys.

import assert from 'node:assert/strict';
import fs from 'node:fs';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';

import { runSkerry } from './lib/cli.mjs';
import { startDaemon } from './lib/daemon.mjs';

const CREDIT = 1_000_000;
const RATE = 10_000; // micro-credits a second of the only size
const FAST_RATE = 20 * RATE; // of a size whose seconds are seen in whole credits
const HOLD_S = 10;
const WAIT_MS = 300_000;

let daemon;
before(async () => {
	daemon = await startDaemon({
		config: {
			limits: {
				starting_credits: 0, credit_hold_seconds: HOLD_S, charge_interval_seconds: 1, sandboxes_per_account: 50,
				out_of_credit_grace_seconds: 5,
			},
			prices: { 'size.tiny': RATE, 'size.small': FAST_RATE },
		},
	});
	await daemon.ensureImage('base');
});
after(() => daemon?.stop());

async function call(key, method, route, body) {
	const answer = await daemon.request(method, route, body, { Authorization: `Bearer ${key}` });

	assert.ok(answer.status < 300, `${method} ${route}: ${answer.status} ${answer.text}`);
	return answer.json;
}

async function refused(key, status, code, method, route, body) {
	const answer = await daemon.request(method, route, body, { Authorization: `Bearer ${key}` });

	assert.equal(answer.status, status, answer.text);
	assert.equal(answer.json.code, code);
	return answer.json;
}

let accounts = 0;

// An account with so many seconds of credit.
async function account(seconds) {
	const { id, key } = await call(daemon.key, 'POST', '/v1/accounts', { name: `credit-${++accounts}` });

	await grant(id, seconds);
	return { id, key: key.key, key_id: key.id };
}

const grant = (id, seconds, more = {}) =>
	call(daemon.key, 'POST', `/v1/accounts/${id}/grants`, { credits: (seconds * RATE) / CREDIT, ...more });
const create = (who, more = {}) => call(who.key, 'POST', '/v1/sandboxes', { size: 'tiny', timeout_minutes: 30, ...more });
const destroy = (who, id) => call(who.key, 'DELETE', `/v1/sandboxes/${id}`);
const usage = (who) => call(who.key, 'GET', '/v1/usage');
const entries = async (who) => (await call(who.key, 'GET', '/v1/ledger?limit=1000')).items;

async function until(what, is) {
	for (const end = Date.now() + WAIT_MS; ; await sleep(200)) {
		const value = await what();

		if (is(value))
			return value;
		assert.ok(Date.now() < end, JSON.stringify(value));
	}
}

async function assertLedgerRight() {
	const check = await call(daemon.key, 'GET', '/v1/ledger/check');

	assert.equal(check.first_finding, null);
	assert.equal(check.ok, true);
	assert.equal(check.granted_microcredits, check.balance_microcredits + check.charged_microcredits);
}

test('prices are by shape', async () => {
	const prices = await call(daemon.key, 'GET', '/v1/prices');
	const of = (name) => prices.sizes.find((size) => size.name === name).microcredits_per_second;

	assert.equal(prices.microcredits_per_credit, CREDIT);
	assert.equal(of('tiny'), RATE);
	assert.equal(of('small'), FAST_RATE);
	assert.equal(of('medium'), 2 * prices.vcpu_microcredits_per_second + 4 * prices.memory_gb_microcredits_per_second);
	assert.equal(of('large'), 4 * prices.vcpu_microcredits_per_second + 8 * prices.memory_gb_microcredits_per_second);
});

test('a run is charged from its answer to its end, and a pause is free', async () => {
	const who = await account(3600);
	const asked = Date.now();
	const { id } = await create(who);
	const answered = Date.now();

	await until(() => usage(who), (now) => now.charged_microcredits > 0); // in parts, while it runs
	const running = await usage(who);

	assert.equal(running.running, 1);
	assert.equal(running.microcredits_per_second, RATE);
	assert.ok(running.seconds_to_zero > 3000 && running.seconds_to_zero < 3600);
	const pausing = Date.now();

	await call(who.key, 'POST', `/v1/sandboxes/${id}/pause`);
	const paused = Date.now();
	const { charged_microcredits: charged, ...still } = await usage(who);

	assert.equal(still.microcredits_per_second, 0);
	assert.equal(still.uncharged_microcredits + still.held_microcredits, 0);
	assert.equal(still.seconds_to_zero, null);
	assert.ok(charged >= ((pausing - answered) * RATE) / 1000, `${charged}`);
	assert.ok(charged <= ((paused - asked) * RATE) / 1000, `${charged}`);
	await sleep(2000);
	assert.equal((await usage(who)).charged_microcredits, charged);
	await call(who.key, 'POST', `/v1/sandboxes/${id}/resume`);
	await destroy(who, id);

	const all = await entries(who);
	const charges = all.filter((entry) => entry.kind === 'charge');
	const sum = (list) => list.reduce((total, { microcredits }) => total + microcredits, 0);
	const end = await usage(who);

	assert.deepEqual(all.map((entry) => entry.id), all.map((_, i) => i + 1));
	assert.deepEqual([all[0].kind, all[0].debit, all[0].credit], ['grant', 'grants', who.id]);
	for (const charge of charges) {
		assert.deepEqual([charge.debit, charge.credit, charge.sandbox_id, charge.key_id], [who.id, 'usage', id, who.key_id]);
		assert.ok(Date.parse(charge.to) > Date.parse(charge.from));
	}
	for (const generation of [1, 2]) {
		const run = charges.filter((charge) => charge.generation === generation);
		const ms = Date.parse(run.at(-1).to) - Date.parse(run[0].from);

		assert.equal(run[0].from, run[0].run_began_at);
		run.slice(1).forEach((charge, i) => assert.equal(charge.from, run[i].to));
		assert.equal(sum(run), Math.floor((ms * RATE) / 1000));
	}
	assert.equal(end.balance_microcredits, all[0].microcredits - sum(charges));
	for (const [name, key, value] of [['by_key', 'key_id', who.key_id], ['by_sandbox', 'sandbox_id', id]]) {
		assert.deepEqual(end[name].map((total) => total[key]), [value]);
		assert.equal(end[name][0].microcredits, sum(charges));
	}
	assert.equal(sum(end.by_day), sum(charges));
	await assertLedgerRight();
});

test('a grant with a reference is made once, and by administrators', async () => {
	const who = await account(1);
	const first = await grant(who.id, 7, { reference: 'invoice', note: 'thanks' });

	assert.deepEqual(await grant(who.id, 7, { reference: 'invoice' }), first);
	assert.equal(first.note, 'thanks');
	assert.equal((await usage(who)).granted_microcredits, 8 * RATE);
	await refused(daemon.key, 409, 'reference_conflict', 'POST', `/v1/accounts/${who.id}/grants`, { credits: 1, reference: 'invoice' });
	await refused(daemon.key, 404, 'account_not_found', 'POST', '/v1/accounts/acc_0000000000000000/grants', { credits: 1 });
	await refused(daemon.key, 400, 'invalid_argument', 'POST', `/v1/accounts/${who.id}/grants`, { credits: 0 });
	await refused(who.key, 403, 'forbidden', 'POST', `/v1/accounts/${who.id}/grants`, { credits: 1 });
	await refused(who.key, 403, 'forbidden', 'GET', '/v1/ledger/check');
	const other = await account(1);

	// another's account reads like none, but for an administrator
	const foreign = await refused(who.key, 404, 'account_not_found', 'GET', `/v1/usage?account_id=${other.id}`);
	const unknown = await refused(who.key, 404, 'account_not_found', 'GET', '/v1/usage?account_id=acc_0000000000000000');

	assert.equal(foreign.detail.replace(other.id, ''), unknown.detail.replace('acc_0000000000000000', ''));
	await refused(who.key, 404, 'account_not_found', 'GET', `/v1/ledger?account_id=${other.id}`);
	assert.equal((await call(daemon.key, 'GET', `/v1/usage?account_id=${other.id}`)).account_id, other.id);
});

test('of many creations at the last credit one is made', async () => {
	const who = await account(HOLD_S * 2 - 0.001);
	const answers = await Promise.all(Array.from({ length: 40 }, () =>
		daemon.request('POST', '/v1/sandboxes', { size: 'tiny' }, { Authorization: `Bearer ${who.key}` })));
	const made = answers.filter(({ status }) => status === 201);

	assert.equal(made.length, 1, answers.map(({ status }) => status).join());
	for (const { status, json } of answers.filter((answer) => answer.status !== 201))
		assert.deepEqual([status, json.code], [402, 'no_credit']);
	await refused(who.key, 402, 'no_credit', 'POST', `/v1/sandboxes/${made[0].json.id}/fork`, { count: 1 });
	await destroy(who, made[0].json.id);
	await assertLedgerRight();
});

test('at zero what runs is paused, and a grant lets it go on', async () => {
	const who = await account(25);
	const { id } = await create(who);

	await call(who.key, 'POST', `/v1/sandboxes/${id}/exec`, { command: 'echo kept >~/mark' });
	await until(() => call(who.key, 'GET', `/v1/sandboxes/${id}`), ({ status }) => status === 'paused');
	const { items } = await call(who.key, 'GET', '/v1/events?limit=1000');
	const types = items.map(({ type }) => type);

	assert.ok(types.includes('credit_exhausted'), types.join());
	assert.equal(items.find(({ type }) => type === 'sandbox_pausing').data.reason, 'no_credit');
	const problem = await refused(who.key, 402, 'no_credit', 'POST', `/v1/sandboxes/${id}/exec`, { command: 'true' });

	assert.match(problem.hint, /grant/);
	await refused(who.key, 402, 'no_credit', 'POST', `/v1/sandboxes/${id}/resume`);
	assert.equal((await call(who.key, 'GET', `/v1/sandboxes/${id}`)).status, 'paused');
	await grant(who.id, 600);
	assert.equal((await call(who.key, 'POST', `/v1/sandboxes/${id}/exec`, { command: 'cat ~/mark' })).stdout, 'kept\n');
	await destroy(who, id);
	await assertLedgerRight();
});

test('a key spends what its scope lets it', async () => {
	const who = await account(3600);
	const capped = await call(who.key, 'POST', '/v1/keys', { label: 'capped', scopes: { spend_credits_max: 0 } });

	const problem = await refused(capped.key, 402, 'spend_cap_reached', 'POST', '/v1/sandboxes', { size: 'tiny' });

	assert.match(problem.detail, /spend_credits_max/);
	assert.equal((await call(capped.key, 'GET', '/v1/usage')).account_id, who.id);
});

test('at its cap what a key runs is paused, and what another key runs goes on', async () => {
	const who = await account(3600);
	const capped = await call(who.key, 'POST', '/v1/keys', { label: 'capped', scopes: { spend_credits_max: 4 } });
	const other = await create(who);
	const { id } = await create(capped, { size: 'small' });

	await until(() => call(who.key, 'GET', `/v1/sandboxes/${id}`), ({ status }) => status === 'paused');
	assert.equal((await call(who.key, 'GET', `/v1/sandboxes/${other.id}`)).status, 'running');
	const { items } = await call(who.key, 'GET', '/v1/events?limit=1000');
	const { data } = items.find(({ type }) => type === 'credit_exhausted');

	assert.deepEqual(data, { reason: 'spend_cap_reached', key_id: capped.id });
	assert.ok((await usage(capped)).charged_microcredits <= 4 * CREDIT);
	await refused(capped.key, 402, 'spend_cap_reached', 'POST', `/v1/sandboxes/${id}/resume`);
	await Promise.all([destroy(who, id), destroy(who, other.id)]);
	await assertLedgerRight();
});

const below = (pid) => fs.readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').split(' ').filter(Boolean)
	.flatMap((child) => [child, ...below(child)]);

// The process id of the machine monitor below a sandbox's warden.
function monitorOf(id) {
	const commandLine = (pid) => {
		try {
			return fs.readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0');
		} catch {
			return []; // it is over
		}
	};
	const warden = fs.readdirSync('/proc').find((pid) => {
		const args = /^\d+$/.test(pid) ? commandLine(pid) : [];

		return args[0]?.endsWith('skerry-warden') && args[args.indexOf('--name') + 1] === id;
	});

	return Number(below(warden).find((pid) => fs.readFileSync(`/proc/${pid}/comm`, 'utf8').startsWith('qemu')));
}

// A monitor that stands still answers nothing, and can save nothing.
test('what cannot be paused at zero is destroyed, with the reason', async () => {
	const who = await account(20);
	const { id } = await create(who);
	const monitor = monitorOf(id);

	process.kill(monitor, 'SIGSTOP');
	try {
		const ended = await until(() => call(who.key, 'GET', `/v1/sandboxes/${id}`),
			({ status }) => status === 'destroyed' || status === 'failed');

		assert.equal(ended.status, 'destroyed');
		assert.equal(ended.reason, 'out_of_credit');
		assert.match(ended.reason_text, /could not be paused/);
	} finally {
		try {
			process.kill(monitor, 'SIGCONT');
		} catch (error) {
			assert.equal(error.code, 'ESRCH');
		}
	}
	await assertLedgerRight();
});

describe('the command line', () => {
	const skerry = async (who, ...args) => {
		const { code, out, err } = await runSkerry(daemon, args, { env: { SKERRY_API_KEY: who.key } });

		assert.equal(code, 0, err);
		return out;
	};

	test('usage, its export, and grants', async () => {
		const who = await account(0.5);

		assert.match(await skerry({ key: daemon.key }, 'account', 'grant', who.id, '12.5', '--reference', 'r'), /12\.50 credits granted, entry 2/);
		assert.match(await skerry(who, 'usage'), /balance +12\.51 credits\n/);
		assert.match(await skerry({ key: daemon.key }, 'usage', '--account', who.id), new RegExp(`account +${who.id}`));
		const lines = (await skerry(who, 'usage', '--export')).trim().split('\n').map((line) => JSON.parse(line));

		assert.deepEqual(lines, await entries(who));
		const refusal = await runSkerry(daemon, ['create', '--size', 'tiny'], { env: { SKERRY_API_KEY: (await account(0.1)).key } });

		assert.equal(refusal.code, 5, refusal.err);
	});
});
