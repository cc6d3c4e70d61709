// A copy that is made of a running server as docs/operations.md says, and put back as it says: keys, credit and
// snapshots are there again, a sandbox from a snapshot goes on.

import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { after, before, test } from 'node:test';

import { runSkerry } from '../api/lib/cli.mjs';
import { startDaemon } from '../api/lib/daemon.mjs';
import { readPage } from './lib/pages.mjs';
import { Session } from './lib/session.mjs';

const { blocks } = readPage('docs/operations.md');
const [copy, check] = blocks.filter(({ text }) => text.includes('sqlite3 "$'));
const putBack = blocks.find(({ directives }) => directives['not run']?.includes('backup.test.mjs'));
let daemon, session;

before(async () => {
	daemon = await startDaemon();
	await daemon.ensureImage('base');
	session = new Session(daemon);
});
after(async () => {
	await session?.close();
	await daemon?.stop();
	fs.rmSync(`${daemon?.stateDir}.old`, { recursive: true, force: true });
});

const skerry = async (...args) => {
	const { code, out, err } = await runSkerry(daemon, args);

	assert.equal(code, 0, `skerry ${args.join(' ')}: ${err}`);
	return out.trim();
};

test('a copy of a running server is whole, and can be put back', async () => {
	await skerry('account', 'create', 'kept');
	await skerry('create', '--name', 'work');
	await skerry('exec', 'work', 'echo kept >file');
	await skerry('snapshot', 'create', 'work', 'ready');
	await session.sh(copy.text);
	assert.match(await session.sh(check.text), /^ok$/m);

	await skerry('account', 'create', 'lost'); // after the copy
	await skerry('rm', 'work');
	daemon.child.kill('SIGTERM');
	await daemon.wait();
	await session.sh(putBack.text);
	// What the test's daemon is started with lies there too.
	fs.copyFileSync(path.join(`${daemon.stateDir}.old`, 'skerryd.conf'), path.join(daemon.stateDir, 'skerryd.conf'));
	await daemon.start();

	const accounts = JSON.parse(await skerry('account', 'ls', '--json')).items.map(({ name }) => name);

	assert.ok(accounts.includes('kept') && !accounts.includes('lost'), String(accounts));
	assert.deepEqual(await daemon.sandboxes(), []);
	assert.match(await skerry('ls', '--all'), /\bwork\b/);
	await skerry('create', '--snapshot', 'ready', '--name', 'again');
	assert.equal(await skerry('exec', 'again', 'cat file'), 'kept');
	await skerry('audit', 'verify');
	await skerry('snapshot', 'rm', 'ready');
});
