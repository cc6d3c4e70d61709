// A connection between a client and a daemon that a test can cut: everything that arrives at one fixed
// address goes on to the daemon, wherever that is by now.

import { once } from 'node:events';
import net from 'node:net';

export async function startProxy(daemon) {
	const nears = new Set();
	const fars = new Set();
	const server = net.createServer((near) => {
		const { hostname, port } = new URL(daemon.url);
		const far = net.connect(port, hostname);

		nears.add(near);
		fars.add(far);
		near.on('error', () => {});
		far.on('error', () => {});
		near.pipe(far);
		far.pipe(near);
		// What a lost client had sent still arrives at the daemon, which then sees its end.
		near.on('close', () => {
			nears.delete(near);
			far.resume();
			far.end();
		});
		far.on('close', () => {
			fars.delete(far);
			near.destroy();
		});
	});
	const listen = (port) => new Promise((resolve) => server.listen(port, '127.0.0.1', resolve));

	await listen(0);
	const { port } = server.address();
	const cut = () => nears.forEach((near) => near.destroy());

	return {
		url: `http://127.0.0.1:${port}/`,
		key: daemon.key,
		// Connections are lost. The daemon may not have read yet what came over them: see settled().
		cut,
		// The daemon has closed all connections that were lost: it has read what there was to read.
		async settled() {
			const lost = [...fars].filter((far) => far.writableEnded);

			await Promise.all(lost.map((far) => far.closed || once(far, 'close')));
		},
		// The next connections are refused, until open().
		async close() {
			cut();
			fars.forEach((far) => far.destroy());
			await new Promise((resolve) => server.close(resolve));
		},
		open: () => listen(port),
	};
}
