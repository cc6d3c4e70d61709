// Vercel's AI SDK with the tools of Skerry's MCP server.
//
//   SKERRY_URL=… SKERRY_API_KEY=… OPENAI_API_KEY=… node main.mjs [TASK]

import { createMCPClient } from '@ai-sdk/mcp';
import { openai } from '@ai-sdk/openai';
import { generateText, stepCountIs } from 'ai';

const { SKERRY_URL = 'http://127.0.0.1:7171', SKERRY_API_KEY, OPENAI_MODEL = 'gpt-5' } = process.env;
const task = process.argv[2] ?? 'Multiply 6 by 7 with Python, in a sandbox of your own.';

const client = await createMCPClient({
	transport: {
		type: 'http',
		url: new URL('/mcp', SKERRY_URL).href,
		headers: { Authorization: `Bearer ${SKERRY_API_KEY}` },
	},
});

try {
	const { text } = await generateText({
		model: openai(OPENAI_MODEL),
		tools: await client.tools(),
		stopWhen: stepCountIs(50),
		system: 'You work in Linux sandboxes. Destroy those that you no longer need.',
		prompt: task,
	});

	console.log(text);
} finally {
	await client.close();
}
