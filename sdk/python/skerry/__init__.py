"""Client of Skerry: microVM sandboxes with commands, files, terminals, snapshots and forks."""

from ._async.client import AsyncSkerry
from ._async.commands import AsyncCommand
from ._async.files import AsyncFiles
from ._async.sandbox import AsyncFork, AsyncSandbox
from ._async.terminal import AsyncTerminal
from ._errors import (
    ApiError,
    CommandError,
    ConflictError,
    ConnectionLostError,
    DeniedError,
    LimitError,
    NotFoundError,
    ProtocolError,
    SandboxEndedError,
    SkerryError,
)
from ._output import CommandResult, OutputChunk, OutputGap
from ._sync.client import Skerry
from ._sync.commands import Command
from ._sync.files import Files
from ._sync.sandbox import Fork, Sandbox
from ._sync.terminal import Terminal, TerminalExit
from . import _types as types

__all__ = [
    "ApiError", "AsyncCommand", "AsyncFiles", "AsyncFork", "AsyncSandbox", "AsyncSkerry", "AsyncTerminal",
    "Command", "CommandError", "CommandResult", "ConflictError", "ConnectionLostError", "DeniedError",
    "Files", "Fork", "LimitError", "NotFoundError", "OutputChunk", "OutputGap", "ProtocolError", "Sandbox",
    "SandboxEndedError", "Skerry", "SkerryError", "Terminal", "TerminalExit", "types",
]  # fmt: skip
