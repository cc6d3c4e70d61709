// The preview rig (tests/unit/preview_rig.c): the daemon's HTTP surface on a core without machines, whose
// sandbox "sbx_aa" has the ports of this host's loopback address.

import { spawn } from 'node:child_process';
import http from 'node:http';
import net from 'node:net';
import path from 'node:path';
import readline from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';

import { build } from './daemon.mjs';

export const KEY = 'sk_test';
export const withKey = { Authorization: `Bearer ${KEY}` };

export class Rig {
	static async start(...args) {
		const rig = new Rig();

		rig.child = spawn(path.join(build, 'tests/unit/preview_rig'), args,
			{ stdio: ['pipe', 'pipe', 'inherit'] });
		rig.ended = new Promise((resolve) => rig.child.once('exit', (code, signal) => resolve(signal ?? code)));
		rig.lines = readline.createInterface({ input: rig.child.stdout })[Symbol.asyncIterator]();
		rig.url = await rig.line();
		return rig;
	}

	async line() {
		const { value, done } = await this.lines.next();

		if (done)
			throw new Error(`the rig ended: ${await this.ended}`);
		return value;
	}

	ask(command) {
		this.child.stdin.write(`${command}\n`);
		return this.line();
	}

	sign(port, minutes = 5) {
		return this.ask(`sign ${port} ${minutes}`);
	}

	// The exit code: 0 when no connection was left.
	stop() {
		this.child.stdin.end();
		return this.ended;
	}

	path(port, rest = '/') {
		return `/preview/sbx_aa/${port}${rest}`;
	}

	// Waits until no connection into the sandbox is open.
	async quiet() {
		while (Number(await this.ask('open')) > 0)
			await sleep(10);
	}

	// {status, headers, rawHeaders, text, body, aborted}
	request(method, route, { headers = withKey, body, agent } = {}) {
		return new Promise((resolve, reject) => {
			const request = http.request(new URL(this.url).origin + '/', { method, path: route, headers, agent });

			request.on('response', (response) => {
				const chunks = [];
				const finish = (aborted) => resolve({
					status: response.statusCode,
					headers: response.headers,
					rawHeaders: response.rawHeaders,
					body: Buffer.concat(chunks),
					text: Buffer.concat(chunks).toString(),
					aborted,
				});

				response.on('data', (chunk) => chunks.push(chunk));
				response.on('end', () => finish(false));
				response.on('error', () => finish(true));
			});
			request.on('error', reject);
			if (body === undefined)
				request.end();
			else if (typeof body === 'function')
				body(request);
			else
				request.end(body);
		});
	}

	get(route, headers = withKey) {
		return this.request('GET', route, { headers });
	}
}

// A server that stands for one in the sandbox; {port, close}.
export async function serve(handler, upgrade) {
	const server = http.createServer(handler);

	if (upgrade)
		server.on('upgrade', upgrade);
	return listen(server);
}

// One that answers every connection with these bytes, once it has a whole head.
export function serveRaw(answer) {
	return listen(net.createServer((socket) => {
		let seen = '';

		socket.on('error', () => {});
		socket.on('data', (chunk) => {
			const first = !seen.includes('\r\n\r\n');

			seen += chunk.toString('latin1');
			if (first && seen.includes('\r\n\r\n'))
				answer(socket, seen);
		});
	}));
}

async function listen(server) {
	const sockets = new Set();

	server.on('connection', (socket) => {
		sockets.add(socket);
		socket.on('close', () => sockets.delete(socket));
	});
	await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
	return {
		port: server.address().port,
		sockets,
		close: () => new Promise((resolve) => {
			server.close(resolve);
			for (const socket of sockets)
				socket.destroy();
		}),
	};
}
