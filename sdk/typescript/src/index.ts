/** Client of Skerry: microVM sandboxes with commands, files, terminals, snapshots and forks. */

import './dispose.js';

export { Skerry, type BuildOptions, type CreateOptions } from './client.js';
export { Command, type CommandResult, type RunOptions, type Signal, type StartOptions, type WatchOptions } from './command.js';
export {
	ApiError, CommandError, ConflictError, ConnectionError, DeniedError, LimitError, NotFoundError, ProtocolError,
	SandboxEndedError, SkerryError,
} from './errors.js';
export type { FollowEventsOptions } from './events.js';
export { Files, type FileData, type UserOptions } from './files.js';
export type { OutputChunk, OutputGap, StreamName } from './output.js';
export { type Fork, Sandbox, type SandboxInfo } from './sandbox.js';
export { Terminal, type TerminalExit, type TerminalOptions } from './terminal.js';
export type { CallOptions, ClientOptions } from './transport.js';
export type * as types from './types.js';
