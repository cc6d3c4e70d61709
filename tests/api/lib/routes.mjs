// Every operation of the server as requests, made from /openapi.json: a route that is new is in every test
// that goes through these, without being named there.

// A value that the schema takes; names help where the schema alone does not say enough.
function valueOf(schema, name) {
	if (schema.enum)
		return schema.enum[0];
	const types = [schema.type].flat();

	if (types.includes('integer') || types.includes('number'))
		return Math.max(schema.minimum ?? 1, 1);
	if (types.includes('boolean'))
		return false;
	if (types.includes('array'))
		return [];
	if (types.includes('object'))
		return schema.required?.length ? bodyOf(schema) : {};
	if (/path|from|to/.test(name))
		return `/home/sandbox/${name}`;
	return name === 'command' ? 'true' : 'x1';
}

function bodyOf(schema) {
	return Object.fromEntries((schema.required ?? []).map((name) => [name, valueOf(schema.properties[name], name)]));
}

// [{name, method, path, scope, ids: [names in the path], query, body, bytes, streams}]
export async function operationsOf(daemon) {
	const { json } = await daemon.request('GET', '/openapi.json');

	return Object.entries(json.paths).flatMap(([path, methods]) => Object.entries(methods).map(([method, op]) => {
		const content = op.requestBody?.content ?? {};
		const required = (op.parameters ?? []).filter((one) => one.required && one.in === 'query');

		return {
			name: op.operationId,
			method: method.toUpperCase(),
			path,
			scope: op['x-scope'],
			ids: [...path.matchAll(/\{(\w+)\}/g)].map(([, id]) => id),
			query: Object.fromEntries(required.map(({ name, schema }) => [name, valueOf(schema, name)])),
			optional: (op.parameters ?? []).filter((one) => !one.required && one.in === 'query').map((one) => one.name),
			properties: Object.keys(content['application/json']?.schema?.properties ?? {}),
			body: content['application/json'] ? bodyOf(content['application/json'].schema) : undefined,
			bytes: content['application/octet-stream'] || content['application/x-tar'] ? 'bytes' : undefined,
			streams: Boolean(op.responses['200']?.content?.['text/event-stream']),
			socket: Boolean(op.responses['101']),
		};
	}));
}

// What an id in this operation's path is of.
export function kindOf(op, id) {
	if (id === 'id')
		return op.path.split('/')[2] === 'networks' ? 'sandboxes' : op.path.split('/')[2];
	return id === 'name' ? op.path.split('/')[2] : id;
}

export function routeOf(op, ids, query = {}) {
	const path = op.path.replace(/\{(\w+)\}/g, (_, id) => encodeURIComponent(ids[id]));
	const search = new URLSearchParams({ ...op.query, ...query }).toString();

	return search ? `${path}?${search}` : path;
}

// {status, code, text, headers}; a stream that begins is left at once. Terminals are asked for as a
// WebSocket client does.
export async function send(daemon, key, op, ids, { query, body = op.bytes ?? op.body, stream = false } = {}) {
	const gone = new AbortController();
	const response = await fetch(new URL(routeOf(op, ids, query), daemon.url), {
		method: op.method,
		headers: {
			Authorization: `Bearer ${key}`,
			...(body !== undefined && { 'Content-Type': op.bytes ? 'application/octet-stream' : 'application/json' }),
			...(stream && { Accept: 'text/event-stream' }),
		},
		body: body === undefined || typeof body === 'string' ? body : JSON.stringify(body),
		signal: gone.signal,
	});

	if (response.headers.get('content-type')?.startsWith('text/event-stream')) {
		gone.abort();
		return { status: response.status, code: 'stream', text: '', headers: response.headers };
	}
	const text = await response.text();
	let code;

	try {
		({ code } = JSON.parse(text));
	} catch {}
	return { status: response.status, code, text, headers: response.headers };
}
