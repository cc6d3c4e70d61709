// The server of an application whose page uses the SDK, as docs/sdk.md says it: the page and the SDK's modules
// are files of its own, and what it does not have it passes on to the daemon, with the Host that the browser
// sent. So page and API have one origin, which is the only one that the daemon serves pages of.

import fs from 'node:fs';
import http from 'node:http';
import net from 'node:net';
import path from 'node:path';

import { repository } from '../../api/lib/daemon.mjs';

const modules = path.join(repository, 'sdk/typescript/dist');
const policy = "default-src 'none'; script-src 'self'; connect-src 'self'; img-src data:";
const page = '<!doctype html><meta charset="utf-8"><title>An application</title><link rel="icon" href="data:,">';

// Any module of the SDK, by its plain name.
function fileFor(url) {
	const name = /^\/skerry\/(\w+\.js)$/.exec(url)?.[1];
	const file = name && path.join(modules, name);

	if (url === '/')
		return { type: 'text/html', body: page };
	return file && fs.existsSync(file) ? { type: 'text/javascript', body: fs.readFileSync(file) } : undefined;
}

function passOn(daemon, request, response) {
	const { hostname, port } = new URL(daemon.url);
	const { method, url, headers } = request;
	const onward = http.request({ hostname, port, method, path: url, headers, setHost: false }, (answer) => {
		response.writeHead(answer.statusCode, answer.headers);
		response.flushHeaders();
		answer.pipe(response).on('error', () => {});
		answer.on('error', () => response.destroy());
	});

	onward.on('error', () => response.destroy());
	response.on('close', () => onward.destroy());
	request.pipe(onward);
}

// A WebSocket: its request as it came, then bytes.
function joinSockets(daemon, request, near, head) {
	const { hostname, port } = new URL(daemon.url);
	const far = net.connect(Number(port), hostname);
	const lines = [`${request.method} ${request.url} HTTP/1.1`];

	for (let i = 0; i < request.rawHeaders.length; i += 2)
		lines.push(`${request.rawHeaders[i]}: ${request.rawHeaders[i + 1]}`);
	far.write(`${lines.join('\r\n')}\r\n\r\n`);
	far.write(head);
	near.on('error', () => {}).on('close', () => far.destroy());
	far.on('error', () => {}).on('close', () => near.destroy());
	near.pipe(far).pipe(near);
}

// {url, cutSockets(), close()}. Without a daemon it has the files alone: a page of another origin.
export async function startApplication(daemon) {
	const sockets = new Set();
	const server = http.createServer((request, response) => {
		const file = fileFor(request.url);

		if (file) {
			response.writeHead(200, { 'Content-Type': file.type, 'Content-Security-Policy': daemon ? policy : '' });
			response.end(file.body);
		} else if (daemon) {
			passOn(daemon, request, response);
		} else {
			response.writeHead(404).end();
		}
	});

	if (daemon)
		server.on('upgrade', (request, socket, head) => {
			sockets.add(socket);
			socket.on('close', () => sockets.delete(socket));
			joinSockets(daemon, request, socket, head);
		});
	await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
	return {
		url: `http://127.0.0.1:${server.address().port}`,
		cutSockets() {
			sockets.forEach((socket) => socket.destroy());
		},
		close() {
			this.cutSockets();
			server.close();
			server.closeAllConnections();
		},
	};
}
