// An agent in sixty lines: the official MCP client, a model behind the Chat Completions API, and a loop between
// them. The model gets the server's tools and instructions as they are, and decides.
//
//   SKERRY_URL=… SKERRY_API_KEY=… OPENAI_API_KEY=… node main.mjs [TASK]

import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';

const {
	SKERRY_URL = 'http://127.0.0.1:7171', SKERRY_API_KEY,
	OPENAI_BASE_URL = 'https://api.openai.com/v1', OPENAI_API_KEY, OPENAI_MODEL = 'gpt-5',
} = process.env;
const task = process.argv[2] ?? 'Multiply 6 by 7 with Python, in a sandbox of your own.';
const TURNS = 50;

async function connect() {
	const client = new Client({ name: 'mcp-client-example', version: '1.0.0' }, { versionNegotiation: { mode: 'auto' } });
	const requestInit = { headers: { Authorization: `Bearer ${SKERRY_API_KEY}` } };

	await client.connect(new StreamableHTTPClientTransport(new URL('/mcp', SKERRY_URL), { requestInit }));
	return client;
}

async function askModel(messages, tools) {
	const response = await fetch(`${OPENAI_BASE_URL}/chat/completions`, {
		method: 'POST',
		headers: { 'Content-Type': 'application/json', Authorization: `Bearer ${OPENAI_API_KEY}` },
		body: JSON.stringify({ model: OPENAI_MODEL, messages, tools }),
	});

	if (!response.ok)
		throw new Error(`the model's server answered with ${response.status}: ${await response.text()}`);
	return (await response.json()).choices[0].message;
}

// A call that fails is an answer too: the model reads why, and tries something else.
async function callTool(client, { name, arguments: text }) {
	process.stderr.write(`${name} ${text}\n`);
	try {
		const { content } = await client.callTool({ name, arguments: JSON.parse(text) });

		return content.map((part) => part.text ?? '').join('\n');
	} catch (error) {
		return `error: ${error.message}`;
	}
}

const client = await connect();

try {
	const tools = (await client.listTools()).tools.map(({ name, description, inputSchema }) =>
		({ type: 'function', function: { name, description, parameters: inputSchema } }));
	const messages = [{ role: 'system', content: client.getInstructions() ?? '' }, { role: 'user', content: task }];

	for (let turn = 0; turn < TURNS; turn++) {
		const message = await askModel(messages, tools);

		messages.push(message);
		if (!message.tool_calls?.length) {
			console.log(message.content);
			break;
		}
		for (const call of message.tool_calls)
			messages.push({ role: 'tool', tool_call_id: call.id, content: await callTool(client, call.function) });
	}
} finally {
	await client.close();
}
