// Files that break off or are sent in pieces; events over lost connections; builds of images.

import assert from 'node:assert/strict';
import { after, describe, test } from 'node:test';

import { ConnectionError } from '../dist/index.js';
import { client, closeAll, event, json, problem, sandboxOn, serve, stream } from './lib/scripted.mjs';

after(closeAll);

const entry = { path: '/f', type: 'file', size: 3, mode: '0644', user: 'sandbox', uid: 1000, group: 'sandbox', gid: 1000, modified_at: null };

describe('files', () => {
	test('are read whole, or not', async () => {
		const { sandbox } = await sandboxOn((req, res, n) => {
			res.writeHead(200, { 'Content-Length': 6 });
			if (n === 0)
				return res.end('whole!');
			res.write('who');
			setTimeout(() => res.destroy(), 10);
		});

		assert.equal(await sandbox.files.readText('f'), 'whole!');
		await assert.rejects(sandbox.files.read('f'), ConnectionError);
	});

	test('or in part', async () => {
		const { sandbox, asked } = await sandboxOn((req, res) => res.writeHead(206).end('part'));
		const chunks = [];
		const reader = (await sandbox.files.stream('f', { start: 2, end: 6, user: 'root' })).getReader();

		for (let piece; !(piece = await reader.read()).done;)
			chunks.push(piece.value);
		await sandbox.files.stream('f', { start: 5 });
		assert.equal(Buffer.concat(chunks).toString(), 'part');
		assert.deepEqual(asked().map(({ headers }) => headers.range), ['bytes=2-5', 'bytes=5-']);
		assert.deepEqual(asked()[0].query, { path: 'f', user: 'root' });
	});

	test('are written from whatever there is, and again where that can be', async () => {
		const { sandbox, asked } = await sandboxOn((req, res, n) => (n === 0 ? res.destroy() : json(res, 201, entry)));
		const data = [Uint8Array.of(1, 2, 3), 'text', new Blob(['blob']), new Blob(['stream']).stream()];

		for (const one of data)
			assert.deepEqual(await sandbox.files.write('f', one, { mode: '0600', parents: true }), entry);
		assert.deepEqual(asked().map(({ bytes }) => bytes.toString('latin1')), ['\x01\x02\x03', '\x01\x02\x03', 'text', 'blob', 'stream']);
		assert.deepEqual(asked()[1].query, { path: 'f', mode: '0600', parents: 'true' });
		assert.equal(asked()[1].headers['content-type'], 'application/octet-stream');
	});

	test('but not where it would meet itself, or cannot be sent twice', async () => {
		const { sandbox, asked } = await sandboxOn((req, res) => res.destroy());

		await assert.rejects(sandbox.files.write('f', 'x', { overwrite: false }), ConnectionError);
		await assert.rejects(sandbox.files.write('f', new Blob(['x']).stream()), ConnectionError);
		await assert.rejects(sandbox.files.move('a', 'b'), ConnectionError);
		assert.equal(asked().length, 3);
	});

	test('exist or do not; whatever else is an error', async () => {
		const { sandbox } = await sandboxOn((req, res, n) =>
			[() => json(res, 200, entry), () => problem(res, 404, 'file_not_found'), () => problem(res, 404, 'not_found')][n]());

		assert.equal(await sandbox.files.exists('f'), true);
		assert.equal(await sandbox.files.exists('f'), false);
		await assert.rejects(sandbox.files.exists('f'), { code: 'not_found' });
	});

	test('trees are archives', async () => {
		const { sandbox, asked } = await sandboxOn((req, res, n) => (n === 0 ? res.end('tar') : json(res, 200, { path: '/d', entries: 1, bytes: 0 })));
		const tree = await sandbox.files.readTree('d');

		assert.equal((await sandbox.files.writeTree('e', tree, { parents: true })).entries, 1);
		assert.equal(asked()[1].bytes.toString(), 'tar');
		assert.equal(asked()[1].headers['content-type'], 'application/x-tar');
	});
});

describe('events', () => {
	const happened = (id) => event('exec_started', { id, at: '', type: 'exec_started', sandbox_id: 'sbx_1', data: {} }, id);

	test('go on behind the last one that was seen', async () => {
		const server = await serve((req, res, n) => {
			if (n === 0)
				return stream(res, event('ready', { cursor: 40 }, 40), 'cut');
			if (n === 1)
				return stream(res, event('ready', { cursor: 40 }, 40), happened(41), happened(42), 'cut');
			if (n === 2)
				return problem(res, 503, 'shutting_down', { retryAfter: 1 });
			return stream(res, event('ready', { cursor: 42 }, 42), event('gap', { from: 43, to: 50 }, 50), ': heartbeat\n\n', happened(51), 'hold');
		});
		const seen = [], gaps = [], begins = [];

		for await (const { id } of client(server).events({ type: 'exec_started', onGap: (gap) => gaps.push(gap), onReady: (at) => begins.push(at) })) {
			seen.push(id);
			if (id === 51)
				break;
		}
		assert.deepEqual([seen, gaps, begins], [[41, 42, 51], [{ from: 43, to: 50 }], [40, 40, 42]]);
		assert.deepEqual(server.requests.map(({ query }) => query.cursor), [undefined, '40', '42', '42']);
		assert.ok(server.requests.every(({ query }) => query.type === 'exec_started'));
	});

	test('end with the signal, and with an answer that is final', async () => {
		const stop = new AbortController();
		const server = await serve((req, res, n) => (n === 0 ? stream(res, event('ready', {}, 1), 'hold') : problem(res, 400, 'invalid_cursor')));
		const follow = async (options) => {
			for await (const one of client(server).events(options))
				assert.fail(one);
		};

		await assert.rejects(follow({ signal: stop.signal, onReady: () => stop.abort() }), { name: 'AbortError' });
		await assert.rejects(follow({ cursor: 7 }), { code: 'invalid_cursor' });
	});
});

test('a build tells how far it is, and how it ended', async () => {
	const image = { name: 'base', digest: 'x', size_bytes: 1, allocated_bytes: 1, created_at: '', user: 'sandbox', workdir: '/' };
	const server = await serve((req, res, n) => [
		() => stream(res, event('progress', { percent: 10, message: 'a' }), event('progress', { percent: 90, message: 'b' }), event('result', image)),
		() => json(res, 201, image),
		() => stream(res, event('error', { status: 503, code: 'image_busy', detail: 'busy' })),
	][n]());
	const told = [];

	assert.deepEqual(await client(server).buildImage('base', { onProgress: (...all) => told.push(all) }), image);
	assert.deepEqual(told, [[10, 'a'], [90, 'b']]);
	assert.deepEqual(await client(server).buildImage('base'), image);
	await assert.rejects(client(server).buildImage('base'), { code: 'image_busy', status: 503 });
});
