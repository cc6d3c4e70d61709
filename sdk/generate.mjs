// Writes the SDKs' types from the OpenAPI document: typescript/src/types.ts and
// python/skerry/_types.py, with a table of the operations in each.
//
//   sdk/generate            from the build's document (BUILD, default build/); no daemon is needed
//   sdk/generate --check    says what would change, and fails if anything would
//
// tests/sdk calls check() with a running daemon's document.

import { spawn } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import readline from 'node:readline';
import { fileURLToPath } from 'node:url';

const folder = path.dirname(fileURLToPath(import.meta.url));
const PYTHON_KEYWORDS = new Set(['from', 'as', 'import', 'class', 'global', 'in', 'is', 'not', 'pass', 'with']);
// Configured values, which a server may have others of than the one whose document was read.
const OPEN_ENUMS = new Set(['size']);

// ---- the document, as what both languages need ----

const pascal = (name) => name.replace(/(^|_)([a-z])/g, (all, start, letter) => letter.toUpperCase());
const referred = (schema) => schema.$ref?.match(/^#\/components\/schemas\/(\w+)$/)?.[1];

// {name, method, path, query, title, about, args, result, streams, bytes}; args is an object's schema.
function operationsOf(document) {
	return Object.entries(document.paths).flatMap(([route, methods]) =>
		Object.entries(methods).map(([method, operation]) => operationOf(route, method, operation)));
}

function operationOf(route, method, operation) {
	const args = { type: 'object', properties: {}, required: [] };
	const body = operation.requestBody?.content['application/json']?.schema;
	const parameters = operation.parameters.filter((one) => one.in !== 'header');
	const success = Object.entries(operation.responses).find(([status]) => /^(2..|101)$/.test(status))[1];

	for (const { name, schema, description, required } of parameters) {
		args.properties[name] = { description, ...schema };
		if (required)
			args.required.push(name);
	}
	Object.assign(args.properties, body?.properties);
	args.required.push(...(body?.required ?? []));
	return {
		name: operation.operationId,
		method: method.toUpperCase(),
		path: route,
		query: parameters.filter((one) => one.in === 'query').map((one) => one.name),
		idempotent: operation['x-idempotent'],
		about: operation.description,
		args,
		result: success.content?.['application/json']?.schema,
	};
}

const isOpen = (schema) => !schema?.$ref && !schema?.properties;
const argsName = (operation) => `${pascal(operation.name)}Args`;
const resultName = (operation) => referred(operation.result ?? {}) ?? `${pascal(operation.name)}Result`;

// Every named object of both files, in the document's order: [name, schema].
function objectsOf(document, operations) {
	return [
		...Object.entries(document.components.schemas),
		...operations.filter((one) => Object.keys(one.args.properties).length > 0)
			.map((one) => [argsName(one), { ...one.args, description: `Arguments of ${one.name}: ${one.about}` }]),
		...operations.filter((one) => !isOpen(one.result) && !referred(one.result))
			.map((one) => [resultName(one), { ...one.result, description: `What ${one.name} answers.` }]),
	];
}

// ---- TypeScript ----

const tsComment = (text, indent) => (text ? `${indent}/** ${text.replaceAll('*/', '* /')} */\n` : '');
const tsKey = (name) => (/^[A-Za-z_]\w*$/.test(name) ? name : `'${name}'`);

function tsType(schema, name) {
	if (referred(schema))
		return referred(schema);
	if (schema.anyOf)
		return schema.anyOf.map((one) => tsType(one)).join(' | ');
	if (schema.enum) {
		const choices = schema.enum.map((one) => `'${one}'`).join(' | ');

		return OPEN_ENUMS.has(name) ? `${choices} | (string & {})` : choices;
	}
	return [schema.type].flat().map((type) => tsPlain(type, schema)).join(' | ');
}

function tsPlain(type, schema) {
	switch (type) {
	case 'integer':
	case 'number':
		return 'number';
	case 'array': {
		const item = tsType(schema.items);

		return item.includes('|') ? `Array<${item}>` : `${item}[]`;
	}
	case 'object':
		if (schema.properties)
			return tsInline(schema);
		return `Record<string, ${schema.additionalProperties ? tsType(schema.additionalProperties) : 'unknown'}>`;
	default:
		return type; // string, boolean, null
	}
}

function tsInline({ properties, required = [] }) {
	return `{ ${Object.entries(properties).map(([key, member]) =>
		`${tsKey(key)}${required.includes(key) ? '' : '?'}: ${tsType(member, key)}`).join('; ')} }`;
}

function tsObject([name, schema]) {
	const required = new Set(schema.required);
	const members = Object.entries(schema.properties).map(([key, member]) =>
		`${tsComment(member.description, '\t')}\t${tsKey(key)}${required.has(key) ? '' : '?'}: ${tsType(member, key)};\n`);

	return `${tsComment(schema.description, '')}export interface ${name} {\n${members.join('')}}\n`;
}

const tsResult = (operation) => (!operation.result ? 'void' : isOpen(operation.result) ? 'Record<string, unknown>' : resultName(operation));
const tsArgs = (operation) => (Object.keys(operation.args.properties).length > 0 ? argsName(operation) : 'Record<string, never>');

export function typescript(document) {
	const operations = operationsOf(document);
	const types = operations.map((one) =>
		`${tsComment(one.about, '\t')}\t${one.name}: { args: ${tsArgs(one)}; result: ${tsResult(one)} };\n`);
	const table = operations.map((one) => {
		const query = one.query.map((name) => `'${name}'`).join(', ');

		return `\t${one.name}: { method: '${one.method}', path: '${one.path}', query: [${query}], idempotent: ${one.idempotent} },\n`;
	});

	return `// Made by sdk/generate from the server's OpenAPI document: do not edit.

${objectsOf(document, operations).map(tsObject).join('\n')}
/** Arguments and result of every operation. */
export interface Operations {
${types.join('')}}

/** Where an argument goes that is neither in the path nor in the query: into the body. */
export interface Operation {
	method: 'GET' | 'POST' | 'PUT' | 'DELETE';
	path: string;
	query: readonly string[];
	/** Asking again does nothing twice. */
	idempotent: boolean;
}

export const operations: { readonly [name in keyof Operations]: Operation } = {
${table.join('')}};
`;
}

// ---- Python ----

function pyType(schema, name) {
	if (referred(schema))
		return referred(schema);
	if (schema.anyOf)
		return pyUnion(schema.anyOf.map((one) => pyType(one)));
	if (schema.enum)
		return OPEN_ENUMS.has(name) ? 'str' : `Literal[${schema.enum.map((one) => `"${one}"`).join(', ')}]`;
	return pyUnion([schema.type].flat().map((type) => pyPlain(type, schema)));
}

function pyUnion(types) {
	const others = types.filter((one) => one !== 'None');

	if (others.length === 0)
		return 'None';
	const one = others.length > 1 ? `Union[${others.join(', ')}]` : others[0];

	return others.length < types.length ? `Optional[${one}]` : one;
}

const pyPlain = (type, schema) => ({
	string: () => 'str',
	integer: () => 'int',
	number: () => 'float',
	boolean: () => 'bool',
	null: () => 'None',
	array: () => `List[${pyType(schema.items)}]`,
	object: () => `Dict[str, ${schema.additionalProperties ? pyType(schema.additionalProperties) : 'Any'}]`,
})[type]();

const pyComment = (text) => (text ? `    # ${text}\n` : '');
const pyDoc = (text, indent = '    ') => (text ? `${indent}"""${text.replaceAll('"""', "'''").replace(/\.?$/, '.')}"""\n` : '');

// A TypedDict; members that may be missing are in a class of their own, as Python before 3.11 wants it.
function pyObject([name, schema]) {
	const required = new Set(schema.required);
	const members = Object.entries(schema.properties);
	const some = members.filter(([key]) => !required.has(key));
	const all = members.filter(([key]) => required.has(key));

	if (members.some(([key]) => PYTHON_KEYWORDS.has(key)))
		return pyFunctional(name, all, some);
	const body = (list) => list.map(([key, member]) => `${pyComment(member.description)}    ${key}: ${pyType(member, key)}\n`).join('');

	if (some.length === 0)
		return `class ${name}(TypedDict):\n${pyDoc(schema.description)}${schema.description ? '\n' : ''}${body(all)}`;
	if (all.length === 0)
		return `class ${name}(TypedDict, total=False):\n${pyDoc(schema.description)}${schema.description ? '\n' : ''}${body(some)}`;
	return `class _${name}Required(TypedDict):\n${body(all)}\n\n` +
		`class ${name}(_${name}Required, total=False):\n${pyDoc(schema.description)}${schema.description ? '\n' : ''}${body(some)}`;
}

// For members whose names are words of the language.
function pyFunctional(name, all, some) {
	const dict = (list) => `{${list.map(([key, member]) => `"${key}": ${pyType(member, key)}`).join(', ')}}`;

	if (some.length === 0)
		return `${name} = TypedDict("${name}", ${dict(all)})\n`;
	const base = `_${name}Required = TypedDict("_${name}Required", ${dict(all)})\n`;
	const rest = `_${name}Optional = TypedDict("_${name}Optional", ${dict(some)}, total=False)\n`;

	return `${base}${rest}\n\nclass ${name}(_${name}Required, _${name}Optional):\n    pass\n`;
}

export function python(document) {
	const operations = operationsOf(document);
	const table = operations.map((one) => {
		const query = one.query.map((name) => `"${name}"`).join(', ');
		const args = Object.keys(one.args.properties).map((name) => `"${name}"`);

		return `    "${one.name}": Operation(\n        "${one.method}",\n        "${one.path}",\n        (${query}${one.query.length === 1 ? ',' : ''}),\n` +
			`        (${args.join(', ')}${args.length === 1 ? ',' : ''}),\n        ${one.idempotent ? 'True' : 'False'},\n    ),\n`;
	});

	return `# Made by sdk/generate from the server's OpenAPI document: do not edit.
"""What the server takes and answers."""

from __future__ import annotations

from typing import Any, Dict, List, Literal, NamedTuple, Optional, Tuple, TypedDict, Union


${objectsOf(document, operations).map(pyObject).join('\n\n')}

class Operation(NamedTuple):
    """One route. Arguments that are neither in the path nor in the query go into the body."""

    method: str
    path: str
    query: Tuple[str, ...]
    args: Tuple[str, ...]
    idempotent: bool  # asking again does nothing twice


OPERATIONS: Dict[str, Operation] = {
${table.join('')}}
`;
}

// ---- files ----

const outputs = [
	['typescript/src/types.ts', typescript],
	['python/skerry/_types.py', python],
];

// Names of the files that are not what the document makes of them.
export function check(document) {
	return outputs.filter(([file, make]) => {
		const there = path.join(folder, file);

		return !fs.existsSync(there) || fs.readFileSync(there, 'utf8') !== make(document);
	}).map(([file]) => `sdk/${file}`);
}

// From the HTTP surface on a core without machines, which the unit tests have.
async function documentOf(build) {
	const rig = spawn(path.join(build, 'tests/unit/preview_rig'), { stdio: ['pipe', 'pipe', 'inherit'] });
	const failed = new Promise((resolve, reject) => rig.once('error', reject));
	const lines = readline.createInterface({ input: rig.stdout })[Symbol.asyncIterator]();

	try {
		const { value: url, done } = await Promise.race([lines.next(), failed]);

		if (done)
			throw new Error('preview_rig ended');
		return await (await fetch(new URL('/openapi.json', url))).json();
	} finally {
		rig.stdin.end();
	}
}

async function main(args) {
	if (args.length > 1 || (args.length === 1 && args[0] !== '--check')) {
		console.error('usage: sdk/generate [--check]');
		return 2;
	}
	const document = await documentOf(path.resolve(process.env.BUILD || path.join(folder, '../build')));
	const changed = check(document);

	if (args.length === 1) {
		changed.forEach((file) => console.error(`${file} is not what the server's document makes of it: run sdk/generate`));
		return changed.length > 0 ? 1 : 0;
	}
	for (const [file, make] of outputs)
		fs.writeFileSync(path.join(folder, file), make(document));
	console.log(changed.length > 0 ? `written: ${changed.join(', ')}` : 'nothing has changed');
	return 0;
}

if (process.argv[1] === fileURLToPath(import.meta.url))
	process.exitCode = await main(process.argv.slice(2));
