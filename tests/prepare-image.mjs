// Has a daemon build the base image into the images that all tests share, and links its file to a name
// that the tests in C know: prints the folder with base.erofs. Takes about half a minute the first time.

import fs from 'node:fs';
import path from 'node:path';

import { images, startDaemon } from './api/lib/daemon.mjs';

const daemon = await startDaemon();

try {
	await daemon.ensureImage('base');
} finally {
	await daemon.stop();
}

const { digest } = JSON.parse(fs.readFileSync(path.join(images, 'base.json'), 'utf8'));
const folder = path.join(images, '..', 'image-files');
const name = path.join(folder, 'base.erofs');

fs.mkdirSync(folder, { recursive: true });
fs.rmSync(name, { force: true });
fs.linkSync(path.join(images, 'blobs', digest), name);
console.log(folder);
