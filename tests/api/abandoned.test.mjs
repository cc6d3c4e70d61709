// Clients that go in the middle: a page that is left lets go of every request, stream and socket it had.
// Here many do it at once, at every moment of a request's life, with a key and with a session's cookie.
// The server answers all the others, and holds nothing for those that went.

import assert from 'node:assert/strict';
import fs from 'node:fs';
import http from 'node:http';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';

import WebSocket from 'ws';

import { startDaemon } from './lib/daemon.mjs';
import { urlOf } from './lib/terminal.mjs';
import { inside, makeWorld, runInside } from './lib/world.mjs';

const CLIENTS = 24;
const REQUESTS = Number(process.env.SKERRY_TEST_ABANDONED ?? 600);
const GONE_WITHIN_MS = 60; // a client goes at a moment up to this, or stays to the end
const SETTLED_MS = 60_000;

const pick = (list) => list[Math.floor(Math.random() * list.length)];

if (!inside)
	runInside(import.meta.url);
else
	describe('clients that go in the middle', { timeout: 15 * 60_000 }, () => {
		let world, daemon, sandbox, cookie, commands;
		const agent = new http.Agent({ keepAlive: true, maxSockets: CLIENTS });

		before(async () => {
			world = await makeWorld();
			daemon = await startDaemon({ config: world.config });
			await daemon.ensureImage('base');
			const created = await daemon.request('POST', '/v1/sandboxes', {
				name: 'left-alone', egress: ['a.example:80'], labels: { team: 'web' },
			});

			assert.equal(created.status, 201, created.text);
			sandbox = created.json;
			commands = [
				await exec({ command: 'i=0; while sleep 0.05; do i=$((i+1)); echo "line $i"; done', background: true }),
				await exec({ command: 'seq 1 20000; sleep 600', background: true }),
			].map((answer) => answer.json.exec_id);
			await exec({ command: 'curl -m 1 -s http://c.example/; head -c 300000 /dev/zero > zeros; true' });
			const session = await daemon.request('POST', '/v1/session');

			assert.equal(session.status, 201, session.text);
			cookie = session.headers.get('set-cookie').split(';')[0];
		});
		after(async () => {
			agent.destroy();
			await daemon?.stop();
			world?.close();
		});

		const exec = (body) => daemon.request('POST', `/v1/sandboxes/${sandbox.id}/exec`, body);
		const who = () => (Math.random() < 0.5
			? { Authorization: `Bearer ${daemon.key}` }
			: { Cookie: cookie, Origin: daemon.url, 'Sec-Fetch-Site': 'same-origin' });
		const stream = { Accept: 'text/event-stream' };
		const own = (rest = '') => `/v1/sandboxes/${sandbox.id}${rest}`;

		// What a page asks for, and what an agent does. Streams are left at some time in any case.
		const requests = () => [
			['GET', own()], ['GET', own()], ['GET', '/v1/sandboxes?limit=200'], ['GET', '/v1/limits'],
			['GET', '/v1/images'], ['GET', '/v1/snapshots'], ['GET', '/v1/networks'], ['GET', '/v1/session'],
			['GET', '/v1/keys?limit=200'], ['GET', '/v1/usage?days=7'], ['GET', '/v1/audit?newest=true&limit=50'],
			['GET', own('/stats')], ['GET', own('/terminals')], ['GET', own('/exec')],
			['GET', own('/egress')], ['GET', own('/egress/denials')],
			['GET', own('/files?path=/home/sandbox/zeros')], ['GET', own('/files/list?path=/etc')],
			['GET', own('/tree?path=/etc/alternatives')],
			['GET', own(`/exec/${commands[1]}?from_offset=0`)],
			['GET', '/v1/events', undefined, stream], ['GET', '/v1/audit', undefined, stream],
			['GET', own(`/exec/${pick(commands)}`), undefined, stream],
			['POST', own('/exec'), { command: 'echo hello' }],
			['POST', own('/exec'), { command: 'seq 1 3000' }, stream],
			['PUT', own('/egress'), { rules: ['a.example:80', 'b.example:443'] }],
			['PUT', own('/files?path=/tmp/up'), Buffer.alloc(50_000, 'x'), { 'Content-Type': 'application/octet-stream' }],
			['GET', '/'], ['GET', '/main.js'], ['GET', '/healthz'], ['GET', '/metrics'], ['GET', '/v1/nothing'],
		];

		// Resolves to the status, or to undefined of one that it left.
		function ask([method, path, body, headers = {}]) {
			return new Promise((resolve, reject) => {
				const raw = body instanceof Uint8Array;
				const leaves = headers === stream || Math.random() < 0.6;
				let left = false;
				const request = http.request(new URL(path, daemon.url), {
					method, agent, headers: { ...who(), ...(body && !raw && { 'Content-Type': 'application/json' }), ...headers },
				});

				request.on('response', (response) => {
					response.on('error', (error) => (left ? resolve() : reject(error)));
					response.on('end', () => resolve(response.statusCode));
					response.on('close', () => resolve());
					response.resume();
				});
				request.on('error', (error) => (left ? resolve() : reject(new Error(`${method} ${path}: ${error.message}`))));
				request.end(raw ? body : body && JSON.stringify(body));
				if (leaves)
					setTimeout(() => {
						left = true;
						request.destroy();
						resolve();
					}, Math.random() * GONE_WITHIN_MS);
			});
		}

		function look() {
			return new Promise((resolve) => {
				const socket = new WebSocket(urlOf(daemon, sandbox.id, { cols: 80, rows: 24 }), { headers: who() });

				socket.on('error', () => resolve());
				socket.on('close', () => resolve());
				socket.on('message', () => socket.send(Buffer.from('echo x\n')));
				setTimeout(() => socket.terminate(), Math.random() * GONE_WITHIN_MS * 5);
			});
		}

		const descriptors = () => fs.readdirSync(`/proc/${daemon.pid}/fd`).length;

		async function settles(limit) {
			const until = Date.now() + SETTLED_MS;

			while (descriptors() > limit && Date.now() < until)
				await sleep(50);
			return descriptors();
		}

		test(`${REQUESTS} requests of ${CLIENTS} clients, most of them left`, async () => {
			let left = REQUESTS;
			const odd = [];
			const client = async () => {
				while (left-- > 0) {
					const one = Math.random() < 0.04 ? undefined : pick(requests());
					const status = one ? await ask(one) : await look();

					if (status >= 500 || status === 401 || status === 403)
						odd.push(`${one[0]} ${one[1]}: ${status}`);
				}
			};

			agent.destroy();
			const before = descriptors();

			await Promise.all(Array.from({ length: CLIENTS }, client));
			agent.destroy();
			assert.deepEqual(odd, []);
			const last = await exec({ command: 'echo still here' });

			assert.equal(last.json.stdout, 'still here\n', last.text);
			assert.ok(await settles(before + 8) <= before + 8, `descriptors: ${before} before, ${descriptors()} after`);
		});
	});
