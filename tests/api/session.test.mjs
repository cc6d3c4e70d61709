// Sessions of browsers: what the cookie opens, to whom, and to whom not. And the page's own files. On the rig's
// core without machines, by raw HTTP: every header is as it stands here.

import assert from 'node:assert/strict';
import { gunzipSync } from 'node:zlib';
import { after, before, describe, test } from 'node:test';

import { KEY, Rig, serve, withKey } from './lib/preview_rig.mjs';

let rig, origin, cookie;

const bearer = { Authorization: `Bearer ${KEY}` };

before(async () => {
	rig = await Rig.start();
	origin = new URL(rig.url).origin;
});
after(async () => assert.equal(await rig.stop(), 0));

async function signIn() {
	const answer = await rig.request('POST', '/v1/session', { headers: bearer });

	assert.equal(answer.status, 201, answer.text);
	return { answer, cookie: answer.headers['set-cookie'][0].split(';')[0] };
}

const ask = async (method, path, headers = {}, body) => {
	const answer = await rig.request(method, path, { headers: { Cookie: cookie, ...headers }, body });

	return { ...answer, json: answer.text && /json/.test(answer.headers['content-type'] ?? '') ? JSON.parse(answer.text) : undefined };
};

describe('the cookie', () => {
	test('is for scripts and other sites out of reach', async () => {
		const { answer } = await signIn();
		const [set] = answer.headers['set-cookie'];

		assert.match(set, /^skerry_session=ses_\w{40}; Path=\/; Max-Age=\d+; HttpOnly; SameSite=Strict$/);
		assert.ok(!answer.text.includes(set.split(/[=;]/)[1]), 'the token is in no body');
		cookie = set.split(';')[0];
	});

	test('is worth its key', async () => {
		({ cookie } = await signIn());
		const { status, json } = await ask('GET', '/v1/session');

		assert.equal(status, 200);
		assert.deepEqual(json, { account_id: 'acc_1', key_id: 'key_1', admin: true });
		assert.equal((await ask('GET', '/v1/sandboxes')).status, 200);
	});

	test('counts for nothing where there is a key', async () => {
		const { status, json } = await ask('GET', '/v1/session', { Authorization: 'Bearer sk_wrong' });

		assert.equal(status, 401);
		assert.equal(json.code, 'invalid_key');
	});

	test('is among others, and not mistaken for them', async () => {
		({ cookie } = await signIn());
		const token = cookie.split('=')[1];

		for (const [header, status] of [
			[`a=b; ${cookie}; c=d`, 200], [`a=b;${cookie}`, 200],
			[`xskerry_session=${token}`, 401], [`skerry_sessionx=${token}`, 401], [`skerry_session=${token}x`, 401],
			['skerry_session=', 401], ['skerry_session', 401], [`__Host-${cookie}`, 401], [`skerry_session=${KEY}`, 401],
		])
			assert.equal((await ask('GET', '/v1/session', { Cookie: header })).status, status, header);
	});

	test('a key is needed to get one', async () => {
		for (const headers of [{}, { Authorization: 'Bearer sk_wrong' }, { Authorization: 'Basic c2tfdGVzdDo=' }]) {
			const answer = await rig.request('POST', '/v1/session', { headers });

			assert.equal(answer.status, 401);
			assert.equal(answer.headers['set-cookie'], undefined);
		}
	});

	test('ends with signing out, for good', async () => {
		({ cookie } = await signIn());
		const { status, headers } = await ask('DELETE', '/v1/session', { Origin: origin });

		assert.equal(status, 200);
		assert.match(headers['set-cookie'][0], /^skerry_session=; Path=\/; Max-Age=0; /);
		assert.equal((await ask('GET', '/v1/session')).status, 401);
	});
});

describe('whoever has it not by himself', () => {
	const port = () => Number(new URL(rig.url).port);

	before(async () => ({ cookie } = await signIn()));

	// A page elsewhere makes the browser ask: the cookie may come along, what shows where it is from does too.
	const elsewhere = () => ({
		'another site': { Origin: 'https://evil.example', 'Sec-Fetch-Site': 'cross-site' },
		'another site, an old browser': { Origin: 'https://evil.example' },
		'an opaque origin': { Origin: 'null', 'Sec-Fetch-Site': 'cross-site' },
		'another port of this host': { Origin: `http://127.0.0.1:${port() + 1}`, 'Sec-Fetch-Site': 'same-site' },
		'another port, without Origin': { 'Sec-Fetch-Site': 'same-site' },
		'another site, without Origin': { 'Sec-Fetch-Site': 'cross-site' },
		'another scheme': { Origin: origin.replace('http', 'https'), 'Sec-Fetch-Site': 'cross-site' },
		'a preview by host': { Origin: `http://8000-sbx_aa.localhost:${port()}`, 'Sec-Fetch-Site': 'same-site' },
	});
	const routes = [
		['GET', '/v1/sandboxes'], ['GET', '/v1/session'], ['GET', '/v1/events'], ['GET', '/v1/sandboxes/sbx_aa/files?path=x'],
		['HEAD', '/v1/sandboxes/sbx_aa/files?path=x'], ['POST', '/v1/sandboxes'], ['DELETE', '/v1/sandboxes/sbx_aa'],
		['PUT', '/v1/sandboxes/sbx_aa/egress'], ['PUT', '/v1/sandboxes/sbx_aa/files?path=x'],
		['PUT', '/v1/sandboxes/sbx_aa/tree?path=x'], ['POST', '/v1/sandboxes/sbx_aa/exec'], ['DELETE', '/v1/session'],
		['POST', '/v1/session'],
	];

	for (const [method, path] of routes) {
		test(`${method} ${path} is refused to every page but this server's own`, async () => {
			for (const [name, headers] of Object.entries(elsewhere())) {
				const answer = await ask(method, path, { 'Content-Type': 'application/json', ...headers }, /^P/.test(method) ? '{}' : undefined);

				assert.equal(answer.status, 403, `${name}: ${answer.text}`);
				if (method !== 'HEAD' && answer.json?.code !== undefined)
					assert.equal(answer.json.code, 'forbidden_origin', name);
			}
		});
	}

	test('the agents\' door too', async () => {
		const ping = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'ping' });

		for (const [name, headers] of Object.entries({ ...elsewhere(), 'nothing that shows it': {} })) {
			const { status } = await ask('POST', '/mcp', { 'Content-Type': 'application/json', ...headers }, ping);

			assert.ok(status === 401 || status === 403, `${name}: ${status}`);
		}
	});

	test('a terminal too', async () => {
		const upgrade = {
			Connection: 'Upgrade', Upgrade: 'websocket', 'Sec-WebSocket-Version': '13', 'Sec-WebSocket-Key': 'AAAAAAAAAAAAAAAAAAAAAA==',
		};

		for (const [name, headers] of Object.entries({ ...elsewhere(), 'nothing that shows it': {}, 'an address that was typed': { 'Sec-Fetch-Site': 'none' } })) {
			const answer = await ask('GET', '/v1/sandboxes/sbx_aa/terminal', { ...upgrade, ...headers });

			assert.equal(answer.status, 403, name);
			assert.equal(answer.json.code, 'forbidden_origin', name);
		}
	});

	test('what changes something must show where it is from', async () => {
		const change = (headers) => ask('POST', '/v1/sandboxes', { 'Content-Type': 'application/json', ...headers }, '{}');

		for (const headers of [{}, { 'Sec-Fetch-Site': 'none' }]) {
			const answer = await change(headers);

			assert.equal(answer.status, 403);
			assert.equal(answer.json.code, 'forbidden_origin');
		}
		assert.equal((await change({ Origin: origin })).status, 201);
		assert.equal((await change({ 'Sec-Fetch-Site': 'same-origin' })).status, 201);
		assert.equal((await change({ Origin: origin, 'Sec-Fetch-Site': 'same-origin' })).status, 201);
	});

	test('looking, from here or by going there', async () => {
		for (const headers of [{}, { Origin: origin }, { 'Sec-Fetch-Site': 'same-origin' }, { 'Sec-Fetch-Site': 'none' }])
			assert.equal((await ask('GET', '/v1/sandboxes', headers)).status, 200);
	});

	test('a foreign Host is none of ours', async () => {
		assert.equal((await ask('GET', '/v1/sandboxes', { Host: 'evil.example' })).status, 403);
	});
});

describe('previews and the page are apart', () => {
	let port, server;

	before(async () => {
		server = await serve((request, response) => {
			response.setHeader('Content-Type', 'text/html');
			response.end(`<p>${JSON.stringify(request.headers)}`);
		});
		({ port } = server);
	});
	after(() => server.close());

	const browser = { Accept: 'text/html', 'User-Agent': 'Mozilla/5.0', 'Sec-Fetch-Mode': 'navigate', 'Sec-Fetch-Dest': 'document', 'Sec-Fetch-Site': 'none' };

	test('a browser that comes by path is sent to an origin of its own', async () => {
		const token = await rig.sign(port);
		const own = new URL(rig.url).port;

		for (const headers of [browser, { 'User-Agent': 'Mozilla/5.0 (X11)' }, { 'Sec-Fetch-Dest': 'document' }, { 'Sec-Fetch-Site': 'same-origin' }]) {
			const answer = await rig.request('GET', rig.path(port, `/a/b?c=d&skerry_preview=${token}`), { headers });

			assert.equal(answer.status, 307, answer.text);
			assert.equal(answer.headers.location, `http://${port}-sbx_aa.localhost:${own}/a/b?c=d&skerry_preview=${token}`);
			assert.ok(!answer.text.includes('<p>'));
		}
	});

	test('and is shown none by a cookie, which only such a page could have', async () => {
		const token = await rig.sign(port);
		const answer = await rig.request('GET', rig.path(port), { headers: { ...browser, Cookie: `skerry_preview=${token}` } });

		assert.equal(answer.status, 403);
		assert.equal(JSON.parse(answer.text).code, 'preview_needs_host');
	});

	test('programs get by path what they ask for', async () => {
		const token = await rig.sign(port);

		for (const headers of [{ 'User-Agent': 'curl/8' }, { 'User-Agent': 'node', 'Sec-Fetch-Mode': 'cors' }])
			assert.equal((await rig.request('GET', rig.path(port, `/?skerry_preview=${token}`), { headers })).status, 200);
		assert.equal((await rig.request('GET', rig.path(port), { headers: { ...withKey, ...browser } })).status, 200);
	});

	test('the session opens no preview, and no guest sees it', async () => {
		({ cookie } = await signIn());
		assert.equal((await ask('GET', rig.path(port), {})).status, 401);
		const seen = await ask('GET', rig.path(port), withKey);

		assert.equal(seen.status, 200);
		assert.ok(!seen.text.includes('ses_'), seen.text);
	});
});

describe('the page', () => {
	let page, assets;

	before(async () => {
		page = await rig.request('GET', '/', { headers: {} });
		assets = [...page.text.matchAll(/(?:href|src)="([^"]+)"/g)].map(([, address]) => address);
	});

	test('is there without a key, and tells the browser what it may do', async () => {
		assert.equal(page.status, 200);
		assert.equal(page.headers['content-type'], 'text/html; charset=utf-8');
		const policy = page.headers['content-security-policy'];

		for (const part of [`default-src 'none'`, `script-src 'self'`, `style-src 'self'`, `connect-src 'self'`, `frame-ancestors 'none'`,
			`base-uri 'none'`, `form-action 'none'`, `require-trusted-types-for 'script'`])
			assert.ok(policy.split('; ').includes(part), part);
		assert.doesNotMatch(policy, /unsafe|\*|https?:/);
		assert.equal(page.headers['cross-origin-opener-policy'], 'same-origin');
		assert.equal(page.headers['x-content-type-options'], 'nosniff');
	});

	test('names files of one version, all of this server', async () => {
		assert.ok(assets.length >= 4);
		assert.deepEqual(assets.filter((one) => !/^\/dashboard\/[0-9a-f]{16}\/\w+\.\w+$/.test(one)), []);
		assert.equal(new Set(assets.map((one) => one.split('/')[2])).size, 1);
	});

	test('every module that a module names is there', async () => {
		const seen = new Set(), waiting = assets.map((one) => new URL(one, origin).href);

		for (let address; (address = waiting.pop());) {
			if (seen.has(address))
				continue;
			seen.add(address);
			const { status, text, headers } = await rig.request('GET', new URL(address).pathname, { headers: {} });

			assert.equal(status, 200, address);
			assert.match(headers['cache-control'], /immutable/);
			if (address.endsWith('.js'))
				for (const [, name] of text.matchAll(/^import [^;]*?['"](\.\/[^'"]+)['"];/gm))
					waiting.push(new URL(name, address).href);
		}
		assert.ok(seen.size > 30, `${seen.size}`);
		assert.ok([...seen].some((one) => one.endsWith('/xterm.js')));
	});

	test('is sent small, and once', async () => {
		const script = assets.find((one) => one.endsWith('.js'));

		for (const address of ['/', script]) {
			const plain = await rig.request('GET', address, { headers: {} });
			const packed = await rig.request('GET', address, { headers: { 'Accept-Encoding': 'gzip, br' } });

			assert.equal(packed.headers['content-encoding'], 'gzip');
			assert.equal(packed.headers.vary, 'Accept-Encoding');
			assert.deepEqual(gunzipSync(packed.body), plain.body);
			assert.notEqual(packed.headers.etag, plain.headers.etag);
			assert.match(plain.headers.etag, /^"[0-9a-f]{32}"$/);
			const again = await rig.request('GET', address, { headers: { 'If-None-Match': plain.headers.etag } });

			assert.equal(again.status, 304);
			assert.equal(again.text, '');
			assert.equal((await rig.request('GET', address, { headers: { 'If-None-Match': '"0"' } })).status, 200);
		}
	});

	test('what is not there is said, and nothing but looking is taken', async () => {
		assert.equal((await rig.request('GET', '/dashboard/0000000000000000/main.js', { headers: {} })).status, 404);
		assert.equal((await rig.request('GET', '/dashboard/../main.js', { headers: {} })).status, 404);
		assert.equal((await rig.request('POST', '/', { headers: {} })).status, 405);
		const head = await rig.request('HEAD', '/', { headers: {} });

		assert.equal(head.status, 200);
		assert.equal(head.text, '');
	});

	test('the licences of others are with it', async () => {
		const { text } = await rig.request('GET', `/dashboard/${assets[0].split('/')[2]}/licenses.txt`, { headers: {} });

		assert.match(text, /xterm\.js authors/);
		assert.match(text, /Leon Sorokin/);
	});
});
