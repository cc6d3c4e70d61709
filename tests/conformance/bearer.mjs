// Preloaded into the conformance suite, which has no option for a key: adds the key to every request to
// the server under test, whichever way the suite sends it (fetch, node:http, its own undici).

import http from 'node:http';
import { createRequire, syncBuiltinESMExports } from 'node:module';

const { SKERRY_TEST_URL: target, SKERRY_API_KEY: key } = process.env;
const { origin, host } = new URL(target);
const credentials = `Bearer ${key}`;

const realFetch = globalThis.fetch;
globalThis.fetch = (input, init = {}) => {
	const url = new URL(input instanceof Request ? input.url : input);

	if (url.origin !== origin)
		return realFetch(input, init);
	const headers = new Headers(init.headers ?? (input instanceof Request ? input.headers : undefined));

	headers.set('Authorization', credentials);
	return realFetch(input, { ...init, headers });
};

const realRequest = http.request;
http.request = (...args) => {
	const req = realRequest(...args);

	if (`${req.host}:${args[0].port ?? new URL(args[0]).port}` === host && !req.headersSent)
		req.setHeader('Authorization', credentials);
	return req;
};
syncBuiltinESMExports();

// Where the suite chooses the Host header it uses undici, of which it may have a copy of its own.
const suite = new URL('../node_modules/@modelcontextprotocol/conformance/dist/index.js', import.meta.url);
const undici = createRequire(suite)('undici');
const realUndici = undici.request;
undici.request = (url, options = {}) =>
	realUndici(url, { ...options, headers: { ...options.headers, Authorization: credentials } });
