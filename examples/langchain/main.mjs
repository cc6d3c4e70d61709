// A LangChain agent with the tools of Skerry's MCP server.
//
//   SKERRY_URL=… SKERRY_API_KEY=… OPENAI_API_KEY=… node main.mjs [TASK]

import { MultiServerMCPClient } from '@langchain/mcp-adapters';
import { ChatOpenAI } from '@langchain/openai';
import { createAgent } from 'langchain';

const { SKERRY_URL = 'http://127.0.0.1:7171', SKERRY_API_KEY, OPENAI_MODEL = 'gpt-5' } = process.env;
const task = process.argv[2] ?? 'Multiply 6 by 7 with Python, in a sandbox of your own.';

const client = new MultiServerMCPClient({
	mcpServers: {
		skerry: {
			transport: 'http',
			url: new URL('/mcp', SKERRY_URL).href,
			headers: { Authorization: `Bearer ${SKERRY_API_KEY}` },
			defaultToolTimeout: 60_000, // a command is answered within 45 s, with "running" if it goes on
		},
	},
});

try {
	const agent = createAgent({
		model: new ChatOpenAI({ model: OPENAI_MODEL }),
		tools: await client.getTools(),
		systemPrompt: 'You work in Linux sandboxes. Destroy those that you no longer need.',
	});
	const { messages } = await agent.invoke({ messages: [{ role: 'user', content: task }] }, { recursionLimit: 100 });

	console.log(messages.at(-1).text);
} finally {
	await client.close();
}
