// Keys and accounts over REST, MCP and the command line, without a sandbox: what scopes.test.mjs does not have.

import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { after, before, test } from 'node:test';

import { runSkerry } from './lib/cli.mjs';
import { startDaemon } from './lib/daemon.mjs';
import { LEGACY, clientKinds, connect, modern, post, request } from './lib/mcp.mjs';

let daemon;
before(async () => {
	daemon = await startDaemon();
});
after(() => daemon?.stop());

const as = (key) => Object.assign(Object.create(daemon), { key });

async function good(method, route, body, who = daemon) {
	const answer = await who.request(method, route, body);

	assert.ok(answer.status < 300, `${method} ${route}: ${answer.status} ${answer.text}`);
	return answer.json;
}

async function refused(status, code, method, route, body, who = daemon) {
	const answer = await who.request(method, route, body);

	assert.deepEqual([answer.status, answer.json?.code], [status, code], answer.text);
	return answer.json;
}

test('the text of a key is in the answer that makes it, and nowhere else', async () => {
	const made = await good('POST', '/v1/keys', { label: 'agent', scopes: { operations: ['exec'], root: false } });

	assert.match(made.key, /^sk_[A-Za-z0-9]{40}$/);
	assert.deepEqual([made.label, made.status, made.admin, made.current], ['agent', 'valid', false, false]);
	assert.deepEqual(made.scopes, { operations: ['exec'], root: false });
	const listed = (await good('GET', '/v1/keys')).items.find(({ id }) => id === made.id);
	const { key, ...rest } = made;

	assert.deepEqual(listed, rest);
	for (const name of fs.readdirSync(daemon.stateDir).filter((one) => one.includes('.db')))
		assert.equal(fs.readFileSync(path.join(daemon.stateDir, name)).includes(key.slice(3)), false, name);
	assert.equal(fs.readFileSync(daemon.logFile, 'utf8').includes(key.slice(3)), false);
});

test('what a scope names has to be there, and what is wrong is said', async () => {
	const wrong = async (scopes, pattern) =>
		assert.match((await refused(400, 'invalid_argument', 'POST', '/v1/keys', { scopes })).detail, pattern);

	await wrong({ operations: ['exce'] }, /no scope or operation 'exce'/);
	await wrong({ operations: 'exec' }, /scopes\.operations/);
	await wrong({ operation: ['exec'] }, /unknown argument "operation"/);
	await wrong({ sizes: ['giant'] }, /no size 'giant'/);
	await wrong({ labels: {} }, /at least one label/);
	await wrong({ lifetime_minutes_max: 0 }, /scopes\.lifetime_minutes_max/);
	await wrong({ root: 'no' }, /scopes\.root/);
	await refused(404, 'not_found', 'POST', '/v1/keys', { scopes: { sandboxes: ['sbx_0123456789ab'] } });
	await refused(400, 'invalid_argument', 'POST', '/v1/keys', { ttl_minutes: 0 });
	for (const operations of [['exec_wait'], ['sandbox:read', 'files'], []])
		assert.deepEqual((await good('POST', '/v1/keys', { scopes: { operations } })).scopes, { operations });
});

test('lists have pages, and show revoked keys when they are asked for', async () => {
	const made = [];

	for (let i = 0; i < 5; i++)
		made.push((await good('POST', '/v1/keys', { label: `page ${i}` })).id);
	await good('DELETE', `/v1/keys/${made[0]}`);
	const seen = [];

	for (let cursor = ''; cursor !== null; ) {
		const page = await good('GET', `/v1/keys?limit=2&status=all${cursor && `&cursor=${cursor}`}`);

		seen.push(...page.items);
		cursor = page.next_cursor;
	}
	assert.deepEqual(seen.slice(0, 5).map(({ id }) => id).sort(), [...made].sort());
	assert.equal(new Set(seen.map(({ id }) => id)).size, seen.length);
	assert.equal(seen.find(({ id }) => id === made[0]).status, 'revoked');
	assert.equal((await good('GET', '/v1/keys?limit=200')).items.some(({ id }) => id === made[0]), false);
	await refused(400, 'invalid_cursor', 'GET', '/v1/keys?cursor=key_0123456789abcdef');
});

test('the last key that can manage stays, and its file follows it', async () => {
	const own = (await good('GET', '/v1/keys')).items.find(({ current }) => current);

	assert.match((await refused(409, 'last_key', 'DELETE', `/v1/keys/${own.id}`)).hint, /rotate/);
	const rotated = await good('POST', `/v1/keys/${own.id}/rotate`, { overlap_seconds: 0 });

	await refused(401, 'invalid_key', 'GET', '/v1/keys');
	assert.equal(fs.readFileSync(path.join(daemon.stateDir, 'admin.key'), 'utf8').trim(), rotated.key);
	daemon.key = rotated.key;
	assert.equal((await good('GET', '/v1/keys')).items.find(({ current }) => current).id, own.id);
	await daemon.restart();
	await good('GET', '/v1/keys');
});

test('a key that revokes itself gets its answer', async () => {
	const made = await good('POST', '/v1/keys', {});
	const answer = await as(made.key).request('DELETE', `/v1/keys/${made.id}`);

	assert.deepEqual([answer.status, answer.json.status], [200, 'revoked']);
	await refused(401, 'invalid_key', 'GET', '/v1/keys', undefined, as(made.key));
});

test('accounts are for administrators, and each has a first key', async () => {
	const made = await good('POST', '/v1/accounts', { name: 'team-a' });
	const team = as(made.key.key);

	await refused(409, 'account_exists', 'POST', '/v1/accounts', { name: 'team-a' });
	await refused(403, 'forbidden', 'POST', '/v1/accounts', { name: 'team-b' }, team);
	await refused(403, 'forbidden', 'GET', '/v1/accounts', undefined, team);
	await refused(403, 'forbidden', 'GET', `/v1/keys?account_id=acc_0123456789abcdef`, undefined, team);
	await refused(403, 'scope_denied', 'POST', '/v1/keys', { admin: true }, team);
	assert.deepEqual((await good('GET', '/v1/keys', undefined, team)).items.map(({ label }) => label), ['first']);
	assert.ok((await good('GET', '/v1/accounts')).items.some(({ name, admin }) => name === 'team-a' && !admin));
	const given = await good('POST', '/v1/keys', { account_id: made.id, label: 'given' });

	assert.equal(given.account_id, made.id);
	await good('DELETE', `/v1/keys/${made.key.id}?account_id=${made.id}`);
	await refused(401, 'invalid_key', 'GET', '/v1/keys', undefined, team);
	await good('GET', '/v1/keys', undefined, as(given.key));
	await refused(404, 'account_not_found', 'GET', '/v1/keys?account_id=acc_0123456789abcdef');
});

for (const kind of clientKinds) {
	test(`tools/list by scopes: ${kind.name}`, async () => {
		const made = await good('POST', '/v1/keys', { scopes: { operations: ['sandbox:read', 'exec', 'pause_sandbox'] } });
		const { client } = await connect(daemon, kind, { key: made.key });
		const { tools } = await client.listTools();

		assert.deepEqual(tools.map(({ name }) => name), ['list_sandboxes', 'exec', 'exec_wait', 'pause_sandbox']);
		await client.close();
	});
}

test('a tool that a key may not call: 403, in both eras, and what would help', async () => {
	const made = await good('POST', '/v1/keys', { scopes: { operations: ['exec'] } });
	const params = { name: 'create_sandbox', arguments: {} };
	const requests = [modern('tools/call', params), { body: request('tools/call', params), headers: { 'MCP-Protocol-Version': LEGACY } }];

	for (const one of requests) {
		const answer = await post(daemon, { ...one, key: made.key });

		assert.equal(answer.status, 403);
		assert.equal(answer.json.id, 1);
		assert.match(answer.json.error.message, /may not create_sandbox.*"sandbox:create".*skerry key create/);
	}
	const none = await post(daemon, { ...modern('tools/call', { name: 'no_such_tool', arguments: {} }), key: made.key });

	assert.equal(none.json.error.code, -32602);
});

test('the command line makes, lists, rotates and revokes', async () => {
	const made = await runSkerry(daemon, ['key', 'create', 'agent-7', '--allow', 'exec,files', '--allow', 'sandbox:read',
		'--label', 'a=b', '--size', 'tiny', '--lifetime-max', '1h', '--no-loosen', '--no-root', '--spend-max', '5', '--ttl', '8h']);
	const id = made.err.match(/key_[0-9a-f]{16}/)[0];

	assert.match(made.out, /^sk_[A-Za-z0-9]{40}\n$/);
	const json = JSON.parse((await runSkerry(daemon, ['key', 'ls', '--json'])).out).items.find((key) => key.id === id);

	assert.deepEqual(json.scopes, {
		operations: ['exec', 'files', 'sandbox:read'], labels: { a: 'b' }, sizes: ['tiny'], lifetime_minutes_max: 60,
		egress_loosen: false, root: false, spend_credits_max: 5,
	});
	assert.match((await runSkerry(daemon, ['key', 'ls'])).out, new RegExp(`${id} +sk_\\w+ +agent-7 +valid +7h +allow=exec,files`));
	const denied = await runSkerry(as(made.out.trim()), ['network', 'ls', '--json']);
	const refusedCreate = await runSkerry(as(made.out.trim()), ['create']);

	assert.equal(denied.code, 0, denied.err);
	assert.equal(refusedCreate.code, 4);
	assert.match(refusedCreate.err, /does not have "sandbox:create"/);
	const rotated = await runSkerry(daemon, ['key', 'rotate', id, '--overlap', '10m', '--quiet']);

	assert.match(rotated.out, /^sk_\w{40}\n$/);
	assert.equal(rotated.err, '');
	for (const text of [made.out, rotated.out])
		assert.equal((await as(text.trim()).request('GET', '/v1/networks')).status, 200);
	assert.deepEqual(await runSkerry(daemon, ['key', 'rm', id]).then(({ code, out }) => [code, out]), [0, `${id}\n`]);
	assert.equal((await runSkerry(as(rotated.out.trim()), ['ls'])).code, 4);
	assert.equal((await runSkerry(daemon, ['key', 'rm', 'key_0123456789abcdef'])).code, 3);
	assert.match((await runSkerry(daemon, ['key', 'ls', '--all'])).out, new RegExp(`${id}.*revoked`));
	const account = await runSkerry(daemon, ['account', 'create', 'team-cli', '--quiet']);

	assert.match(account.out, /^sk_\w{40}\n$/);
	assert.match((await runSkerry(daemon, ['account', 'ls'])).out, /acc_\w{16} +team-cli/);
	assert.equal((await runSkerry(as(account.out.trim()), ['account', 'ls'])).code, 4);
});
