// REST and MCP as bytes over one kept connection each, without an SDK in the way.

import http from 'node:http';

export class Connection {
	constructor(daemon) {
		this.daemon = daemon;
		this.agent = new http.Agent({ keepAlive: true, maxSockets: 1, noDelay: true });
		this.id = 0;
	}

	request(method, path, body, headers = {}) {
		const bytes = body === undefined ? undefined : JSON.stringify(body);

		return new Promise((resolve, reject) => {
			const req = http.request(new URL(path, this.daemon.url), {
				agent: this.agent,
				method,
				headers: {
					Accept: 'application/json',
					Authorization: `Bearer ${this.daemon.key}`,
					...(bytes !== undefined && {
						'Content-Type': 'application/json',
						'Content-Length': Buffer.byteLength(bytes),
					}),
					...headers,
				},
			}, (res) => {
				const chunks = [];

				res.on('data', (chunk) => chunks.push(chunk));
				res.on('error', reject);
				res.on('end', () => resolve({ status: res.statusCode, text: Buffer.concat(chunks).toString() }));
			});

			req.on('error', reject);
			req.end(bytes);
		});
	}

	async rest(method, path, body) {
		const { status, text } = await this.request(method, path, body);

		if (status >= 300)
			throw new Error(`${method} ${path}: ${status} ${text}`);
		return JSON.parse(text);
	}

	// tools/call of the legacy era: no session, no headers that must agree with the body.
	async tool(name, args) {
		const { status, text } = await this.request('POST', '/mcp', {
			jsonrpc: '2.0', id: ++this.id, method: 'tools/call', params: { name, arguments: args },
		}, { Accept: 'application/json, text/event-stream', 'MCP-Protocol-Version': '2025-11-25' });
		const data = text.startsWith('{') ? text : text.match(/^data: (.*)$/gm)?.at(-1)?.slice(6);
		const answer = status === 200 && data ? JSON.parse(data) : undefined;

		if (!answer?.result || answer.result.isError)
			throw new Error(`${name} over MCP: ${status} ${text}`);
		return answer.result.structuredContent;
	}

	close() {
		this.agent.destroy();
	}
}
