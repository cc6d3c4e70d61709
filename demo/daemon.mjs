// A skerryd of the demo's own: on loopback, with a fresh state directory that goes away with it. Images
// are kept in .cache/images, so that the base image is built once.

import { execFile, spawn } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

const repository = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
const build = path.resolve(repository, process.env.BUILD || 'build');
const images = path.resolve(process.env.SKERRY_IMAGES || path.join(repository, '.cache/images'));

const START_MS = 60_000;
const STOP_MS = 30_000;

// Server-sent events of a response body, as {event, data}.
async function* events(body) {
	const decoder = new TextDecoder();
	let text = '';

	for await (const bytes of body) {
		text += decoder.decode(bytes, { stream: true });
		for (let end; (end = text.indexOf('\n\n')) >= 0; text = text.slice(end + 2)) {
			const block = text.slice(0, end);
			const data = block.match(/^data: ?(.*)$/m)?.[1];

			if (data !== undefined)
				yield { event: block.match(/^event: ?(.*)$/m)?.[1], data: JSON.parse(data) };
		}
	}
}

class Daemon {
	constructor(folder) {
		this.stateDir = path.join(folder, 'state');
		this.logFile = path.join(folder, 'skerryd.log');
		const log = fs.openSync(this.logFile, 'w');

		fs.mkdirSync(this.stateDir);
		fs.mkdirSync(images, { recursive: true });
		// Without a network for sandboxes: the demo needs none, and leaves nothing on the host.
		// A process group of its own: Ctrl-C reaches the demo, which ends the daemon in order.
		this.child = spawn(
			path.join(build, 'skerryd'),
			['--state-dir', this.stateDir, '--listen', '127.0.0.1:0', '--image-dir', images, '--network', 'off'],
			{ stdio: ['ignore', log, log], detached: true }
		);
		fs.closeSync(log);
		this.ended = new Promise((resolve) => {
			this.child.once('exit', (code, signal) => resolve(signal ?? `exit code ${code}`));
			this.child.once('error', (error) => resolve(error.message));
		});
		this.ended.then((how) => (this.over = how));
	}

	lastWords() {
		return fs.readFileSync(this.logFile, 'utf8').trim().split('\n').slice(-5).join('\n    ');
	}

	async ready() {
		const listen = path.join(this.stateDir, 'listen');

		for (const until = Date.now() + START_MS; !fs.existsSync(listen); await sleep(20)) {
			if (this.over)
				throw new Error(`skerryd did not start (${this.over}):\n    ${this.lastWords()}`);
			if (Date.now() > until)
				throw new Error(`skerryd was not ready within ${START_MS / 1000} s:\n    ${this.lastWords()}`);
		}
		this.url = fs.readFileSync(listen, 'utf8').trim();
		this.key = fs.readFileSync(path.join(this.stateDir, 'admin.key'), 'utf8').trim();
	}

	async get(route) {
		const headers = { Authorization: `Bearer ${this.key}` };
		const response = await fetch(new URL(route, this.url), { headers });

		if (!response.ok)
			throw new Error(`GET ${route}: ${await response.text()}`);
		return response.json();
	}

	// Builds the image, or finds it built; calls progress(percent, what) meanwhile.
	async buildImage(name, progress) {
		const response = await fetch(new URL('/v1/images', this.url), {
			method: 'POST',
			headers: {
				Authorization: `Bearer ${this.key}`,
				'Content-Type': 'application/json',
				Accept: 'text/event-stream',
			},
			body: JSON.stringify({ name }),
		});

		if (!response.ok)
			throw new Error(`the image was not built: ${await response.text()}`);
		if (!response.headers.get('content-type')?.startsWith('text/event-stream'))
			return response.json();
		for await (const { event, data } of events(response.body)) {
			if (event === 'progress')
				progress(data.percent, data.message);
			else if (event === 'result')
				return data;
			else if (event === 'error')
				throw new Error(`the image was not built: ${data.detail ?? data.title}`);
		}
		throw new Error('the server ended the build without a result');
	}

	// Sandboxes outlive a daemon, so that those that are left go first.
	async destroyAll() {
		for (const { id } of (await this.get('/v1/sandboxes?limit=200')).items)
			await fetch(new URL(`/v1/sandboxes/${id}`, this.url), {
				method: 'DELETE',
				headers: { Authorization: `Bearer ${this.key}` },
			});
	}

	async stop() {
		if (this.over)
			return;
		if (this.url)
			await this.destroyAll();
		this.child.kill('SIGTERM');
		if ((await Promise.race([this.ended, sleep(STOP_MS, 'late', { ref: false })])) === 'late') {
			this.child.kill('SIGKILL');
			throw new Error(`skerryd did not end within ${STOP_MS / 1000} s`);
		}
	}
}

export function startDaemon(folder) {
	return new Daemon(folder);
}

// Output of the command line: what belongs into a file, and where it belongs.
export function runCli(args) {
	return new Promise((resolve, reject) => {
		execFile(path.join(build, 'skerry'), args, (error, stdout, stderr) => {
			if (error)
				reject(new Error(`skerry ${args.join(' ')}: ${stderr.trim() || error.message}`));
			else
				resolve({ text: stdout, place: stderr.split('\n')[0].replace(/^# /, '') });
		});
	});
}
