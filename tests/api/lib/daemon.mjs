// A skerryd for a test file: on loopback and a free port, with a state directory of its own. Images are
// kept in .cache/images (or SKERRY_IMAGES), so that the base image is built once for all files.

import { spawn } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

export const repository = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../../..');
export const build = path.resolve(process.env.SKERRY_BUILD_DIR || path.join(repository, 'build'));
export const images = path.resolve(process.env.SKERRY_IMAGES || path.join(repository, '.cache/images'));

const START_MS = 60_000;
const STOP_MS = 30_000;

const ini = (config) =>
	Object.entries(config)
		.map(([section, keys]) => {
			const lines = Object.entries(keys).map(([key, value]) => `${key} = ${value}`);

			return [`[${section}]`, ...lines, ''].join('\n');
		})
		.join('\n');

export class Daemon {
	constructor(folder, stateDir, args, env) {
		this.folder = folder;
		this.stateDir = stateDir;
		this.args = args;
		this.env = env;
		this.logFile = path.join(stateDir, '..', `${path.basename(stateDir)}.log`);
	}

	async start() {
		const log = fs.openSync(this.logFile, 'a');
		const listen = path.join(this.stateDir, 'listen');

		fs.rmSync(listen, { force: true });
		this.child = spawn(path.join(this.folder, 'skerryd'), this.args, {
			stdio: ['ignore', log, log],
			env: { ...process.env, ...this.env },
		});
		fs.closeSync(log);
		this.ended = new Promise((resolve) => {
			this.child.once('exit', (code, signal) => resolve(signal ?? code));
			this.child.once('error', (error) => resolve(error.message));
		});
		let over;
		this.ended.then((how) => (over = how));
		for (const until = Date.now() + START_MS; !fs.existsSync(listen); await sleep(20)) {
			if (over !== undefined)
				throw new Error(`skerryd ended (${over}) before it served:\n${this.log()}`);
			if (Date.now() > until)
				throw new Error(`skerryd did not serve within ${START_MS} ms:\n${this.log()}`);
		}
		this.url = fs.readFileSync(listen, 'utf8').trim();
		this.key = fs.readFileSync(path.join(this.stateDir, 'admin.key'), 'utf8').trim();
		return this;
	}

	get pid() {
		return this.child.pid;
	}

	log() {
		return fs.readFileSync(this.logFile, 'utf8').split('\n').slice(-40).join('\n');
	}

	// REST: {status, headers, json}. body is JSON unless it is a string or bytes.
	async request(method, route, body, headers = {}) {
		const raw = typeof body === 'string' || body instanceof Uint8Array;
		const response = await fetch(new URL(route, this.url), {
			method,
			headers: {
				Authorization: `Bearer ${this.key}`,
				...(body !== undefined && { 'Content-Type': 'application/json' }),
				...headers,
			},
			body: body === undefined || raw ? body : JSON.stringify(body),
		});
		const text = await response.text();
		const isJson = /\bjson/.test(response.headers.get('content-type') ?? '');

		return { status: response.status, headers: response.headers, text, json: isJson ? JSON.parse(text) : undefined };
	}

	// As events, since a build may take longer than fetch waits for the head of an answer.
	async ensureImage(name = 'base') {
		const answer = await this.request('POST', '/v1/images', { name }, { Accept: 'text/event-stream' });
		const result = answer.json ?? answer.text.match(/^event: result\ndata: (.*)$/m)?.[1];

		if (answer.status >= 300 || !result)
			throw new Error(`image ${name} was not built: ${answer.text}`);
	}

	async sandboxes() {
		return (await this.request('GET', '/v1/sandboxes?limit=200')).json.items;
	}

	// Ends as a crash does: nothing is put away.
	async kill() {
		this.child.kill('SIGKILL');
		await this.ended;
	}

	async restart() {
		this.child.kill('SIGTERM');
		await this.wait();
		return this.start();
	}

	async wait() {
		const over = await Promise.race([this.ended, sleep(STOP_MS, 'timeout', { ref: false })]);

		if (over === 'timeout') {
			this.child.kill('SIGKILL');
			throw new Error(`skerryd did not end within ${STOP_MS} ms:\n${this.log()}`);
		}
		return over;
	}

	// Destroys what is left, ends the daemon and removes its state.
	async stop() {
		for (const sandbox of await this.sandboxes())
			await this.request('DELETE', `/v1/sandboxes/${sandbox.id}`);
		this.child.kill('SIGTERM');
		await this.wait();
		fs.rmSync(this.stateDir, { recursive: true, force: true });
		fs.rmSync(this.logFile, { force: true });
	}
}

// config: sections of skerryd.conf, e.g. {limits: {sandboxes_per_account: 2}}. Sandboxes have no network
// unless there is a section for it, so that nothing of the host is changed: see world.mjs. folder: the
// build that skerryd is from. ownImages: none of the shared ones.
export async function startDaemon({ config = {}, env = {}, folder = build, ownImages = false } = {}) {
	const stateDir = fs.mkdtempSync(path.join(os.tmpdir(), 'skerry-test-'));
	const file = path.join(stateDir, 'skerryd.conf');

	fs.mkdirSync(images, { recursive: true });
	fs.writeFileSync(file, ini(config));
	const args = ['--state-dir', stateDir, '--listen', '127.0.0.1:0', '--config', file];

	if (!ownImages)
		args.push('--image-dir', images);

	if (!config.network)
		args.push('--network', 'off');

	const daemon = new Daemon(folder, stateDir, args, env);

	try {
		return await daemon.start();
	} catch (error) {
		fs.rmSync(stateDir, { recursive: true, force: true });
		throw error;
	}
}
