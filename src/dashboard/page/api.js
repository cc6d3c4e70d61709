// The server's API, with the cookie of the session. What goes wrong is a Problem with the server's own
// words: what failed, and what to do.

export class Problem extends Error {
	constructor({ status = 0, code = '', detail = '', hint = '', title = '' }) {
		super(detail || title || 'the request failed');
		Object.assign(this, { status, code, hint });
	}
}

const listeners = new Set();

// fn is called when the session has ended.
export const onSignedOut = (fn) => listeners.add(fn);

export async function problemOf(response) {
	const text = await response.text();

	try {
		return new Problem({ status: response.status, ...JSON.parse(text) });
	} catch {
		return new Problem({ status: response.status, detail: `the server answered ${response.status}` });
	}
}

async function send(method, path, { body, headers = {}, signal } = {}) {
	try {
		return await fetch(path, { method, body, headers, signal, cache: 'no-store' });
	} catch (error) {
		if (error.name === 'AbortError')
			throw error;
		throw new Problem({
			code: 'unreachable',
			detail: 'The server cannot be reached',
			hint: 'Check that skerryd runs and that you are connected; then try again.',
		});
	}
}

async function check(response, quiet) {
	if (response.ok)
		return response;
	const problem = await problemOf(response);

	if (response.status === 401 && !quiet)
		listeners.forEach((fn) => fn(problem));
	throw problem;
}

// JSON to JSON. body undefined: none.
export async function call(method, path, body, { signal, headers = {}, quiet } = {}) {
	const sent = body === undefined ? { headers, signal }
		: { body: JSON.stringify(body), headers: { 'Content-Type': 'application/json', ...headers }, signal };
	const response = await check(await send(method, path, sent), quiet);
	const text = await response.text();

	return text ? JSON.parse(text) : null;
}

export const get = (path, options) => call('GET', path, undefined, options);
export const post = (path, body = {}, options) => call('POST', path, body, options);
export const put = (path, body, options) => call('PUT', path, body, options);
export const remove = (path, options) => call('DELETE', path, undefined, options);

// Bytes out of the server, and into it.
export async function download(path, options = {}) {
	return check(await send('GET', path, options));
}

export async function upload(path, blob, { signal } = {}) {
	const response = await check(await send('PUT', path, {
		body: blob, signal, headers: { 'Content-Type': 'application/octet-stream' },
	}));

	return response.json();
}

// A path of segments and a query: url('/v1/sandboxes', id, 'files')({path: '/tmp'}).
export function url(base, ...segments) {
	return (query = {}) => {
		const parameters = new URLSearchParams(
			Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== ''));
		const tail = parameters.size ? `?${parameters}` : '';

		return [base, ...segments.map(encodeURIComponent)].join('/') + tail;
	};
}

// Every item of a list that comes in pages, up to max.
export async function all(path, query = {}, { signal, max = 1000 } = {}) {
	const items = [];
	let cursor;

	do {
		const page = await get(url(path)({ ...query, cursor }), { signal });

		items.push(...page.items);
		cursor = page.next_cursor;
	} while (cursor && items.length < max);
	return items;
}
