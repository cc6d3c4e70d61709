// Container images out of nothing: tar entries written by hand, so that they may be as hostile as wanted,
// layers of them, and layouts and archives of those.
import crypto from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import zlib from 'node:zlib';

const types = { file: '0', hardlink: '1', symlink: '2', char: '3', block: '4', dir: '5', fifo: '6' };

function octal(value, width) {
	return value.toString(8).padStart(width - 1, '0') + '\0';
}

function header({ name, type = 'file', mode, uid = 0, gid = 0, size = 0, link = '' }) {
	const block = Buffer.alloc(512);
	const put = (text, at, width) => block.write(text, at, width, 'latin1');

	put(name, 0, 100);
	put(octal(mode ?? (type === 'dir' ? 0o755 : 0o644), 8), 100, 8);
	put(octal(uid, 8), 108, 8);
	put(octal(gid, 8), 116, 8);
	put(octal(size, 12), 124, 12);
	put(octal(1700000000, 12), 136, 12);
	put('        ', 148, 8);
	put(types[type] ?? type, 156, 1);
	put(link, 157, 100);
	put('ustar\0' + '00', 257, 8);
	put(octal(block.reduce((sum, byte) => sum + byte, 0), 7) + ' ', 148, 8);
	return block;
}

/** An archive of entries {name, type, mode, uid, gid, link, data, size}; size may lie. */
export function tar(entries) {
	const parts = [];

	for (const entry of entries) {
		const data = Buffer.from(entry.data ?? '');

		parts.push(header({ ...entry, size: entry.size ?? data.length }), data, Buffer.alloc((512 - data.length % 512) % 512));
	}
	parts.push(Buffer.alloc(1024));
	return Buffer.concat(parts);
}

export const digestOf = (bytes) => 'sha256:' + crypto.createHash('sha256').update(bytes).digest('hex');

/** The blobs of an image of layers (archives as bytes); compression: 'gzip', 'none', or a function. */
export function image(layers, config = {}, { compression = 'gzip', architecture = 'amd64', diffIds } = {}) {
	const blobs = new Map();
	const add = (bytes) => {
		const digest = digestOf(bytes);

		blobs.set(digest, bytes);
		return { digest, size: bytes.length };
	};
	const described = layers.map((layer) => {
		const packed = compression === 'gzip' ? zlib.gzipSync(layer) : compression === 'none' ? layer : compression(layer);

		return { mediaType: 'application/vnd.oci.image.layer.v1.tar' + (compression === 'none' ? '' : '+gzip'), ...add(packed) };
	});
	const configuration = add(Buffer.from(JSON.stringify({
		architecture, os: 'linux', config, rootfs: { type: 'layers', diff_ids: diffIds ?? layers.map(digestOf) },
	})));
	const manifest = add(Buffer.from(JSON.stringify({
		schemaVersion: 2, mediaType: 'application/vnd.oci.image.manifest.v1+json',
		config: { mediaType: 'application/vnd.oci.image.config.v1+json', ...configuration }, layers: described,
	})));

	return { blobs, manifest, configuration, layers: described };
}

function layoutFiles({ blobs, manifest }) {
	const index = {
		schemaVersion: 2,
		manifests: [{ mediaType: 'application/vnd.oci.image.manifest.v1+json', ...manifest, annotations: { 'org.opencontainers.image.ref.name': 'latest' } }],
	};

	return [
		['oci-layout', '{"imageLayoutVersion":"1.0.0"}'], ['index.json', JSON.stringify(index)],
		...[...blobs].map(([digest, bytes]) => [`blobs/sha256/${digest.slice(7)}`, bytes]),
	];
}

/** An OCI layout in a directory. */
export function writeLayout(directory, made) {
	for (const [name, data] of layoutFiles(made)) {
		fs.mkdirSync(path.dirname(path.join(directory, name)), { recursive: true });
		fs.writeFileSync(path.join(directory, name), data);
	}
}

/** An OCI layout in a tar. */
export function writeOciArchive(file, made) {
	fs.writeFileSync(file, tar(layoutFiles(made).map(([name, data]) => ({ name, data }))));
}

/** What `docker save` writes. The layers must not be compressed. */
export function writeDockerArchive(file, made, tag = 'test:latest') {
	const config = `${made.configuration.digest.slice(7)}.json`;
	const layers = made.layers.map(({ digest }) => `${digest.slice(7)}/layer.tar`);
	const manifest = JSON.stringify([{ Config: config, RepoTags: [tag], Layers: layers }]);

	fs.writeFileSync(file, tar([
		{ name: 'manifest.json', data: manifest }, { name: config, data: made.blobs.get(made.configuration.digest) },
		...layers.map((name, i) => ({ name, data: made.blobs.get(made.layers[i].digest) })),
	]));
}

/** The entries of a system that has busybox alone: every command is a link to it. */
export function busyboxEntries(busybox = '/bin/busybox') {
	const commands = ['sh', 'ls', 'cat', 'id', 'env', 'pwd', 'echo', 'true', 'sync', 'stat', 'test', 'grep', 'ps', 'find', 'mkdir', 'rm'];

	return [
		{ name: 'bin/', type: 'dir' }, { name: 'bin/busybox', mode: 0o755, data: fs.readFileSync(busybox) },
		...commands.map((name) => ({ name: `bin/${name}`, type: 'symlink', link: 'busybox' })),
	];
}
