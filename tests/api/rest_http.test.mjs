// The daemon's HTTP as an attacker, a web page or a broken client meets it. No sandbox is needed: what is
// refused here must not make one.

import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import net from 'node:net';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';

import { build, startDaemon } from './lib/daemon.mjs';
import { exchange } from './lib/raw.mjs';

const BODY_MAX = 65536;
const HEADER_TIMEOUT_MS = 1500;

let daemon;
before(async () => {
	daemon = await startDaemon({
		config: {
			server: { allowed_hosts: 'skerry.internal' },
			limits: { request_body_bytes: BODY_MAX, http_header_timeout_ms: HEADER_TIMEOUT_MS },
		},
	});
});
after(() => daemon?.stop());

const host = () => `Host: ${new URL(daemon.url).host}\r\n`;
const key = () => `Authorization: Bearer ${daemon.key}\r\n`;
const close = 'Connection: close\r\n';
const json = 'Content-Type: application/json\r\n';

const noneMade = async () => assert.deepEqual(await daemon.sandboxes(), []);

describe('Host and Origin on every route', () => {
	const routes = [
		['GET', '/healthz'], ['GET', '/readyz'], ['GET', '/openapi.json'], ['GET', '/v1/sandboxes'],
		['POST', '/v1/sandboxes'], ['DELETE', '/v1/sandboxes/sbx_000000000000'], ['GET', '/v1/limits'],
		['OPTIONS', '/v1/sandboxes'], ['POST', '/mcp'], ['POST', '/mcp/'], ['GET', '/mcp'],
		['GET', '/no/such/route'], ['GET', '/.well-known/oauth-protected-resource'],
	];
	const send = (method, route, hostLine, originLine = '') =>
		exchange(daemon.url, `${method} ${route} HTTP/1.1\r\n${hostLine}${originLine}${key()}${json}${close}` +
			`Content-Length: 1\r\n\r\nx`);

	// A malformed body comes after these checks: whatever passed them gets anything but 403.
	for (const [name, hostOf, originOf, refused] of [
		['by address', (h) => h, null, false],
		['by name', (h) => h.replace('127.0.0.1', 'localhost'), null, false],
		['by a configured name', () => 'skerry.internal', null, false],
		['IPv6 loopback name', () => '[::1]:1', null, false],
		['rebound name', () => 'evil.example', null, true],
		['name that begins right', () => '127.0.0.1.evil.example', null, true],
		['name that ends right', () => 'evil-localhost', null, true],
		['other loopback address', () => '127.0.0.2', null, true],
		['same origin', (h) => h, (h) => `http://${h}`, false],
		['other origin', (h) => h, () => 'http://evil.example', true],
		['null origin', (h) => h, () => 'null', true],
		['https origin', (h) => h, (h) => `https://${h}`, true],
		['origin of another port', (h) => h, () => 'http://127.0.0.1:1', true],
		['origin that begins right', (h) => h, (h) => `http://${h}.evil.example`, true],
		['rebound name and its origin', () => 'evil.example', () => 'http://evil.example', true],
	]) {
		test(name, async () => {
			const h = new URL(daemon.url).host;

			for (const [method, route] of routes) {
				const origin = originOf ? `Origin: ${originOf(h)}\r\n` : '';
				const answer = await send(method, route, `Host: ${hostOf(h)}\r\n`, origin);

				assert.equal(answer.statuses.length, 1, `${method} ${route}: ${answer.text}`);
				assert.equal(answer.statuses[0] === 403, refused, `${method} ${route}: ${answer.text}`);
				assert.doesNotMatch(answer.text, /Access-Control/i);
			}
			await noneMade();
		});
	}

	for (const bad of ['', 'a b', 'localhost:', 'localhost:x', 'localhost:999999', 'user@localhost', '[::1',
		'localhost, evil.example', 'localhost/x'])
		test(`malformed Host '${bad}'`, async () => {
			const answer = await send('GET', '/v1/sandboxes', `Host: ${bad}\r\n`);

			assert.deepEqual(answer.statuses, [400]);
		});
});

describe('requests that are two requests to someone', () => {
	const smuggled = `GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n`;
	const corpus = {
		'two lengths': `Content-Length: 0\r\nContent-Length: ${smuggled.length}\r\n\r\n`,
		'the same length twice': `Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}`,
		'length and chunked': `Content-Length: ${smuggled.length}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
		'chunked and length': `Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n`,
		'chunked twice': `Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
		'chunked not last': `Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n`,
		'identity': `Transfer-Encoding: identity\r\n\r\n`,
		'quoted chunked': `Transfer-Encoding: "chunked"\r\n\r\n0\r\n\r\n`,
		'vertical tab before chunked': `Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n`,
		'blank before the colon': `Content-Length : ${smuggled.length}\r\n\r\n`,
		'tab before the colon': `Transfer-Encoding\t: chunked\r\n\r\n0\r\n\r\n`,
		'signed length': `Content-Length: +0\r\n\r\n`,
		'negative length': `Content-Length: -1\r\n\r\n`,
		'list of lengths': `Content-Length: 0, ${smuggled.length}\r\n\r\n`,
		'hexadecimal length': `Content-Length: 0x0\r\n\r\n`,
		'length with a fraction': `Content-Length: 0.0\r\n\r\n`,
		'chunk of negative size': `Transfer-Encoding: chunked\r\n\r\n-1\r\n\r\n`,
		'chunk of no size': `Transfer-Encoding: chunked\r\n\r\n\r\n\r\n`,
		'chunk of huge size': `Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n`,
		'chunk longer than its size': `Transfer-Encoding: chunked\r\n\r\n1\r\n{}\r\n0\r\n\r\n`,
		'header without a colon': `Nonsense\r\n\r\n`,
		'two hosts': `Host: localhost\r\n\r\n`,
		'two keys': `Authorization: Bearer other\r\n\r\n`,
	};

	for (const [name, rest] of Object.entries(corpus))
		test(name, async () => {
			const request = `POST /v1/sandboxes HTTP/1.1\r\n${host()}${key()}${json}${rest}${smuggled}`;
			const answer = await exchange(daemon.url, request);

			assert.ok(answer.closed, 'the connection ends with the refusal');
			assert.ok(answer.statuses.length > 0 && answer.statuses.every((s) => s === 400 || s === 413), answer.text);
			assert.doesNotMatch(answer.text, /"ok"/, 'what follows is not served');
			await noneMade();
		});

	test('requests one after the other on one connection are answered in order', async () => {
		const answer = await exchange(daemon.url,
			`GET /healthz HTTP/1.1\r\n${host()}\r\n` +
			`GET /v1/sandboxes HTTP/1.1\r\n${host()}${key()}\r\n` +
			`GET /nothing HTTP/1.1\r\n${host()}${close}\r\n`);

		assert.deepEqual(answer.statuses, [200, 200, 404]);
	});
});

describe('sizes', () => {
	test('a body over the limit is 413 and read to its end', async () => {
		const body = ' '.repeat(BODY_MAX + 1);
		const answer = await exchange(daemon.url,
			`POST /v1/sandboxes HTTP/1.1\r\n${host()}${key()}${json}Content-Length: ${body.length}\r\n\r\n${body}`);

		assert.deepEqual(answer.statuses, [413]);
		assert.match(answer.text, new RegExp(`larger than ${BODY_MAX} bytes`));
		assert.ok(answer.closed);
	});

	test('a body at the limit is taken', async () => {
		const body = ' '.repeat(BODY_MAX - 2) + '[]';
		const answer = await daemon.request('POST', '/v1/sandboxes', body);

		assert.equal(answer.status, 400);
		assert.equal(answer.json.code, 'invalid_argument');
	});

	test('a chunked body over the limit is 413', async () => {
		const chunk = `${(4096).toString(16)}\r\n${' '.repeat(4096)}\r\n`;
		const answer = await exchange(daemon.url,
			`POST /v1/sandboxes HTTP/1.1\r\n${host()}${key()}${json}Transfer-Encoding: chunked\r\n\r\n` +
			chunk.repeat(40) + '0\r\n\r\n');

		assert.deepEqual(answer.statuses, [413]);
	});

	test('a length beyond all bounds is refused at once', async () => {
		const answer = await exchange(daemon.url,
			`POST /v1/sandboxes HTTP/1.1\r\n${host()}${key()}${json}Content-Length: 9000000000000000000\r\n\r\n{`);

		assert.deepEqual(answer.statuses, [413]);
		assert.ok(answer.ms < HEADER_TIMEOUT_MS);
	});

	test('headers and paths beyond all bounds', async () => {
		const header = await exchange(daemon.url, `GET /healthz HTTP/1.1\r\n${host()}X: ${'x'.repeat(100_000)}\r\n\r\n`);
		const line = await exchange(daemon.url, `GET /${'x'.repeat(100_000)} HTTP/1.1\r\n${host()}\r\n`);

		assert.equal(header.statuses[0], 431);
		assert.equal(line.statuses[0], 414);
	});
	after(noneMade);
});

describe('slow clients', () => {
	const drip = (text) => Array.from({ length: 60 }, (_, i) => (i === 0 ? text : 'x'));

	test('a header that never ends', async () => {
		const answer = await exchange(daemon.url, drip(`GET /healthz HTTP/1.1\r\nHost: l`),
			{ withinMs: 20_000, gapMs: 200 });

		assert.ok(answer.closed);
		assert.deepEqual(answer.statuses, [408]);
		assert.ok(answer.ms > HEADER_TIMEOUT_MS && answer.ms < 4 * HEADER_TIMEOUT_MS, `${answer.ms} ms`);
	});

	test('a body that stops', async () => {
		const answer = await exchange(daemon.url,
			`POST /v1/sandboxes HTTP/1.1\r\n${host()}${key()}${json}Content-Length: 100\r\n\r\n{`, { withinMs: 20_000 });

		assert.ok(answer.closed);
		assert.deepEqual(answer.statuses, [408]);
	});

	test('a body that drips', async () => {
		const answer = await exchange(daemon.url,
			drip(`POST /v1/sandboxes HTTP/1.1\r\n${host()}${key()}${json}Content-Length: 1000\r\n\r\n{`),
			{ withinMs: 40_000, gapMs: 400 });

		assert.ok(answer.closed);
		assert.ok(answer.ms < 12 * HEADER_TIMEOUT_MS, `${answer.ms} ms`);
	});

	test('a thousand idle connections leave room for work', async () => {
		const { port } = new URL(daemon.url);
		const sockets = await Promise.all(Array.from({ length: 1000 }, () => new Promise((resolve, reject) => {
			const socket = net.connect(Number(port), '127.0.0.1', () => resolve(socket));

			socket.on('error', reject);
		})));
		const began = Date.now();

		try {
			const threads = fs.readdirSync(`/proc/${daemon.pid}/task`).length;

			assert.equal((await daemon.request('GET', '/v1/sandboxes')).status, 200);
			assert.ok(Date.now() - began < 2000);
			assert.ok(threads < 100, `${threads} threads`);
			await sleep(2 * HEADER_TIMEOUT_MS); // silence is not slowness
			assert.ok(sockets.every((socket) => !socket.destroyed && socket.readable));
		} finally {
			sockets.forEach((socket) => socket.destroy());
		}
	});
});

describe('keys', () => {
	for (const [name, value] of [['none', null], ['empty', 'Bearer '], ['wrong', 'Bearer sk_nothing'],
		['another scheme', 'Basic YTpi'], ['too long', `Bearer ${'x'.repeat(5000)}`]])
		test(name, async () => {
			for (const [method, route] of [['GET', '/v1/sandboxes'], ['POST', '/v1/sandboxes'], ['GET', '/v1/doctor'],
				['DELETE', '/v1/sandboxes/sbx_0']]) {
				const response = await fetch(new URL(route, daemon.url),
					{ method, headers: value === null ? {} : { Authorization: value } });
				const problem = await response.json();

				assert.equal(response.status, 401);
				assert.match(response.headers.get('www-authenticate'), /^Bearer .*error="invalid_token"/);
				assert.equal(problem.code, 'invalid_key');
				assert.doesNotMatch(JSON.stringify(problem), /sk_nothing|xxxx/);
			}
		});

	test('the log has no key', () => {
		assert.ok(!daemon.log().includes(daemon.key) && !daemon.log().includes('sk_nothing'));
	});

	test('health needs none', async () => {
		for (const route of ['/healthz', '/readyz', '/openapi.json'])
			assert.equal((await fetch(new URL(route, daemon.url))).status, 200);
	});
});

describe('a second daemon', () => {
	const run = (...args) => spawnSync(path.join(build, 'skerryd'), args, { encoding: 'utf8', timeout: 30_000 });

	test('on the same state directory fails and touches nothing', async () => {
		const before = fs.readFileSync(path.join(daemon.stateDir, 'listen'), 'utf8');
		const second = run('--state-dir', daemon.stateDir, '--listen', '127.0.0.1:0');

		assert.equal(second.status, 1, second.stderr);
		assert.match(second.stderr, /another daemon/);
		assert.equal(fs.readFileSync(path.join(daemon.stateDir, 'listen'), 'utf8'), before);
		assert.equal((await daemon.request('GET', '/v1/sandboxes')).status, 200);
	});

	test('on a taken port fails before it makes anything', () => {
		const state = `${daemon.stateDir}-second`;
		const second = run('--state-dir', state, '--listen', new URL(daemon.url).host);

		assert.equal(second.status, 1, second.stderr);
		assert.match(second.stderr, /the port is taken/);
		assert.ok(!fs.existsSync(state));
	});

	test('on an address that everyone reaches is refused', () => {
		const second = run('--state-dir', `${daemon.stateDir}-second`, '--listen', '0.0.0.0:0');

		assert.equal(second.status, 2);
		assert.match(second.stderr, /not a loopback address/);
	});
});

test('TLS', async (t) => {
	const state = fs.mkdtempSync(path.join(path.dirname(daemon.stateDir), 'skerry-tls-'));
	const [cert, keyFile] = [path.join(state, 'cert.pem'), path.join(state, 'key.pem')];

	t.after(() => fs.rmSync(state, { recursive: true, force: true }));
	assert.equal(spawnSync('openssl', ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes',
		'-days', '1', '-subj', '/CN=localhost', '-addext', 'subjectAltName=DNS:localhost', '-keyout', keyFile, '-out',
		cert]).status, 0);
	const child = spawn(path.join(build, 'skerryd'), ['--state-dir', state, '--listen', '127.0.0.1:0', '--tls-cert', cert,
		'--tls-key', keyFile], { stdio: 'ignore' });
	const ended = new Promise((resolve) => child.once('exit', resolve));

	try {
		for (let i = 0; i < 300 && !fs.existsSync(path.join(state, 'listen')); i++)
			await sleep(50);
		const url = fs.readFileSync(path.join(state, 'listen'), 'utf8').trim().replace('127.0.0.1', 'localhost');

		assert.match(url, /^https:/);
		const curl = (...args) => spawnSync('curl', ['-s', '--cacert', cert, '-w', '%{http_code}', '-o', '/dev/null', ...args],
			{ encoding: 'utf8' }).stdout;

		assert.equal(curl(`${url}/healthz`), '200');
		assert.equal(curl(`${url}/v1/sandboxes`), '401');
		assert.equal(curl('-H', `Origin: ${url}`, `${url}/healthz`), '200');
		assert.equal(curl('-H', `Origin: ${url.replace('https', 'http')}`, `${url}/healthz`), '403');
		assert.equal(curl('--tls-max', '1.1', `${url}/healthz`), '000');
	} finally {
		child.kill('SIGTERM');
		assert.equal(await ended, 0);
	}
});
