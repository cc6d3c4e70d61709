// What the server says of itself: sizes, limits and images. Asked once.

import { all, get } from './api.js';

const kept = new Map();

function once(name, ask) {
	if (!kept.has(name))
		kept.set(name, ask().catch((error) => {
			kept.delete(name);
			throw error;
		}));
	return kept.get(name);
}

export const limits = () => once('limits', () => get('/v1/limits'));
export const images = () => all('/v1/images');
export const snapshots = () => all('/v1/snapshots');
export const networks = () => all('/v1/networks');
export const session = () => get('/v1/session', { quiet: true });

export const forgetServer = () => kept.clear();
