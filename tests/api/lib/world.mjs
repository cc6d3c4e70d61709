// A small world for tests of the network: this process and the daemon it starts live in a network
// namespace of their own ("the host"), behind whose uplink a second one is the internet: every address
// there is a site that answers HTTP on port 80, and 9.9.9.9 is a name server. Nothing of the real host is
// touched. What the sites saw is the oracle.
//
//   sandbox ── host: up0 5.5.5.2 ── peer0 5.5.5.1: internet
//
// A test file calls runInside(import.meta.url) and defines its tests only where `inside` is true.

import { spawn, spawnSync } from 'node:child_process';
import dgram from 'node:dgram';
import fs from 'node:fs';
import http from 'node:http';
import os from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

export const inside = process.env.SKERRY_TEST_WORLD === 'host';

const own = fileURLToPath(import.meta.url);
const names = {
	'a.example': ['8.8.4.4', 60],
	'b.example': ['8.8.4.4', 60], // a neighbour at the same address
	'c.example': ['8.8.4.5', 60],
	'short.example': ['8.8.4.6', 1],
	'rebind.example': ['169.254.169.254', 60],
	'inside.example': ['10.0.0.1', 60],
	'example.com': ['8.8.4.7', 60], // of the documentation
	'api.example.com': ['8.8.4.8', 60],
};

export function runInside(url) {
	test('in a network namespace of its own', { timeout: 20 * 60_000 }, async () => {
		const env = { ...process.env, SKERRY_TEST_WORLD: 'host' };

		delete env.NODE_TEST_CONTEXT;
		const child = spawn('unshare', ['--net', '--mount', '--propagation', 'private', process.execPath, fileURLToPath(url)], {
			env,
			stdio: ['ignore', 'inherit', 'inherit'],
		});
		const code = await new Promise((resolve) => child.once('exit', resolve));

		if (code !== 0)
			throw new Error(`tests in the namespace failed (${code}); they are above`);
	});
}

function sh(script) {
	const { status, stderr } = spawnSync('sh', ['-ec', script], { encoding: 'utf8' });

	if (status !== 0)
		throw new Error(`${script}: ${stderr}`);
}

// The namespaces, and the process that is the internet: {config, seen(), connections(), close()}.
export async function makeWorld() {
	const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'skerry-world-'));

	sh(`mount -t tmpfs none /run
		ip netns add internet
		ip link set lo up
		ip link add up0 type veth peer name peer0 netns internet
		ip address add 5.5.5.2/24 dev up0; ip link set up0 up
		ip -n internet link set lo up
		ip -n internet address add 5.5.5.1/24 dev peer0; ip -n internet link set peer0 up
		ip -n internet route add local 0.0.0.0/1 dev lo
		ip -n internet route add local 128.0.0.0/1 dev lo
		ip -n internet route add 5.5.5.2/32 dev peer0
		ip route add default via 5.5.5.1`);
	fs.writeFileSync(path.join(dir, 'resolv.conf'), 'nameserver 9.9.9.9\n');
	fs.mkdirSync(path.join(dir, 'pins'));
	const child = spawn('ip', ['netns', 'exec', 'internet', process.execPath, own], {
		env: { ...process.env, SKERRY_TEST_WORLD: 'internet' },
		stdio: ['ignore', 'pipe', 'inherit'],
	});
	const seen = [];
	let rest = '';

	await new Promise((resolve, reject) => {
		child.once('exit', (code) => reject(new Error(`the internet ended (${code})`)));
		child.stdout.on('data', (data) => {
			const lines = (rest + data).split('\n');

			rest = lines.pop();
			for (const line of lines) {
				const event = JSON.parse(line);

				if (event.ready)
					resolve();
				else
					seen.push(event);
			}
		});
	});
	return {
		// For startDaemon.
		config: {
			network: {
				mode: 'on',
				uplink: 'up0',
				resolv_conf: path.join(dir, 'resolv.conf'),
				pin_dir: path.join(dir, 'pins'),
			},
		},
		// Requests, questions and pieces of streams that reached the internet so far.
		seen,
		close() {
			child.removeAllListeners('exit');
			child.kill();
			spawnSync('umount', [path.join(dir, 'pins')]);
			fs.rmSync(dir, { recursive: true, force: true });
		},
	};
}

// ---- the internet ----

const say = (event) => fs.writeSync(1, `${JSON.stringify(event)}\n`);

// Questions of one name, as resolvers send them: A records from the table, nothing for other types.
function answerName(question) {
	const labels = [];
	let at = 12;

	while (question[at] > 0) {
		labels.push(question.toString('latin1', at + 1, at + 1 + question[at]));
		at += question[at] + 1;
	}
	const name = labels.join('.').toLowerCase();
	const type = question.readUInt16BE(at + 1);
	const known = names[name];
	const answers = known && type === 1 ? 1 : 0;
	const head = Buffer.from(question.subarray(0, at + 5));

	say({ name, type });
	head.writeUInt16BE(0x8180 | (known ? 0 : 3), 2);
	head.writeUInt16BE(1, 4);
	head.writeUInt16BE(answers, 6);
	head.writeUInt32BE(0, 8);
	if (!answers)
		return head;
	const record = Buffer.alloc(16);

	record.writeUInt16BE(0xc00c, 0);
	record.writeUInt16BE(1, 2);
	record.writeUInt16BE(1, 4);
	record.writeUInt32BE(known[1], 6);
	record.writeUInt16BE(4, 10);
	Buffer.from(known[0].split('.').map(Number)).copy(record, 12);
	return Buffer.concat([head, record]);
}

// PUT /stream: every piece of the body that arrives is an event.
function serve(request, response) {
	const site = request.socket.localAddress;
	let tick = 0;

	say({ host: request.headers.host, site, url: request.url });
	if (request.url === '/stream')
		request.on('data', () => say({ tick: ++tick, site }));
	else
		response.end(`${request.headers.host} at ${site}\n`);
}

if (process.env.SKERRY_TEST_WORLD === 'internet') {
	const resolver = dgram.createSocket('udp4');

	resolver.on('message', (question, from) => resolver.send(answerName(question), from.port, from.address));
	resolver.bind(53, '9.9.9.9', () => {
		http.createServer(serve).listen({ host: '0.0.0.0', port: 80 }, () => say({ ready: true }));
	});
}
