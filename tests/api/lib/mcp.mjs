// MCP clients of every kind that the tests drive, and raw requests for what clients would never send.

import http from 'node:http';

import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { Client as OldClient } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport as OldTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';

export const MODERN = '2026-07-28';
export const LEGACY = '2025-11-25';

const info = { name: 'skerry-tests', version: '1.0.0' };

// Each gives {client, version, callTool(params, options)}: the old SDK has another argument in between.
export const clientKinds = [
	{ name: `client 2.x, ${MODERN}`, version: MODERN, mode: { pin: MODERN } },
	{ name: `client 2.x, ${LEGACY}`, version: LEGACY, mode: 'legacy' },
	{ name: `sdk 1.x, ${LEGACY}`, version: LEGACY, old: true },
];

export async function connect(daemon, kind, { path = '/mcp', key = daemon.key } = {}) {
	const url = new URL(path, daemon.url);
	const requestInit = { headers: { Authorization: `Bearer ${key}` } };

	if (kind.old) {
		const client = new OldClient(info);

		await client.connect(new OldTransport(url, { requestInit }));
		return { client, callTool: (params, options) => client.callTool(params, undefined, options) };
	}
	const client = new Client(info, { versionNegotiation: { mode: kind.mode } });

	await client.connect(new StreamableHTTPClientTransport(url, { requestInit }));
	return { client, callTool: (params, options) => client.callTool(params, options) };
}

export const textOf = (result) => result.content.map((part) => part.text ?? '').join('');

// ---- raw requests ----

export const modernMeta = (more = {}) => ({
	'io.modelcontextprotocol/protocolVersion': MODERN,
	'io.modelcontextprotocol/clientCapabilities': {},
	...more,
});

export const request = (method, params, id = 1) => ({ jsonrpc: '2.0', id, method, ...(params && { params }) });

// A modern request with its mirrored headers, both open to change.
export function modern(method, params = {}, { headers = {}, meta = modernMeta(), id = 1 } = {}) {
	const name = params.name ?? params.uri;

	return {
		body: request(method, { ...params, ...(meta && { _meta: meta }) }, id),
		headers: {
			'MCP-Protocol-Version': MODERN,
			'Mcp-Method': method,
			...(name !== undefined && { 'Mcp-Name': name }),
			...headers,
		},
	};
}

// POSTs (or whatever method says) and gives {status, headers, text, json, events}. By node:http, which
// sends headers as they are. Headers that are undefined are not sent.
export function post(daemon, { body, headers = {}, method = 'POST', path = '/mcp', key = daemon.key }) {
	const bytes = typeof body === 'string' || Buffer.isBuffer(body) ? body : body && JSON.stringify(body);
	const all = {
		Accept: 'application/json, text/event-stream',
		'Content-Type': bytes === undefined ? undefined : 'application/json',
		Authorization: key && `Bearer ${key}`,
		...headers,
	};

	for (const name of Object.keys(all))
		if (all[name] === undefined)
			delete all[name];
	return new Promise((resolve, reject) => {
		const req = http.request(new URL(path, daemon.url), { method, headers: all, agent: false }, (res) => {
			const chunks = [];

			res.on('data', (chunk) => chunks.push(chunk));
			res.on('error', reject);
			res.on('end', () => resolve(answerOf(res, Buffer.concat(chunks).toString())));
		});

		req.on('error', reject);
		req.end(bytes);
	});
}

function answerOf(res, text) {
	const type = res.headers['content-type'] ?? '';
	const answer = { status: res.statusCode, headers: res.headers, text };

	if (type.startsWith('application/json') || type.includes('+json'))
		answer.json = JSON.parse(text);
	if (type.startsWith('text/event-stream')) {
		answer.events = [...text.matchAll(/^data: (.*)$/gm)].map(([, data]) => JSON.parse(data));
		answer.json = answer.events.at(-1);
	}
	return answer;
}
