// The OpenAI Agents SDK with Skerry's MCP server attached.
//
//   SKERRY_URL=… SKERRY_API_KEY=… OPENAI_API_KEY=… node main.mjs [TASK]

import { Agent, MCPServerStreamableHttp, run } from '@openai/agents';

const { SKERRY_URL = 'http://127.0.0.1:7171', SKERRY_API_KEY, OPENAI_MODEL = 'gpt-5' } = process.env;
const task = process.argv[2] ?? 'Multiply 6 by 7 with Python, in a sandbox of your own.';

const skerry = new MCPServerStreamableHttp({
	name: 'skerry',
	url: new URL('/mcp', SKERRY_URL).href,
	requestInit: { headers: { Authorization: `Bearer ${SKERRY_API_KEY}` } },
	clientSessionTimeoutSeconds: 60, // a command is answered within 45 s, with "running" if it goes on
	cacheToolsList: true,
});

await skerry.connect();
try {
	const agent = new Agent({
		name: 'coder',
		model: OPENAI_MODEL,
		instructions: 'You work in Linux sandboxes. Destroy those that you no longer need.',
		mcpServers: [skerry],
	});
	const result = await run(agent, task, { maxTurns: 50 });

	console.log(result.finalOutput);
} finally {
	await skerry.close();
}
