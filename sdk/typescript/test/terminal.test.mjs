// Terminals over a scripted WebSocket: lost connections, refusals, whoever takes it over.

import assert from 'node:assert/strict';
import { after, test } from 'node:test';

import { ConnectionError, NotFoundError, ProtocolError, SandboxEndedError } from '../dist/index.js';
import { acceptOf, frame, onFrame } from '../../../tests/api/lib/websocket.mjs';
import { client, closeAll, json, sandboxInfo, serve } from './lib/scripted.mjs';

after(closeAll);

// connected(peer, query, n) for the n-th connection; peer: {send(bytes), say(message), close(code), drop(), on(opcode, text)}.
async function terminalOn(connected, options = {}) {
	const server = await serve((req, res) => json(res, 200, options.answer?.(req) ?? sandboxInfo()));
	const upgrades = [];

	server.server.on('upgrade', (req, socket, head) => {
		const query = Object.fromEntries(new URL(req.url, 'http://x').searchParams);
		const peer = {
			send: (bytes) => socket.write(frame(2, bytes)),
			say: (message) => socket.write(frame(1, JSON.stringify(message))),
			ping: (text) => socket.write(frame(9, text)),
			close: (code, message) => {
				if (message)
					peer.say(message);
				socket.write(frame(8, Buffer.from([code >> 8, code & 255])));
			},
			drop: () => socket.destroy(),
			on: () => {},
			raw: socket,
		};

		upgrades.push({ query, headers: req.headers });
		socket.on('error', () => {});
		if (options.refuse?.(socket, upgrades.length - 1))
			return;
		socket.write('HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n' +
			`Sec-WebSocket-Accept: ${acceptOf(req.headers['sec-websocket-key'])}\r\nSec-WebSocket-Protocol: skerry.terminal\r\n\r\n`);
		onFrame(socket, head, (opcode, text) => peer.on(opcode, text));
		connected(peer, query, upgrades.length - 1);
	});
	const sandbox = await client(server, options).attach('sbx_1');

	return { sandbox, upgrades, requests: server.requests };
}

const ready = (offset = 0, input_bytes = 0) => ({ type: 'ready', terminal_id: 'term_1', new: true, offset, output_bytes: offset, input_bytes });
const exit = (exit_code = 0) => ({ type: 'exit', exit_code, signal: null, out_of_memory: false, output_bytes: 0, duration_ms: 1 });
const text = (chunks) => Buffer.concat(chunks).toString();

test('output, keys, size, pings, and the end', async () => {
	const heard = [];
	const { sandbox, upgrades } = await terminalOn((peer) => {
		peer.on = (opcode, data) => {
			heard.push([opcode, data]);
			if (data === 'exit\n')
				peer.close(1000, exit(7));
		};
		peer.say(ready());
		peer.ping('there?');
		peer.send('$ ');
	});
	const terminal = await sandbox.terminal({ cols: 100, rows: 30, user: 'root' });
	const chunks = [];

	terminal.resize(120, 40);
	terminal.write('exit\n');
	for await (const bytes of terminal)
		chunks.push(bytes);
	assert.equal(text(chunks), '$ ');
	assert.equal((await terminal.exited).exit_code, 7);
	assert.deepEqual(upgrades[0].query, { cols: '100', rows: '30', user: 'root' });
	assert.equal(upgrades[0].headers.authorization, 'Bearer sk_test');
	assert.equal(upgrades[0].headers['sec-websocket-protocol'], 'skerry.terminal');
	const [size, keys] = heard.filter(([opcode]) => opcode < 8), pong = heard.find(([opcode]) => opcode === 10);

	assert.deepEqual(size, [1, '{"type":"resize","cols":120,"rows":40}']);
	assert.deepEqual(keys, [2, 'exit\n']);
	assert.deepEqual(pong, [10, 'there?']);
	assert.throws(() => terminal.write('more'), /not connected any more/);
});

test('a lost connection is taken up again: no output twice, no input lost', async () => {
	const heard = ['', '', ''];
	const { sandbox, upgrades } = await terminalOn((peer, query, n) => {
		peer.on = (opcode, data) => {
			if (opcode !== 2)
				return;
			heard[n] += data;
			if (n === 0 && heard[0] === 'first second') // only 'first ' has arrived, it will say
				peer.drop();
			if (n === 1 && heard[1] === 'second') {
				peer.send('four');
				peer.close(1001); // it is restarted
			}
		};
		if (n === 0) {
			peer.say(ready(10, 100)); // joined: others have written
			peer.send('one two ');
		} else if (n === 1) {
			peer.say(ready(18, 106));
			peer.send('three ');
		} else {
			peer.say(ready(28, 112));
			peer.send(' five');
			peer.close(1000, exit());
		}
	});
	const chunks = [];
	const terminal = await sandbox.terminal({ terminal_id: 'term_1', from_offset: 10, onData: (bytes) => chunks.push(bytes) });

	assert.equal(terminal.id, 'term_1');
	terminal.write('first ');
	terminal.write('second');
	assert.equal((await terminal.exited).exit_code, 0);
	assert.equal(text(chunks), 'one two three four five');
	assert.equal(terminal.offset, 33);
	assert.deepEqual(heard, ['first second', 'second', '']);
	assert.deepEqual(upgrades.slice(1).map(({ query }) => query),
		[{ terminal_id: 'term_1', from_offset: '18' }, { terminal_id: 'term_1', from_offset: '28' }]);
});

test('a refusal has its reason', async () => {
	const { sandbox } = await terminalOn(() => {}, {
		refuse: (socket) => socket.end('HTTP/1.1 404 Not Found\r\nContent-Type: application/problem+json\r\nConnection: close\r\n\r\n' +
			'{"code":"terminal_not_found","detail":"no terminal","status":404}'),
	});

	await assert.rejects(sandbox.terminal({ terminal_id: 'term_x' }), (error) =>
		error instanceof NotFoundError && error.code === 'terminal_not_found' && error.message === 'no terminal');
});

test('while it is looked for, a server that is starting is no reason to give up', async () => {
	const { sandbox, upgrades } = await terminalOn((peer, query, n) => {
		peer.say(ready());
		if (n === 0)
			setImmediate(peer.drop);
		else
			peer.close(1000, exit(5));
	}, {
		refuse: (socket, n) => n === 1 && socket.end('HTTP/1.1 503 Busy\r\nConnection: close\r\n\r\n'),
	});

	assert.equal((await (await sandbox.terminal()).exited).exit_code, 5);
	assert.equal(upgrades.length, 3);
});

// What a browser sees: it is not told why it was refused, and asks which terminals there are.
test('one that is neither to be joined nor listed any more has gone', async () => {
	const { sandbox, upgrades, requests } = await terminalOn((peer) => {
		peer.say(ready());
		setImmediate(peer.drop);
	}, {
		answer: ({ path }) => (path.endsWith('/terminals') ? { items: [] } : sandboxInfo()),
		refuse: (socket, n) => n > 0 && socket.destroy(),
	});

	await assert.rejects((await sandbox.terminal()).exited, { name: 'NotFoundError', code: 'terminal_not_found' });
	assert.equal(upgrades.length, 3); // asked twice, as it may have been the server that was not there
	assert.equal(requests.filter(({ path }) => path.endsWith('/terminals')).length, 2);
});

test('what answers in the wrong way is none', async () => {
	const { sandbox } = await terminalOn(() => {}, {
		refuse: (socket) => socket.write('HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: AAAA\r\n\r\n'),
	});

	await assert.rejects(sandbox.terminal(), ProtocolError);
});

for (const [what, code, message, check] of [
	['taken over', 4001, undefined, (error) => /taken the terminal over/.test(error.message)],
	['ended with its sandbox', 4002, { type: 'error', code: 'sandbox_ended', detail: 'it has ended' }, (error) => error instanceof SandboxEndedError],
	['closed for an error', 4000, { type: 'error', code: 'scope_denied', detail: 'no' }, (error) => error.code === 'scope_denied'],
	['misunderstood', 1002, undefined, (error) => error instanceof ProtocolError],
])
	test(`one that is ${what} is not looked for again`, async () => {
		const { sandbox, upgrades } = await terminalOn((peer) => {
			peer.say(ready());
			setImmediate(() => peer.close(code, message));
		});
		const terminal = await sandbox.terminal();

		await assert.rejects(terminal.exited, check);
		await assert.rejects(async () => {
			for await (const bytes of terminal)
				assert.fail(bytes);
		}, check);
		assert.equal(upgrades.length, 1);
	});

test('an agent that was away is looked for again', async () => {
	const { sandbox, upgrades } = await terminalOn((peer, query, n) => {
		peer.say(ready());
		setImmediate(() => (n === 0 ? peer.close(4000, { type: 'error', code: 'agent_gone', detail: 'away' }) : peer.close(1000, exit(3))));
	});

	assert.equal((await (await sandbox.terminal()).exited).exit_code, 3);
	assert.equal(upgrades.length, 2);
});

test('one who does not want that hears of the loss', async () => {
	const { sandbox } = await terminalOn((peer) => {
		peer.say(ready());
		setImmediate(peer.drop);
	});
	const terminal = await sandbox.terminal({ reconnect: false });

	await assert.rejects(terminal.exited, ConnectionError);
});

test('leaving ends the loop over its output, and nothing else', async () => {
	const { sandbox, upgrades } = await terminalOn((peer) => {
		peer.on = (opcode, data) => opcode === 8 && peer.raw.end(frame(8, data));
		peer.say(ready());
	});
	const terminal = await sandbox.terminal();

	setTimeout(() => terminal.leave(), 20);
	for await (const bytes of terminal)
		assert.fail(bytes);
	await assert.rejects(terminal.exited, /was left/);
	assert.equal(upgrades.length, 1);
});

test('a gap is told, and counts', async () => {
	const gaps = [];
	const { sandbox } = await terminalOn((peer) => {
		peer.say(ready(5));
		peer.say({ type: 'gap', from: 5, to: 1000 });
		peer.send('x');
		peer.say({ type: 'paused' });
		peer.close(1000, exit());
	});
	const pauses = [];
	const terminal = await sandbox.terminal({ onGap: (...all) => gaps.push(all), onPause: (paused) => pauses.push(paused) });

	await terminal.exited;
	assert.deepEqual([gaps, pauses, terminal.offset], [[[5, 1000]], [true], 1001]);
});

test('a text that is no JSON is not of a terminal', async () => {
	const { sandbox, upgrades } = await terminalOn((peer) => {
		peer.say(ready());
		setImmediate(() => peer.raw.write(frame(1, 'hello')));
	});
	const terminal = await sandbox.terminal();

	await assert.rejects(terminal.exited, ProtocolError);
	assert.equal(upgrades.length, 1);
});
