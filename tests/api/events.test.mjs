// Events of real sandboxes: what is told, in which order, to pages, streams and the command line, and
// that nothing of it is lost or said twice when clients and the daemon come and go.

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';

import { runSkerry, startSkerry } from './lib/cli.mjs';
import { startDaemon } from './lib/daemon.mjs';
import { events } from './lib/raw.mjs';

const WAIT_MS = 120_000; // patience for a busy machine

let daemon, id;
before(async () => {
	daemon = await startDaemon({ config: { limits: { stream_heartbeat_ms: 300 } } });
	await daemon.ensureImage('base');
});
after(() => daemon?.stop());

async function good(method, route, body) {
	const answer = await daemon.request(method, route, body);

	assert.ok(answer.status < 300, `${method} ${route}: ${answer.status} ${answer.text}`);
	return answer.json;
}

const create = (more = {}) => good('POST', '/v1/sandboxes', { timeout_minutes: 10, ...more });
const exec = (sandbox, command, more = {}) => good('POST', `/v1/sandboxes/${sandbox}/exec`, { command, ...more });

// All that is kept, page by page.
async function pages(query = '', cursor = 0) {
	const items = [];

	for (;;) {
		const page = await good('GET', `/v1/events?cursor=${cursor}&limit=7${query}`);

		items.push(...page.items);
		cursor = page.cursor;
		if (page.next_cursor === null)
			return { items, cursor };
		assert.equal(page.next_cursor, String(cursor));
	}
}

const newest = async () => (await good('GET', '/v1/events?newest=true&limit=1')).cursor;
const types = (items) => items.map((event) => event.type);

// Pages until a predicate holds: events of commands come a moment later.
async function until(query, cursor, predicate) {
	for (const give_up = Date.now() + WAIT_MS; ; await sleep(50)) {
		const { items } = await pages(query, cursor);

		if (predicate(items))
			return items;
		assert.ok(Date.now() < give_up, `still waiting, at ${JSON.stringify(items)}`);
	}
}

// A stream: {ready, next(), seen, counts, close()}.
async function follow(query = '', headers = {}) {
	const gone = new AbortController();
	const response = await fetch(new URL(`/v1/events${query}`, daemon.url), {
		headers: { Authorization: `Bearer ${daemon.key}`, Accept: 'text/event-stream', ...headers },
		signal: gone.signal,
	});
	const counts = {};
	const stream = events(response, counts);
	const seen = [];

	assert.equal(response.status, 200);
	const ready = (await stream.next()).value;

	assert.equal(ready.event, 'ready');
	return {
		ready: ready.data.cursor,
		seen,
		counts,
		async next() {
			const { value, done } = await stream.next();

			if (done)
				return undefined;
			assert.equal(value.event, value.data.type);
			seen.push(value.data);
			return value.data;
		},
		async upTo(type) {
			for (let event; (event = await this.next()); ) {
				if (event.type === type)
					return event;
			}
			throw new Error(`the stream ended before ${type}`);
		},
		close: () => gone.abort(),
	};
}

describe('a life', { timeout: 10 * 60_000 }, () => {
	test('is told from its beginning to its end, to pages and streams alike', async () => {
		const stream = await follow();

		id = (await create({ name: 'life', labels: { a: 'b' } })).id;
		await exec(id, 'echo $SECRET; cat; exit 3', { env: { SECRET: 'env-is-secret' }, stdin: 'stdin-is-secret' });
		await good('POST', `/v1/sandboxes/${id}/extend`, { additional_minutes: 5 });
		await stream.upTo('exec_ended');
		await good('POST', `/v1/sandboxes/${id}/pause`);
		await good('POST', `/v1/sandboxes/${id}/resume`);
		await good('POST', `/v1/sandboxes/${id}/snapshots`, { name: 'kept' });
		const { sandboxes: [child] } = await good('POST', `/v1/sandboxes/${id}/fork`, { count: 1 });

		await good('DELETE', '/v1/snapshots/kept');
		await good('DELETE', `/v1/sandboxes/${child.id}`);
		await stream.upTo('sandbox_destroyed');
		stream.close();

		const own = stream.seen.filter((event) => event.sandbox_id === id);
		const lifecycle = own.filter((event) => !event.type.startsWith('exec_'));

		assert.deepEqual(types(lifecycle), [
			'sandbox_created', 'sandbox_running', 'sandbox_extended', 'sandbox_pausing', 'sandbox_paused', 'sandbox_resumed',
			'snapshot_created', 'sandbox_forked', 'snapshot_removed',
		]);
		const of = (type) => own.find((event) => event.type === type).data;

		assert.equal(of('sandbox_created').name, 'life');
		assert.equal(of('sandbox_created').parent_id, null);
		assert.equal(of('sandbox_resumed').generation, 2);
		assert.equal(of('snapshot_created').name, 'kept');
		assert.deepEqual(of('sandbox_forked').children, [child.id]);
		assert.equal(of('exec_started').command, 'echo $SECRET; cat; exit 3');
		assert.equal(of('exec_ended').exec_id, of('exec_started').exec_id);
		assert.equal(of('exec_ended').exit_code, 3);
		assert.equal(of('exec_ended').timed_out, false);
		assert.ok(of('exec_ended').duration_ms >= 0);

		const forked = stream.seen.filter((event) => event.sandbox_id === child.id);

		assert.deepEqual(types(forked), ['sandbox_created', 'sandbox_running', 'sandbox_destroyed']);
		assert.equal(forked[0].data.parent_id, id);
		assert.equal(forked[2].data.reason, 'destroyed_by_user');

		const { items, cursor } = await pages();

		assert.deepEqual(items, stream.seen);
		assert.deepEqual(items.map((event) => event.id), items.map((_, i) => i + 1));
		assert.equal(cursor, items.length);
		assert.doesNotMatch(JSON.stringify(items), /is-secret/);
	});

	test('filters are of sandboxes and types', async () => {
		const all = (await pages()).items;
		const query = `&sandbox_id=${id}&type=exec_started,exec_ended`;
		const wanted = all.filter((event) => event.sandbox_id === id && event.type.startsWith('exec_'));

		assert.deepEqual((await pages(query)).items, wanted);
		const stream = await follow(`?cursor=0${query}`);

		for (const event of wanted)
			assert.deepEqual(await stream.next(), event);
		stream.close();
		for (const bad of ['type=nothing', 'sandbox_id=other', 'cursor=-1', 'cursor=999999', 'limit=0', 'more=1'])
			assert.equal((await daemon.request('GET', `/v1/events?${bad}`)).status, 400, bad);
	});

	test('a stream that is silent has heartbeats', async () => {
		const stream = await follow(`?sandbox_id=sbx_0123456789ab`);
		const next = stream.next().catch(() => undefined);

		while ((stream.counts.comments ?? 0) < 3) {
			await exec(id, 'true'); // of another sandbox: not for it
			await sleep(100);
		}
		stream.close();
		assert.equal(await next, undefined);
		assert.deepEqual(stream.seen, []);
	});
});

describe('how commands end', { timeout: 10 * 60_000 }, () => {
	test('by themselves, at their time, by a signal, and with their sandbox', async () => {
		const before = await newest();
		const victim = (await create()).id;
		const timed = await exec(victim, 'sleep 600', { timeout_ms: 1000 });
		const hung = await exec(victim, 'sleep 600', { background: true });

		await good('POST', `/v1/sandboxes/${victim}/exec/${hung.exec_id}/signal`, { signal: 'SIGKILL' });
		const lost = await exec(victim, 'sleep 600', { background: true });

		await good('DELETE', `/v1/sandboxes/${victim}`);
		const ended = await until(`&sandbox_id=${victim}&type=exec_ended`, before, (items) => items.length === 3);
		const of = (exec) => ended.find((event) => event.data.exec_id === exec.exec_id).data;

		assert.equal(of(timed).timed_out, true);
		assert.equal(of(timed).exit_code, 124);
		assert.equal(of(hung).signal, 'SIGKILL');
		assert.equal(of(hung).exit_code, 137);
		assert.equal(of(lost).error, 'sandbox_ended');
		assert.equal(of(lost).exit_code, undefined);
	});

	test('a command that could not be started is told of nowhere; a long one is told in part', async () => {
		const before = await newest();
		const answer = await daemon.request('POST', `/v1/sandboxes/${id}/exec`, { command: 'true', cwd: '/nowhere' });

		assert.equal(answer.json.code, 'cwd_not_found');
		await exec(id, `true ${'é'.repeat(5000)}`);
		const items = await until(`&sandbox_id=${id}`, before, (found) => found.length >= 2);

		assert.deepEqual(types(items), ['exec_started', 'exec_ended']);
		assert.equal(items[0].data.command_truncated, true);
		assert.match(items[0].data.command, /^true é{500,509}/);
	});
});

describe('when the daemon dies', { timeout: 10 * 60_000 }, () => {
	test('what its rows say is told, followers go on, and a command that outlived it is told of once', async () => {
		const stream = await follow();
		const running = await exec(id, 'sleep 8; exit 5', { background: true });

		await until(`&type=exec_started`, stream.ready, (items) => items.length === 1);
		await good('POST', `/v1/sandboxes/${id}/extend`, { additional_minutes: 1 });
		const extended = await stream.upTo('sandbox_extended');

		await daemon.kill();
		await assert.rejects(async () => { while (await stream.next()); });
		await daemon.start();

		const again = await follow('', { 'Last-Event-ID': String(extended.id) });

		assert.equal(again.ready, extended.id);
		const end = await good('GET', `/v1/sandboxes/${id}/exec/${running.exec_id}?wait_ms=60000`);

		assert.equal(end.exit_code, 5);
		const told = await again.upTo('exec_ended');

		assert.equal(told.data.exec_id, running.exec_id);
		assert.equal(told.data.exit_code, 5);
		await exec(id, 'true');
		await again.upTo('exec_ended');
		again.close();
		const { items } = await pages('', extended.id);

		assert.deepEqual(again.seen, items);
		assert.equal(items.filter((event) => event.data.exec_id === running.exec_id).length, 1);
		assert.equal(items[0].id, extended.id + 1);
	});
});

describe('the command line', { timeout: 10 * 60_000 }, () => {
	test('shows the newest, and all that follows', async () => {
		const lines = (await runSkerry(daemon, ['events', '--limit', '2'])).out.trimEnd().split('\n');

		assert.equal(lines.length, 2);
		assert.match(lines[1], /^\d{4}-\d\d-\d\dT[\d:.]+Z {2}exec_ended +sbx_[0-9a-f]+ {2}exec_id=exec_[0-9a-f]+ .*exit_code=0 /);
		const all = (await runSkerry(daemon, ['events', '--since', '0', '--json'])).out.trimEnd().split('\n');

		assert.deepEqual(all.map((line) => JSON.parse(line)), (await pages()).items);
		const some = await runSkerry(daemon, ['events', '--since', '0', '--type', 'sandbox_forked', '--quiet', 'life']);

		assert.equal(some.code, 0, some.err);
		assert.deepEqual(some.out.trimEnd().split('\n').map(Number),
			(await pages('&type=sandbox_forked')).items.map((event) => event.id));
		assert.equal((await runSkerry(daemon, ['events', '--type', 'nothing'])).code, 2);
		assert.equal((await runSkerry(daemon, ['events', 'sbx_x'])).code, 2);
	});

	test('follows over a restart of the server, and misses nothing', async () => {
		const since = await newest();
		const skerry = startSkerry(daemon, ['events', '--follow', '--json', '--since', String(since)], {
			env: { SKERRY_URL: daemon.url },
		});
		const seen = () => skerry.soFar().trimEnd().split('\n').filter(Boolean).map((line) => JSON.parse(line));

		await exec(id, 'echo one');
		for (const give_up = Date.now() + WAIT_MS; seen().length < 2; await sleep(50))
			assert.ok(Date.now() < give_up);
		// The same address again, so that the program finds it.
		daemon.args[daemon.args.indexOf('--listen') + 1] = new URL(daemon.url).host;
		await daemon.kill();
		await daemon.start();
		await exec(id, 'echo two');
		await good('POST', `/v1/sandboxes/${id}/pause`);
		// What commands did is written in batches: it may come after a change that followed it.
		const count = (type) => seen().filter((event) => event.type === type).length;

		for (const give_up = Date.now() + WAIT_MS; count('sandbox_paused') < 1 || count('exec_ended') < 2; await sleep(50))
			assert.ok(Date.now() < give_up);
		skerry.child.kill();
		await skerry.ended;
		assert.deepEqual(seen(), (await pages('', since)).items);
	});
});
