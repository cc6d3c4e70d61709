# Made by sdk/generate from the server's OpenAPI document: do not edit.
"""What the server takes and answers."""

from __future__ import annotations

from typing import Any, Dict, List, Literal, NamedTuple, Optional, Tuple, TypedDict, Union


class _ProblemRequired(TypedDict):
    type: str
    title: str
    status: int
    # What failed and why
    detail: str
    # Stable, for programs
    code: str
    request_id: str


class Problem(_ProblemRequired, total=False):
    """RFC 9457."""

    # What to do next
    hint: str


class _SandboxRequired(TypedDict):
    # sbx_ and hex digits
    id: str
    name: Optional[str]
    # creating, running, paused, destroyed, failed …
    status: str
    # Name of the size, or custom
    size: str
    vcpus: float
    memory_mb: int
    disk_gb: int
    image: str
    # kvm: hardware virtualization; emulated: no hardware boundary
    isolation: str
    created_at: str
    # Never outlived (on_timeout pause: by 45 s); null while it is paused
    expires_at: Optional[str]
    # destroy or pause
    on_timeout: str
    # The sandbox that it was forked from
    parent_id: Optional[str]
    labels: Dict[str, str]
    # Counts restores of its state
    generation: int
    # What it may reach: null is everything, [] nothing
    egress: Optional[List[str]]
    # Private networks that it is in
    networks: List[str]
    # In private networks; null while it has none
    address: Optional[str]
    # Bytes and packets out and in, and packets denied
    traffic: Traffic


class Sandbox(_SandboxRequired, total=False):
    # Only while it is paused: what is left of its lifetime
    remaining_seconds: int
    # Only where it was asked for
    idle_pause_minutes: int
    # Only when it has ended
    ended_at: str
    # Why it ended: destroyed_by_user, expired, guest_crashed …
    reason: str
    # The same as a sentence
    reason_text: str


class _ExecResultRequired(TypedDict):
    exec_id: str
    # true: pick it up with exec_wait
    running: bool
    # 124: timed out; 128 + n: ended by signal n; null while running
    exit_code: Optional[int]
    signal: Optional[str]
    duration_ms: int
    timed_out: bool
    # Some of the output was left out
    truncated: bool
    out_of_memory: bool
    # Written so far
    stdout_bytes: int
    # Written so far
    stderr_bytes: int
    # Of stdout, for from_offset
    next_offset: int
    # Of stderr, for from_stderr_offset
    next_stderr_offset: int


class ExecResult(_ExecResultRequired, total=False):
    stdout: str
    stderr: str
    # With encoding base64
    stdout_base64: str
    # With encoding base64
    stderr_base64: str
    # What was not reached while it ran, with the rule that would allow each
    egress_denied: List[ExecDenial]


class Snapshot(TypedDict):
    name: str
    # The sandbox it is of
    source_id: str
    # Name of the size, or custom
    size: str
    vcpus: float
    memory_mb: int
    disk_gb: int
    image: str
    # On the server's disk
    size_bytes: int
    created_at: str


class Egress(TypedDict):
    id: str
    # null: everything, []: nothing, else a list in canonical spelling
    rules: Optional[List[str]]


class Network(TypedDict):
    name: str
    created_at: str
    # id, name, host name and address of each
    members: List[NetworkMember]


class NetworkMembership(TypedDict):
    id: str
    network: str
    # In the network
    name: str
    # How the other members reach it
    host: str
    # null while it is paused
    address: Optional[str]


class _FileEntryRequired(TypedDict):
    path: str
    # file, directory, symlink, fifo, socket, …
    type: str
    # Bytes
    size: Optional[int]
    # Octal
    mode: str
    user: Optional[str]
    uid: int
    group: Optional[str]
    gid: int
    modified_at: Optional[str]


class FileEntry(_FileEntryRequired, total=False):
    # Of a symbolic link
    target: str


class Image(TypedDict):
    name: str
    # Of its content
    digest: str
    size_bytes: int
    # On the server's disk
    allocated_bytes: int
    created_at: str
    # Commands run as this user
    user: str
    workdir: str
    # Where it was imported from; null: built here
    source: Optional[str]
    # Of the manifest that the source had
    source_digest: Optional[str]
    imported_at: Optional[str]
    # What is not as the imported image wants it
    warnings: List[str]


class SandboxEnd(TypedDict):
    id: str
    # destroyed
    status: str


class Key(TypedDict):
    id: str
    account_id: str
    label: str
    # How its text begins
    prefix: str
    # valid, expired or revoked
    status: str
    # It may administer the server
    admin: bool
    # {} when nothing narrows it
    scopes: Dict[str, Any]
    # It is the key of this request
    current: bool
    created_at: str
    # The key that made it
    created_by: Optional[str]
    # null: never
    expires_at: Optional[str]
    rotated_at: Optional[str]
    revoked_at: Optional[str]


class NewKey(TypedDict):
    id: str
    account_id: str
    label: str
    # How its text begins
    prefix: str
    # valid, expired or revoked
    status: str
    # It may administer the server
    admin: bool
    # {} when nothing narrows it
    scopes: Dict[str, Any]
    # It is the key of this request
    current: bool
    created_at: str
    # The key that made it
    created_by: Optional[str]
    # null: never
    expires_at: Optional[str]
    rotated_at: Optional[str]
    revoked_at: Optional[str]
    # Its text: shown here and never again
    key: str


class Event(TypedDict):
    id: int
    at: str
    type: str
    sandbox_id: Optional[str]
    data: Dict[str, Any]


EventGap = TypedDict("EventGap", {"from": int, "to": int})


class Denial(TypedDict):
    host: Optional[str]
    address: Optional[str]
    port: Optional[int]
    protocol: Optional[str]
    reason: str
    rule: Optional[str]
    at: str
    count: int
    first_at: str


class ExecDenial(TypedDict):
    target: str
    reason: str
    rule: Optional[str]


class _CommandRequired(TypedDict):
    exec_id: str
    command: str
    started_at: str
    running: bool
    exit_code: Optional[int]
    signal: Optional[str]
    duration_ms: int
    timed_out: bool
    out_of_memory: bool
    stdout_bytes: int
    stderr_bytes: int


class Command(_CommandRequired, total=False):
    command_truncated: bool


class NetworkMember(TypedDict):
    id: str
    name: str
    host: str
    address: Optional[str]


class _DirectoryEntryRequired(TypedDict):
    name: str
    type: str
    size: Optional[int]
    mode: str
    user: Optional[str]
    uid: int
    group: Optional[str]
    gid: int
    modified_at: Optional[str]


class DirectoryEntry(_DirectoryEntryRequired, total=False):
    name_base64: str
    target: str


class Terminal(TypedDict):
    terminal_id: str
    created_at: str
    cols: int
    rows: int
    output_bytes: int
    busy: bool
    attached: bool


class Traffic(TypedDict):
    out_bytes: int
    out_packets: int
    in_bytes: int
    in_packets: int
    denied_packets: int


class ForkReport(TypedDict):
    distinct: List[str]
    shared: List[str]
    source_paused_ms: int


class StatsSample(TypedDict):
    at: str
    cpu_percent: float
    memory_bytes: int


class Account(TypedDict):
    id: str
    name: str
    admin: bool
    created_at: str


class SizePrice(TypedDict):
    name: str
    vcpus: float
    memory_mb: int
    disk_gb: int
    microcredits_per_second: int
    credits_per_hour: float


class UsageOfDay(TypedDict):
    day: str
    microcredits: int
    running_seconds: float


class UsageOfKey(TypedDict):
    key_id: str
    label: Optional[str]
    microcredits: int
    running_seconds: float
    last_charged_at: Optional[str]


class UsageOfSandbox(TypedDict):
    sandbox_id: str
    name: Optional[str]
    microcredits: int
    running_seconds: float
    last_charged_at: Optional[str]


_LedgerEntryRequired = TypedDict("_LedgerEntryRequired", {"id": int, "at": str, "kind": str, "debit": str, "credit": str, "microcredits": int})
_LedgerEntryOptional = TypedDict("_LedgerEntryOptional", {"reference": Optional[str], "note": Optional[str], "sandbox_id": str, "generation": int, "key_id": str, "microcredits_per_second": int, "run_began_at": str, "from": str, "to": str}, total=False)


class LedgerEntry(_LedgerEntryRequired, _LedgerEntryOptional):
    pass


class _AuditRecordRequired(TypedDict):
    seq: int


class AuditRecord(_AuditRecordRequired, total=False):
    damaged: bool
    prev: str
    at: str
    account_id: Optional[str]
    key_id: Optional[str]
    surface: str
    peer: Optional[str]
    request_id: Optional[str]
    operation: str
    sandbox_id: Optional[str]
    args: Dict[str, Any]
    result: str
    duration_ms: int
    outcome: Dict[str, Any]
    hash: str


class ListSandboxesArgs(TypedDict, total=False):
    """Arguments of list_sandboxes: Lists your sandboxes with status and deadline."""

    # Default: alive
    status: Literal["creating", "running", "pausing", "paused", "resuming", "destroying", "destroyed", "failed", "all"]
    # Only those with this label: key, or key=value
    label: str
    # Only those of this image
    image: str
    # From next_cursor
    cursor: str
    # Items in one answer
    limit: int


class CreateSandboxArgs(TypedDict, total=False):
    """Arguments of create_sandbox: Starts a Linux microVM, ready for exec, destroyed at its deadline."""

    # vCPUs, memory and disk by name
    size: str
    # Lifetime; extendable
    timeout_minutes: int
    image: str
    name: str
    labels: Dict[str, str]
    # Instead of size and image
    snapshot: str
    # What it may reach. null: the internet; []: nothing; else only this: host, *.host, address or CIDR, each with :port
    egress: Optional[List[str]]
    # Private networks to join
    networks: List[str]
    on_timeout: Literal["destroy", "pause"]
    # Pause it after so long without a command or a call; default: never
    idle_pause_minutes: int
    # With memory_mb and disk_gb, instead of size
    vcpus: float
    memory_mb: int
    disk_gb: int


class _ExecArgsRequired(TypedDict):
    # Sandbox id
    id: str
    # For the shell
    command: str


class ExecArgs(_ExecArgsRequired, total=False):
    """Arguments of exec: Runs a shell command in a sandbox; files and background processes stay between calls."""

    # Killed then
    timeout_ms: int
    # Default: home
    cwd: str
    env: Dict[str, str]
    stdin: str
    # Instead of stdin, for bytes that are no text
    stdin_base64: str
    # Keep stdin open for exec_wait
    stdin_open: bool
    # Default: sandbox (has sudo)
    user: str
    # Answer at once; see exec_wait
    background: bool
    # Per stream: head and tail
    max_output_bytes: int
    # base64: stdout_base64 and stderr_base64 instead of text
    encoding: Literal["utf8", "base64"]


class ListExecsArgs(TypedDict):
    """Arguments of list_execs: The commands that run in a sandbox, and those that have ended."""

    # Sandbox id
    id: str


class _ExecWaitArgsRequired(TypedDict):
    # Sandbox id
    id: str
    # From exec
    exec_id: str


class ExecWaitArgs(_ExecWaitArgsRequired, total=False):
    """Arguments of exec_wait: Waits for a running command, replays its output, feeds or signals it."""

    # Wait this long for its end before answering
    wait_ms: int
    # Byte of stdout to start at
    from_offset: int
    from_stderr_offset: int
    # Per stream: head and tail
    max_output_bytes: int
    # base64: stdout_base64 and stderr_base64 instead of text
    encoding: Literal["utf8", "base64"]


class ExtendSandboxArgs(TypedDict):
    """Arguments of extend_sandbox: Moves a sandbox's deadline."""

    # Sandbox id
    id: str
    additional_minutes: int


class DestroySandboxArgs(TypedDict):
    """Arguments of destroy_sandbox: Ends a sandbox and deletes everything in it."""

    # Sandbox id
    id: str


class GetSandboxArgs(TypedDict):
    """Arguments of get_sandbox: One sandbox, or why and when it ended."""

    # Sandbox id
    id: str


class PauseSandboxArgs(TypedDict):
    """Arguments of pause_sandbox: Saves a sandbox with its processes and stops its clock; the next use resumes it."""

    # Sandbox id
    id: str


class ResumeSandboxArgs(TypedDict):
    """Arguments of resume_sandbox: Resumes a paused sandbox."""

    # Sandbox id
    id: str


class _ForkSandboxArgsRequired(TypedDict):
    # Sandbox id
    id: str


class ForkSandboxArgs(_ForkSandboxArgsRequired, total=False):
    """Arguments of fork_sandbox: Copies a sandbox with its processes, memory and disk."""

    count: int
    # Children are NAME-1 …
    name: str
    # Lifetime of the children; default: what the source has left
    timeout_minutes: int
    # Default: the source's
    labels: Dict[str, str]


class SetEgressArgs(TypedDict):
    """Arguments of set_egress: Replaces what a sandbox may reach, at once."""

    # Sandbox id
    id: str
    # As egress of create_sandbox
    rules: Optional[List[str]]


class GetEgressArgs(TypedDict):
    """Arguments of get_egress: What a sandbox may reach."""

    # Sandbox id
    id: str


class _ChangeEgressArgsRequired(TypedDict):
    # Sandbox id
    id: str


class ChangeEgressArgs(_ChangeEgressArgsRequired, total=False):
    """Arguments of change_egress: Adds rules to the list of what a sandbox may reach, and takes others out."""

    # Rules to add to the list
    add: List[str]
    # Rules to take out of the list
    remove: List[str]


class _ExposePortArgsRequired(TypedDict):
    # Sandbox id
    id: str
    port: int


class ExposePortArgs(_ExposePortArgsRequired, total=False):
    """Arguments of expose_port: Makes a URL for an HTTP server in a sandbox (on 0.0.0.0)."""

    ttl_minutes: int


class CreateSnapshotArgs(TypedDict):
    """Arguments of create_snapshot: Keeps the state of a sandbox under a name, to create others from."""

    # Sandbox id
    id: str
    # For create
    name: str


class RemoveSnapshotArgs(TypedDict):
    """Arguments of remove_snapshot: Deletes a named snapshot; sandboxes made from it stay."""

    # Snapshot
    name: str


class ListDenialsArgs(TypedDict):
    """Arguments of list_denials: What a sandbox tried to reach and was denied, and the rule that would allow each."""

    # Sandbox id
    id: str


class ListEventsArgs(TypedDict, total=False):
    """Arguments of list_events: What happened to your sandboxes: as pages, or as a stream that goes on."""

    # Id of an event: what follows it. 0: from the oldest that is kept on, the default for pages; streams begin with what happens from now on
    cursor: int
    # Of this sandbox alone
    sandbox_id: str
    # Of these types alone: names with commas between
    type: str
    # A page of the newest, instead of what follows a cursor
    newest: bool
    # Events of a page
    limit: int


class GetStatsArgs(TypedDict):
    """Arguments of get_stats: CPU and memory that a sandbox has taken of its host in the last minutes."""

    # Sandbox id
    id: str


class ListAuditArgs(TypedDict, total=False):
    """Arguments of list_audit: Who did what, when, and with what result: as pages, or as a stream that goes on."""

    # On this sandbox alone
    sandbox_id: str
    # By this key alone
    key_id: str
    # Of this account alone; for administrators, who see all
    account_id: str
    # Of this operation alone: its name in this document
    operation: str
    # Of this request alone
    request_id: str
    # With this result alone: ok, or the code of an error
    result: str
    # Number of a record: what follows it. Default: pages begin with the first one, streams with what happens from now on
    cursor: int
    # Number of a record: only what comes before it
    before: int
    # A page of the newest, instead of what follows a cursor
    newest: bool
    # Records of a page
    limit: int


class ExportAuditArgs(TypedDict, total=False):
    """Arguments of export_audit: All of the audit, as lines of JSON that can be checked elsewhere: docs/audit.md."""

    # Number of a record: what follows it
    cursor: int


class CreateNetworkArgs(TypedDict):
    """Arguments of create_network: Makes a private network for sandboxes."""

    # Network
    name: str


class RemoveNetworkArgs(TypedDict):
    """Arguments of remove_network: Removes a private network that has no members."""

    # Network
    name: str


_JoinNetworkArgsRequired = TypedDict("_JoinNetworkArgsRequired", {"name": str, "id": str})
_JoinNetworkArgsOptional = TypedDict("_JoinNetworkArgsOptional", {"as": str}, total=False)


class JoinNetworkArgs(_JoinNetworkArgsRequired, _JoinNetworkArgsOptional):
    pass


class LeaveNetworkArgs(TypedDict):
    """Arguments of leave_network: Takes a sandbox out of a private network, at once."""

    # Network
    name: str
    # Sandbox id
    id: str


class _ExecInputArgsRequired(TypedDict):
    # Sandbox id
    id: str
    # From exec
    exec_id: str


class ExecInputArgs(_ExecInputArgsRequired, total=False):
    """Arguments of exec_input: Writes to the stdin of a command that was started with stdin_open."""

    # Text for its stdin
    data: str
    # Bytes for its stdin
    data_base64: str
    # Close its stdin afterwards
    close: bool


class ExecSignalArgs(TypedDict):
    """Arguments of exec_signal: Sends a signal to a running command."""

    # Sandbox id
    id: str
    # From exec
    exec_id: str
    # To all its processes
    signal: Literal["SIGHUP", "SIGINT", "SIGQUIT", "SIGKILL", "SIGUSR1", "SIGUSR2", "SIGTERM", "SIGCONT", "SIGSTOP", "SIGTSTP", "SIGWINCH"]


class _ReadFileArgsRequired(TypedDict):
    # Sandbox id
    id: str
    # Relative ones begin in the user's home
    path: str


class ReadFileArgs(_ReadFileArgsRequired, total=False):
    """Arguments of read_file: A file's content. Range, If-Range and If-None-Match are honoured; mode and owner are in the headers X-File-Mode, X-File-User and X-File-Group."""

    # Who does it in the sandbox; default: sandbox
    user: str


class _WriteFileArgsRequired(TypedDict):
    # Sandbox id
    id: str
    # Relative ones begin in the user's home
    path: str


class WriteFileArgs(_WriteFileArgsRequired, total=False):
    """Arguments of write_file: Makes a file (201) or replaces it (200) with the body, whole and durable or not at all."""

    # Who does it in the sandbox; default: sandbox
    user: str
    # Octal; default: the replaced file's, or 0644
    mode: str
    # Make directories that are missing
    parents: bool
    # false: refused where something is
    overwrite: bool


class _RemoveFileArgsRequired(TypedDict):
    # Sandbox id
    id: str
    # Relative ones begin in the user's home
    path: str


class RemoveFileArgs(_RemoveFileArgsRequired, total=False):
    """Arguments of remove_file: Removes a file, a link or a directory."""

    # Who does it in the sandbox; default: sandbox
    user: str
    # A directory with all that is in it
    recursive: bool


class _ListFilesArgsRequired(TypedDict):
    # Sandbox id
    id: str
    # Relative ones begin in the user's home
    path: str


class ListFilesArgs(_ListFilesArgsRequired, total=False):
    """Arguments of list_files: What is in a directory, by name."""

    # Who does it in the sandbox; default: sandbox
    user: str
    # From next_cursor
    cursor: str
    # Items in one answer
    limit: int


class _StatFileArgsRequired(TypedDict):
    # Sandbox id
    id: str
    # Relative ones begin in the user's home
    path: str


class StatFileArgs(_StatFileArgsRequired, total=False):
    """Arguments of stat_file: What is at a path; a symbolic link is described itself."""

    # Who does it in the sandbox; default: sandbox
    user: str


class _MakeDirectoryArgsRequired(TypedDict):
    # Sandbox id
    id: str
    # Relative ones begin in the user's home
    path: str


class MakeDirectoryArgs(_MakeDirectoryArgsRequired, total=False):
    """Arguments of make_directory: Makes a directory."""

    # Who does it in the sandbox; default: sandbox
    user: str
    # Octal; default: 0755
    mode: str
    # Make directories above that are missing; one that exists is fine
    parents: bool


_MoveFileArgsRequired = TypedDict("_MoveFileArgsRequired", {"id": str, "from": str, "to": str})
_MoveFileArgsOptional = TypedDict("_MoveFileArgsOptional", {"user": str, "parents": bool, "overwrite": bool}, total=False)


class MoveFileArgs(_MoveFileArgsRequired, _MoveFileArgsOptional):
    pass


class _ReadTreeArgsRequired(TypedDict):
    # Sandbox id
    id: str
    # Relative ones begin in the user's home
    path: str


class ReadTreeArgs(_ReadTreeArgsRequired, total=False):
    """Arguments of read_tree: What is below a directory, as a tar archive."""

    # Who does it in the sandbox; default: sandbox
    user: str


class _WriteTreeArgsRequired(TypedDict):
    # Sandbox id
    id: str
    # The directory that it is unpacked in
    path: str


class WriteTreeArgs(_WriteTreeArgsRequired, total=False):
    """Arguments of write_tree: Unpacks a tar archive below a directory: each file whole and durable. Names that lead out of it and devices are refused."""

    # Who does it in the sandbox; default: sandbox
    user: str
    # Make the directory, and those above, if missing
    parents: bool
    # As the archive has them, which takes user=root
    owners: bool


class _OpenTerminalArgsRequired(TypedDict):
    # Sandbox id
    id: str


class OpenTerminalArgs(_OpenTerminalArgsRequired, total=False):
    """Arguments of open_terminal: A shell in a terminal, new or open already, over a WebSocket: docs/terminal.md."""

    # Terminal id
    terminal_id: str
    # With terminal_id: the first byte of output to be sent; default: the newest screens
    from_offset: int
    # With rows; default: 80, or as it is
    cols: int
    # With cols; default: 24, or as it is
    rows: int
    # For the shell; default: a login shell
    command: str
    # Default: sandbox (has sudo)
    user: str
    # Default: home
    cwd: str
    # TERM; default: xterm-256color
    term: str


class ListTerminalsArgs(TypedDict):
    """Arguments of list_terminals: The terminals that are open in a sandbox."""

    # Sandbox id
    id: str


class EndTerminalArgs(TypedDict):
    """Arguments of end_terminal: Ends a terminal and everything that runs in it."""

    # Sandbox id
    id: str
    # Terminal id
    terminal_id: str


class _BuildImageArgsRequired(TypedDict):
    # Of a recipe: base, dev …
    name: str


class BuildImageArgs(_BuildImageArgsRequired, total=False):
    """Arguments of build_image: Builds an image by its recipe and the template of the default size."""

    # Also when it is already built from the same recipe
    rebuild: bool


class _ImportImageArgsRequired(TypedDict):
    # docker-archive:PATH, oci-archive:PATH, oci:DIRECTORY (of the server, each with :TAG) or docker://[HOST/]NAME[:TAG]
    source: str


class ImportImageArgs(_ImportImageArgsRequired, total=False):
    """Arguments of import_image: Makes an image of one that was built elsewhere, by skopeo, and the template of the default size."""

    # Default: the last part of the source
    name: str
    # An image of that name
    replace: bool
    # false: a registry without TLS, or with any certificate
    tls_verify: bool


class RemoveImageArgs(TypedDict):
    """Arguments of remove_image: Removes an image that no living sandbox and no snapshot uses."""

    # Image
    name: str


class CreateKeyArgs(TypedDict, total=False):
    """Arguments of create_key: Makes a key, which may do no more than the one that makes it."""

    # What it is for
    label: str
    # What it may do less than its account; what is absent is as of the key that makes it
    scopes: Dict[str, Any]
    # It expires then; default: with the key that makes it
    ttl_minutes: int
    # It may administer the server, as the key that makes it
    admin: bool
    # Another account than the key's own: for administrators
    account_id: str


class ListKeysArgs(TypedDict, total=False):
    """Arguments of list_keys: Your keys, without their texts, newest first."""

    # all: revoked and expired ones too
    status: Literal["valid", "all"]
    # Another account than the key's own: for administrators
    account_id: str
    # next_cursor of the last answer
    cursor: str
    limit: int


class _RotateKeyArgsRequired(TypedDict):
    # Key id
    id: str


class RotateKeyArgs(_RotateKeyArgsRequired, total=False):
    """Arguments of rotate_key: Gives a key another text; the old one is good for overlap_seconds more."""

    # The old text is good for that long
    overlap_seconds: int
    # Another account than the key's own: for administrators
    account_id: str


class _RevokeKeyArgsRequired(TypedDict):
    # Key id
    id: str


class RevokeKeyArgs(_RevokeKeyArgsRequired, total=False):
    """Arguments of revoke_key: Ends a key, and within a second what is open with it."""

    # Another account than the key's own: for administrators
    account_id: str


class _CreateAccountArgsRequired(TypedDict):
    # Of its own
    name: str


class CreateAccountArgs(_CreateAccountArgsRequired, total=False):
    """Arguments of create_account: Makes an account, with a first key that may do everything in it."""

    # It may administer the server
    admin: bool


class ListAccountsArgs(TypedDict, total=False):
    """Arguments of list_accounts: The accounts of this server, oldest first."""

    # next_cursor of the last answer
    cursor: str
    limit: int


class GetUsageArgs(TypedDict, total=False):
    """Arguments of get_usage: Balance, what was spent by day, key and sandbox, the rate of what runs, and when the credit ends."""

    # Of this account instead of your own: administrators
    account_id: str
    # So many of the newest days that have charges
    days: int
    # So many keys, and sandboxes, of those charged last
    limit: int


class ListLedgerArgs(TypedDict, total=False):
    """Arguments of list_ledger: Every grant and every charge of the account, oldest first."""

    # Of this account instead of your own: administrators
    account_id: str
    # Id of an entry: what follows it
    cursor: int
    # Entries of a page
    limit: int


class _GrantCreditArgsRequired(TypedDict):
    # Account id
    id: str
    # How many, rounded to micro-credits
    credits: float


class GrantCreditArgs(_GrantCreditArgsRequired, total=False):
    """Arguments of grant_credit: Gives credits to an account."""

    # The same reference is the same grant: a request that is sent again grants nothing more
    reference: str
    # For people
    note: str


class ListSandboxesResult(TypedDict):
    """What list_sandboxes answers."""

    # Newest first
    items: List[Sandbox]
    # Where the next answer goes on; null at the end
    next_cursor: Optional[str]


class ListExecsResult(TypedDict):
    """What list_execs answers."""

    # Those that run, then those that have ended, newest first: exec_id, command (its first bytes), started_at, and as of exec_wait, without output
    items: List[Command]
    # Always null
    next_cursor: Optional[str]


class ExtendSandboxResult(TypedDict):
    """What extend_sandbox answers."""

    id: str
    # The new deadline
    expires_at: str


class ForkSandboxResult(TypedDict):
    """What fork_sandbox answers."""

    # The children
    sandboxes: List[Sandbox]
    # What was made distinct, and what cannot be
    fork_report: ForkReport


class ExposePortResult(TypedDict):
    """What expose_port answers."""

    # Whoever has it reaches the port until expires_at
    url: str
    expires_at: str


class ListSnapshotsResult(TypedDict):
    """What list_snapshots answers."""

    # Newest first
    items: List[Snapshot]
    # Where the next answer goes on; null at the end
    next_cursor: Optional[str]


class RemoveSnapshotResult(TypedDict):
    """What remove_snapshot answers."""

    name: str


class ListDenialsResult(TypedDict):
    """What list_denials answers."""

    # Newest first; repetitions are one, with a count
    items: List[Denial]
    # Always null
    next_cursor: Optional[str]
    # Denied packets that came too fast to be listed
    unreported: int


class ListEventsResult(TypedDict):
    """What list_events answers."""

    # Oldest first: id, at, type, sandbox_id, data
    items: List[Event]
    # null when there is no more for now
    next_cursor: Optional[str]
    # Where to go on, now or later
    cursor: int
    # Ids from and to of events after the cursor that are not kept any more
    gap: Optional[EventGap]


class GetStatsResult(TypedDict):
    """What get_stats answers."""

    id: str
    # CPUs that it may keep busy
    vcpus: float
    # Memory that it has
    memory_mb: int
    # Between two samples
    interval_ms: int
    # CPU time of the run under way, in all
    cpu_seconds: float
    # Oldest first, of the last minutes in which it ran: at, cpu_percent (of one CPU), memory_bytes (that its machine has written)
    samples: List[StatsSample]


class ListAuditResult(TypedDict):
    """What list_audit answers."""

    # Oldest first: seq, prev, at, account_id, key_id, surface, peer, request_id, operation, sandbox_id, args, result, duration_ms, outcome, hash
    items: List[AuditRecord]
    # null when there is no more for now
    next_cursor: Optional[str]
    # Of newest: what to give as before to see what came before; null when nothing did
    earlier: Optional[int]
    # Where to go on, now or later
    cursor: int


class VerifyAuditResult(TypedDict):
    """What verify_audit answers."""

    # No record was changed, put in, moved or taken out
    ok: bool
    # Number of the first record that was checked; 0: there are none
    first: int
    # Of the last one that is whole
    last: int
    # Its hash
    head: Optional[str]
    # Number of the first record that is not what it was
    broken_at: Optional[int]
    # What is wrong with it
    problem: Optional[str]


class ListNetworksResult(TypedDict):
    """What list_networks answers."""

    # Newest first
    items: List[Network]
    # Where the next answer goes on; null at the end
    next_cursor: Optional[str]


class RemoveNetworkResult(TypedDict):
    """What remove_network answers."""

    name: str


class LeaveNetworkResult(TypedDict):
    """What leave_network answers."""

    id: str
    network: str


class ExecInputResult(TypedDict):
    """What exec_input answers."""

    exec_id: str
    accepted_bytes: int


class ExecSignalResult(TypedDict):
    """What exec_signal answers."""

    exec_id: str


class RemoveFileResult(TypedDict):
    """What remove_file answers."""

    path: str


class ListFilesResult(TypedDict):
    """What list_files answers."""

    # By name; as of stat_file, with name instead of path, and name_base64 where that is no UTF-8
    items: List[DirectoryEntry]
    # Where the next answer goes on; null at the end
    next_cursor: Optional[str]


class WriteTreeResult(TypedDict):
    """What write_tree answers."""

    path: str
    # Files, directories and links that were unpacked
    entries: int
    # Of files
    bytes: int


class ListTerminalsResult(TypedDict):
    """What list_terminals answers."""

    # Oldest first: terminal_id, created_at, cols, rows, output_bytes, busy, attached
    items: List[Terminal]
    # Always null
    next_cursor: Optional[str]


class EndTerminalResult(TypedDict):
    """What end_terminal answers."""

    terminal_id: str


class _OpenSessionResultRequired(TypedDict):
    account_id: str
    # The key that it is worth
    key_id: str
    admin: bool


class OpenSessionResult(_OpenSessionResultRequired, total=False):
    """What open_session answers."""

    expires_at: str


class _GetSessionResultRequired(TypedDict):
    account_id: str
    # The key that it is worth
    key_id: str
    admin: bool


class GetSessionResult(_GetSessionResultRequired, total=False):
    """What get_session answers."""

    expires_at: str


class CloseSessionResult(TypedDict):
    """What close_session answers."""

    key_id: str


class ListImagesResult(TypedDict):
    """What list_images answers."""

    # Newest first
    items: List[Image]
    # Where the next answer goes on; null at the end
    next_cursor: Optional[str]


class RemoveImageResult(TypedDict):
    """What remove_image answers."""

    name: str


class ListKeysResult(TypedDict):
    """What list_keys answers."""

    # Newest first
    items: List[Key]
    # Where the next answer goes on; null at the end
    next_cursor: Optional[str]


class CreateAccountResult(TypedDict):
    """What create_account answers."""

    id: str
    name: str
    admin: bool
    created_at: str
    # Its first key, with its text: shown here and never again
    key: NewKey


class ListAccountsResult(TypedDict):
    """What list_accounts answers."""

    # Newest first
    items: List[Account]
    # Where the next answer goes on; null at the end
    next_cursor: Optional[str]


class PricesResult(TypedDict):
    """What prices answers."""

    # All amounts are whole micro-credits
    microcredits_per_credit: int
    # Of one vCPU
    vcpu_microcredits_per_second: int
    # Of one GiB
    memory_gb_microcredits_per_second: int
    # Of one GiB
    disk_gb_microcredits_per_second: int
    # What each size costs, with its own price or that of its parts
    sizes: List[SizePrice]
    # Of running are kept aside for what is about to run
    hold_seconds: int
    # Of a new account
    starting_credits: int


class GetUsageResult(TypedDict):
    """What get_usage answers."""

    account_id: str
    # Its balance may be below zero
    unlimited: bool
    granted_microcredits: int
    charged_microcredits: int
    # Granted less charged
    balance_microcredits: int
    # What runs has cost since it was charged last
    uncharged_microcredits: int
    # Kept aside beside that
    held_microcredits: int
    # The balance less both
    available_microcredits: int
    # Sandboxes that run
    running: int
    # What they cost
    microcredits_per_second: int
    # At this rate; null: it does not end
    seconds_to_zero: Optional[int]
    zero_at: Optional[str]
    # day (UTC), microcredits, running_seconds; newest first
    by_day: List[UsageOfDay]
    # key_id, label and the same
    by_key: List[UsageOfKey]
    # sandbox_id, name and the same
    by_sandbox: List[UsageOfSandbox]


class ListLedgerResult(TypedDict):
    """What list_ledger answers."""

    # Newest first
    items: List[LedgerEntry]
    # Where the next answer goes on; null at the end
    next_cursor: Optional[str]


class CheckLedgerResult(TypedDict):
    """What check_ledger answers."""

    # Everything that must hold does
    ok: bool
    accounts: int
    entries: int
    # Runs of sandboxes that were charged
    runs: int
    # Of all accounts
    granted_microcredits: int
    charged_microcredits: int
    balance_microcredits: int
    # How many things are wrong
    findings: int
    first_finding: Optional[str]


class GrantCreditResult(TypedDict):
    """What grant_credit answers."""

    # Of the entry in the account's ledger
    id: int
    at: str
    kind: str
    # What it was taken from
    debit: str
    # What it was given to: the account
    credit: str
    microcredits: int
    reference: Optional[str]
    note: Optional[str]


class Operation(NamedTuple):
    """One route. Arguments that are neither in the path nor in the query go into the body."""

    method: str
    path: str
    query: Tuple[str, ...]
    args: Tuple[str, ...]
    idempotent: bool  # asking again does nothing twice


OPERATIONS: Dict[str, Operation] = {
    "list_sandboxes": Operation(
        "GET",
        "/v1/sandboxes",
        ("status", "label", "image", "cursor", "limit"),
        ("status", "label", "image", "cursor", "limit"),
        True,
    ),
    "create_sandbox": Operation(
        "POST",
        "/v1/sandboxes",
        (),
        ("size", "timeout_minutes", "image", "name", "labels", "snapshot", "egress", "networks", "on_timeout", "idle_pause_minutes", "vcpus", "memory_mb", "disk_gb"),
        False,
    ),
    "exec": Operation(
        "POST",
        "/v1/sandboxes/{id}/exec",
        (),
        ("id", "command", "timeout_ms", "cwd", "env", "stdin", "stdin_base64", "stdin_open", "user", "background", "max_output_bytes", "encoding"),
        False,
    ),
    "list_execs": Operation(
        "GET",
        "/v1/sandboxes/{id}/exec",
        (),
        ("id",),
        True,
    ),
    "exec_wait": Operation(
        "GET",
        "/v1/sandboxes/{id}/exec/{exec_id}",
        ("wait_ms", "from_offset", "from_stderr_offset", "max_output_bytes", "encoding"),
        ("id", "exec_id", "wait_ms", "from_offset", "from_stderr_offset", "max_output_bytes", "encoding"),
        False,
    ),
    "extend_sandbox": Operation(
        "POST",
        "/v1/sandboxes/{id}/extend",
        (),
        ("id", "additional_minutes"),
        False,
    ),
    "destroy_sandbox": Operation(
        "DELETE",
        "/v1/sandboxes/{id}",
        (),
        ("id",),
        True,
    ),
    "get_sandbox": Operation(
        "GET",
        "/v1/sandboxes/{id}",
        (),
        ("id",),
        True,
    ),
    "pause_sandbox": Operation(
        "POST",
        "/v1/sandboxes/{id}/pause",
        (),
        ("id",),
        True,
    ),
    "resume_sandbox": Operation(
        "POST",
        "/v1/sandboxes/{id}/resume",
        (),
        ("id",),
        True,
    ),
    "fork_sandbox": Operation(
        "POST",
        "/v1/sandboxes/{id}/fork",
        (),
        ("id", "count", "name", "timeout_minutes", "labels"),
        False,
    ),
    "set_egress": Operation(
        "PUT",
        "/v1/sandboxes/{id}/egress",
        (),
        ("id", "rules"),
        True,
    ),
    "get_egress": Operation(
        "GET",
        "/v1/sandboxes/{id}/egress",
        (),
        ("id",),
        True,
    ),
    "change_egress": Operation(
        "POST",
        "/v1/sandboxes/{id}/egress",
        (),
        ("id", "add", "remove"),
        False,
    ),
    "expose_port": Operation(
        "POST",
        "/v1/sandboxes/{id}/expose",
        (),
        ("id", "port", "ttl_minutes"),
        False,
    ),
    "create_snapshot": Operation(
        "POST",
        "/v1/sandboxes/{id}/snapshots",
        (),
        ("id", "name"),
        False,
    ),
    "list_snapshots": Operation(
        "GET",
        "/v1/snapshots",
        (),
        (),
        True,
    ),
    "remove_snapshot": Operation(
        "DELETE",
        "/v1/snapshots/{name}",
        (),
        ("name",),
        False,
    ),
    "list_denials": Operation(
        "GET",
        "/v1/sandboxes/{id}/egress/denials",
        (),
        ("id",),
        True,
    ),
    "list_events": Operation(
        "GET",
        "/v1/events",
        ("cursor", "sandbox_id", "type", "newest", "limit"),
        ("cursor", "sandbox_id", "type", "newest", "limit"),
        True,
    ),
    "get_stats": Operation(
        "GET",
        "/v1/sandboxes/{id}/stats",
        (),
        ("id",),
        True,
    ),
    "list_audit": Operation(
        "GET",
        "/v1/audit",
        ("sandbox_id", "key_id", "account_id", "operation", "request_id", "result", "cursor", "before", "newest", "limit"),
        ("sandbox_id", "key_id", "account_id", "operation", "request_id", "result", "cursor", "before", "newest", "limit"),
        True,
    ),
    "export_audit": Operation(
        "GET",
        "/v1/audit/export",
        ("cursor",),
        ("cursor",),
        True,
    ),
    "verify_audit": Operation(
        "GET",
        "/v1/audit/verify",
        (),
        (),
        True,
    ),
    "metrics": Operation(
        "GET",
        "/metrics",
        (),
        (),
        True,
    ),
    "create_network": Operation(
        "POST",
        "/v1/networks",
        (),
        ("name",),
        False,
    ),
    "list_networks": Operation(
        "GET",
        "/v1/networks",
        (),
        (),
        True,
    ),
    "remove_network": Operation(
        "DELETE",
        "/v1/networks/{name}",
        (),
        ("name",),
        False,
    ),
    "join_network": Operation(
        "PUT",
        "/v1/networks/{name}/members/{id}",
        (),
        ("name", "id", "as"),
        True,
    ),
    "leave_network": Operation(
        "DELETE",
        "/v1/networks/{name}/members/{id}",
        (),
        ("name", "id"),
        True,
    ),
    "exec_input": Operation(
        "POST",
        "/v1/sandboxes/{id}/exec/{exec_id}/input",
        (),
        ("id", "exec_id", "data", "data_base64", "close"),
        False,
    ),
    "exec_signal": Operation(
        "POST",
        "/v1/sandboxes/{id}/exec/{exec_id}/signal",
        (),
        ("id", "exec_id", "signal"),
        False,
    ),
    "read_file": Operation(
        "GET",
        "/v1/sandboxes/{id}/files",
        ("path", "user"),
        ("id", "path", "user"),
        True,
    ),
    "write_file": Operation(
        "PUT",
        "/v1/sandboxes/{id}/files",
        ("path", "user", "mode", "parents", "overwrite"),
        ("id", "path", "user", "mode", "parents", "overwrite"),
        True,
    ),
    "remove_file": Operation(
        "DELETE",
        "/v1/sandboxes/{id}/files",
        ("path", "user", "recursive"),
        ("id", "path", "user", "recursive"),
        False,
    ),
    "list_files": Operation(
        "GET",
        "/v1/sandboxes/{id}/files/list",
        ("path", "user", "cursor", "limit"),
        ("id", "path", "user", "cursor", "limit"),
        True,
    ),
    "stat_file": Operation(
        "GET",
        "/v1/sandboxes/{id}/files/stat",
        ("path", "user"),
        ("id", "path", "user"),
        True,
    ),
    "make_directory": Operation(
        "POST",
        "/v1/sandboxes/{id}/files/mkdir",
        (),
        ("id", "path", "user", "mode", "parents"),
        False,
    ),
    "move_file": Operation(
        "POST",
        "/v1/sandboxes/{id}/files/move",
        (),
        ("id", "from", "to", "user", "parents", "overwrite"),
        False,
    ),
    "read_tree": Operation(
        "GET",
        "/v1/sandboxes/{id}/tree",
        ("path", "user"),
        ("id", "path", "user"),
        True,
    ),
    "write_tree": Operation(
        "PUT",
        "/v1/sandboxes/{id}/tree",
        ("path", "user", "parents", "owners"),
        ("id", "path", "user", "parents", "owners"),
        True,
    ),
    "open_terminal": Operation(
        "GET",
        "/v1/sandboxes/{id}/terminal",
        ("terminal_id", "from_offset", "cols", "rows", "command", "user", "cwd", "term"),
        ("id", "terminal_id", "from_offset", "cols", "rows", "command", "user", "cwd", "term"),
        False,
    ),
    "list_terminals": Operation(
        "GET",
        "/v1/sandboxes/{id}/terminals",
        (),
        ("id",),
        True,
    ),
    "end_terminal": Operation(
        "DELETE",
        "/v1/sandboxes/{id}/terminals/{terminal_id}",
        (),
        ("id", "terminal_id"),
        False,
    ),
    "open_session": Operation(
        "POST",
        "/v1/session",
        (),
        (),
        False,
    ),
    "get_session": Operation(
        "GET",
        "/v1/session",
        (),
        (),
        True,
    ),
    "close_session": Operation(
        "DELETE",
        "/v1/session",
        (),
        (),
        True,
    ),
    "list_images": Operation(
        "GET",
        "/v1/images",
        (),
        (),
        True,
    ),
    "build_image": Operation(
        "POST",
        "/v1/images",
        (),
        ("name", "rebuild"),
        True,
    ),
    "import_image": Operation(
        "POST",
        "/v1/images/import",
        (),
        ("source", "name", "replace", "tls_verify"),
        False,
    ),
    "remove_image": Operation(
        "DELETE",
        "/v1/images/{name}",
        (),
        ("name",),
        False,
    ),
    "create_key": Operation(
        "POST",
        "/v1/keys",
        (),
        ("label", "scopes", "ttl_minutes", "admin", "account_id"),
        False,
    ),
    "list_keys": Operation(
        "GET",
        "/v1/keys",
        ("status", "account_id", "cursor", "limit"),
        ("status", "account_id", "cursor", "limit"),
        True,
    ),
    "rotate_key": Operation(
        "POST",
        "/v1/keys/{id}/rotate",
        (),
        ("id", "overlap_seconds", "account_id"),
        False,
    ),
    "revoke_key": Operation(
        "DELETE",
        "/v1/keys/{id}",
        ("account_id",),
        ("id", "account_id"),
        True,
    ),
    "create_account": Operation(
        "POST",
        "/v1/accounts",
        (),
        ("name", "admin"),
        False,
    ),
    "list_accounts": Operation(
        "GET",
        "/v1/accounts",
        ("cursor", "limit"),
        ("cursor", "limit"),
        True,
    ),
    "limits": Operation(
        "GET",
        "/v1/limits",
        (),
        (),
        True,
    ),
    "prices": Operation(
        "GET",
        "/v1/prices",
        (),
        (),
        True,
    ),
    "get_usage": Operation(
        "GET",
        "/v1/usage",
        ("account_id", "days", "limit"),
        ("account_id", "days", "limit"),
        True,
    ),
    "list_ledger": Operation(
        "GET",
        "/v1/ledger",
        ("account_id", "cursor", "limit"),
        ("account_id", "cursor", "limit"),
        True,
    ),
    "check_ledger": Operation(
        "GET",
        "/v1/ledger/check",
        (),
        (),
        True,
    ),
    "grant_credit": Operation(
        "POST",
        "/v1/accounts/{id}/grants",
        (),
        ("id", "credits", "reference", "note"),
        False,
    ),
    "doctor": Operation(
        "GET",
        "/v1/doctor",
        (),
        (),
        True,
    ),
}
