// What every result of a tool must be: valid by the tool's own schema in the strictest reading, and whole
// in both of its parts, as clients show the model one or the other.

import assert from 'node:assert/strict';

import Ajv from 'ajv';
import addFormats from 'ajv-formats';

import { textOf } from './mcp.mjs';

export class Checker {
	constructor(tools) {
		const ajv = addFormats.default(new Ajv.Ajv({ strict: true, allErrors: true, allowUnionTypes: true }));

		this.validators = new Map(tools.map((tool) => [tool.name, ajv.compile(tool.outputSchema)]));
		tools.forEach((tool) => ajv.compile(tool.inputSchema));
	}

	check(name, result) {
		assert.notEqual(result.isError, true, textOf(result));
		const validate = this.validators.get(name);

		assert.ok(validate(result.structuredContent), JSON.stringify(validate.errors));
		checkText(name, result);
		return result.structuredContent;
	}
}

function checkText(name, result) {
	const text = textOf(result);
	const answer = result.structuredContent;

	if (!name.startsWith('exec')) {
		assert.deepEqual(JSON.parse(text), answer);
		return;
	}
	for (const [key, value] of Object.entries(answer))
		assert.ok(text.includes(key === 'stdout' || key === 'stderr' ? value : `${key}: ${JSON.stringify(value)}`), key);
}
