// The WebSocket of terminals, on a core without machines (the preview rig, whose terminal writes back
// what it is given): handshake, keys, messages, closing, back-pressure, and clients that keep to nothing.

import assert from 'node:assert/strict';
import crypto from 'node:crypto';
import http from 'node:http';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';

import { KEY, Rig } from './lib/preview_rig.mjs';
import { Viewer, refusal } from './lib/terminal.mjs';
import { frame, onFrame } from './lib/websocket.mjs';

const SPEW_BYTES = 8 << 20;
const ID = 'term_00000000000000aa';

let rig, server;
before(async () => {
	rig = await Rig.start();
	server = { url: rig.url, key: KEY };
});
after(async () => assert.equal(await rig.stop(), 0));

const open = (query, options) => Viewer.open(server, 'sbx_aa', query, options);

async function nobodyLooks() {
	while (Number(await rig.ask('viewed')) > 0)
		await sleep(10);
}

async function refused(status, code, id, query, options) {
	const answer = await refusal(server, id, query, options);

	assert.equal(answer.status, status);
	assert.equal(answer.json.code, code);
	return answer;
}

describe('talking', () => {
	test('bytes go both ways, whatever they are', async () => {
		const viewer = await open({ cols: 80, rows: 24 });
		const bytes = crypto.randomBytes(300_000).map((byte) => (byte === 4 ? 5 : byte));

		assert.deepEqual(viewer.ready, {
			type: 'ready', terminal_id: ID, new: true, offset: 0, output_bytes: 0, input_bytes: 0,
		});
		for (let at = 0; at < bytes.length; at += 70_001)
			viewer.send(bytes.subarray(at, at + 70_001));
		await viewer.bytesUpTo(bytes.length);
		assert.ok(viewer.bytes.equals(bytes));
		await viewer.leave();
		await nobodyLooks();
	});

	test('resizing, and messages that mean nothing', async () => {
		const viewer = await open();

		viewer.resize(132, 43);
		await viewer.find(/\[132x43\]/);
		for (const bad of ['{', '[]', '"x"', '{"type":"what"}', '{"type":"resize"}',
			'{"type":"resize","cols":0,"rows":4}', '{"type":"resize","cols":80,"rows":5000}',
			'{"type":"resize","cols":80,"cols":80,"rows":24}']) {
			viewer.messages = [];
			viewer.control(bad);
			const error = await viewer.message('error');

			assert.equal(error.code, 'invalid_argument', bad);
			assert.match(error.hint, /resize/);
		}
		viewer.send('still here');
		await viewer.find(/still here/);
		await viewer.leave();
	});

	test('the end is told, and then closed', async () => {
		const viewer = await open();

		viewer.send('bye\x04');
		const exit = await viewer.message('exit');

		assert.equal(exit.exit_code, 7);
		assert.equal(exit.signal, null);
		assert.equal(exit.output_bytes, 4);
		assert.equal(viewer.text, 'bye\x04');
		assert.equal((await viewer.closed).code, 1000);
	});

	test('one that has ended already', async () => {
		const viewer = await open({ command: 'over' });

		assert.equal((await viewer.message('exit')).exit_code, 7);
		assert.equal((await viewer.closed).code, 1000);
	});

	test('whoever joins takes over, from the offset that he names', async () => {
		const first = await open();

		first.send('0123456789');
		await first.bytesUpTo(10);
		const second = await open({ terminal_id: ID, from_offset: 4 });

		assert.deepEqual(await first.closed, { code: 4001, reason: 'terminal_taken_over' });
		assert.equal((await first.message('error')).code, 'terminal_taken_over');
		assert.deepEqual(second.ready, {
			type: 'ready', terminal_id: ID, new: false, offset: 4, output_bytes: 10, input_bytes: 10,
		});
		await second.find(/^456789$/);
		await second.leave();
		await nobodyLooks();
	});

	test('a pause is told, and the sandbox\'s end', async () => {
		const viewer = await open();

		await rig.ask('pause');
		await viewer.message('paused');
		await rig.ask('resume');
		await viewer.message('resumed');
		await rig.ask('end');
		assert.equal((await viewer.message('error')).code, 'sandbox_ended');
		assert.deepEqual(await viewer.closed, { code: 4002, reason: 'sandbox_ended' });
	});

	test('a client that does not read holds the output up, and loses nothing', async () => {
		const viewer = await open({ command: 'spew' });

		viewer.socket.pause();
		await sleep(300);
		assert.ok(viewer.length < SPEW_BYTES);
		viewer.socket.resume();
		await viewer.bytesUpTo(SPEW_BYTES);
		assert.ok(viewer.bytes.every((byte, i) => byte === i % 251));
		viewer.drop();
		await nobodyLooks();
	});
});

describe('who may', () => {
	test('a key in a header, or among the protocols', async () => {
		await refused(401, 'invalid_key', 'sbx_aa', {}, { headers: {} });
		await refused(401, 'invalid_key', 'sbx_aa', {}, { headers: { Authorization: 'Bearer sk_no' } });
		await refused(401, 'invalid_key', 'sbx_aa', {}, { headers: {}, protocols: ['skerry.terminal', 'skerry.key.sk_no'] });
		await refused(401, 'invalid_key', 'sbx_aa', {}, { headers: {}, protocols: ['skerry.terminal'] });
		const viewer = await open({}, { headers: {}, protocols: ['skerry.terminal', `skerry.key.${KEY}`] });

		assert.equal(viewer.socket.protocol, 'skerry.terminal');
		await viewer.leave();
		// A key in the address is no key.
		await refused(401, 'invalid_key', 'sbx_aa', { key: KEY }, { headers: {} });
	});

	test('no page of another origin', async () => {
		const headers = { Authorization: `Bearer ${KEY}` };

		await refused(403, 'forbidden_origin', 'sbx_aa', {}, { headers: { ...headers, Origin: 'http://evil.example' } });
		const viewer = await open({}, { headers: { ...headers, Origin: new URL(rig.url).origin } });

		await viewer.leave();
	});

	test('what cannot be is refused before the upgrade', async () => {
		await refused(404, 'not_found', 'sbx_bb');
		await refused(404, 'terminal_not_found', 'sbx_aa', { terminal_id: 'term_1' });
		await refused(400, 'invalid_argument', 'sbx_aa', { cols: 0, rows: 24 });
		await refused(400, 'invalid_argument', 'sbx_aa', { colours: 256 });
		await refused(503, 'guest_resources', 'sbx_aa', { command: 'none' });
		await nobodyLooks();
	});

	test('what is no WebSocket is told so', async () => {
		const key = crypto.randomBytes(16).toString('base64');
		const good = {
			Authorization: `Bearer ${KEY}`, Connection: 'Upgrade', Upgrade: 'websocket',
			'Sec-WebSocket-Version': '13', 'Sec-WebSocket-Key': key,
		};
		const ask = (headers, method = 'GET') => rig.request(method, '/v1/sandboxes/sbx_aa/terminal', { headers });

		for (const [name, value] of [['Upgrade', 'h2c'], ['Connection', 'close'], ['Sec-WebSocket-Version', '8'],
			['Sec-WebSocket-Key', 'short']]) {
			const { status, text, headers } = await ask({ ...good, [name]: value });

			assert.equal(status, 426, name);
			assert.equal(headers.upgrade, 'websocket');
			assert.equal(JSON.parse(text).code, 'upgrade_required');
		}
		assert.equal((await ask({ Authorization: good.Authorization })).status, 426);
		assert.equal((await ask(good, 'POST')).status, 405);
	});
});

// A client by hand: everything that it hears until it is closed, as [opcode, text]. early: it leaves when it
// has said its part; rude: it does not answer when it is told that the connection is closed.
function raw(bytes, { early, rude } = {}) {
	const key = crypto.randomBytes(16).toString('base64');

	return new Promise((resolve, reject) => {
		const request = http.request(new URL('/v1/sandboxes/sbx_aa/terminal', rig.url), {
			headers: {
				Authorization: `Bearer ${KEY}`, Connection: 'keep-alive, Upgrade', Upgrade: 'websocket',
				'Sec-WebSocket-Version': '13', 'Sec-WebSocket-Key': key,
			},
		});

		request.on('error', reject);
		request.on('upgrade', (response, socket, head) => {
			const heard = [];

			socket.on('error', () => {});
			socket.on('close', () => resolve(heard));
			onFrame(socket, head, (opcode, text) => {
				heard.push([opcode, text]);
				if (opcode === 8 && !rude)
					socket.end();
			});
			for (const piece of bytes)
				socket.write(piece);
			if (early)
				socket.end();
		});
		request.end();
	});
}

const mask = Buffer.from([1, 2, 3, 4]);
const close = (code) => frame(8, Buffer.from([code >> 8, code & 255]), mask);

describe('frames by hand', () => {
	test('pings, fragments, and a close that is agreed to', async () => {
		const text = frame(1, '{"type":"resize","cols":7,"rows":5}', mask);
		const heard = await raw([
			frame(9, 'are you there', mask),
			Buffer.concat([Buffer.from([0x02]), frame(2, 'he', mask).subarray(1)]), // not the last one
			frame(9, '', mask),
			Buffer.concat([Buffer.from([0x80]), frame(2, 'llo', mask).subarray(1)]),
			...[...text].map((byte) => Buffer.from([byte])),
			close(1000),
		]);

		assert.equal(heard[0][0], 1);
		assert.equal(JSON.parse(heard[0][1]).type, 'ready');
		assert.deepEqual(heard.filter(([opcode]) => opcode === 10).map(([, said]) => said), ['are you there', '']);
		assert.equal(heard.filter(([opcode]) => opcode === 2).map(([, said]) => said).join(''), 'hello[7x5]');
		assert.equal(heard.at(-1)[0], 8);
		await nobodyLooks();
	});

	for (const [name, bytes] of [
		['a frame without a mask', frame(2, 'x')],
		['a reserved bit', Buffer.concat([Buffer.from([0xc2]), frame(2, 'x', mask).subarray(1)])],
		['an unknown opcode', frame(3, 'x', mask)],
		['a continuation of nothing', frame(0, 'x', mask)],
		['a ping in pieces', Buffer.concat([Buffer.from([0x09]), frame(9, 'x', mask).subarray(1)])],
		['a length that nothing has', Buffer.from([0x82, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4])],
		['noise', Buffer.from('GET / HTTP/1.1\r\n\r\n')],
	]) {
		test(`${name} ends the connection, not the terminal`, async () => {
			assert.equal((await raw([bytes])).at(-1)[0], 8);
			await nobodyLooks();
		});
	}

	test('a text that is too long or no text', async () => {
		const long = Buffer.concat([Buffer.from([0x81, 0xfe, 0x7f, 0xff, 1, 2, 3, 4]), Buffer.alloc(0x7fff)]);

		assert.equal((await raw([long])).at(-1)[0], 8);
		assert.equal((await raw([frame(1, Buffer.from([0xc3, 0x28]), mask)])).at(-1)[0], 8);
	});

	test('a client that does not agree to a close', async () => {
		assert.equal((await raw([frame(3, 'x', mask)], { rude: true })).at(-1)[0], 8);
		await nobodyLooks();
	});

	test('clients that vanish in the middle of anything', async () => {
		await Promise.all([[], [Buffer.from([0x82])], [frame(2, 'x'.repeat(100), mask).subarray(0, 50)], [frame(2, 'x', mask)]]
			.map((bytes) => raw(bytes, { early: true })));
		await nobodyLooks();
	});

	test('a flood of pings that nobody reads the answers to', async () => {
		const flood = Buffer.concat(Array.from({ length: 20_000 }, () => frame(9, 'p'.repeat(100), mask)));
		const heard = await raw([flood, close(1000)]);

		assert.equal(heard.filter(([opcode]) => opcode === 10).length, 20_000);
		await nobodyLooks();
	});
});
