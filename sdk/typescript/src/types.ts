// Made by sdk/generate from the server's OpenAPI document: do not edit.

/** RFC 9457 */
export interface Problem {
	type: string;
	title: string;
	status: number;
	/** What failed and why */
	detail: string;
	/** Stable, for programs */
	code: string;
	/** What to do next */
	hint?: string;
	request_id: string;
}

export interface Sandbox {
	/** sbx_ and hex digits */
	id: string;
	name: string | null;
	/** creating, running, paused, destroyed, failed … */
	status: string;
	/** Name of the size, or custom */
	size: string;
	vcpus: number;
	memory_mb: number;
	disk_gb: number;
	image: string;
	/** kvm: hardware virtualization; emulated: no hardware boundary */
	isolation: string;
	created_at: string;
	/** Never outlived (on_timeout pause: by 45 s); null while it is paused */
	expires_at: string | null;
	/** Only while it is paused: what is left of its lifetime */
	remaining_seconds?: number;
	/** destroy or pause */
	on_timeout: string;
	/** Only where it was asked for */
	idle_pause_minutes?: number;
	/** The sandbox that it was forked from */
	parent_id: string | null;
	labels: Record<string, string>;
	/** Counts restores of its state */
	generation: number;
	/** What it may reach: null is everything, [] nothing */
	egress: string[] | null;
	/** Private networks that it is in */
	networks: string[];
	/** In private networks; null while it has none */
	address: string | null;
	/** Bytes and packets out and in, and packets denied */
	traffic: Traffic;
	/** Only when it has ended */
	ended_at?: string;
	/** Why it ended: destroyed_by_user, expired, guest_crashed … */
	reason?: string;
	/** The same as a sentence */
	reason_text?: string;
}

export interface ExecResult {
	exec_id: string;
	/** true: pick it up with exec_wait */
	running: boolean;
	stdout?: string;
	stderr?: string;
	/** With encoding base64 */
	stdout_base64?: string;
	/** With encoding base64 */
	stderr_base64?: string;
	/** 124: timed out; 128 + n: ended by signal n; null while running */
	exit_code: number | null;
	signal: string | null;
	duration_ms: number;
	timed_out: boolean;
	/** Some of the output was left out */
	truncated: boolean;
	out_of_memory: boolean;
	/** Written so far */
	stdout_bytes: number;
	/** Written so far */
	stderr_bytes: number;
	/** Of stdout, for from_offset */
	next_offset: number;
	/** Of stderr, for from_stderr_offset */
	next_stderr_offset: number;
	/** What was not reached while it ran, with the rule that would allow each */
	egress_denied?: ExecDenial[];
}

export interface Snapshot {
	name: string;
	/** The sandbox it is of */
	source_id: string;
	/** Name of the size, or custom */
	size: string;
	vcpus: number;
	memory_mb: number;
	disk_gb: number;
	image: string;
	/** On the server's disk */
	size_bytes: number;
	created_at: string;
}

export interface Egress {
	id: string;
	/** null: everything, []: nothing, else a list in canonical spelling */
	rules: string[] | null;
}

export interface Network {
	name: string;
	created_at: string;
	/** id, name, host name and address of each */
	members: NetworkMember[];
}

export interface NetworkMembership {
	id: string;
	network: string;
	/** In the network */
	name: string;
	/** How the other members reach it */
	host: string;
	/** null while it is paused */
	address: string | null;
}

export interface FileEntry {
	path: string;
	/** file, directory, symlink, fifo, socket, … */
	type: string;
	/** Bytes */
	size: number | null;
	/** Octal */
	mode: string;
	user: string | null;
	uid: number;
	group: string | null;
	gid: number;
	modified_at: string | null;
	/** Of a symbolic link */
	target?: string;
}

export interface Image {
	name: string;
	/** Of its content */
	digest: string;
	size_bytes: number;
	/** On the server's disk */
	allocated_bytes: number;
	created_at: string;
	/** Commands run as this user */
	user: string;
	workdir: string;
	/** Where it was imported from; null: built here */
	source: string | null;
	/** Of the manifest that the source had */
	source_digest: string | null;
	imported_at: string | null;
	/** What is not as the imported image wants it */
	warnings: string[];
}

export interface SandboxEnd {
	id: string;
	/** destroyed */
	status: string;
}

export interface Key {
	id: string;
	account_id: string;
	label: string;
	/** How its text begins */
	prefix: string;
	/** valid, expired or revoked */
	status: string;
	/** It may administer the server */
	admin: boolean;
	/** {} when nothing narrows it */
	scopes: Record<string, unknown>;
	/** It is the key of this request */
	current: boolean;
	created_at: string;
	/** The key that made it */
	created_by: string | null;
	/** null: never */
	expires_at: string | null;
	rotated_at: string | null;
	revoked_at: string | null;
}

export interface NewKey {
	id: string;
	account_id: string;
	label: string;
	/** How its text begins */
	prefix: string;
	/** valid, expired or revoked */
	status: string;
	/** It may administer the server */
	admin: boolean;
	/** {} when nothing narrows it */
	scopes: Record<string, unknown>;
	/** It is the key of this request */
	current: boolean;
	created_at: string;
	/** The key that made it */
	created_by: string | null;
	/** null: never */
	expires_at: string | null;
	rotated_at: string | null;
	revoked_at: string | null;
	/** Its text: shown here and never again */
	key: string;
}

export interface Event {
	id: number;
	at: string;
	type: string;
	sandbox_id: string | null;
	data: Record<string, unknown>;
}

export interface EventGap {
	from: number;
	to: number;
}

export interface Denial {
	host: string | null;
	address: string | null;
	port: number | null;
	protocol: string | null;
	reason: string;
	rule: string | null;
	at: string;
	count: number;
	first_at: string;
}

export interface ExecDenial {
	target: string;
	reason: string;
	rule: string | null;
}

export interface Command {
	exec_id: string;
	command: string;
	command_truncated?: boolean;
	started_at: string;
	running: boolean;
	exit_code: number | null;
	signal: string | null;
	duration_ms: number;
	timed_out: boolean;
	out_of_memory: boolean;
	stdout_bytes: number;
	stderr_bytes: number;
}

export interface NetworkMember {
	id: string;
	name: string;
	host: string;
	address: string | null;
}

export interface DirectoryEntry {
	name: string;
	name_base64?: string;
	type: string;
	size: number | null;
	mode: string;
	user: string | null;
	uid: number;
	group: string | null;
	gid: number;
	modified_at: string | null;
	target?: string;
}

export interface Terminal {
	terminal_id: string;
	created_at: string;
	cols: number;
	rows: number;
	output_bytes: number;
	busy: boolean;
	attached: boolean;
}

export interface Traffic {
	out_bytes: number;
	out_packets: number;
	in_bytes: number;
	in_packets: number;
	denied_packets: number;
}

export interface ForkReport {
	distinct: string[];
	shared: string[];
	source_paused_ms: number;
}

export interface StatsSample {
	at: string;
	cpu_percent: number;
	memory_bytes: number;
}

export interface Account {
	id: string;
	name: string;
	admin: boolean;
	created_at: string;
}

export interface SizePrice {
	name: string;
	vcpus: number;
	memory_mb: number;
	disk_gb: number;
	microcredits_per_second: number;
	credits_per_hour: number;
}

export interface UsageOfDay {
	day: string;
	microcredits: number;
	running_seconds: number;
}

export interface UsageOfKey {
	key_id: string;
	label: string | null;
	microcredits: number;
	running_seconds: number;
	last_charged_at: string | null;
}

export interface UsageOfSandbox {
	sandbox_id: string;
	name: string | null;
	microcredits: number;
	running_seconds: number;
	last_charged_at: string | null;
}

export interface LedgerEntry {
	id: number;
	at: string;
	kind: string;
	debit: string;
	credit: string;
	microcredits: number;
	reference?: string | null;
	note?: string | null;
	sandbox_id?: string;
	generation?: number;
	key_id?: string;
	microcredits_per_second?: number;
	run_began_at?: string;
	from?: string;
	to?: string;
}

export interface AuditRecord {
	seq: number;
	damaged?: boolean;
	prev?: string;
	at?: string;
	account_id?: string | null;
	key_id?: string | null;
	surface?: string;
	peer?: string | null;
	request_id?: string | null;
	operation?: string;
	sandbox_id?: string | null;
	args?: Record<string, unknown>;
	result?: string;
	duration_ms?: number;
	outcome?: Record<string, unknown>;
	hash?: string;
}

/** Arguments of list_sandboxes: Lists your sandboxes with status and deadline. */
export interface ListSandboxesArgs {
	/** Default: alive */
	status?: 'creating' | 'running' | 'pausing' | 'paused' | 'resuming' | 'destroying' | 'destroyed' | 'failed' | 'all';
	/** Only those with this label: key, or key=value */
	label?: string;
	/** Only those of this image */
	image?: string;
	/** From next_cursor */
	cursor?: string;
	/** Items in one answer */
	limit?: number;
}

/** Arguments of create_sandbox: Starts a Linux microVM, ready for exec, destroyed at its deadline. */
export interface CreateSandboxArgs {
	/** vCPUs, memory and disk by name */
	size?: 'tiny' | 'small' | 'medium' | 'large' | 'xlarge' | (string & {});
	/** Lifetime; extendable */
	timeout_minutes?: number;
	image?: string;
	name?: string;
	labels?: Record<string, string>;
	/** Instead of size and image */
	snapshot?: string;
	/** What it may reach. null: the internet; []: nothing; else only this: host, *.host, address or CIDR, each with :port */
	egress?: string[] | null;
	/** Private networks to join */
	networks?: string[];
	on_timeout?: 'destroy' | 'pause';
	/** Pause it after so long without a command or a call; default: never */
	idle_pause_minutes?: number;
	/** With memory_mb and disk_gb, instead of size */
	vcpus?: number;
	memory_mb?: number;
	disk_gb?: number;
}

/** Arguments of exec: Runs a shell command in a sandbox; files and background processes stay between calls. */
export interface ExecArgs {
	/** Sandbox id */
	id: string;
	/** For the shell */
	command: string;
	/** Killed then */
	timeout_ms?: number;
	/** Default: home */
	cwd?: string;
	env?: Record<string, string>;
	stdin?: string;
	/** Instead of stdin, for bytes that are no text */
	stdin_base64?: string;
	/** Keep stdin open for exec_wait */
	stdin_open?: boolean;
	/** Default: sandbox (has sudo) */
	user?: string;
	/** Answer at once; see exec_wait */
	background?: boolean;
	/** Per stream: head and tail */
	max_output_bytes?: number;
	/** base64: stdout_base64 and stderr_base64 instead of text */
	encoding?: 'utf8' | 'base64';
}

/** Arguments of list_execs: The commands that run in a sandbox, and those that have ended. */
export interface ListExecsArgs {
	/** Sandbox id */
	id: string;
}

/** Arguments of exec_wait: Waits for a running command, replays its output, feeds or signals it. */
export interface ExecWaitArgs {
	/** Sandbox id */
	id: string;
	/** From exec */
	exec_id: string;
	/** Wait this long for its end before answering */
	wait_ms?: number;
	/** Byte of stdout to start at */
	from_offset?: number;
	from_stderr_offset?: number;
	/** Per stream: head and tail */
	max_output_bytes?: number;
	/** base64: stdout_base64 and stderr_base64 instead of text */
	encoding?: 'utf8' | 'base64';
}

/** Arguments of extend_sandbox: Moves a sandbox's deadline. */
export interface ExtendSandboxArgs {
	/** Sandbox id */
	id: string;
	additional_minutes: number;
}

/** Arguments of destroy_sandbox: Ends a sandbox and deletes everything in it. */
export interface DestroySandboxArgs {
	/** Sandbox id */
	id: string;
}

/** Arguments of get_sandbox: One sandbox, or why and when it ended. */
export interface GetSandboxArgs {
	/** Sandbox id */
	id: string;
}

/** Arguments of pause_sandbox: Saves a sandbox with its processes and stops its clock; the next use resumes it. */
export interface PauseSandboxArgs {
	/** Sandbox id */
	id: string;
}

/** Arguments of resume_sandbox: Resumes a paused sandbox. */
export interface ResumeSandboxArgs {
	/** Sandbox id */
	id: string;
}

/** Arguments of fork_sandbox: Copies a sandbox with its processes, memory and disk. */
export interface ForkSandboxArgs {
	/** Sandbox id */
	id: string;
	count?: number;
	/** Children are NAME-1 … */
	name?: string;
	/** Lifetime of the children; default: what the source has left */
	timeout_minutes?: number;
	/** Default: the source's */
	labels?: Record<string, string>;
}

/** Arguments of set_egress: Replaces what a sandbox may reach, at once. */
export interface SetEgressArgs {
	/** Sandbox id */
	id: string;
	/** As egress of create_sandbox */
	rules: string[] | null;
}

/** Arguments of get_egress: What a sandbox may reach. */
export interface GetEgressArgs {
	/** Sandbox id */
	id: string;
}

/** Arguments of change_egress: Adds rules to the list of what a sandbox may reach, and takes others out. */
export interface ChangeEgressArgs {
	/** Sandbox id */
	id: string;
	/** Rules to add to the list */
	add?: string[];
	/** Rules to take out of the list */
	remove?: string[];
}

/** Arguments of expose_port: Makes a URL for an HTTP server in a sandbox (on 0.0.0.0). */
export interface ExposePortArgs {
	/** Sandbox id */
	id: string;
	port: number;
	ttl_minutes?: number;
}

/** Arguments of create_snapshot: Keeps the state of a sandbox under a name, to create others from. */
export interface CreateSnapshotArgs {
	/** Sandbox id */
	id: string;
	/** For create */
	name: string;
}

/** Arguments of remove_snapshot: Deletes a named snapshot; sandboxes made from it stay. */
export interface RemoveSnapshotArgs {
	/** Snapshot */
	name: string;
}

/** Arguments of list_denials: What a sandbox tried to reach and was denied, and the rule that would allow each. */
export interface ListDenialsArgs {
	/** Sandbox id */
	id: string;
}

/** Arguments of list_events: What happened to your sandboxes: as pages, or as a stream that goes on. */
export interface ListEventsArgs {
	/** Id of an event: what follows it. 0: from the oldest that is kept on, the default for pages; streams begin with what happens from now on */
	cursor?: number;
	/** Of this sandbox alone */
	sandbox_id?: string;
	/** Of these types alone: names with commas between */
	type?: string;
	/** A page of the newest, instead of what follows a cursor */
	newest?: boolean;
	/** Events of a page */
	limit?: number;
}

/** Arguments of get_stats: CPU and memory that a sandbox has taken of its host in the last minutes. */
export interface GetStatsArgs {
	/** Sandbox id */
	id: string;
}

/** Arguments of list_audit: Who did what, when, and with what result: as pages, or as a stream that goes on. */
export interface ListAuditArgs {
	/** On this sandbox alone */
	sandbox_id?: string;
	/** By this key alone */
	key_id?: string;
	/** Of this account alone; for administrators, who see all */
	account_id?: string;
	/** Of this operation alone: its name in this document */
	operation?: string;
	/** Of this request alone */
	request_id?: string;
	/** With this result alone: ok, or the code of an error */
	result?: string;
	/** Number of a record: what follows it. Default: pages begin with the first one, streams with what happens from now on */
	cursor?: number;
	/** Number of a record: only what comes before it */
	before?: number;
	/** A page of the newest, instead of what follows a cursor */
	newest?: boolean;
	/** Records of a page */
	limit?: number;
}

/** Arguments of export_audit: All of the audit, as lines of JSON that can be checked elsewhere: docs/audit.md. */
export interface ExportAuditArgs {
	/** Number of a record: what follows it */
	cursor?: number;
}

/** Arguments of create_network: Makes a private network for sandboxes. */
export interface CreateNetworkArgs {
	/** Network */
	name: string;
}

/** Arguments of remove_network: Removes a private network that has no members. */
export interface RemoveNetworkArgs {
	/** Network */
	name: string;
}

/** Arguments of join_network: Makes a sandbox a member of a private network, at once. */
export interface JoinNetworkArgs {
	/** Network */
	name: string;
	/** Sandbox id */
	id: string;
	/** Its name there; default: the sandbox's name, or its id */
	as?: string;
}

/** Arguments of leave_network: Takes a sandbox out of a private network, at once. */
export interface LeaveNetworkArgs {
	/** Network */
	name: string;
	/** Sandbox id */
	id: string;
}

/** Arguments of exec_input: Writes to the stdin of a command that was started with stdin_open. */
export interface ExecInputArgs {
	/** Sandbox id */
	id: string;
	/** From exec */
	exec_id: string;
	/** Text for its stdin */
	data?: string;
	/** Bytes for its stdin */
	data_base64?: string;
	/** Close its stdin afterwards */
	close?: boolean;
}

/** Arguments of exec_signal: Sends a signal to a running command. */
export interface ExecSignalArgs {
	/** Sandbox id */
	id: string;
	/** From exec */
	exec_id: string;
	/** To all its processes */
	signal: 'SIGHUP' | 'SIGINT' | 'SIGQUIT' | 'SIGKILL' | 'SIGUSR1' | 'SIGUSR2' | 'SIGTERM' | 'SIGCONT' | 'SIGSTOP' | 'SIGTSTP' | 'SIGWINCH';
}

/** Arguments of read_file: A file's content. Range, If-Range and If-None-Match are honoured; mode and owner are in the headers X-File-Mode, X-File-User and X-File-Group. */
export interface ReadFileArgs {
	/** Sandbox id */
	id: string;
	/** Relative ones begin in the user's home */
	path: string;
	/** Who does it in the sandbox; default: sandbox */
	user?: string;
}

/** Arguments of write_file: Makes a file (201) or replaces it (200) with the body, whole and durable or not at all. */
export interface WriteFileArgs {
	/** Sandbox id */
	id: string;
	/** Relative ones begin in the user's home */
	path: string;
	/** Who does it in the sandbox; default: sandbox */
	user?: string;
	/** Octal; default: the replaced file's, or 0644 */
	mode?: string;
	/** Make directories that are missing */
	parents?: boolean;
	/** false: refused where something is */
	overwrite?: boolean;
}

/** Arguments of remove_file: Removes a file, a link or a directory. */
export interface RemoveFileArgs {
	/** Sandbox id */
	id: string;
	/** Relative ones begin in the user's home */
	path: string;
	/** Who does it in the sandbox; default: sandbox */
	user?: string;
	/** A directory with all that is in it */
	recursive?: boolean;
}

/** Arguments of list_files: What is in a directory, by name. */
export interface ListFilesArgs {
	/** Sandbox id */
	id: string;
	/** Relative ones begin in the user's home */
	path: string;
	/** Who does it in the sandbox; default: sandbox */
	user?: string;
	/** From next_cursor */
	cursor?: string;
	/** Items in one answer */
	limit?: number;
}

/** Arguments of stat_file: What is at a path; a symbolic link is described itself. */
export interface StatFileArgs {
	/** Sandbox id */
	id: string;
	/** Relative ones begin in the user's home */
	path: string;
	/** Who does it in the sandbox; default: sandbox */
	user?: string;
}

/** Arguments of make_directory: Makes a directory. */
export interface MakeDirectoryArgs {
	/** Sandbox id */
	id: string;
	/** Relative ones begin in the user's home */
	path: string;
	/** Who does it in the sandbox; default: sandbox */
	user?: string;
	/** Octal; default: 0755 */
	mode?: string;
	/** Make directories above that are missing; one that exists is fine */
	parents?: boolean;
}

/** Arguments of move_file: Gives a file or directory another path. */
export interface MoveFileArgs {
	/** Sandbox id */
	id: string;
	/** Relative ones begin in the user's home */
	from: string;
	/** Its new path, not the directory to put it in */
	to: string;
	/** Who does it in the sandbox; default: sandbox */
	user?: string;
	/** Make directories that are missing */
	parents?: boolean;
	/** Replace what is there */
	overwrite?: boolean;
}

/** Arguments of read_tree: What is below a directory, as a tar archive. */
export interface ReadTreeArgs {
	/** Sandbox id */
	id: string;
	/** Relative ones begin in the user's home */
	path: string;
	/** Who does it in the sandbox; default: sandbox */
	user?: string;
}

/** Arguments of write_tree: Unpacks a tar archive below a directory: each file whole and durable. Names that lead out of it and devices are refused. */
export interface WriteTreeArgs {
	/** Sandbox id */
	id: string;
	/** The directory that it is unpacked in */
	path: string;
	/** Who does it in the sandbox; default: sandbox */
	user?: string;
	/** Make the directory, and those above, if missing */
	parents?: boolean;
	/** As the archive has them, which takes user=root */
	owners?: boolean;
}

/** Arguments of open_terminal: A shell in a terminal, new or open already, over a WebSocket: docs/terminal.md. */
export interface OpenTerminalArgs {
	/** Sandbox id */
	id: string;
	/** Terminal id */
	terminal_id?: string;
	/** With terminal_id: the first byte of output to be sent; default: the newest screens */
	from_offset?: number;
	/** With rows; default: 80, or as it is */
	cols?: number;
	/** With cols; default: 24, or as it is */
	rows?: number;
	/** For the shell; default: a login shell */
	command?: string;
	/** Default: sandbox (has sudo) */
	user?: string;
	/** Default: home */
	cwd?: string;
	/** TERM; default: xterm-256color */
	term?: string;
}

/** Arguments of list_terminals: The terminals that are open in a sandbox. */
export interface ListTerminalsArgs {
	/** Sandbox id */
	id: string;
}

/** Arguments of end_terminal: Ends a terminal and everything that runs in it. */
export interface EndTerminalArgs {
	/** Sandbox id */
	id: string;
	/** Terminal id */
	terminal_id: string;
}

/** Arguments of build_image: Builds an image by its recipe and the template of the default size. */
export interface BuildImageArgs {
	/** Of a recipe: base, dev … */
	name: string;
	/** Also when it is already built from the same recipe */
	rebuild?: boolean;
}

/** Arguments of import_image: Makes an image of one that was built elsewhere, by skopeo, and the template of the default size. */
export interface ImportImageArgs {
	/** docker-archive:PATH, oci-archive:PATH, oci:DIRECTORY (of the server, each with :TAG) or docker://[HOST/]NAME[:TAG] */
	source: string;
	/** Default: the last part of the source */
	name?: string;
	/** An image of that name */
	replace?: boolean;
	/** false: a registry without TLS, or with any certificate */
	tls_verify?: boolean;
}

/** Arguments of remove_image: Removes an image that no living sandbox and no snapshot uses. */
export interface RemoveImageArgs {
	/** Image */
	name: string;
}

/** Arguments of create_key: Makes a key, which may do no more than the one that makes it. */
export interface CreateKeyArgs {
	/** What it is for */
	label?: string;
	/** What it may do less than its account; what is absent is as of the key that makes it */
	scopes?: { operations?: string[]; sandboxes?: string[]; labels?: Record<string, string>; sizes?: string[]; lifetime_minutes_max?: number; egress_loosen?: boolean; root?: boolean; spend_credits_max?: number };
	/** It expires then; default: with the key that makes it */
	ttl_minutes?: number;
	/** It may administer the server, as the key that makes it */
	admin?: boolean;
	/** Another account than the key's own: for administrators */
	account_id?: string;
}

/** Arguments of list_keys: Your keys, without their texts, newest first. */
export interface ListKeysArgs {
	/** all: revoked and expired ones too */
	status?: 'valid' | 'all';
	/** Another account than the key's own: for administrators */
	account_id?: string;
	/** next_cursor of the last answer */
	cursor?: string;
	limit?: number;
}

/** Arguments of rotate_key: Gives a key another text; the old one is good for overlap_seconds more. */
export interface RotateKeyArgs {
	/** Key id */
	id: string;
	/** The old text is good for that long */
	overlap_seconds?: number;
	/** Another account than the key's own: for administrators */
	account_id?: string;
}

/** Arguments of revoke_key: Ends a key, and within a second what is open with it. */
export interface RevokeKeyArgs {
	/** Key id */
	id: string;
	/** Another account than the key's own: for administrators */
	account_id?: string;
}

/** Arguments of create_account: Makes an account, with a first key that may do everything in it. */
export interface CreateAccountArgs {
	/** Of its own */
	name: string;
	/** It may administer the server */
	admin?: boolean;
}

/** Arguments of list_accounts: The accounts of this server, oldest first. */
export interface ListAccountsArgs {
	/** next_cursor of the last answer */
	cursor?: string;
	limit?: number;
}

/** Arguments of get_usage: Balance, what was spent by day, key and sandbox, the rate of what runs, and when the credit ends. */
export interface GetUsageArgs {
	/** Of this account instead of your own: administrators */
	account_id?: string;
	/** So many of the newest days that have charges */
	days?: number;
	/** So many keys, and sandboxes, of those charged last */
	limit?: number;
}

/** Arguments of list_ledger: Every grant and every charge of the account, oldest first. */
export interface ListLedgerArgs {
	/** Of this account instead of your own: administrators */
	account_id?: string;
	/** Id of an entry: what follows it */
	cursor?: number;
	/** Entries of a page */
	limit?: number;
}

/** Arguments of grant_credit: Gives credits to an account. */
export interface GrantCreditArgs {
	/** Account id */
	id: string;
	/** How many, rounded to micro-credits */
	credits: number;
	/** The same reference is the same grant: a request that is sent again grants nothing more */
	reference?: string;
	/** For people */
	note?: string;
}

/** What list_sandboxes answers. */
export interface ListSandboxesResult {
	/** Newest first */
	items: Sandbox[];
	/** Where the next answer goes on; null at the end */
	next_cursor: string | null;
}

/** What list_execs answers. */
export interface ListExecsResult {
	/** Those that run, then those that have ended, newest first: exec_id, command (its first bytes), started_at, and as of exec_wait, without output */
	items: Command[];
	/** Always null */
	next_cursor: string | null;
}

/** What extend_sandbox answers. */
export interface ExtendSandboxResult {
	id: string;
	/** The new deadline */
	expires_at: string;
}

/** What fork_sandbox answers. */
export interface ForkSandboxResult {
	/** The children */
	sandboxes: Sandbox[];
	/** What was made distinct, and what cannot be */
	fork_report: ForkReport;
}

/** What expose_port answers. */
export interface ExposePortResult {
	/** Whoever has it reaches the port until expires_at */
	url: string;
	expires_at: string;
}

/** What list_snapshots answers. */
export interface ListSnapshotsResult {
	/** Newest first */
	items: Snapshot[];
	/** Where the next answer goes on; null at the end */
	next_cursor: string | null;
}

/** What remove_snapshot answers. */
export interface RemoveSnapshotResult {
	name: string;
}

/** What list_denials answers. */
export interface ListDenialsResult {
	/** Newest first; repetitions are one, with a count */
	items: Denial[];
	/** Always null */
	next_cursor: string | null;
	/** Denied packets that came too fast to be listed */
	unreported: number;
}

/** What list_events answers. */
export interface ListEventsResult {
	/** Oldest first: id, at, type, sandbox_id, data */
	items: Event[];
	/** null when there is no more for now */
	next_cursor: string | null;
	/** Where to go on, now or later */
	cursor: number;
	/** Ids from and to of events after the cursor that are not kept any more */
	gap: EventGap | null;
}

/** What get_stats answers. */
export interface GetStatsResult {
	id: string;
	/** CPUs that it may keep busy */
	vcpus: number;
	/** Memory that it has */
	memory_mb: number;
	/** Between two samples */
	interval_ms: number;
	/** CPU time of the run under way, in all */
	cpu_seconds: number;
	/** Oldest first, of the last minutes in which it ran: at, cpu_percent (of one CPU), memory_bytes (that its machine has written) */
	samples: StatsSample[];
}

/** What list_audit answers. */
export interface ListAuditResult {
	/** Oldest first: seq, prev, at, account_id, key_id, surface, peer, request_id, operation, sandbox_id, args, result, duration_ms, outcome, hash */
	items: AuditRecord[];
	/** null when there is no more for now */
	next_cursor: string | null;
	/** Of newest: what to give as before to see what came before; null when nothing did */
	earlier: number | null;
	/** Where to go on, now or later */
	cursor: number;
}

/** What verify_audit answers. */
export interface VerifyAuditResult {
	/** No record was changed, put in, moved or taken out */
	ok: boolean;
	/** Number of the first record that was checked; 0: there are none */
	first: number;
	/** Of the last one that is whole */
	last: number;
	/** Its hash */
	head: string | null;
	/** Number of the first record that is not what it was */
	broken_at: number | null;
	/** What is wrong with it */
	problem: string | null;
}

/** What list_networks answers. */
export interface ListNetworksResult {
	/** Newest first */
	items: Network[];
	/** Where the next answer goes on; null at the end */
	next_cursor: string | null;
}

/** What remove_network answers. */
export interface RemoveNetworkResult {
	name: string;
}

/** What leave_network answers. */
export interface LeaveNetworkResult {
	id: string;
	network: string;
}

/** What exec_input answers. */
export interface ExecInputResult {
	exec_id: string;
	accepted_bytes: number;
}

/** What exec_signal answers. */
export interface ExecSignalResult {
	exec_id: string;
}

/** What remove_file answers. */
export interface RemoveFileResult {
	path: string;
}

/** What list_files answers. */
export interface ListFilesResult {
	/** By name; as of stat_file, with name instead of path, and name_base64 where that is no UTF-8 */
	items: DirectoryEntry[];
	/** Where the next answer goes on; null at the end */
	next_cursor: string | null;
}

/** What write_tree answers. */
export interface WriteTreeResult {
	path: string;
	/** Files, directories and links that were unpacked */
	entries: number;
	/** Of files */
	bytes: number;
}

/** What list_terminals answers. */
export interface ListTerminalsResult {
	/** Oldest first: terminal_id, created_at, cols, rows, output_bytes, busy, attached */
	items: Terminal[];
	/** Always null */
	next_cursor: string | null;
}

/** What end_terminal answers. */
export interface EndTerminalResult {
	terminal_id: string;
}

/** What open_session answers. */
export interface OpenSessionResult {
	account_id: string;
	/** The key that it is worth */
	key_id: string;
	admin: boolean;
	expires_at?: string;
}

/** What get_session answers. */
export interface GetSessionResult {
	account_id: string;
	/** The key that it is worth */
	key_id: string;
	admin: boolean;
	expires_at?: string;
}

/** What close_session answers. */
export interface CloseSessionResult {
	key_id: string;
}

/** What list_images answers. */
export interface ListImagesResult {
	/** Newest first */
	items: Image[];
	/** Where the next answer goes on; null at the end */
	next_cursor: string | null;
}

/** What remove_image answers. */
export interface RemoveImageResult {
	name: string;
}

/** What list_keys answers. */
export interface ListKeysResult {
	/** Newest first */
	items: Key[];
	/** Where the next answer goes on; null at the end */
	next_cursor: string | null;
}

/** What create_account answers. */
export interface CreateAccountResult {
	id: string;
	name: string;
	admin: boolean;
	created_at: string;
	/** Its first key, with its text: shown here and never again */
	key: NewKey;
}

/** What list_accounts answers. */
export interface ListAccountsResult {
	/** Newest first */
	items: Account[];
	/** Where the next answer goes on; null at the end */
	next_cursor: string | null;
}

/** What prices answers. */
export interface PricesResult {
	/** All amounts are whole micro-credits */
	microcredits_per_credit: number;
	/** Of one vCPU */
	vcpu_microcredits_per_second: number;
	/** Of one GiB */
	memory_gb_microcredits_per_second: number;
	/** Of one GiB */
	disk_gb_microcredits_per_second: number;
	/** What each size costs, with its own price or that of its parts */
	sizes: SizePrice[];
	/** Of running are kept aside for what is about to run */
	hold_seconds: number;
	/** Of a new account */
	starting_credits: number;
}

/** What get_usage answers. */
export interface GetUsageResult {
	account_id: string;
	/** Its balance may be below zero */
	unlimited: boolean;
	granted_microcredits: number;
	charged_microcredits: number;
	/** Granted less charged */
	balance_microcredits: number;
	/** What runs has cost since it was charged last */
	uncharged_microcredits: number;
	/** Kept aside beside that */
	held_microcredits: number;
	/** The balance less both */
	available_microcredits: number;
	/** Sandboxes that run */
	running: number;
	/** What they cost */
	microcredits_per_second: number;
	/** At this rate; null: it does not end */
	seconds_to_zero: number | null;
	zero_at: string | null;
	/** day (UTC), microcredits, running_seconds; newest first */
	by_day: UsageOfDay[];
	/** key_id, label and the same */
	by_key: UsageOfKey[];
	/** sandbox_id, name and the same */
	by_sandbox: UsageOfSandbox[];
}

/** What list_ledger answers. */
export interface ListLedgerResult {
	/** Newest first */
	items: LedgerEntry[];
	/** Where the next answer goes on; null at the end */
	next_cursor: string | null;
}

/** What check_ledger answers. */
export interface CheckLedgerResult {
	/** Everything that must hold does */
	ok: boolean;
	accounts: number;
	entries: number;
	/** Runs of sandboxes that were charged */
	runs: number;
	/** Of all accounts */
	granted_microcredits: number;
	charged_microcredits: number;
	balance_microcredits: number;
	/** How many things are wrong */
	findings: number;
	first_finding: string | null;
}

/** What grant_credit answers. */
export interface GrantCreditResult {
	/** Of the entry in the account's ledger */
	id: number;
	at: string;
	kind: string;
	/** What it was taken from */
	debit: string;
	/** What it was given to: the account */
	credit: string;
	microcredits: number;
	reference: string | null;
	note: string | null;
}

/** Arguments and result of every operation. */
export interface Operations {
	/** Lists your sandboxes with status and deadline. */
	list_sandboxes: { args: ListSandboxesArgs; result: ListSandboxesResult };
	/** Starts a Linux microVM, ready for exec, destroyed at its deadline. */
	create_sandbox: { args: CreateSandboxArgs; result: Sandbox };
	/** Runs a shell command in a sandbox; files and background processes stay between calls. */
	exec: { args: ExecArgs; result: ExecResult };
	/** The commands that run in a sandbox, and those that have ended. */
	list_execs: { args: ListExecsArgs; result: ListExecsResult };
	/** Waits for a running command, replays its output, feeds or signals it. */
	exec_wait: { args: ExecWaitArgs; result: ExecResult };
	/** Moves a sandbox's deadline. */
	extend_sandbox: { args: ExtendSandboxArgs; result: ExtendSandboxResult };
	/** Ends a sandbox and deletes everything in it. */
	destroy_sandbox: { args: DestroySandboxArgs; result: SandboxEnd };
	/** One sandbox, or why and when it ended. */
	get_sandbox: { args: GetSandboxArgs; result: Sandbox };
	/** Saves a sandbox with its processes and stops its clock; the next use resumes it. */
	pause_sandbox: { args: PauseSandboxArgs; result: Sandbox };
	/** Resumes a paused sandbox. */
	resume_sandbox: { args: ResumeSandboxArgs; result: Sandbox };
	/** Copies a sandbox with its processes, memory and disk. */
	fork_sandbox: { args: ForkSandboxArgs; result: ForkSandboxResult };
	/** Replaces what a sandbox may reach, at once. */
	set_egress: { args: SetEgressArgs; result: Egress };
	/** What a sandbox may reach. */
	get_egress: { args: GetEgressArgs; result: Egress };
	/** Adds rules to the list of what a sandbox may reach, and takes others out. */
	change_egress: { args: ChangeEgressArgs; result: Egress };
	/** Makes a URL for an HTTP server in a sandbox (on 0.0.0.0). */
	expose_port: { args: ExposePortArgs; result: ExposePortResult };
	/** Keeps the state of a sandbox under a name, to create others from. */
	create_snapshot: { args: CreateSnapshotArgs; result: Snapshot };
	/** Your named snapshots. */
	list_snapshots: { args: Record<string, never>; result: ListSnapshotsResult };
	/** Deletes a named snapshot; sandboxes made from it stay. */
	remove_snapshot: { args: RemoveSnapshotArgs; result: RemoveSnapshotResult };
	/** What a sandbox tried to reach and was denied, and the rule that would allow each. */
	list_denials: { args: ListDenialsArgs; result: ListDenialsResult };
	/** What happened to your sandboxes: as pages, or as a stream that goes on. */
	list_events: { args: ListEventsArgs; result: ListEventsResult };
	/** CPU and memory that a sandbox has taken of its host in the last minutes. */
	get_stats: { args: GetStatsArgs; result: GetStatsResult };
	/** Who did what, when, and with what result: as pages, or as a stream that goes on. */
	list_audit: { args: ListAuditArgs; result: ListAuditResult };
	/** All of the audit, as lines of JSON that can be checked elsewhere: docs/audit.md. */
	export_audit: { args: ExportAuditArgs; result: void };
	/** Checks that no record of the audit was changed, put in, moved or taken out. */
	verify_audit: { args: Record<string, never>; result: VerifyAuditResult };
	/** Figures of this server, for Prometheus. */
	metrics: { args: Record<string, never>; result: void };
	/** Makes a private network for sandboxes. */
	create_network: { args: CreateNetworkArgs; result: Network };
	/** Your private networks and their members. */
	list_networks: { args: Record<string, never>; result: ListNetworksResult };
	/** Removes a private network that has no members. */
	remove_network: { args: RemoveNetworkArgs; result: RemoveNetworkResult };
	/** Makes a sandbox a member of a private network, at once. */
	join_network: { args: JoinNetworkArgs; result: NetworkMembership };
	/** Takes a sandbox out of a private network, at once. */
	leave_network: { args: LeaveNetworkArgs; result: LeaveNetworkResult };
	/** Writes to the stdin of a command that was started with stdin_open. */
	exec_input: { args: ExecInputArgs; result: ExecInputResult };
	/** Sends a signal to a running command. */
	exec_signal: { args: ExecSignalArgs; result: ExecSignalResult };
	/** A file's content. Range, If-Range and If-None-Match are honoured; mode and owner are in the headers X-File-Mode, X-File-User and X-File-Group. */
	read_file: { args: ReadFileArgs; result: void };
	/** Makes a file (201) or replaces it (200) with the body, whole and durable or not at all. */
	write_file: { args: WriteFileArgs; result: FileEntry };
	/** Removes a file, a link or a directory. */
	remove_file: { args: RemoveFileArgs; result: RemoveFileResult };
	/** What is in a directory, by name. */
	list_files: { args: ListFilesArgs; result: ListFilesResult };
	/** What is at a path; a symbolic link is described itself. */
	stat_file: { args: StatFileArgs; result: FileEntry };
	/** Makes a directory. */
	make_directory: { args: MakeDirectoryArgs; result: FileEntry };
	/** Gives a file or directory another path. */
	move_file: { args: MoveFileArgs; result: FileEntry };
	/** What is below a directory, as a tar archive. */
	read_tree: { args: ReadTreeArgs; result: void };
	/** Unpacks a tar archive below a directory: each file whole and durable. Names that lead out of it and devices are refused. */
	write_tree: { args: WriteTreeArgs; result: WriteTreeResult };
	/** A shell in a terminal, new or open already, over a WebSocket: docs/terminal.md. */
	open_terminal: { args: OpenTerminalArgs; result: void };
	/** The terminals that are open in a sandbox. */
	list_terminals: { args: ListTerminalsArgs; result: ListTerminalsResult };
	/** Ends a terminal and everything that runs in it. */
	end_terminal: { args: EndTerminalArgs; result: EndTerminalResult };
	/** Begins a session for the key: the answer sets a cookie that is worth it. */
	open_session: { args: Record<string, never>; result: OpenSessionResult };
	/** The account and the key that a request is made for. */
	get_session: { args: Record<string, never>; result: GetSessionResult };
	/** Ends the session of the request's cookie. */
	close_session: { args: Record<string, never>; result: CloseSessionResult };
	/** The images that sandboxes can start from. */
	list_images: { args: Record<string, never>; result: ListImagesResult };
	/** Builds an image by its recipe and the template of the default size. */
	build_image: { args: BuildImageArgs; result: Image };
	/** Makes an image of one that was built elsewhere, by skopeo, and the template of the default size. */
	import_image: { args: ImportImageArgs; result: Image };
	/** Removes an image that no living sandbox and no snapshot uses. */
	remove_image: { args: RemoveImageArgs; result: RemoveImageResult };
	/** Makes a key, which may do no more than the one that makes it. */
	create_key: { args: CreateKeyArgs; result: NewKey };
	/** Your keys, without their texts, newest first. */
	list_keys: { args: ListKeysArgs; result: ListKeysResult };
	/** Gives a key another text; the old one is good for overlap_seconds more. */
	rotate_key: { args: RotateKeyArgs; result: NewKey };
	/** Ends a key, and within a second what is open with it. */
	revoke_key: { args: RevokeKeyArgs; result: Key };
	/** Makes an account, with a first key that may do everything in it. */
	create_account: { args: CreateAccountArgs; result: CreateAccountResult };
	/** The accounts of this server, oldest first. */
	list_accounts: { args: ListAccountsArgs; result: ListAccountsResult };
	/** Every size, limit and default in force on this server. */
	limits: { args: Record<string, never>; result: Record<string, unknown> };
	/** What a second of a running sandbox costs, by shape. */
	prices: { args: Record<string, never>; result: PricesResult };
	/** Balance, what was spent by day, key and sandbox, the rate of what runs, and when the credit ends. */
	get_usage: { args: GetUsageArgs; result: GetUsageResult };
	/** Every grant and every charge of the account, oldest first. */
	list_ledger: { args: ListLedgerArgs; result: ListLedgerResult };
	/** Whether the ledger of all accounts is right: grants are balances and charges exactly, no time is charged twice or left out. */
	check_ledger: { args: Record<string, never>; result: CheckLedgerResult };
	/** Gives credits to an account. */
	grant_credit: { args: GrantCreditArgs; result: GrantCreditResult };
	/** Checks of the host: what works, what does not, and what to do. */
	doctor: { args: Record<string, never>; result: Record<string, unknown> };
}

/** Where an argument goes that is neither in the path nor in the query: into the body. */
export interface Operation {
	method: 'GET' | 'POST' | 'PUT' | 'DELETE';
	path: string;
	query: readonly string[];
	/** Asking again does nothing twice. */
	idempotent: boolean;
}

export const operations: { readonly [name in keyof Operations]: Operation } = {
	list_sandboxes: { method: 'GET', path: '/v1/sandboxes', query: ['status', 'label', 'image', 'cursor', 'limit'], idempotent: true },
	create_sandbox: { method: 'POST', path: '/v1/sandboxes', query: [], idempotent: false },
	exec: { method: 'POST', path: '/v1/sandboxes/{id}/exec', query: [], idempotent: false },
	list_execs: { method: 'GET', path: '/v1/sandboxes/{id}/exec', query: [], idempotent: true },
	exec_wait: { method: 'GET', path: '/v1/sandboxes/{id}/exec/{exec_id}', query: ['wait_ms', 'from_offset', 'from_stderr_offset', 'max_output_bytes', 'encoding'], idempotent: false },
	extend_sandbox: { method: 'POST', path: '/v1/sandboxes/{id}/extend', query: [], idempotent: false },
	destroy_sandbox: { method: 'DELETE', path: '/v1/sandboxes/{id}', query: [], idempotent: true },
	get_sandbox: { method: 'GET', path: '/v1/sandboxes/{id}', query: [], idempotent: true },
	pause_sandbox: { method: 'POST', path: '/v1/sandboxes/{id}/pause', query: [], idempotent: true },
	resume_sandbox: { method: 'POST', path: '/v1/sandboxes/{id}/resume', query: [], idempotent: true },
	fork_sandbox: { method: 'POST', path: '/v1/sandboxes/{id}/fork', query: [], idempotent: false },
	set_egress: { method: 'PUT', path: '/v1/sandboxes/{id}/egress', query: [], idempotent: true },
	get_egress: { method: 'GET', path: '/v1/sandboxes/{id}/egress', query: [], idempotent: true },
	change_egress: { method: 'POST', path: '/v1/sandboxes/{id}/egress', query: [], idempotent: false },
	expose_port: { method: 'POST', path: '/v1/sandboxes/{id}/expose', query: [], idempotent: false },
	create_snapshot: { method: 'POST', path: '/v1/sandboxes/{id}/snapshots', query: [], idempotent: false },
	list_snapshots: { method: 'GET', path: '/v1/snapshots', query: [], idempotent: true },
	remove_snapshot: { method: 'DELETE', path: '/v1/snapshots/{name}', query: [], idempotent: false },
	list_denials: { method: 'GET', path: '/v1/sandboxes/{id}/egress/denials', query: [], idempotent: true },
	list_events: { method: 'GET', path: '/v1/events', query: ['cursor', 'sandbox_id', 'type', 'newest', 'limit'], idempotent: true },
	get_stats: { method: 'GET', path: '/v1/sandboxes/{id}/stats', query: [], idempotent: true },
	list_audit: { method: 'GET', path: '/v1/audit', query: ['sandbox_id', 'key_id', 'account_id', 'operation', 'request_id', 'result', 'cursor', 'before', 'newest', 'limit'], idempotent: true },
	export_audit: { method: 'GET', path: '/v1/audit/export', query: ['cursor'], idempotent: true },
	verify_audit: { method: 'GET', path: '/v1/audit/verify', query: [], idempotent: true },
	metrics: { method: 'GET', path: '/metrics', query: [], idempotent: true },
	create_network: { method: 'POST', path: '/v1/networks', query: [], idempotent: false },
	list_networks: { method: 'GET', path: '/v1/networks', query: [], idempotent: true },
	remove_network: { method: 'DELETE', path: '/v1/networks/{name}', query: [], idempotent: false },
	join_network: { method: 'PUT', path: '/v1/networks/{name}/members/{id}', query: [], idempotent: true },
	leave_network: { method: 'DELETE', path: '/v1/networks/{name}/members/{id}', query: [], idempotent: true },
	exec_input: { method: 'POST', path: '/v1/sandboxes/{id}/exec/{exec_id}/input', query: [], idempotent: false },
	exec_signal: { method: 'POST', path: '/v1/sandboxes/{id}/exec/{exec_id}/signal', query: [], idempotent: false },
	read_file: { method: 'GET', path: '/v1/sandboxes/{id}/files', query: ['path', 'user'], idempotent: true },
	write_file: { method: 'PUT', path: '/v1/sandboxes/{id}/files', query: ['path', 'user', 'mode', 'parents', 'overwrite'], idempotent: true },
	remove_file: { method: 'DELETE', path: '/v1/sandboxes/{id}/files', query: ['path', 'user', 'recursive'], idempotent: false },
	list_files: { method: 'GET', path: '/v1/sandboxes/{id}/files/list', query: ['path', 'user', 'cursor', 'limit'], idempotent: true },
	stat_file: { method: 'GET', path: '/v1/sandboxes/{id}/files/stat', query: ['path', 'user'], idempotent: true },
	make_directory: { method: 'POST', path: '/v1/sandboxes/{id}/files/mkdir', query: [], idempotent: false },
	move_file: { method: 'POST', path: '/v1/sandboxes/{id}/files/move', query: [], idempotent: false },
	read_tree: { method: 'GET', path: '/v1/sandboxes/{id}/tree', query: ['path', 'user'], idempotent: true },
	write_tree: { method: 'PUT', path: '/v1/sandboxes/{id}/tree', query: ['path', 'user', 'parents', 'owners'], idempotent: true },
	open_terminal: { method: 'GET', path: '/v1/sandboxes/{id}/terminal', query: ['terminal_id', 'from_offset', 'cols', 'rows', 'command', 'user', 'cwd', 'term'], idempotent: false },
	list_terminals: { method: 'GET', path: '/v1/sandboxes/{id}/terminals', query: [], idempotent: true },
	end_terminal: { method: 'DELETE', path: '/v1/sandboxes/{id}/terminals/{terminal_id}', query: [], idempotent: false },
	open_session: { method: 'POST', path: '/v1/session', query: [], idempotent: false },
	get_session: { method: 'GET', path: '/v1/session', query: [], idempotent: true },
	close_session: { method: 'DELETE', path: '/v1/session', query: [], idempotent: true },
	list_images: { method: 'GET', path: '/v1/images', query: [], idempotent: true },
	build_image: { method: 'POST', path: '/v1/images', query: [], idempotent: true },
	import_image: { method: 'POST', path: '/v1/images/import', query: [], idempotent: false },
	remove_image: { method: 'DELETE', path: '/v1/images/{name}', query: [], idempotent: false },
	create_key: { method: 'POST', path: '/v1/keys', query: [], idempotent: false },
	list_keys: { method: 'GET', path: '/v1/keys', query: ['status', 'account_id', 'cursor', 'limit'], idempotent: true },
	rotate_key: { method: 'POST', path: '/v1/keys/{id}/rotate', query: [], idempotent: false },
	revoke_key: { method: 'DELETE', path: '/v1/keys/{id}', query: ['account_id'], idempotent: true },
	create_account: { method: 'POST', path: '/v1/accounts', query: [], idempotent: false },
	list_accounts: { method: 'GET', path: '/v1/accounts', query: ['cursor', 'limit'], idempotent: true },
	limits: { method: 'GET', path: '/v1/limits', query: [], idempotent: true },
	prices: { method: 'GET', path: '/v1/prices', query: [], idempotent: true },
	get_usage: { method: 'GET', path: '/v1/usage', query: ['account_id', 'days', 'limit'], idempotent: true },
	list_ledger: { method: 'GET', path: '/v1/ledger', query: ['account_id', 'cursor', 'limit'], idempotent: true },
	check_ledger: { method: 'GET', path: '/v1/ledger/check', query: [], idempotent: true },
	grant_credit: { method: 'POST', path: '/v1/accounts/{id}/grants', query: [], idempotent: false },
	doctor: { method: 'GET', path: '/v1/doctor', query: [], idempotent: true },
};
