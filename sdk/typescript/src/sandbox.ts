// A sandbox: a microVM with its own kernel, disk and address.

import { Command, type CommandResult, type RunOptions, type StartOptions, run, start } from './command.js';
import { NotFoundError, SandboxEndedError } from './errors.js';
import { type FollowEventsOptions, followEvents } from './events.js';
import { Files } from './files.js';
import { Terminal, type TerminalOptions } from './terminal.js';
import type { CallOptions, OperationName, Transport } from './transport.js';
import type * as types from './types.js';

export type SandboxInfo = types.Sandbox;

/** The arguments of an operation on one sandbox, with what every call takes. */
type Options<Name extends OperationName, Given extends string = never> =
	Omit<types.Operations[Name]['args'], Given | 'id'> & CallOptions;

export interface Fork {
	sandboxes: Sandbox[];
	/** What was made distinct, and what cannot be. */
	report: types.ForkReport;
}

export class Sandbox implements AsyncDisposable {
	readonly #transport: Transport;
	readonly id: string;
	readonly files: Files;
	/** As the server described it last; `refresh()` asks again. */
	info: SandboxInfo;

	/** Use `client.create()`, `client.attach()` or `client.sandboxes()`. */
	constructor(transport: Transport, info: SandboxInfo) {
		this.#transport = transport;
		this.id = info.id;
		this.info = info;
		this.files = new Files(transport, info.id);
	}

	#call<Name extends OperationName>(
		name: Name, args: object, options: CallOptions = {},
	): Promise<types.Operations[Name]['result']> {
		const { signal, ...more } = options;
		const all = { ...more, ...args, id: this.id } as unknown as types.Operations[Name]['args'];

		return this.#transport.call(name, all, { signal });
	}

	// ---- commands ----

	/** Runs a shell command to its end. A connection that is lost meanwhile is taken up again. */
	exec(command: string, options: RunOptions = {}): Promise<CommandResult> {
		return run(this.#transport, this.id, command, options);
	}

	/** Starts a command that goes on by itself. */
	start(command: string, options: StartOptions = {}): Promise<Command> {
		return start(this.#transport, this.id, command, options);
	}

	/** A command that was started before, by its id. */
	command(execId: string): Command {
		return new Command(this.#transport, this.id, execId);
	}

	/** The commands that run, then those that have ended, newest first. */
	async commands(options: CallOptions = {}): Promise<types.Command[]> {
		return (await this.#call('list_execs', {}, options)).items;
	}

	/** Opens a terminal, or joins one (`terminal_id`). */
	terminal(options: TerminalOptions = {}): Promise<Terminal> {
		return new Terminal(this.#transport, this.id, options).open();
	}

	/** The terminals that are open. */
	async terminals(options: CallOptions = {}): Promise<types.Terminal[]> {
		return (await this.#call('list_terminals', {}, options)).items;
	}

	// ---- its life ----

	async refresh(options: CallOptions = {}): Promise<SandboxInfo> {
		return (this.info = await this.#call('get_sandbox', {}, options));
	}

	/** What it took of processor and memory lately. */
	stats(options: CallOptions = {}): Promise<types.GetStatsResult> {
		return this.#call('get_stats', {}, options);
	}

	/** Moves its deadline; answers the new one. */
	async extend(additional_minutes: number, options: CallOptions = {}): Promise<string> {
		const { expires_at } = await this.#call('extend_sandbox', { additional_minutes }, options);

		this.info = { ...this.info, expires_at };
		return expires_at;
	}

	/** Saves it with its processes and stops its clock; the next use resumes it. */
	async pause(options: CallOptions = {}): Promise<SandboxInfo> {
		return (this.info = await this.#call('pause_sandbox', {}, options));
	}

	async resume(options: CallOptions = {}): Promise<SandboxInfo> {
		return (this.info = await this.#call('resume_sandbox', {}, options));
	}

	/** Copies it with its processes, memory and disk. */
	async fork(options: Options<'fork_sandbox'> = {}): Promise<Fork> {
		const { sandboxes, fork_report } = await this.#call('fork_sandbox', {}, options);

		return { sandboxes: sandboxes.map((info) => new Sandbox(this.#transport, info)), report: fork_report };
	}

	/** Keeps its state under a name, to create others from. */
	snapshot(name: string, options: CallOptions = {}): Promise<types.Snapshot> {
		return this.#call('create_snapshot', { name }, options);
	}

	/** Ends it and deletes everything in it. */
	async destroy(options: CallOptions = {}): Promise<void> {
		const { status } = await this.#call('destroy_sandbox', {}, options);

		this.info = { ...this.info, status };
	}

	/** Destroys it, unless it has ended already. */
	async [Symbol.asyncDispose](): Promise<void> {
		try {
			await this.destroy();
		} catch (error) {
			if (!(error instanceof NotFoundError) && !(error instanceof SandboxEndedError))
				throw error;
		}
	}

	// ---- what it reaches, and who reaches it ----

	/** null: the internet; []: nothing; else exactly this. */
	async egress(options: CallOptions = {}): Promise<string[] | null> {
		return (await this.#call('get_egress', {}, options)).rules;
	}

	async setEgress(rules: string[] | null, options: CallOptions = {}): Promise<string[] | null> {
		return (await this.#call('set_egress', { rules }, options)).rules;
	}

	/** Adds rules to its list, and takes others out. */
	async changeEgress(options: Options<'change_egress'>): Promise<string[] | null> {
		return (await this.#call('change_egress', {}, options)).rules;
	}

	/** What it tried to reach and was denied, with the rule that would allow each. */
	async denials(options: CallOptions = {}): Promise<types.Denial[]> {
		return (await this.#call('list_denials', {}, options)).items;
	}

	/** A URL for a port of it: whoever has the URL reaches the port until it expires. */
	expose(port: number, options: Options<'expose_port', 'port'> = {}): Promise<types.ExposePortResult> {
		return this.#call('expose_port', { port }, options);
	}

	/** Makes it a member of a private network. */
	join(network: string, options: Options<'join_network', 'name'> = {}): Promise<types.NetworkMembership> {
		return this.#call('join_network', { name: network }, options);
	}

	async leave(network: string, options: CallOptions = {}): Promise<void> {
		await this.#call('leave_network', { name: network }, options);
	}

	/** What happens to it, as it does. */
	events(options: Omit<FollowEventsOptions, 'sandbox_id'> = {}): AsyncGenerator<types.Event, never, undefined> {
		return followEvents(this.#transport, { ...options, sandbox_id: this.id });
	}
}
