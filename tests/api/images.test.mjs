// Images that were built elsewhere: imported from archives, layouts and a registry, built from a Dockerfile,
// run in real sandboxes; and those that are made to break out, which are refused. Everything is made here,
// out of busybox, and comes from no further away than a registry on loopback.

import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import fs from 'node:fs';
import net from 'node:net';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import zlib from 'node:zlib';

import { runSkerry } from './lib/cli.mjs';
import { build, startDaemon } from './lib/daemon.mjs';
import { busyboxEntries, image, tar, writeDockerArchive, writeLayout, writeOciArchive } from './lib/oci.mjs';

const MB_MAX = 64;
const ENTRIES_MAX = 500;
const run = promisify(execFile);

let daemon, work, imageDir;
before(async () => {
	daemon = await startDaemon({
		ownImages: true,
		config: { limits: { default_size: 'tiny', image_mb_max: MB_MAX, image_entries_max: ENTRIES_MAX } },
	});
	work = path.join(daemon.stateDir, 'sources');
	imageDir = path.join(daemon.stateDir, 'images');
	fs.mkdirSync(work);
});
after(() => daemon?.stop());

const skerry = (...args) => runSkerry(daemon, args);
const call = (method, route, body) => daemon.request(method, route, body);

async function good(method, route, body) {
	const answer = await call(method, route, body);

	assert.ok(answer.status < 300, `${method} ${route}: ${answer.status} ${answer.text}`);
	return answer.json;
}

async function inSandbox(image, act) {
	const { id } = await good('POST', '/v1/sandboxes', { image, timeout_minutes: 10 });

	try {
		return await act(id);
	} finally {
		await call('DELETE', `/v1/sandboxes/${id}`);
	}
}

const exec = (id, command, more = {}) => good('POST', `/v1/sandboxes/${id}/exec`, { command, ...more });

// What an import may leave: images and their blobs, nothing that is temporary, no mount, no loop device.
function assertClean() {
	const blobs = fs.readdirSync(path.join(imageDir, 'blobs'));

	assert.deepEqual(blobs.filter((name) => !name.startsWith('sha256:')), []);
	assert.ok(!fs.readFileSync('/proc/self/mounts', 'utf8').includes(imageDir));
	for (const device of fs.readdirSync('/sys/block').filter((name) => name.startsWith('loop'))) {
		const file = path.join('/sys/block', device, 'loop/backing_file');

		assert.ok(!fs.existsSync(file) || !fs.readFileSync(file, 'utf8').includes(imageDir), device);
	}
}

const passwd = 'root:x:0:0:root:/root:/bin/sh\napp:x:1234:1234::/srv/app:/bin/sh\n';
const group = 'root:x:0:\napp:x:1234:\nstaff:x:50:\n';
const lower = tar([
	...busyboxEntries(),
	{ name: 'etc/', type: 'dir' }, { name: 'etc/passwd', data: passwd }, { name: 'etc/group', data: group },
	{ name: 'srv/app/', type: 'dir', uid: 1234, gid: 1234 }, { name: 'srv/app/old', data: 'old' },
	{ name: 'srv/cache/', type: 'dir' }, { name: 'srv/cache/a', data: 'a' }, { name: 'srv/cache/deep/', type: 'dir' },
	{ name: 'srv/cache/deep/b', data: 'b' }, { name: 'srv/was-dir/', type: 'dir' }, { name: 'srv/was-dir/x', data: 'x' },
	{ name: 'srv/was-file', data: 'x' }, { name: 'abs', type: 'symlink', link: '/srv' },
	{ name: 'opt/bin/', type: 'dir' }, { name: 'opt/bin/tool', mode: 0o755, data: '#!/bin/sh\necho tool of the image\n' },
	{ name: 'opt/setuid', mode: 0o4755, data: 'x' }, { name: 'dev/console', type: 'char' },
]);
const upper = tar([
	// Removals are about the layer below, wherever they stand.
	{ name: 'srv/app/new', data: 'new', uid: 1234, gid: 1234 }, { name: 'srv/app/.wh.old' },
	{ name: 'srv/cache/c', data: 'c' }, { name: 'srv/cache/.wh..wh..opq' },
	{ name: 'srv/was-dir', data: 'a file now' }, { name: 'srv/was-file/', type: 'dir' },
	{ name: 'abs/through', data: 'inside' }, { name: '/srv/rooted', data: 'inside' },
	{ name: 'srv/hard', type: 'hardlink', link: '/srv/app/new' },
]);
const config = {
	User: 'app:staff', WorkingDir: '/srv/app', Env: ['PATH=/opt/bin:/bin', 'GREETING=hello world'],
	Entrypoint: ['/bin/false'], Cmd: ['never'],
};

async function freePort() {
	const server = net.createServer().listen(0, '127.0.0.1');

	await new Promise((resolve) => server.once('listening', resolve));
	const { port } = server.address();

	await new Promise((resolve) => server.close(resolve));
	return port;
}

async function startRegistry() {
	const host = `127.0.0.1:${await freePort()}`;
	const file = path.join(work, 'registry.yml');

	fs.writeFileSync(file, [
		'version: 0.1', 'storage:', '  filesystem:', `    rootdirectory: ${path.join(work, 'registry')}`,
		'http:', `  addr: ${host}`, '',
	].join('\n'));
	const child = spawn('docker-registry', ['serve', file], { stdio: 'ignore' });

	while (!await fetch(`http://${host}/v2/`).then((answer) => answer.ok, () => false)) {
		assert.equal(child.exitCode, null, 'the registry ended');
		await sleep(50);
	}
	return { host, child };
}

describe('an image of a registry, where skopeo has put it', () => {
	let registry, source, record;
	before(async () => {
		registry = await startRegistry();
		source = `docker://${registry.host}/team/App:v1`.toLowerCase();
		const directory = path.join(work, 'pushed');

		writeLayout(directory, image([lower, upper], config));
		await run('skopeo', ['--insecure-policy', 'copy', '--dest-tls-verify=false', `oci:${directory}:latest`, source]);
	});
	after(() => registry?.child.kill());

	test('is not taken without TLS unless that is asked for', async () => {
		const { code, err } = await skerry('image', 'import', source);

		assert.equal(code, 2); // as all that cannot be done as it was asked for
		assert.match(err, /skopeo cannot read the image: .*HTTP/);
		assertClean();
	});

	test('is imported, with progress, and its record says where it came from', async () => {
		const head = await fetch(`http://${registry.host}/v2/team/app/manifests/v1`, {
			headers: { Accept: 'application/vnd.oci.image.manifest.v1+json' },
		});
		const { code, out, err } = await skerry('image', 'import', source, '--no-tls-verify', '--json');

		assert.equal(code, 0, err);
		record = JSON.parse(out);
		assert.equal(record.name, 'app');
		assert.equal(record.source, source);
		assert.equal(record.source_digest, head.headers.get('docker-content-digest'));
		assert.equal(record.user, 'app:staff');
		assert.equal(record.workdir, '/srv/app');
		assert.deepEqual(record.warnings, []);
		assert.ok(record.size_bytes > 0 && record.allocated_bytes > 0);
		assert.equal(record.imported_at, record.created_at);
		assert.deepEqual((await good('GET', '/v1/images')).items, [record]);
		assert.match((await skerry('image', 'ls')).out, /^NAME +DIGEST +SIZE +DISK +AGE +SOURCE\napp +sha256:.*docker:/m);
		assertClean();
	});

	test('runs a command as its USER, in its WORKDIR, with its ENV; what the call says wins', () => inSandbox('app', async (id) => {
		const shown = await exec(id, 'id -u; id -g; pwd; echo "$GREETING"; tool');

		assert.equal(shown.stdout, '1234\n50\n/srv/app\nhello world\ntool of the image\n');
		const asked = await exec(id, 'id -u; pwd; echo "$GREETING $MORE"', {
			user: 'root', cwd: '/opt', env: { GREETING: 'mine', MORE: 'more' },
		});

		assert.equal(asked.stdout, '0\n/opt\nmine more\n');
		assert.equal((await exec(id, 'id -u; id -g', { user: '77' })).stdout, '77\n0\n');
		const unknown = await call('POST', `/v1/sandboxes/${id}/exec`, { command: 'true', user: 'nobody-here' });

		assert.match(unknown.text, /user 'nobody-here' does not exist/);
	}));

	test('has its layers one over the other', () => inSandbox('app', async (id) => {
		const { stdout } = await exec(id, 'find /srv /abs /opt/setuid | while read f; do echo "$f $(stat -c "%F %a %u:%g" "$f")"; done | busybox sort');

		assert.deepEqual(stdout.trim().split('\n'), [
			'/abs symbolic link 777 0:0',
			'/opt/setuid regular file 4755 0:0',
			'/srv directory 755 0:0',
			'/srv/app directory 755 1234:1234',
			'/srv/app/new regular file 644 1234:1234',
			'/srv/cache directory 755 0:0',
			'/srv/cache/c regular file 644 0:0',
			'/srv/hard regular file 644 1234:1234',
			'/srv/rooted regular file 644 0:0',
			'/srv/through regular file 644 0:0',
			'/srv/was-dir regular file 644 0:0',
			'/srv/was-file directory 755 0:0',
		]);
	}));

	test('stays while something stands on it, and is not replaced by accident', async () => {
		await inSandbox('app', async (id) => {
			const refused = await skerry('image', 'rm', 'app');

			assert.notEqual(refused.code, 0);
			assert.match(refused.err, /image 'app' has 1 living sandboxes and 0 named snapshots/);
			await good('POST', `/v1/sandboxes/${id}/snapshots`, { name: 'kept' });
		});
		assert.match((await call('DELETE', '/v1/images/app')).text, /0 living sandboxes and 1 named snapshots/);
		await good('DELETE', '/v1/snapshots/kept');
		const again = await call('POST', '/v1/images/import', { source, tls_verify: false });

		assert.equal(again.status, 409);
		assert.equal(again.json.code, 'image_exists');
		assert.equal((await skerry('image', 'rm', 'app')).code, 0);
		assert.deepEqual((await good('GET', '/v1/images')).items, []);
		assertClean();
	});
});

// The importer without a daemon, and the tree that it made, unpacked.
async function importDirectly(source) {
	const out = path.join(work, 'direct.erofs');
	const tree = path.join(work, 'tree');

	for (const old of [out, `${out}.json`, tree])
		fs.rmSync(old, { recursive: true, force: true });
	await run(path.join(build, 'skerry-import'), [
		'--source', source, '--out', out, '--bytes-max', String(MB_MAX << 20), '--entries-max', String(ENTRIES_MAX),
		'--keep-free-bytes', '0', '--uid-base', '3000000',
	]);
	await run('fsck.erofs', [`--extract=${tree}`, '--preserve', out]);
	return { tree, record: JSON.parse(fs.readFileSync(`${out}.json`, 'utf8')) };
}

describe('images of every kind', () => {
	const read = (tree, name) => fs.readFileSync(path.join(tree, name), 'utf8');

	test('layouts and archives, of gzip and of none, are the same image', async () => {
		const sources = { oci: path.join(work, 'layout'), 'oci-archive': path.join(work, 'oci.tar'), 'docker-archive': path.join(work, 'docker.tar') };
		const plain = image([lower, upper], config, { compression: 'none' });

		writeLayout(sources.oci, image([lower, upper], config));
		writeOciArchive(sources['oci-archive'], plain);
		writeDockerArchive(sources['docker-archive'], plain);
		for (const [kind, source] of Object.entries(sources)) {
			const { tree, record } = await importDirectly(`${kind}:${source}`);

			assert.deepEqual(record.config, { user: 'app:staff', workdir: '/srv/app', env: { PATH: '/opt/bin:/bin', GREETING: 'hello world' } });
			assert.equal(read(tree, 'srv/hard'), 'new', kind);
			assert.deepEqual(fs.readdirSync(path.join(tree, 'srv/cache')), ['c'], kind);
		}
	});

	test('a USER, a group and an ENV that cannot be are warnings; a WORKDIR is made', async () => {
		const source = path.join(work, 'odd.tar');
		const odd = async (oddConfig) => {
			writeOciArchive(source, image([lower], oddConfig));
			return importDirectly(`oci-archive:${source}`);
		};
		const one = await odd({ User: 'nobody-here', WorkingDir: '/made/for/it', Env: ['=x', 'GOOD=1'] });

		assert.equal(one.record.config.user, 'root');
		assert.deepEqual(one.record.config.env, { GOOD: '1' });
		assert.match(one.record.warnings.join(), /ENV.*no user 'nobody-here'/);
		assert.ok(fs.statSync(path.join(one.tree, 'made/for/it')).isDirectory());
		const two = await odd({ User: 'app:no-such-group', WorkingDir: '/srv/was-file/below' });

		assert.deepEqual(two.record.config, { user: 'app', workdir: '/', env: {} });
		assert.match(two.record.warnings.join(), /WORKDIR.*no group 'no-such-group'/);
	});

	test('links that lead out lead to the image itself', async () => {
		const source = path.join(work, 'links.tar');
		const outside = path.join(work, 'outside');

		fs.mkdirSync(outside);
		writeOciArchive(source, image([tar([
			{ name: 'a', type: 'symlink', link: outside }, { name: 'b', type: 'symlink', link: '../../../../../../../..' + outside },
			{ name: outside.slice(1) + '/', type: 'dir' }, { name: 'a/one', data: '1' }, { name: 'b/two', data: '2' },
			{ name: 'run', type: 'symlink', link: '/etc' }, { name: 'sys', data: 'no directory' },
		])]));
		const { tree } = await importDirectly(`oci-archive:${source}`);

		assert.deepEqual(fs.readdirSync(outside), []);
		assert.deepEqual(fs.readdirSync(path.join(tree, outside)), ['one', 'two']);
		for (const name of ['dev', 'proc', 'sys', 'run', 'tmp', 'etc'])
			assert.ok(fs.lstatSync(path.join(tree, name)).isDirectory(), name);
	});

	test('one without a shell and without users starts, and says so when a command is asked for', async () => {
		const directory = path.join(work, 'bare');
		const program = { name: 'app', mode: 0o755, data: fs.readFileSync('/bin/busybox') };

		writeLayout(directory, image([tar([program])], { User: '65532' }));
		assert.equal((await good('POST', '/v1/images/import', { source: `oci:${directory}` })).user, '65532');
		await inSandbox('bare', async (id) => {
			const refused = await call('POST', `/v1/sandboxes/${id}/exec`, { command: 'true' });

			assert.equal(refused.status, 422);
			assert.equal(refused.json.code, 'not_executable');
			assert.match(refused.json.detail, /neither \/bin\/bash nor \/bin\/sh/);
		});
		await good('DELETE', '/v1/images/bare');
	});
});

describe('hostile images', () => {
	const shell = busyboxEntries();
	const device = { name: 'etc/disk', type: 'block' };
	const many = Array.from({ length: ENTRIES_MAX + 1 }, (_, i) => ({ name: `f${i}` }));
	const bomb = Buffer.alloc((MB_MAX + 1) << 20);
	const cases = [
		['a name with ..', [[{ name: 'a/../../evil', data: 'x' }]], 'image_refused', /leads out/],
		['a hard link out', [[{ name: 'x', type: 'hardlink', link: '../../etc/shadow' }]], 'image_refused', /hard link/],
		['a hard link to what only the host has', [[{ name: 'x', type: 'hardlink', link: '/etc/shadow' }]], 'image_refused', /No such file|cannot unpack/],
		['a device', [[device]], 'image_refused', /no file, directory or link/],
		['a pipe', [[{ name: 'pipe', type: 'fifo' }]], 'image_refused', /no file, directory or link/],
		['a sparse file of GNU tar', [[{ name: 'sparse', type: 'S', size: 0 }]], 'image_refused', /no file, directory or link/],
		['a removal of ..', [shell, [{ name: 'bin/.wh...' }]], 'image_refused', /removal/],
		['a removal of nothing', [shell, [{ name: '.wh.' }]], 'image_refused', /removal/],
		['more than may be', [[{ name: 'big', data: bomb }]], 'image_too_large', /more than/],
		['a size that is not there', [[{ name: 'big', size: 0o77777777777 }]], 'image_too_large', /more than/],
		['too many names', [many], 'image_too_large', /more than 500 entries/],
		['an owner that cannot be', [[{ name: 'x', uid: 0o7777777 }]], 'image_refused', /cannot unpack/],
	];

	for (const [what, layers, code, why] of cases) {
		test(`${what} is refused`, async () => {
			const file = path.join(work, 'hostile.tar');

			writeOciArchive(file, image(layers.map(tar)));
			const answer = await call('POST', '/v1/images/import', { source: `oci-archive:${file}`, name: 'hostile' });

			assert.equal(answer.json.code, code, answer.text);
			assert.equal(answer.status, 422);
			assert.match(answer.json.detail, why);
			assert.deepEqual((await good('GET', '/v1/images')).items, []);
			assertClean();
		});
	}

	test('what is no image, or another than it says, is refused', async () => {
		const file = path.join(work, 'no-image.tar');
		const source = { source: `oci-archive:${file}`, name: 'no-image' };
		const refusedWith = async (made, code, why) => {
			writeOciArchive(file, made);
			const answer = await call('POST', '/v1/images/import', source);

			assert.equal(answer.json.code, code, answer.text);
			assert.match(answer.json.detail, why);
			assertClean();
		};

		await refusedWith(image([lower], {}, { architecture: 'arm64' }), 'image_refused', /amd64/);
		await refusedWith(image([lower], {}, { diffIds: ['sha256:' + '0'.repeat(64)] }), 'image_refused', /the image wants/);
		await refusedWith(image([lower], {}, { compression: (layer) => zlib.gzipSync(layer).subarray(0, 5000) }), 'image_refused', /damaged/);
		await refusedWith(image([Buffer.from('this is no archive')]), 'image_refused', /archive/);
		await refusedWith(image([lower], { Env: [`LONG=${'x'.repeat(9000)}`] }), 'image_too_large', /ENV/);
		fs.writeFileSync(file, 'nothing');
		assert.equal((await call('POST', '/v1/images/import', source)).json.code, 'image_source_failed');
		assert.equal((await call('POST', '/v1/images/import', { source: 'oci:/not/there' })).json.code, 'image_source_failed');
		for (const bad of ['containers-storage:x', 'oci:relative', 'docker://', 'docker://-x', 'dir:/etc', 'oci:/a:b c'])
			assert.equal((await call('POST', '/v1/images/import', { source: bad })).status, 400, bad);
	});
});

describe('an import that is cut short', () => {
	test('leaves nothing once a daemon has started', async () => {
		const pipe = path.join(work, 'slow');

		// A layout whose only blob is a pipe: skopeo waits for it.
		writeLayout(pipe, image([lower]));
		const [blob] = fs.readdirSync(path.join(pipe, 'blobs/sha256'));

		for (const name of fs.readdirSync(path.join(pipe, 'blobs/sha256')))
			fs.rmSync(path.join(pipe, 'blobs/sha256', name));
		for (const name of fs.readdirSync(path.join(pipe, 'blobs')))
			fs.rmSync(path.join(pipe, 'blobs', name), { recursive: true });
		fs.rmSync(path.join(pipe, 'index.json'));
		await run('mkfifo', [path.join(pipe, 'index.json')]);
		assert.ok(blob);
		const lost = call('POST', '/v1/images/import', { source: `oci:${pipe}`, name: 'slow' }).catch(() => 'lost');
		const blobs = path.join(imageDir, 'blobs');

		while (!fs.readdirSync(blobs).some((name) => name.endsWith('.work')))
			await sleep(50);
		await daemon.kill();
		assert.equal(await lost, 'lost');
		await daemon.start();
		while (fs.readdirSync(blobs).length > 0)
			await sleep(50);
		assert.deepEqual((await good('GET', '/v1/images')).items, []);
		assertClean();
	});
});

describe('a Dockerfile', () => {
	test('is built by buildah and runs', async () => {
		const directory = path.join(work, 'Built');

		fs.mkdirSync(directory);
		fs.writeFileSync(path.join(directory, 'root.tar'), lower);
		fs.writeFileSync(path.join(directory, 'Dockerfile'), [
			'FROM scratch', 'ADD root.tar /', 'RUN echo made by a build >/srv/built', 'USER app', 'WORKDIR /srv/app', 'ENV GREETING=built', '',
		].join('\n'));
		const root = path.join(work, 'containers');
		const storage = path.join(work, 'storage.conf');

		fs.writeFileSync(storage, `[storage]\ndriver = "vfs"\nrunroot = "${root}/run"\ngraphroot = "${root}/graph"\n`);
		const { code, out, err } = await runSkerry(daemon, ['image', 'build', directory], {
			env: { CONTAINERS_STORAGE_CONF: storage, HOME: work, TMPDIR: work },
		});

		assert.equal(code, 0, err);
		assert.equal(out, 'built\n');
		await inSandbox('built', async (id) => assert.equal((await exec(id, 'id -u; pwd; echo $GREETING; cat /srv/built')).stdout, '1234\n/srv/app\nbuilt\nmade by a build\n'));
		assert.deepEqual(fs.readdirSync(work).filter((name) => name.startsWith('skerry-build-')), []);
		await good('DELETE', '/v1/images/built');
	});

	test('without buildah, the package is named', async () => {
		const { code, err } = await runSkerry(daemon, ['image', 'build', work], { env: { PATH: '/nowhere' } });

		assert.equal(code, 1);
		assert.match(err, /buildah is not installed.*\n.*apt-get install buildah/);
	});
});
