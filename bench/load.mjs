// One request again and again over some kept connections (http_load.c).

import { spawnSync } from 'node:child_process';

const CONNECTIONS = 16;

// Requests a second.
export function load(build, port, request, requests) {
	const { stdout, stderr, status } = spawnSync(`${build}/bench/http_load`, [port, CONNECTIONS, requests].map(String),
		{ input: request, encoding: 'utf8' });
	const answer = status === 0 ? JSON.parse(stdout) : {};

	if (answer.status !== 200)
		throw new Error(`http_load: ${stderr} ${stdout}`);
	return answer.requests / (answer.us / 1e6);
}
