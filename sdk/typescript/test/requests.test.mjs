// Requests: where arguments go, typed errors, when it is asked again and when not, answers that are none.

import assert from 'node:assert/strict';
import { after, describe, test } from 'node:test';

import {
	ApiError, ConflictError, ConnectionError, DeniedError, LimitError, NotFoundError, ProtocolError, SandboxEndedError,
} from '../dist/index.js';
import { client, closeAll, json, problem, sandboxInfo, sandboxOn, serve } from './lib/scripted.mjs';

after(closeAll);

describe('errors', () => {
	for (const [status, code, type] of [
		[401, 'invalid_key', DeniedError], [403, 'forbidden', DeniedError], [402, 'no_credit', LimitError],
		[404, 'not_found', NotFoundError], [409, 'name_taken', ConflictError], [410, 'sandbox_ended', SandboxEndedError],
		[422, 'limit_reached', LimitError], [429, 'quota_reached', LimitError], [500, 'snapshot_damaged', ApiError],
	])
		test(`${status} ${code} is a ${type.name}`, async () => {
			const server = await serve((req, res) => problem(res, status, code, { hint: 'do this' }));

			await assert.rejects(client(server).attach('sbx_1'), (error) => {
				assert.ok(error instanceof type);
				assert.equal(error.constructor, type);
				assert.deepEqual([error.code, error.status, error.hint, error.requestId], [code, status, 'do this', 'req_1']);
				assert.equal(error.message, `detail of ${code} (do this)`);
				return true;
			});
			assert.equal(server.requests.length, 1);
		});

	test('an error that is no problem document has its status', async () => {
		const server = await serve((req, res) => res.writeHead(500, { 'Content-Type': 'text/html' }).end('<h1>no</h1>'));

		await assert.rejects(client(server).attach('sbx_1'), { name: 'ApiError', status: 500, code: 'http_500' });
	});

	test('one that lies about being JSON as well', async () => {
		const server = await serve((req, res) => res.writeHead(404, { 'Content-Type': 'application/problem+json' }).end('{"code":'));

		await assert.rejects(client(server).attach('sbx_1'), { name: 'NotFoundError', code: 'http_404' });
	});
});

describe('asking again', () => {
	test('what was refused before anything was done, whatever it was', async () => {
		const { sandbox, asked } = await sandboxOn((req, res, n) => {
			if (n === 0)
				problem(res, 429, 'rate_limited', { retryAfter: 0 });
			else if (n === 1)
				problem(res, 503, 'overloaded', { retryAfter: 0 });
			else
				json(res, 200, { id: 'sbx_1', expires_at: '2026-08-01T10:00:00.000Z' });
		});

		assert.equal(await sandbox.extend(15), '2026-08-01T10:00:00.000Z');
		assert.equal(asked().length, 3);
		assert.deepEqual(asked().map(({ body }) => body), Array(3).fill({ additional_minutes: 15 }));
	});

	test('a quota is not, and as long as it says', async () => {
		const began = Date.now();
		const server = await serve((req, res, n) =>
			n === 0 ? problem(res, 503, 'overloaded', { retryAfter: 1 }) : problem(res, 429, 'quota_reached'));

		await assert.rejects(client(server).create(), { code: 'quota_reached' });
		assert.equal(server.requests.length, 2);
		assert.ok(Date.now() - began >= 1000);
	});

	test('a creation whose answer was lost, with the same key and body', async () => {
		const server = await serve((req, res, n) => {
			if (n === 0)
				req.headers && res.destroy();
			else if (n === 1)
				problem(res, 409, 'idempotency_in_progress');
			else
				json(res, 201, sandboxInfo());
		});
		const sandbox = await client(server).create({ size: 'tiny', egress: null });
		const keys = new Set(server.requests.map(({ headers }) => headers['idempotency-key']));

		assert.equal(sandbox.id, 'sbx_1');
		assert.equal(server.requests.length, 3);
		assert.equal(keys.size, 1);
		assert.match([...keys][0], /^[0-9a-f]{32}$/);
		assert.deepEqual(server.requests.map(({ body }) => body), Array(3).fill({ size: 'tiny', egress: null }));
		const other = await client(server).create();

		assert.equal(other.id, 'sbx_1');
		assert.ok(!keys.has(server.requests.at(-1).headers['idempotency-key']));
	});

	test('what would be done twice is not', async () => {
		const { sandbox, asked } = await sandboxOn((req, res) => res.destroy());

		await assert.rejects(sandbox.extend(1), ConnectionError);
		await assert.rejects(sandbox.fork(), ConnectionError);
		await assert.rejects(sandbox.exec('true'), ConnectionError);
		assert.equal(asked().length, 3);
	});

	test('a reader, through a proxy that has trouble', async () => {
		const server = await serve((req, res, n) =>
			n < 2 ? res.writeHead(502 + n).end('<html>') : json(res, 200, sandboxInfo()));

		assert.equal((await client(server).attach('sbx_1')).id, 'sbx_1');
	});

	test('not for ever', async () => {
		const server = await serve((req, res) => res.destroy());

		await assert.rejects(client(server, { retries: 2 }).attach('sbx_1'), ConnectionError);
		assert.equal(server.requests.length, 3);
	});

	test('until the caller has had enough', async () => {
		const stop = new AbortController();
		const server = await serve((req, res, n) => {
			problem(res, 503, 'overloaded', { retryAfter: 30 });
			if (n === 0)
				setTimeout(() => stop.abort(), 20);
		});

		await assert.rejects(client(server).attach('sbx_1', { signal: stop.signal }), { name: 'AbortError' });
		assert.equal(server.requests.length, 1);
	});

	test('a server that is not there, also for what is done once', async () => {
		const server = await serve((req, res) => json(res, 200, sandboxInfo()));
		const sandbox = await client(server, { retries: 1 }).attach('sbx_1');

		server.server.closeAllConnections();
		await new Promise((resolve) => server.server.close(resolve));
		await assert.rejects(sandbox.extend(1), ConnectionError);
	});
});

describe('answers that are none', () => {
	for (const [what, body] of [['HTML', '<h1>hello</h1>'], ['half of an object', '{"id":"sbx'], ['a list', '[]'], ['null', 'null'], ['nothing', '']])
		test(what, async () => {
			const server = await serve((req, res) => res.writeHead(200).end(body));

			await assert.rejects(client(server).attach('sbx_1'), ProtocolError);
			assert.equal(server.requests.length, 1);
		});

	test('one that breaks off', async () => {
		const server = await serve((req, res) => {
			res.writeHead(200, { 'Content-Length': 100 });
			res.write('{"id":');
			setTimeout(() => res.destroy(), 10);
		});

		await assert.rejects(client(server).attach('sbx_1'), ConnectionError);
	});

	test('a redirection is not followed: the key is for one server', async () => {
		const server = await serve((req, res) => res.writeHead(302, { Location: 'http://127.0.0.1:1/' }).end());

		await assert.rejects(client(server, { retries: 0 }).attach('sbx_1'), ConnectionError);
		assert.equal(server.requests.length, 1);
	});
});

describe('arguments', () => {
	test('go into the path, the query and the body', async () => {
		const { sandbox, asked } = await sandboxOn((req, res) => json(res, 200, { items: [], next_cursor: null, id: '', rules: null }));

		await sandbox.files.list('/tmp/a b&c');
		await sandbox.changeEgress({ add: ['example.com:443'] });
		await sandbox.setEgress(null);
		await sandbox.leave('a/../b');
		assert.deepEqual(asked().map(({ method, path, query, body }) => ({ method, path, query, body })), [
			{ method: 'GET', path: '/v1/sandboxes/sbx_1/files/list', query: { path: '/tmp/a b&c', limit: '1000' }, body: undefined },
			{ method: 'POST', path: '/v1/sandboxes/sbx_1/egress', query: {}, body: { add: ['example.com:443'] } },
			{ method: 'PUT', path: '/v1/sandboxes/sbx_1/egress', query: {}, body: { rules: null } },
			{ method: 'DELETE', path: '/v1/networks/a%2F..%2Fb/members/sbx_1', query: {}, body: undefined },
		]);
		assert.ok(asked().every(({ headers }) => headers.authorization === 'Bearer sk_test'));
		await assert.rejects(sandbox.leave(''), /needs the argument "name"/);
	});

	test('pages are turned', async () => {
		const server = await serve((req, res, n) =>
			json(res, 200, { items: [sandboxInfo({ id: `sbx_${n}` })], next_cursor: n < 2 ? `c${n}` : null }));
		const ids = [];

		for await (const { id } of client(server).sandboxes({ label: 'task=42' }))
			ids.push(id);
		assert.deepEqual(ids, ['sbx_0', 'sbx_1', 'sbx_2']);
		assert.deepEqual(server.requests.map(({ query }) => query),
			[{ label: 'task=42' }, { label: 'task=42', cursor: 'c0' }, { label: 'task=42', cursor: 'c1' }]);
	});
});

test('a sandbox that is disposed of is destroyed, and one that has ended is no error', async () => {
	const { sandbox, asked } = await sandboxOn((req, res, n) =>
		n === 0 ? json(res, 200, { id: 'sbx_1', status: 'destroyed' }) : problem(res, n === 1 ? 404 : 403, n === 1 ? 'not_found' : 'forbidden'));

	await sandbox[Symbol.asyncDispose]();
	assert.equal(sandbox.info.status, 'destroyed');
	await sandbox[Symbol.asyncDispose]();
	await assert.rejects(sandbox[Symbol.asyncDispose](), { code: 'forbidden' });
	assert.deepEqual(asked().map(({ method, path }) => `${method} ${path}`), Array(3).fill('DELETE /v1/sandboxes/sbx_1'));
});
