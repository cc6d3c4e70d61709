// Previews: what is passed on between a browser or a program and a server in a sandbox, what is not, and
// who may. Real HTTP servers on loopback stand for those in the sandbox.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import crypto from 'node:crypto';
import fs from 'node:fs';
import http from 'node:http';
import https from 'node:https';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { after, afterEach, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';

import { Rig, KEY, serve, serveRaw, withKey } from './lib/preview_rig.mjs';
import { exchange } from './lib/raw.mjs';
import { connect, upper } from './lib/websocket.mjs';

let rig;
const open = [];

before(async () => {
	rig = await Rig.start('--domain', 'https://p.example');
});
after(async () => {
	assert.equal(await rig.stop(), 0);
});
afterEach(async () => {
	for (const server of open.splice(0))
		await server.close();
	await rig.quiet();
});

async function guest(handler, upgrade) {
	const server = await serve(handler, upgrade);

	open.push(server);
	return server;
}

async function rawGuest(answer) {
	const server = await serveRaw(answer);

	open.push(server);
	return server;
}

// Answers with what it was asked.
const echo = (request, response) => {
	const chunks = [];

	request.on('data', (chunk) => chunks.push(chunk));
	request.on('end', () => {
		response.setHeader('Content-Type', 'application/json');
		response.end(JSON.stringify({
			method: request.method,
			url: request.url,
			headers: request.headers,
			rawHeaders: request.rawHeaders,
			body: Buffer.concat(chunks).toString(),
		}));
	});
};

const problem = (answer, status, code) => {
	assert.equal(answer.status, status, answer.text);
	const json = JSON.parse(answer.text);

	assert.equal(json.code, code);
	return json;
};

describe('what is passed on', () => {
	test('method, path, query, headers and body', async () => {
		const { port } = await guest(echo);
		const answer = await rig.request('PATCH', rig.path(port, '/a%2fb//c/../d?x=%20&y'), {
			headers: { ...withKey, 'X-Own': 'one', 'Content-Type': 'text/x', Cookie: 'a=1' },
			body: 'hello',
		});
		const seen = JSON.parse(answer.text);

		assert.equal(answer.status, 200);
		assert.equal(answer.headers['content-type'], 'application/json');
		assert.equal(seen.method, 'PATCH');
		assert.equal(seen.url, '/a%2fb//c/../d?x=%20&y');
		assert.equal(seen.body, 'hello');
		assert.equal(seen.headers['x-own'], 'one');
		assert.equal(seen.headers['content-type'], 'text/x');
		assert.equal(seen.headers['content-length'], '5');
		assert.equal(seen.headers.cookie, 'a=1');
		assert.equal(seen.headers.host, new URL(rig.url).host);
		assert.equal(seen.headers['x-forwarded-for'], '127.0.0.1');
		assert.equal(seen.headers['x-forwarded-host'], new URL(rig.url).host);
		assert.equal(seen.headers['x-forwarded-proto'], 'http');
		assert.equal(seen.headers['x-forwarded-prefix'], `/preview/sbx_aa/${port}`);
		assert.doesNotMatch(answer.text, /sk_test/);
	});

	test('not what was for the daemon, nor what is about the connection', async () => {
		const { port } = await guest(echo);
		const token = await rig.sign(port);
		const answer = await rig.get(rig.path(port, `/?a=1&skerry_preview=${token}&b=2`), {
			Connection: 'keep-alive, X-Hop',
			'X-Hop': '1',
			TE: 'trailers',
			'Keep-Alive': 'timeout=5',
			'Proxy-Authorization': 'Basic eA==',
			'X-Forwarded-For': '6.6.6.6',
			'X-Forwarded-Whatever': 'x',
			Forwarded: 'for=6.6.6.6',
			'X-Real-IP': '6.6.6.6',
			Cookie: `skerry_preview=${token}; app=1; skerry_session=x`,
			Referer: `${rig.url}/preview/sbx_aa/${port}/?skerry_preview=${token}`,
			Authorization: 'Basic dTpw',
		});
		const { url, headers } = JSON.parse(answer.text);

		assert.equal(url, '/?a=1&b=2');
		for (const name of ['x-hop', 'te', 'keep-alive', 'proxy-authorization', 'x-forwarded-whatever', 'forwarded',
			'x-real-ip', 'referer'])
			assert.equal(headers[name], undefined, name);
		assert.equal(headers['x-forwarded-for'], '127.0.0.1');
		assert.equal(headers.connection, 'close');
		assert.equal(headers.cookie, 'app=1');
		assert.equal(headers.authorization, 'Basic dTpw'); // the application's own
		assert.doesNotMatch(answer.text, new RegExp(token.replaceAll('.', '\\.')));
	});

	test('an answer as it is, but for what is about the connection', async () => {
		const { port } = await rawGuest((socket) => socket.end('HTTP/1.1 203 Sure\r\nConnection: close, X-Hop\r\n' +
			'X-Hop: 1\r\nKeep-Alive: x\r\nX-Own: a\tb\r\nEmpty:\r\nCache-Control: max-age=9\r\n' +
			'Content-Security-Policy: default-src x\r\nCross-Origin-Opener-Policy: same-origin\r\n' +
			'ETag: "x"\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2; Path=/x; Domain=localhost\r\n' +
			'Set-Cookie: skerry_preview=stolen; Path=/\r\nLocation: /next\r\nContent-Length: 2\r\n\r\nok'));
		const { status, headers, text } = await rig.get(rig.path(port));

		assert.equal(status, 203);
		assert.equal(text, 'ok');
		assert.equal(headers['x-hop'], undefined);
		assert.equal(headers['x-own'], 'a\tb');
		assert.equal(headers['cache-control'], 'max-age=9');
		assert.equal(headers['content-security-policy'], 'default-src x');
		assert.equal(headers['cross-origin-opener-policy'], 'same-origin');
		assert.equal(headers.etag, '"x"');
		assert.equal(headers['content-length'], '2');
		assert.deepEqual(headers['set-cookie'], ['a=1', `b=2; Path=/preview/sbx_aa/${port}/x`]);
		assert.equal(headers.location, `/preview/sbx_aa/${port}/next`);
		assert.equal(headers['x-content-type-options'], undefined);
	});

	test('on the shared host, nothing that speaks for the whole of it', async () => {
		const { port } = await guest((request, response) => {
			response.writeHead(200, {
				'Clear-Site-Data': '"*"', 'Strict-Transport-Security': 'max-age=9', 'Alt-Svc': 'h3=":1"',
				'Service-Worker-Allowed': '/', 'Report-To': '{}', NEL: '{}',
			}).end();
		});
		const names = ['clear-site-data', 'strict-transport-security', 'alt-svc', 'service-worker-allowed', 'report-to',
			'nel'];
		const shared = await rig.get(rig.path(port));
		const own = await rig.get('/', { ...withKey, Host: `${port}-sbx_aa.localhost` });

		for (const name of names) {
			assert.equal(shared.headers[name], undefined, name);
			assert.notEqual(own.headers[name], undefined, name);
		}
	});

	test('by host: paths and cookies are its own', async () => {
		const { port } = await guest((request, response) => {
			response.setHeader('Set-Cookie', 'a=1; Path=/x; Domain=p.example');
			response.setHeader('Location', '/next');
			echo(request, response);
		});

		for (const host of [`${port}-sbx_aa.localhost:1`, `${port}-SBX-AA.P.example`]) {
			const answer = await rig.get('/preview/x', { ...withKey, Host: host });
			const seen = JSON.parse(answer.text);

			assert.equal(seen.url, '/preview/x');
			assert.equal(seen.headers.host, host);
			assert.equal(seen.headers['x-forwarded-prefix'], undefined);
			assert.equal(seen.headers['x-forwarded-proto'], host.endsWith('example') ? 'https' : 'http');
			assert.deepEqual(answer.headers['set-cookie'], ['a=1; Path=/x']);
			assert.equal(answer.headers.location, '/next');
		}
	});

	test('HEAD, 204, 304, and bodies of every framing, over one connection', async () => {
		const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
		const { port } = await guest((request, response) => {
			const what = request.url.slice(1);

			if (what === '204' || what === '304')
				response.writeHead(Number(what), { ETag: '"x"' }).end();
			else if (what === 'chunked')
				response.write('one,', () => response.end('two'));
			else if (what === 'long')
				response.writeHead(200, { 'Content-Length': 7 }).end('one,two');
			else
				response.writeHead(200, { Connection: 'close', 'Transfer-Encoding': 'identity' }).end('one,two');
		});
		const { port: old } = await rawGuest((socket) => socket.end('HTTP/1.0 200 OK\n\none,two'));

		for (const what of ['chunked', 'long', '204', 'long', '304', 'chunked']) {
			const answer = await rig.request('GET', rig.path(port, `/${what}`), { agent });

			assert.equal(answer.status, Number(what) || 200, what);
			assert.equal(answer.text, Number(what) ? '' : 'one,two', what);
			assert.equal(answer.aborted, false);
		}
		for (const what of ['chunked', 'long', '204']) {
			const answer = await rig.request('HEAD', rig.path(port, `/${what}`), { agent });

			assert.equal(answer.text, '');
			assert.equal(answer.headers['content-length'], what === 'long' ? '7' : undefined);
		}
		assert.equal((await rig.request('GET', rig.path(old), { agent })).text, 'one,two');
		agent.destroy();
		// Byte by byte: nothing follows the head of an answer without a body.
		for (const [method, what] of [['HEAD', 'chunked'], ['GET', '304'], ['GET', '204'], ['HEAD', 'long']]) {
			const { text } = await exchange(rig.url, `${method} ${rig.path(port, `/${what}`)} HTTP/1.1\r\nHost: localhost\r\n` +
				`Authorization: Bearer ${KEY}\r\nConnection: close\r\n\r\n`);

			assert.match(text, /\r\n\r\n$/, `${method} ${what}: ${text}`);
			assert.equal(text.split('\r\n\r\n').length, 2, text);
		}
	});

	test('interim answers are passed over', async () => {
		const { port } = await rawGuest((socket) => socket.end('HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\n' +
			'Link: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'));

		assert.equal((await rig.get(rig.path(port))).text, 'ok');
	});

	test('the largest heads pass, larger ones are refused', async () => {
		const head = (bytes) => `HTTP/1.1 200 OK\r\nA: ${'a'.repeat(bytes)}\r\nContent-Length: 2\r\n\r\nok`;
		const { port } = await rawGuest((socket, seen) => socket.end(head(Number(/ \/(\d+)/.exec(seen)[1]))));
		const large = 'b'.repeat(20_000);

		assert.equal((await rig.get(rig.path(port, '/16000'), { ...withKey, B: large })).headers.a.length, 16_000);
		problem(await rig.get(rig.path(port, '/17000')), 502, 'preview_bad_answer');
		problem(await rig.get(rig.path(port, '/1'), { ...withKey, B: large, C: large }), 431, 'headers_too_large');
	});
});

describe('streams', () => {
	test('server-sent events pass at once', async () => {
		let say;
		const { port } = await guest((request, response) => {
			response.writeHead(200, { 'Content-Type': 'text/event-stream' });
			say = (text) => (text ? response.write(text) : response.end());
			say(': hello\n\n');
		});
		const response = await fetch(`${rig.url}${rig.path(port)}`, { headers: withKey });
		const reader = response.body.getReader();
		const read = async () => Buffer.from((await reader.read()).value ?? []).toString();

		assert.equal(response.headers.get('content-type'), 'text/event-stream');
		assert.equal(await read(), ': hello\n\n');
		for (const text of ['data: 1\n\n', 'data: 2\n\n']) {
			say(text);
			assert.equal(await read(), text); // before anything else was said
		}
		say();
		assert.equal((await reader.read()).done, true);
	});

	test('large bodies pass both ways byte for byte', async () => {
		const block = crypto.randomBytes(1 << 20);
		const blocks = 48;
		const { port } = await guest((request, response) => {
			const hash = crypto.createHash('sha256');

			if (request.method === 'POST') {
				request.on('data', (chunk) => hash.update(chunk));
				request.on('end', () => response.end(hash.digest('hex')));
				return;
			}
			let left = blocks;
			const more = () => {
				while (left-- > 0)
					if (!response.write(block))
						return response.once('drain', more);
				response.end();
			};

			if (request.url === '/length')
				response.setHeader('Content-Length', block.length * blocks);
			more();
		});
		const expected = crypto.createHash('sha256');

		for (let i = 0; i < blocks; i++)
			expected.update(block);
		const wanted = expected.digest('hex');
		const upload = async (request) => {
			for (let i = 0; i < blocks; i++)
				if (!request.write(block))
					await new Promise((resolve) => request.once('drain', resolve));
			request.end();
		};

		assert.equal((await rig.request('POST', rig.path(port), { body: upload })).text, wanted);
		assert.equal((await rig.request('POST', rig.path(port), {
			body: upload, headers: { ...withKey, 'Content-Length': block.length * blocks },
		})).text, wanted);
		for (const route of ['/length', '/chunked']) {
			const answer = await rig.get(rig.path(port, route));

			assert.equal(crypto.createHash('sha256').update(answer.body).digest('hex'), wanted);
		}
	});

	test('a client that does not read holds the guest back, not the memory of the daemon', async () => {
		let written = 0, blocked = false;
		const { port } = await guest((request, response) => {
			const block = Buffer.alloc(1 << 16);
			const more = () => {
				do
					written += block.length;
				while (response.write(block));
				blocked = true;
				response.once('drain', () => {
					blocked = false;
					more();
				});
			};

			response.on('error', () => {});
			more();
		});
		const socket = net.connect(Number(new URL(rig.url).port), '127.0.0.1');

		socket.pause();
		socket.write(`GET ${rig.path(port)} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${KEY}\r\n\r\n`);
		for (let last = -1; !blocked || written !== last; await sleep(300))
			last = written;
		assert.ok(written < 64 << 20, `${written} bytes are somewhere`); // kernel's buffers, for the most part
		socket.destroy();
	});

	test('a guest that does not read holds the client back', async () => {
		const { port } = await rawGuest((socket) => socket.pause());
		const socket = net.connect(Number(new URL(rig.url).port), '127.0.0.1');
		const block = Buffer.alloc(1 << 16);
		let sent = 0, blocked = false;
		const more = () => {
			do
				sent += block.length;
			while (socket.write(block));
			blocked = true;
			socket.once('drain', () => {
				blocked = false;
				more();
			});
		};

		socket.on('error', () => {});
		socket.write(`POST ${rig.path(port)} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${KEY}\r\n` +
			`Content-Length: ${1 << 30}\r\n\r\n`);
		more();
		for (let last = -1; !blocked || sent !== last; await sleep(300))
			last = sent;
		assert.ok(sent < 64 << 20, `${sent} bytes are somewhere`);
		socket.destroy();
	});

	test('a client that vanishes ends the connection into the sandbox', async () => {
		let gone;
		const ended = new Promise((resolve) => (gone = resolve));
		const { port } = await guest((request, response) => {
			response.write('x');
			request.socket.on('close', gone);
		});
		const controller = new AbortController();
		const response = await fetch(`${rig.url}${rig.path(port)}`, { headers: withKey, signal: controller.signal });

		await response.body.getReader().read();
		controller.abort();
		await ended;
	});

	test('a guest that answers before it has read the body', async () => {
		const { port } = await rawGuest((socket) => socket.end('HTTP/1.1 413 No\r\nContent-Length: 3\r\n\r\nno!'));
		const answer = await rig.request('POST', rig.path(port), {
			body: (request) => {
				request.on('error', () => {});
				request.write(Buffer.alloc(4 << 20), () => request.end());
			},
		});

		assert.equal(answer.status, 413);
		assert.equal(answer.text, 'no!');
	});

	test('Expect: 100-continue', async () => {
		const { port } = await guest(echo);
		const answer = await rig.request('POST', rig.path(port), {
			headers: { ...withKey, Expect: '100-continue' },
			body: (request) => request.on('continue', () => request.end('now')),
		});

		assert.equal(JSON.parse(answer.text).body, 'now');
		// Without anybody listening, the body is not asked for.
		const nobody = await rig.request('POST', rig.path(1), {
			headers: { ...withKey, Expect: '100-continue', 'Content-Length': 1 << 30 },
			body: (request) => request.flushHeaders(),
		});

		problem(nobody, 502, 'port_not_listening');
	});

	test('an answer that breaks off breaks off for the client', async () => {
		const { port } = await rawGuest((socket, seen) => {
			socket.write(seen.includes('/length') ? 'HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf'
				: 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n');
			setTimeout(() => socket.destroy(), 50);
		});

		for (const route of ['/length', '/chunked']) {
			const answer = await rig.get(rig.path(port, route));

			assert.equal(answer.text, 'half');
			assert.equal(answer.aborted, true);
		}
	});
});

describe('WebSocket', () => {
	const dial = async (target, port, via = http) => {
		const key = crypto.randomBytes(16).toString('base64');
		const url = `${target.url}${target.path(port)}?skerry_preview=${await target.sign(port)}`;

		return connect(via.request(url, {
			rejectUnauthorized: false,
			headers: {
				Connection: 'keep-alive, Upgrade', Upgrade: 'websocket', 'Sec-WebSocket-Version': '13',
				'Sec-WebSocket-Key': key,
			},
		}), key);
	};

	const converse = async (ws) => {
		assert.equal(await ws.next(), 'hi');
		for (const text of ['one', 'two', 'three'])
			ws.send(text);
		for (const text of ['ONE', 'TWO', 'THREE'])
			assert.equal(await ws.next(), text);
		ws.close();
		assert.equal(await ws.closed, true);
	};

	test('passes both ways', async () => {
		let seen;
		const { port } = await guest(echo, (request, socket, head) => {
			seen = request.headers;
			upper(request, socket, head);
		});

		await converse(await dial(rig, port));
		assert.equal(seen.connection, 'Upgrade');
		assert.equal(seen.upgrade, 'websocket');
		assert.equal(seen['x-forwarded-prefix'], rig.path(port, ''));
	});

	test('passes both ways under TLS, with events and bodies beside it', async () => {
		const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'skerry-preview-'));
		const [cert, key] = ['cert.pem', 'key.pem'].map((name) => path.join(folder, name));

		execFileSync('openssl', ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes',
			'-keyout', key, '-out', cert, '-days', '2', '-subj', '/CN=localhost'], { stdio: 'ignore' });
		const tls = await Rig.start('--tls', cert, key);
		const { port } = await guest(echo, upper);

		await converse(await dial(tls, port, https));
		const cut = await dial(tls, port, https);

		assert.equal(await cut.next(), 'hi');
		await tls.ask('end');
		assert.equal(await cut.closed, false);
		const answer = await new Promise((resolve, reject) =>
			https.request(`${tls.url}${tls.path(port)}`,
				{ method: 'POST', headers: withKey, rejectUnauthorized: false },
				async (response) => resolve(JSON.parse(Buffer.concat(await response.toArray()))))
				.on('error', reject).end('x'.repeat(1 << 20)));

		assert.equal(answer.body.length, 1 << 20);
		assert.equal(answer.headers['x-forwarded-proto'], 'https');
		await tls.quiet();
		assert.equal(await tls.stop(), 0);
		fs.rmSync(folder, { recursive: true });
	});

	test('is cut when the sandbox ends', async () => {
		const { port } = await guest(echo, upper);
		const ws = await dial(rig, port);

		assert.equal(await ws.next(), 'hi');
		assert.equal(await rig.ask('end'), 'ended');
		assert.equal(await ws.closed, false);
	});

	test('ends with the server, and not before', async () => {
		const own = await Rig.start();
		const { port } = await guest(echo, upper);
		const ws = await dial(own, port);

		assert.equal(await ws.next(), 'hi');
		assert.equal(await own.stop(), 0);
		assert.equal(await ws.closed, false);
	});

	test('may be refused by the guest', async () => {
		const { port } = await guest(echo, (request, socket) =>
			socket.end('HTTP/1.1 400 Bad Request\r\nContent-Length: 2\r\n\r\nno'));
		const answer = await rig.get(rig.path(port), { ...withKey, Connection: 'Upgrade', Upgrade: 'websocket' });

		assert.equal(answer.status, 400);
		assert.equal(answer.text, 'no');
	});

	test('much, both ways, through a tunnel', async () => {
		const { port } = await guest(echo, (request, socket, head) => {
			socket.write('HTTP/1.1 101 x\r\nUpgrade: bytes\r\nConnection: upgrade\r\n\r\n');
			socket.pipe(socket);
			socket.on('error', () => {});
		});
		const sent = crypto.randomBytes(8 << 20);
		const received = [];
		let length = 0;
		const request = http.request(`${rig.url}${rig.path(port)}`,
			{ headers: { ...withKey, Connection: 'Upgrade', Upgrade: 'bytes' } }).end();
		const [response, socket, head] = await new Promise((resolve, reject) => {
			request.on('upgrade', (...args) => resolve(args));
			request.on('error', reject);
		});

		assert.equal(response.headers.upgrade, 'bytes');
		socket.write(sent);
		socket.unshift(head);
		for await (const chunk of socket) {
			received.push(chunk);
			if ((length += chunk.length) === sent.length)
				break;
		}
		assert.ok(Buffer.concat(received).equals(sent));
	});
});

describe('who may', () => {
	let port, token;
	const html = { Accept: 'text/html,*/*;q=0.8' };

	const reached = (answer) => assert.equal(answer.status, 200, answer.text);
	const start = async () => {
		({ port } = await guest(echo));
		token = await rig.sign(port);
	};

	test('nobody without a key or a link', async () => {
		await start();
		for (const headers of [{}, { Cookie: 'a=1' }, { Authorization: 'Basic dTpw' }, html])
			problem(await rig.get(rig.path(port), headers), 401, 'preview_denied');
		problem(await rig.get(rig.path(port), { Authorization: 'Bearer sk_wrong' }), 401, 'invalid_key');
		problem(await rig.get(rig.path(port, `/?skerry_preview=${token}`), { Authorization: 'Bearer sk_wrong' }), 401,
			'invalid_key');
		problem(await rig.request('OPTIONS', rig.path(port), { headers: {} }), 401, 'preview_denied');
	});

	test('the key of the account; other sandboxes read as unknown ones', async () => {
		await start();
		reached(await rig.get(rig.path(port)));
		problem(await rig.get(`/preview/sbx_bb/${port}/`), 404, 'not_found');
	});

	test('a link, for its own port and sandbox, and in time', async () => {
		await start();
		const other = await rig.sign(port === 1234 ? 1235 : 1234);
		const expired = await rig.ask(`expired ${port}`);
		const forged = token.slice(0, -1) + (token.endsWith('A') ? 'B' : 'A');
		const later = token.replace(/^1\.(\d+)/, (all, s) => `1.${Number(s) + 60}`);

		reached(await rig.get(rig.path(port, `/?skerry_preview=${token}`), {}));
		reached(await rig.request('POST', rig.path(port, `/?skerry_preview=${token}`), { headers: html, body: 'x' }));
		for (const bad of [other, forged, later, '', 'x', `${token}x`, `${token}%00`])
			problem(await rig.get(rig.path(port, `/?skerry_preview=${bad}`), {}), 401, 'preview_denied');
		problem(await rig.get(rig.path(port, `/?skerry_preview=${expired}`), {}), 401, 'preview_expired');
		problem(await rig.get(`/preview/sbx_ab/${port}/?skerry_preview=${token}`, {}), 401, 'preview_denied');
	});

	test('a browser exchanges the link for a cookie', async () => {
		await start();
		const { status, headers } = await rig.get(rig.path(port, `/a/b?x=1&skerry_preview=${token}&y`), html);

		assert.equal(status, 303);
		assert.equal(headers.location, `${rig.url}${rig.path(port, '/a/b?x=1&y')}`);
		assert.equal(headers['referrer-policy'], 'no-referrer');
		assert.equal(headers['cache-control'], 'no-store');
		assert.match(headers['set-cookie'][0],
			new RegExp(`^skerry_preview=${token.replaceAll('.', '\\.')}; Path=/preview/sbx_aa/${port}/; ` +
				'Max-Age=(29\\d|300); HttpOnly; SameSite=Lax$'));

		const cookie = { Cookie: `skerry_preview=stale; skerry_preview=${token}` };

		reached(await rig.get(rig.path(port), cookie));
		reached(await rig.get(rig.path(port), { ...cookie, ...html }));
		problem(await rig.get(rig.path(port), { Cookie: 'skerry_preview=stale' }), 401, 'preview_denied');
	});

	test('by host the cookie is for the host, and secure where that is', async () => {
		await start();
		const host = `${port}-sbx_aa.p.example`;
		const answer = await rig.get(`//evil.example/?skerry_preview=${token}`, { ...html, Host: host });

		assert.equal(answer.headers.location, `https://${host}//evil.example/`);
		assert.match(answer.headers['set-cookie'][0], /; Path=\/; .*; HttpOnly; SameSite=Lax; Secure$/);
	});

	test('the cookie is not for pages of other origins', async () => {
		await start();
		const cookie = { Cookie: `skerry_preview=${token}` };
		const own = new URL(rig.url).origin;
		const host = `${port}-sbx_aa.p.example`;

		reached(await rig.get(rig.path(port), { ...cookie, Origin: own }));
		reached(await rig.get('/', { ...cookie, Host: host, Origin: `https://${host}` }));
		for (const origin of ['null', 'https://evil.example', `http://${host}`, `https://1234-sbx_ab.p.example`])
			problem(await rig.get('/', { ...cookie, Host: host, Origin: origin }), 403, 'forbidden_origin');
		// What was given explicitly needs no cookie, and no check.
		reached(await rig.get('/', { ...withKey, Host: host, Origin: 'https://evil.example' }));
		reached(await rig.get(`/?skerry_preview=${token}`, { Host: host, Origin: 'https://evil.example' }));
	});

	test('what opens a preview does not open the API', async () => {
		await start();
		for (const headers of [{ Cookie: `skerry_preview=${token}` }, { Authorization: `Bearer ${token}` }])
			assert.equal((await rig.get('/v1/sandboxes', headers)).status, 401);
		assert.equal((await rig.get(`/v1/sandboxes?skerry_preview=${token}`, {})).status, 401);
	});

	test('the host of previews by path is checked as the API\'s is', async () => {
		await start();
		problem(await rig.get(rig.path(port), { ...withKey, Host: 'evil.example' }), 403, 'forbidden_host');
	});

	test('addresses that are none', async () => {
		for (const route of ['/preview/', '/preview/sbx_aa/', '/preview/sbx_aa/0/', '/preview/sbx_aa/65536/',
			'/preview/sbx_aa/080/', '/preview/../v1/', '/preview/sbx_aa%2f80/'])
			problem(await rig.get(route), 404, 'not_found');
		problem(await rig.get('/', { ...withKey, Host: 'www.p.example' }), 404, 'not_found');
		problem(await rig.request('TRACE', rig.path(80)), 405, 'method_not_allowed');

		const slash = await rig.get('/preview/sbx_aa/80?x=1', {});

		assert.equal(slash.status, 308);
		assert.equal(slash.headers.location, '/preview/sbx_aa/80/?x=1');
	});
});

describe('the operation', () => {
	const expose = (id, body) => rig.request('POST', `/v1/sandboxes/${id}/expose`,
		{ headers: { ...withKey, 'Content-Type': 'application/json' }, body: JSON.stringify(body) });

	test('gives a URL that works, and until when', async () => {
		const { port } = await guest(echo);
		const before = Date.now();
		const { url, expires_at } = JSON.parse((await expose('sbx_aa', { port, ttl_minutes: 2 })).text);
		const { host, pathname, search, protocol } = new URL(url);

		assert.equal(protocol, 'https:'); // of the configured domain
		assert.equal(host, `${port}-sbx_aa.p.example`);
		assert.ok(Math.abs(Date.parse(expires_at) - before - 120_000) < 30_000, expires_at);
		assert.equal((await rig.get(pathname + search, { Host: host })).status, 200);
		const plain = await Rig.start();
		const answer = await plain.request('POST', '/v1/sandboxes/sbx_aa/expose',
			{ headers: { ...withKey, 'Content-Type': 'application/json' }, body: JSON.stringify({ port }) });
		const link = JSON.parse(answer.text).url;

		assert.ok(link.startsWith(`${plain.url}/preview/sbx_aa/${port}/?skerry_preview=1.`), link);
		assert.equal((await fetch(link)).status, 200);
		assert.equal(await plain.stop(), 0);
	});

	test('over MCP too', async () => {
		const { port } = await guest(echo);
		const answer = await rig.request('POST', '/mcp', {
			headers: { ...withKey, 'Content-Type': 'application/json', Accept: 'application/json, text/event-stream' },
			body: JSON.stringify({
				jsonrpc: '2.0', id: 1, method: 'tools/call',
				params: { name: 'expose_port', arguments: { sandbox_id: 'sbx_aa', port } },
			}),
		});
		const { structuredContent } = JSON.parse(/\{.*\}/.exec(answer.text)[0]).result;
		const { host, pathname, search } = new URL(structuredContent.url);

		assert.equal((await rig.get(pathname + search, { Host: host })).status, 200);
	});

	test('checks what it is asked', async () => {
		for (const body of [{}, { port: 0 }, { port: 65536 }, { port: '80' }, { port: 80, ttl_minutes: 0 },
			{ port: 80, ttl_minutes: 1441 }, { port: 80, host: 'x' }])
			problem(await expose('sbx_aa', body), 400, 'invalid_argument');
		problem(await expose('sbx_bb', { port: 80 }), 404, 'not_found');
	});
});

describe('guests that are hostile, slow or not there', () => {
	test('nobody listens', async () => {
		const closed = await serve(() => {});

		await closed.close();
		const json = problem(await rig.get(rig.path(closed.port)), 502, 'port_not_listening');

		assert.match(json.hint, /0\.0\.0\.0/);
		problem(await rig.request('POST', rig.path(closed.port), { body: Buffer.alloc(1 << 20) }), 502,
			'port_not_listening');
	});

	const bad = {
		'not HTTP': 'SSH-2.0-OpenSSH_9.2\r\n\r\n',
		'nothing': '',
		'half a head': 'HTTP/1.1 200 OK\r\nA: b',
		'two lengths': 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nabc',
		'length and chunks': 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
		'a folded line': 'HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n',
		'an upgrade nobody asked for': 'HTTP/1.1 101 x\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n',
		'interim answers for ever': 'HTTP/1.1 103 x\r\n\r\n'.repeat(100),
		'endless headers': `HTTP/1.1 200 OK\r\n${'A: b\r\n'.repeat(200_000)}`,
	};

	for (const [name, bytes] of Object.entries(bad))
		test(name, async () => {
			const { port } = await rawGuest((socket) => socket.end(bytes, 'latin1'));

			problem(await rig.get(rig.path(port)), 502, 'preview_bad_answer');
		});

	test('bad chunks break the answer off', async () => {
		const { port } = await rawGuest((socket) =>
			socket.end('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\nzz\r\n'));
		const answer = await rig.get(rig.path(port));

		assert.equal(answer.aborted, true);
	});

	test('what follows an answer is not the next one', async () => {
		const { port } = await rawGuest((socket) => socket.end('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok' +
			'HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil'));
		const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });

		for (let i = 0; i < 3; i++)
			assert.equal((await rig.request('GET', rig.path(port), { agent })).text, 'ok');
		agent.destroy();
	});

	test('the sandbox ends meanwhile', async () => {
		const { port } = await guest((request, response) => {
			if (request.url === '/begun')
				response.write('x');
		});
		const silent = rig.get(rig.path(port, '/silent'));
		const begun = rig.get(rig.path(port, '/begun'));

		while (Number(await rig.ask('open')) < 2)
			await sleep(10);
		await sleep(200);
		await rig.ask('end');
		problem(await silent, 410, 'sandbox_ended');
		assert.equal((await begun).aborted, true);
	});

	test('a hundred at once', async () => {
		const { port } = await guest(echo);
		const answers = await Promise.all(Array.from({ length: 100 }, (_, i) =>
			rig.request('POST', rig.path(port, `/${i}`), { body: `body ${i}` })));

		answers.forEach((answer, i) => {
			const seen = JSON.parse(answer.text);

			assert.equal(seen.url, `/${i}`);
			assert.equal(seen.body, `body ${i}`);
		});
	});
});
