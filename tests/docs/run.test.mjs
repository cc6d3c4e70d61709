// Every page of the documentation is run as the script that it is, against a daemon with real sandboxes and a
// small internet behind them; and the daemon serves it. lib/pages.mjs has what the marks in a page mean.
// SKERRY_DOCS_PAGE=egress runs pages whose name has that in it.

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';

import { startDaemon } from '../api/lib/daemon.mjs';
import { inside, makeWorld, runInside } from '../api/lib/world.mjs';
import { connect, clientKinds } from '../api/lib/mcp.mjs';
import { allPages } from './lib/pages.mjs';
import { howToRun, runBlock } from './lib/run.mjs';
import { Session } from './lib/session.mjs';

const only = process.env.SKERRY_DOCS_PAGE ?? '';
const pages = allPages().filter(({ name }) => name.includes(only));
let daemon, world;

async function putAway() {
	const items = await daemon.sandboxes();

	await Promise.all(items.map(({ id }) => daemon.request('DELETE', `/v1/sandboxes/${id}`)));
	for (const { name } of (await daemon.request('GET', '/v1/snapshots')).json.items)
		await daemon.request('DELETE', `/v1/snapshots/${name}`);
	for (const { name } of (await daemon.request('GET', '/v1/networks')).json.items)
		await daemon.request('DELETE', `/v1/networks/${name}`);
}

const get = async (route, headers = {}) => {
	const response = await fetch(new URL(route, daemon.url), { headers });

	return { status: response.status, headers: response.headers, text: await response.text() };
};

if (!inside) {
	runInside(import.meta.url);
} else {
	before(async () => {
		world = await makeWorld();
		daemon = await startDaemon({ config: { ...world.config, limits: { labels_max: 31, 'size.huge': '8 16384 60' } } });
		await daemon.ensureImage('base');
	});
	after(async () => {
		await daemon?.stop();
		world?.close();
	});

	describe('blocks of code', { concurrency: false }, () => {
		for (const page of pages) {
			if (!page.blocks.some((block) => howToRun(block).kind !== 'text'))
				continue;
			test(page.name, async (t) => {
				const session = new Session(daemon);

				try {
					for (const block of page.blocks) {
						const { kind, reason } = howToRun(block);

						if (kind === 'not run')
							t.diagnostic(`${page.name}:${block.line} is not run: ${reason}`);
						else if (kind !== 'text')
							await runBlock(session, block).catch((error) => {
								throw new Error(`${page.name}:${block.line}: ${error.message}`, { cause: error });
							});
					}
				} finally {
					await session.close();
					await putAway();
				}
			});
		}

		test('most of them are run', (t) => {
			const kinds = pages.flatMap(({ blocks }) => blocks).map((block) => howToRun(block).kind).filter((kind) => kind !== 'text');
			const left = kinds.filter((kind) => kind === 'not run').length;

			t.diagnostic(`${kinds.length - left} blocks are run, ${left} are not`);
			assert.ok(left * 2 < kinds.length || only, `${left} of ${kinds.length} are not run`);
		});
	});

	describe('served by the daemon', () => {
		test('without a key, as text, with an ETag', async () => {
			const page = await get('/docs/limits.md');

			assert.equal(page.status, 200);
			assert.equal(page.headers.get('content-type'), 'text/plain; charset=utf-8');
			assert.equal(page.headers.get('cache-control'), 'no-cache');
			const again = await get('/docs/limits.md', { 'If-None-Match': page.headers.get('etag') });

			assert.equal(again.status, 304);
			assert.equal(again.text, '');
			assert.equal((await get('/docs/limits')).text, page.text);
			assert.equal((await fetch(new URL('/docs/limits.md', daemon.url), { method: 'HEAD' })).headers.get('content-length'),
				String(Buffer.byteLength(page.text)));
		});

		test('with the limits, sizes and prices of this server, and none of its marks', async () => {
			const { text } = await get('/docs/limits.md');

			assert.match(text, /^\| `labels_max` \| 31 \|/m);
			assert.match(text, /^\| `huge` \| 8 \| 16 GiB \| 60 GiB \|$/m);
			assert.match((await get('/docs/credits.md')).text, /^\| `huge` \| \d+ \|/m);
			assert.match((await get('/docs/api.md')).text, /`huge`/);
			assert.doesNotMatch((await get('/llms-full.txt')).text, /<!--/);
		});

		test('every page that llms.txt lists, whole', async () => {
			const index = await get('/llms.txt');
			const listed = [...index.text.matchAll(/\]\((\/docs\/[^)]+)\)/g)].map(([, route]) => route);
			const whole = await get('/llms-full.txt');

			assert.equal((await get('/docs/')).text, index.text);
			assert.ok(listed.length >= 30);
			for (const route of listed) {
				const { status, text } = await get(route);

				assert.equal(status, 200, route);
				assert.ok(whole.text.includes(text), route);
			}
		});

		test('what is not there, and what may not be done', async () => {
			for (const route of ['/docs/no-such.md', '/docs/..%2fREADME.md', '/docs/limits.mdx', '/docs/conn', '/docs/llms.txt', '/llms']) {
				const { status, text } = await get(route);

				assert.equal(status, 404, route);
				assert.equal(JSON.parse(text).code, 'not_found');
			}
			assert.equal((await daemon.request('POST', '/docs/limits.md', {})).status, 405);
		});

		test('the reference has every route of the OpenAPI document', async () => {
			const { text } = await get('/docs/api.md');
			const { paths } = JSON.parse((await get('/openapi.json')).text);

			for (const [route, methods] of Object.entries(paths))
				for (const method of Object.keys(methods))
					assert.ok(text.includes(`### \`${method.toUpperCase()} ${route}\``), `${method} ${route}`);
		});
	});

	// Their blocks are compared with `skerry mcp config`; here what is in them is used.
	describe('configurations of MCP clients', () => {
		const configs = pages.flatMap(({ blocks }) => blocks).filter(({ lang, directives }) => directives.config && lang === 'json')
			.map((block) => [block.directives.config, JSON.parse(block.text)]);

		for (const [client, config] of configs)
			test(client, async () => {
				const server = (config.mcpServers ?? config.servers).skerry;

				if (client === 'stdio') {
					assert.deepEqual([server.command, server.args], ['skerry', ['mcp']]);
					return;
				}
				const { pathname } = new URL(server.url ?? server.httpUrl);
				const [scheme, key] = server.headers.Authorization.split(' ');

				assert.equal(scheme, 'Bearer');
				assert.match(key, /^\$\{(env:)?SKERRY_API_KEY\}$|^\$\{input:skerry-api-key\}$/);
				const { client: mcp } = await connect(daemon, clientKinds[1], { path: pathname });

				assert.ok((await mcp.listTools()).tools.length >= 11);
				await mcp.close();
			});
	});
}
