// A connection between a client and a daemon that a test can cut: everything that arrives at one fixed
// address goes on to the daemon, wherever that is by now.

import net from 'node:net';

export async function startProxy(daemon) {
	const sockets = new Set();
	const server = net.createServer((near) => {
		const { hostname, port } = new URL(daemon.url);
		const far = net.connect(port, hostname);

		for (const [one, other] of [[near, far], [far, near]]) {
			sockets.add(one);
			one.on('error', () => {});
			one.on('close', () => {
				sockets.delete(one);
				other.destroy();
			});
			one.pipe(other);
		}
	});
	const listen = (port) => new Promise((resolve) => server.listen(port, '127.0.0.1', resolve));

	await listen(0);
	const { port } = server.address();
	const cut = () => sockets.forEach((socket) => socket.destroy());

	return {
		url: `http://127.0.0.1:${port}/`,
		key: daemon.key,
		// Connections are lost, the next ones are refused, until open().
		cut,
		async close() {
			cut();
			await new Promise((resolve) => server.close(resolve));
		},
		open: () => listen(port),
	};
}
