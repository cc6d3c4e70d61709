// agent_rtt, the VM without a daemon: a command a line, a line of JSON for each.

import { spawn } from 'node:child_process';
import readline from 'node:readline';

export class Baseline {
	constructor({ build, image, work, memoryMb }) {
		this.child = spawn(`${build}/bench/agent_rtt`,
			['--build', build, '--image', image, '--work', work, '--memory-mb', String(memoryMb)],
			{ stdio: ['pipe', 'pipe', 'inherit'] });
		this.lines = readline.createInterface({ input: this.child.stdout })[Symbol.asyncIterator]();
		this.ended = new Promise((resolve) => this.child.on('exit', resolve));
	}

	async ask(command) {
		this.child.stdin.write(`${command}\n`);
		const { value, done } = await this.lines.next();
		const answer = done ? { error: 'agent_rtt ended' } : JSON.parse(value);

		if (answer.error)
			throw new Error(`agent_rtt ${command}: ${answer.error}`);
		return answer;
	}

	async ms(command) {
		return (await this.ask(command)).us / 1000;
	}

	async stop() {
		this.child.stdin.end();
		await this.ended;
	}
}
