// What sandboxes may reach, and private networks, over REST, MCP and the command line: with real guests,
// behind whose host a small internet says what arrived there (lib/world.mjs).

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';

import { runSkerry } from './lib/cli.mjs';
import { startDaemon } from './lib/daemon.mjs';
import { post, request } from './lib/mcp.mjs';
import { inside, makeWorld, runInside } from './lib/world.mjs';

let daemon, world;

async function good(method, route, body) {
	const answer = await daemon.request(method, route, body);

	assert.ok(answer.status < 300, `${method} ${route}: ${answer.status} ${answer.text}`);
	return answer.json;
}

async function refused(status, code, method, route, body) {
	const answer = await daemon.request(method, route, body);

	assert.equal(answer.status, status, answer.text);
	assert.equal(answer.json.code, code);
	return answer.json;
}

const create = (more = {}) => good('POST', '/v1/sandboxes', { timeout_minutes: 30, ...more });
const destroy = (...ids) => Promise.all(ids.map((id) => good('DELETE', `/v1/sandboxes/${id}`)));
const run = (id, command, more = {}) => good('POST', `/v1/sandboxes/${id}/exec`, { command, ...more });
const egress = (id, rules) => good('PUT', `/v1/sandboxes/${id}/egress`, { rules });
const skerry = (...args) => runSkerry(daemon, args);

// One connection that sends something five times a second, until it is cut.
const streamTo = (url) => `while sleep 0.2; do echo tick; done | curl -s -T - ${url}/stream`;

// Patience is for a busy machine; a packet that is dropped takes as long as it is.
const fetchOf = (url, seconds = 20) => `curl -sS --max-time ${seconds} ${url}`;
const denied = (url) => `if ${fetchOf(url, 3)}; then echo REACHED; fi`;

async function tool(name, args) {
	const { json, events } = await post(daemon, { body: request('tools/call', { name, arguments: args }) });

	return (json ?? events.at(-1).json).result;
}

const ticks = () => world.seen.filter((event) => event.tick).length;

async function until(what, condition, seconds = 60) {
	for (const end = Date.now() + seconds * 1000; !(await condition()); await sleep(100))
		assert.ok(Date.now() < end, `${what} did not come about within ${seconds} s`);
}

if (!inside) {
	describe('where the network is switched off', () => {
		before(async () => {
			daemon = await startDaemon();
			await daemon.ensureImage('base');
		});
		after(() => daemon?.stop());

		test('it is said, and nothing is open', async () => {
			const check = (await good('GET', '/v1/doctor')).checks.find(({ name }) => name === 'network');

			assert.equal(check.ok, false);
			assert.match(check.detail, /no network: it is switched off/);
			assert.match(check.fix, /mode = auto/);
			const { id, address } = await create();

			assert.equal(address, null);
			const { stdout } = await run(id, 'ls /sys/class/net');

			assert.equal(stdout, 'lo\n');
			await refused(503, 'network_unavailable', 'PUT', `/v1/sandboxes/${id}/egress`, { rules: [] });
			await refused(503, 'network_unavailable', 'POST', '/v1/sandboxes', { egress: ['a.example'] });
			await destroy(id);
		});
	});
	runInside(import.meta.url);
} else {
	before(async () => {
		world = await makeWorld();
		daemon = await startDaemon({ config: world.config });
		await daemon.ensureImage('base');
	});
	after(async () => {
		await daemon?.stop();
		world?.close();
	});

	test('a host rule: its name, and no other at the same address', async () => {
		const { id } = await create({ egress: ['A.example:80', 'rebind.example', 'inside.example'] });

		assert.deepEqual((await good('GET', `/v1/sandboxes/${id}`)).egress, ['a.example:80', 'rebind.example', 'inside.example']);
		assert.equal((await run(id, fetchOf('http://a.example/'))).stdout, 'a.example at 8.8.4.4\n');
		const other = await run(id, denied('http://b.example/'));

		assert.equal(other.stdout, '');
		assert.equal(other.egress_denied.length, 1, JSON.stringify(other));
		assert.equal(other.egress_denied[0].target, 'b.example');
		assert.match(other.egress_denied[0].rule, /^b\.example/);
		// The address is open for the name alone, whatever the guest says.
		const lie = await run(id, `curl -s --max-time 5 -H 'Host: b.example' http://a.example/; ` + denied('http://8.8.4.5/'));

		assert.ok(!lie.stdout.includes('b.example at'), lie.stdout);
		assert.ok(lie.egress_denied.some(({ target }) => target === '8.8.4.5:80'), JSON.stringify(lie));
		for (const name of ['rebind.example', 'inside.example'])
			assert.equal((await run(id, `getent hosts ${name}`)).stdout, '');
		assert.deepEqual(world.seen.filter(({ host }) => host && host !== 'a.example'), []);
		const denials = (await good('GET', `/v1/sandboxes/${id}/egress/denials`)).items;

		assert.ok(denials.some(({ host, rule }) => host === 'b.example' && rule?.startsWith('b.example')));
		assert.ok(denials.some(({ address, port, rule }) => address === '8.8.4.5' && port === 80 && rule === '8.8.4.5:80'));
		await until('events of both', async () => {
			const { items } = await good('GET', `/v1/events?sandbox_id=${id}&type=egress_denied`);
			const told = (wanted) => items.some(({ data }) => wanted(data));

			return told(({ host, rule }) => host === 'b.example' && rule?.startsWith('b.example')) &&
				told(({ address, port, rule, protocol }) => `${protocol} ${address}:${port} ${rule}` === 'tcp 8.8.4.5:80 8.8.4.5:80');
		});
		await destroy(id);
	});

	test('always denied: metadata, private ranges, the host, other sandboxes', async () => {
		const [one, two] = await Promise.all([create(), create()]);
		const { stdout } = await run(one.id, fetchOf('http://c.example/'));

		assert.equal(stdout, 'c.example at 8.8.4.5\n');
		for (const address of ['169.254.169.254', '10.0.0.1', '192.168.1.1', '5.5.5.2', two.address]) {
			const result = await run(one.id, denied(`http://${address}/`));

			assert.equal(result.stdout, '', address);
			assert.equal(result.egress_denied?.[0].target, `${address}:80`, JSON.stringify(result));
			assert.equal(result.egress_denied[0].rule, null);
		}
		const { traffic } = await good('GET', `/v1/sandboxes/${one.id}`);

		assert.ok(traffic.out_packets > 3 && traffic.in_bytes > 40 && traffic.denied_packets >= 5, JSON.stringify(traffic));
		await destroy(one.id, two.id);
	});

	test('a change applies at once: tightening cuts what is open, by address and by name', async () => {
		const { id } = await create({ egress: ['8.8.4.5:80', 'a.example:80'] });

		for (const url of ['http://8.8.4.5', 'http://a.example']) {
			const before = ticks();
			const { exec_id } = await run(id, streamTo(url), { background: true });

			await until('a stream', () => ticks() > before + 2);
			const { rules } = await egress(id, ['9.9.9.9:53']);

			assert.deepEqual(rules, ['9.9.9.9:53']);
			// What arrived by then has been told after a moment; nothing follows.
			await sleep(500);
			const then = ticks();

			await sleep(3000);
			assert.equal(ticks(), then);
			// It may have ended by itself, of the reset.
			await daemon.request('POST', `/v1/sandboxes/${id}/exec/${exec_id}/signal`, { signal: 'SIGKILL' });
			await egress(id, ['8.8.4.5:80', 'a.example:80']);
		}
		await refused(400, 'invalid_egress_rule', 'PUT', `/v1/sandboxes/${id}/egress`, { rules: ['c.example', 'http://x'] });
		assert.deepEqual((await good('GET', `/v1/sandboxes/${id}/egress`)).rules, ['8.8.4.5:80', 'a.example:80']);
		assert.equal((await run(id, fetchOf('http://8.8.4.5/'))).stdout, '8.8.4.5 at 8.8.4.5\n');
		await egress(id, []);
		assert.equal((await run(id, denied('http://8.8.4.5/'))).stdout, '');
		await egress(id, null);
		assert.equal((await run(id, fetchOf('http://c.example/'))).stdout, 'c.example at 8.8.4.5\n');
		await destroy(id);
	});

	test('two of one network talk by name, a third cannot, and leaving is at once', async () => {
		await good('POST', '/v1/networks', { name: 'team' });
		const db = await create({ name: 'db', networks: ['team'], egress: [] });
		const [web, third] = await Promise.all([create({ name: 'web', egress: [] }), create({ egress: null })]);

		assert.deepEqual(db.networks, ['team']);
		await run(db.id, 'cd /tmp && echo from db >index.html && nohup python3 -m http.server 8000 >/dev/null 2>&1 &');
		const joined = await good('PUT', `/v1/networks/team/members/${web.id}`);

		assert.equal(joined.host, 'web.team.internal');
		const ask = `for i in $(seq 20); do ${fetchOf('http://db.team.internal:8000/', 10)} && break; sleep 1; done`;

		assert.equal((await run(web.id, ask)).stdout, 'from db\n');
		assert.equal((await run(third.id, denied('http://db.team.internal:8000/'))).stdout, '');
		assert.equal((await run(third.id, denied(`http://${db.address}:8000/`))).stdout, '');
		const [network] = (await good('GET', '/v1/networks')).items;

		assert.deepEqual(network.members.map(({ name }) => name), ['db', 'web']);
		await refused(409, 'network_in_use', 'DELETE', '/v1/networks/team');
		await good('DELETE', `/v1/networks/team/members/${web.id}`);
		assert.equal((await run(web.id, denied(`http://${db.address}:8000/`))).stdout, '');
		assert.equal((await run(web.id, denied('http://db.team.internal:8000/'))).stdout, '');
		await destroy(db.id, web.id, third.id);
		await good('DELETE', '/v1/networks/team');
	});

	test('a fork keeps the policy and joins the networks; then each is its own', async () => {
		await good('POST', '/v1/networks', { name: 'pair' });
		const source = await create({ name: 'source', networks: ['pair'], egress: ['8.8.4.5:80'] });

		await run(source.id, 'true');
		const [child] = (await good('POST', `/v1/sandboxes/${source.id}/fork`, {})).sandboxes;

		assert.deepEqual(child.egress, ['8.8.4.5:80']);
		assert.notEqual(child.address, source.address);
		const names = (await good('GET', '/v1/networks')).items[0].members.map(({ name }) => name);

		assert.equal(names.length, 2);
		assert.match(names.find((name) => name !== 'source'), /^source-[0-9a-f]{6}$/);
		assert.equal((await run(child.id, fetchOf('http://8.8.4.5/'))).stdout, '8.8.4.5 at 8.8.4.5\n');
		assert.equal((await run(child.id, denied('http://8.8.4.6/'))).stdout, '');
		await egress(child.id, []);
		assert.equal((await run(child.id, denied('http://8.8.4.5/'))).stdout, '');
		assert.equal((await run(source.id, fetchOf('http://8.8.4.5/'))).stdout, '8.8.4.5 at 8.8.4.5\n');
		// Pausing gives the slot back; a resume takes another, with the same rules.
		await good('POST', `/v1/sandboxes/${source.id}/pause`);
		assert.equal((await good('GET', `/v1/sandboxes/${source.id}`)).address, null);
		await egress(source.id, ['8.8.4.6:80']);
		assert.equal((await run(source.id, denied('http://8.8.4.5/'))).stdout, '');
		assert.equal((await run(source.id, fetchOf('http://8.8.4.6/'))).stdout, '8.8.4.6 at 8.8.4.6\n');
		await destroy(source.id, child.id);
		await good('DELETE', '/v1/networks/pair');
	});

	test('the daemon is killed during traffic: what is allowed goes on, what is not does not begin', async () => {
		const { id } = await create({ egress: ['8.8.4.5:80', 'a.example:80'] });
		const forbidden = 'while :; do for at in 8.8.4.7 b.example; do curl -s --max-time 1 http://$at/; done; done';
		const foreign = () => world.seen.filter(({ site, host }) => site === '8.8.4.7' || host === 'b.example');
		const before = ticks();

		await run(id, streamTo('http://8.8.4.5'), { background: true });
		await run(id, forbidden, { background: true });
		await until('a stream', () => ticks() > before + 2);
		assert.equal((await run(id, fetchOf('http://a.example/'))).stdout, 'a.example at 8.8.4.4\n');
		await daemon.kill(); // and with it the name server and the proxy
		const then = ticks();

		await until('the stream without a daemon', () => ticks() > then + 10);
		await daemon.start();
		const now = ticks();

		await until('the stream with the next daemon', () => ticks() > now + 5);
		assert.deepEqual((await good('GET', `/v1/sandboxes/${id}`)).egress, ['8.8.4.5:80', 'a.example:80']);
		assert.equal((await run(id, fetchOf('http://a.example/'))).stdout, 'a.example at 8.8.4.4\n');
		assert.deepEqual(foreign(), []);
		assert.equal((await run(id, denied('http://8.8.4.7/'))).stdout, '');
		await egress(id, []);
		assert.equal((await run(id, denied('http://8.8.4.5/'))).stdout, '');
		await destroy(id);
	});

	test('MCP: an agent learns why, allows it, and goes on', async () => {
		const made = await tool('create_sandbox', { egress: ['a.example:80'] });
		const sandbox_id = made.structuredContent.id;
		const failed = await tool('exec', { sandbox_id, command: fetchOf('http://c.example/', 5) });
		const [why] = failed.structuredContent.egress_denied;

		assert.ok(failed.content[0].text.includes(why.rule), failed.content[0].text);
		const rules = ['a.example:80', why.rule];
		const set = await tool('set_egress', { sandbox_id, rules });

		assert.deepEqual(set.structuredContent.rules, rules);
		const again = await tool('exec', { sandbox_id, command: fetchOf('http://c.example/') });

		assert.equal(again.structuredContent.stdout, 'c.example at 8.8.4.5\n');
		const bad = await tool('set_egress', { sandbox_id, rules: ['1.2.3'] });

		assert.equal(bad.isError, true);
		assert.match(bad.content[0].text, /egress rule \[0\]/);
		assert.equal((await tool('set_egress', { sandbox_id, rules: null })).structuredContent.rules, null);
		await destroy(sandbox_id);
	});

	test('the command line', async () => {
		const name = 'cli';

		assert.equal((await skerry('network', 'create', 'team')).out, 'team\n');
		assert.equal((await skerry('create', '--name', name, '--egress', 'none', '--network', 'team')).code, 0);
		assert.equal((await skerry('egress', 'show', name)).out, 'none\n');
		assert.equal((await skerry('egress', 'add', name, 'A.example:80', '192.0.2.0/24')).out, 'a.example:80\n192.0.2.0/24\n');
		assert.equal((await skerry('egress', 'rm', name, '192.0.2.0/24')).out, 'a.example:80\n');
		assert.equal((await skerry('egress', 'rm', name, '192.0.2.0/24')).code, 3);
		assert.equal((await skerry('egress', 'set', name, 'open', 'a.example')).code, 2);
		assert.equal((await skerry('egress', 'set', name, 'bad rule')).code, 2);
		await skerry('exec', name, '--', 'curl', '-s', '--max-time', '3', 'http://8.8.4.5/');
		const denials = await skerry('egress', 'denials', name);

		assert.match(denials.out, /8\.8\.4\.5:80 +tcp +\d+ +8\.8\.4\.5:80/);
		assert.equal((await skerry('egress', 'denials', '-q', name)).out, '8.8.4.5:80\n');
		assert.equal((await skerry('egress', 'set', name, 'open')).out, 'open\n');
		assert.match((await skerry('network', 'ls')).out, /team +sbx_[0-9a-f]+ +cli\.team\.internal +100\.64\.\d+\.\d+/);
		assert.equal((await skerry('network', 'leave', 'team', name)).code, 0);
		assert.equal((await skerry('network', 'join', 'team', name, '--as', 'other')).out, 'other.team.internal\n');
		assert.equal((await skerry('network', 'rm', 'team')).code, 1);
		assert.equal((await skerry('rm', name)).code, 0);
		assert.equal((await skerry('network', 'rm', 'team')).out, 'team\n');
	});
}
