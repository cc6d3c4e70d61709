// Runs a command with a daemon of its own that has the base image: SKERRY_URL and SKERRY_API_KEY say where.
// Ends as the command does. The suites of both SDKs share it.
//
//   tests/sdk/with-daemon.mjs COMMAND ARGUMENT…

import { spawn } from 'node:child_process';

import { startDaemon } from '../api/lib/daemon.mjs';

const daemon = await startDaemon({ config: { limits: { stream_heartbeat_ms: 1000 } } });

try {
	await daemon.ensureImage('base');
	const [program, ...args] = process.argv.slice(2);
	const child = spawn(program, args, {
		stdio: 'inherit',
		env: { ...process.env, SKERRY_URL: daemon.url, SKERRY_API_KEY: daemon.key },
	});

	process.exitCode = await new Promise((resolve, reject) => {
		child.once('error', reject);
		child.once('exit', (code) => resolve(code ?? 1));
	});
} finally {
	await daemon.stop();
}
