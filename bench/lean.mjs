// REST and MCP through http_rtt, whose times hold next to nothing of a client.

import { spawn } from 'node:child_process';

export class LeanConnection {
	constructor(daemon, build) {
		const { hostname, port } = new URL(daemon.url);

		this.head = `Host: ${hostname}:${port}\r\nAuthorization: Bearer ${daemon.key}\r\n`;
		this.child = spawn(`${build}/bench/http_rtt`, [port], { stdio: ['pipe', 'pipe', 'inherit'] });
		this.read = Buffer.alloc(0);
		this.child.stdout.on('data', (bytes) => {
			this.read = Buffer.concat([this.read, bytes]);
			this.take();
		});
		const failed = (error) => { this.waiting?.reject(error); };

		this.child.on('error', failed);
		this.child.on('exit', (code) => failed(new Error(`http_rtt ended with ${code}`)));
		this.id = 0;
	}

	take() {
		const line = this.read.indexOf('\n');
		const answer = line < 0 ? undefined : JSON.parse(this.read.subarray(0, line).toString());

		if (!answer || this.read.length < line + 1 + answer.body_bytes)
			return;
		const body = this.read.subarray(line + 1, line + 1 + answer.body_bytes).toString();

		this.read = this.read.subarray(line + 1 + answer.body_bytes);
		this.waiting.resolve({ ...answer, body });
	}

	// {us, status, body}; one at a time.
	request(method, path, body, headers = {}) {
		const bytes = Buffer.from(body === undefined ? '' : JSON.stringify(body));
		const extra = Object.entries({
			Accept: 'application/json',
			...(body !== undefined && { 'Content-Type': 'application/json', 'Content-Length': bytes.length }),
			...headers,
		}).map(([name, value]) => `${name}: ${value}\r\n`).join('');
		const request = Buffer.concat([Buffer.from(`${method} ${path} HTTP/1.1\r\n${this.head}${extra}\r\n`), bytes]);

		return new Promise((resolve, reject) => {
			this.waiting = { resolve, reject };
			this.child.stdin.write(Buffer.concat([Buffer.from(`${request.length}\n`), request]));
		});
	}

	async ms(method, path, body) {
		const { us, status, body: text } = await this.request(method, path, body);

		if (status >= 300)
			throw new Error(`${method} ${path}: ${status} ${text}`);
		return us / 1000;
	}

	// tools/call of the legacy era: no session, no headers that must agree with the body.
	async toolMs(name, args) {
		const { us, status, body } = await this.request('POST', '/mcp', {
			jsonrpc: '2.0', id: ++this.id, method: 'tools/call', params: { name, arguments: args },
		}, { Accept: 'application/json, text/event-stream', 'MCP-Protocol-Version': '2025-11-25' });

		if (status !== 200 || body.includes('"isError":true') || !body.includes('"structuredContent"'))
			throw new Error(`${name} over MCP: ${status} ${body}`);
		return us / 1000;
	}

	close() {
		this.child.stdin.end();
	}
}
