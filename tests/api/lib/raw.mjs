// HTTP as bytes: what a well-behaved client would not send, and how many answers it gets.

import net from 'node:net';

// Sends the parts one after the other, gapMs apart, and collects everything until the server closes or
// withinMs is over. {text, statuses, closed, ms}
export function exchange(url, parts, { withinMs = 5000, gapMs = 0 } = {}) {
	const { hostname, port } = new URL(url);
	const began = Date.now();

	return new Promise((resolve) => {
		const socket = net.connect(Number(port), hostname);
		const chunks = [];
		let timer, done = false;
		const finish = (closed) => {
			if (done)
				return;
			done = true;
			clearTimeout(timer);
			socket.destroy();
			const text = Buffer.concat(chunks).toString('latin1');
			const statuses = [...text.matchAll(/HTTP\/1\.1 (\d{3}) /g)].map((m) => Number(m[1]));

			resolve({ text, statuses, closed, ms: Date.now() - began });
		};

		timer = setTimeout(() => finish(false), withinMs);
		socket.on('data', (chunk) => chunks.push(chunk));
		socket.on('close', () => finish(true));
		socket.on('error', () => finish(true));
		socket.on('connect', async () => {
			for (const part of [parts].flat()) {
				if (done || !socket.writable)
					return;
				socket.write(part, 'latin1');
				if (gapMs > 0)
					await new Promise((next) => setTimeout(next, gapMs));
			}
		});
	});
}

// An event stream of a fetch response: an async iterator of {event, data}; comments are counted.
export async function* events(response, counts = {}) {
	const decoder = new TextDecoder();
	let text = '';

	for await (const bytes of response.body) {
		text += decoder.decode(bytes, { stream: true });
		for (let end; (end = text.indexOf('\n\n')) >= 0; text = text.slice(end + 2)) {
			const block = text.slice(0, end);
			const field = (name) => block.match(new RegExp(`^${name}: (.*)$`, 'm'))?.[1];

			if (block.startsWith(':'))
				counts.comments = (counts.comments ?? 0) + 1;
			else
				yield { event: field('event'), data: JSON.parse(field('data')) };
		}
	}
}
