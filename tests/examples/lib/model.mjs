// A stand-in for a language model: an HTTP server that speaks OpenAI's Chat Completions and Responses APIs to
// whatever client library asks, and whose answers are a script. A step of the script gets what the tools have
// answered so far, and gives {tool, args} or {text}.

import assert from 'node:assert/strict';
import http from 'node:http';

const read = async (request) => {
	const chunks = [];

	for await (const chunk of request)
		chunks.push(chunk);
	return JSON.parse(Buffer.concat(chunks));
};

const textOf = (content) =>
	typeof content === 'string' ? content : (content ?? []).map((part) => part.text ?? JSON.stringify(part)).join('\n');

const apis = {
	'/v1/chat/completions': {
		toolsOf: ({ tools = [] }) => tools.map(({ function: { name, parameters } }) => ({ name, parameters })),
		resultsOf: ({ messages }) => messages.filter(({ role }) => role === 'tool').map(({ content }) => textOf(content)),
		answer: ({ model }, step, id) => ({
			id: `chatcmpl-${id}`, object: 'chat.completion', created: 1, model,
			choices: [{
				index: 0,
				finish_reason: step.tool ? 'tool_calls' : 'stop',
				message: {
					role: 'assistant', refusal: null, content: step.text ?? null,
					...(step.tool && {
						tool_calls: [{ id: `call_${id}`, type: 'function', function: { name: step.tool, arguments: JSON.stringify(step.args) } }],
					}),
				},
			}],
			usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
		}),
	},
	'/v1/responses': {
		toolsOf: ({ tools = [] }) => tools.map(({ name, parameters }) => ({ name, parameters })),
		resultsOf: ({ input }) => input.filter(({ type }) => type === 'function_call_output').map(({ output }) => textOf(output)),
		answer: ({ model }, step, id) => ({
			id: `resp_${id}`, object: 'response', created_at: 1, model, status: 'completed', error: null, incomplete_details: null,
			output: [step.tool
				? { id: `fc_${id}`, type: 'function_call', status: 'completed', call_id: `call_${id}`, name: step.tool, arguments: JSON.stringify(step.args) }
				: {
					id: `msg_${id}`, type: 'message', role: 'assistant', status: 'completed',
					content: [{ type: 'output_text', text: step.text, annotations: [] }],
				}],
			usage: {
				input_tokens: 1, output_tokens: 1, total_tokens: 2,
				input_tokens_details: { cached_tokens: 0 }, output_tokens_details: { reasoning_tokens: 0 },
			},
		}),
	},
};

// {url, requests, tools, close}: tools is what the model was offered last. A request that the script has no
// answer for is answered with 400 and its reason, which the client then shows.
export async function startModel(script) {
	const model = { requests: [], tools: [] };
	const server = http.createServer(async (request, response) => {
		let status = 200, body;

		try {
			const api = apis[request.url];

			assert.ok(api, `the model has no ${request.method} ${request.url}`);
			const asked = await read(request);
			const results = api.resultsOf(asked);
			const step = script[results.length];

			model.requests.push(asked);
			model.tools = api.toolsOf(asked);
			assert.ok(!asked.stream, 'the script is not for streams');
			assert.ok(step, `the script ends before result ${results.length}`);
			body = api.answer(asked, step(results), model.requests.length);
		} catch (error) {
			[status, body] = [400, { error: { message: error.message, type: 'invalid_request_error', code: null, param: null } }];
		}
		response.writeHead(status, { 'Content-Type': 'application/json' }).end(JSON.stringify(body));
	});

	await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
	return Object.assign(model, {
		url: `http://127.0.0.1:${server.address().port}/v1`,
		close() {
			server.close();
			server.closeAllConnections();
		},
	});
}
