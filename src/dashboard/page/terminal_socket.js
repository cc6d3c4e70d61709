// A terminal's WebSocket (docs/terminal.md): bytes both ways, and what is said beside them. A connection that
// breaks is taken up where it was: nothing is lost and nothing comes twice.

const AGAIN_MS = [500, 1000, 2000, 4000, 8000];
const TAKEN_OVER = 4001, ENDED = 4002, FAILED = 4000;

export class TerminalSocket {
	// on: {data(bytes), ready(message), state(text), over(text, message)}
	constructor(sandboxId, { terminalId, cols, rows, on }) {
		Object.assign(this, { sandboxId, terminalId, cols, rows, on, tries: 0, unsent: [] });
		this.connect();
	}

	connect() {
		const query = new URLSearchParams({ cols: this.cols, rows: this.rows });

		if (this.terminalId)
			query.set('terminal_id', this.terminalId);
		if (this.offset !== undefined)
			query.set('from_offset', this.offset);
		const address = new URL(`/v1/sandboxes/${encodeURIComponent(this.sandboxId)}/terminal?${query}`, location.href);

		address.protocol = address.protocol.replace('http', 'ws');
		address.hash = '';
		this.opened = false;
		this.socket = new WebSocket(address, 'skerry.terminal');
		this.socket.binaryType = 'arraybuffer';
		this.socket.addEventListener('message', ({ data }) => this.receive(data));
		this.socket.addEventListener('close', (event) => this.closed(event));
	}

	receive(data) {
		if (typeof data !== 'string') {
			this.offset += data.byteLength;
			this.on.data(new Uint8Array(data));
			return;
		}
		const message = JSON.parse(data);

		if (message.type === 'ready') {
			this.opened = true;
			this.tries = 0;
			this.terminalId = message.terminal_id;
			this.offset = message.offset;
			this.on.ready(message);
			this.resize(this.cols, this.rows);
			this.unsent.splice(0).forEach((bytes) => this.socket.send(bytes));
		} else if (message.type === 'gap') {
			this.offset = message.to;
		} else if (message.type === 'paused' || message.type === 'resumed') {
			this.on.state(message.type);
		} else if (message.type === 'exit' || message.type === 'error') {
			this.last = message;
		}
	}

	closed({ code }) {
		if (this.left)
			return;
		if (code === 1000)
			this.end(this.last?.type === 'exit' ? `The program has ended with exit code ${this.last.exit_code}.` : 'It was closed.');
		else if (code === TAKEN_OVER)
			this.end('Somebody else looks at this terminal now.');
		else if (code === ENDED)
			this.end('The sandbox has ended.');
		else if (code === FAILED && this.last?.code !== 'agent_gone')
			this.end(this.last?.detail ?? 'It failed.');
		else
			this.again();
	}

	again() {
		const wait = AGAIN_MS[this.tries++];

		if (wait === undefined || (!this.opened && this.offset === undefined && this.tries > 1)) {
			this.end('The connection could not be made.');
			return;
		}
		this.on.state('connecting');
		this.timer = setTimeout(() => !this.left && this.connect(), wait);
	}

	end(text) {
		this.left = true;
		this.on.over(text);
	}

	send(bytes) {
		if (this.socket.readyState === WebSocket.OPEN && this.opened)
			this.socket.send(bytes);
		else if (this.unsent.length < 1000)
			this.unsent.push(bytes);
	}

	resize(cols, rows) {
		Object.assign(this, { cols, rows });
		if (this.opened && this.socket.readyState === WebSocket.OPEN)
			this.socket.send(JSON.stringify({ type: 'resize', cols, rows }));
	}

	close() {
		this.left = true;
		clearTimeout(this.timer);
		this.socket.close();
	}
}
