"""What can go wrong. The server says it as a problem document (RFC 9457), whose code is stable."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Optional, Type

if TYPE_CHECKING:
    from ._output import CommandResult


class SkerryError(Exception):
    """Every error of this package."""


class ApiError(SkerryError):
    """The server refused, or failed."""

    def __init__(self, problem: Any, status: int) -> None:
        texts = {}
        if isinstance(problem, dict):
            texts = {key: value for key, value in problem.items() if isinstance(value, str)}
        self.code: str = texts.get("code", f"http_{status}")
        """Stable, for programs: not_found, quota_reached, …"""
        self.status = status
        self.detail: str = texts.get("detail", f"the server answered with status {status}")
        """What failed and why."""
        self.hint: Optional[str] = texts.get("hint")
        """What to do next, where the server knows."""
        self.request_id: Optional[str] = texts.get("request_id")
        """The server's log has more under it."""
        super().__init__(f"{self.detail} ({self.hint})" if self.hint else self.detail)


class DeniedError(ApiError):
    """The key is missing or wrong, or may not do this."""


class NotFoundError(ApiError):
    """There is no such sandbox, file, command, snapshot …"""


class ConflictError(ApiError):
    """What was asked for does not fit what is there."""


class SandboxEndedError(ApiError):
    """The sandbox has ended; detail has the reason."""


class LimitError(ApiError):
    """A limit, a quota or the credit is reached."""


class ConnectionLostError(SkerryError):
    """The server could not be reached, or the connection broke. What was asked may have been done."""

    def __init__(self, message: str, exec_id: Optional[str] = None) -> None:
        super().__init__(message)
        self.exec_id = exec_id
        """Of a command that goes on: sandbox.command(exec_id) picks it up."""


class ProtocolError(SkerryError):
    """The answer is none of Skerry's: something else is listening there."""


class CommandError(SkerryError):
    """With check=True: the command's exit code is not 0."""

    def __init__(self, result: CommandResult) -> None:
        lines = result.stderr.rstrip().split("\n")
        last = f": {lines[-1]}" if lines[-1] else ""
        super().__init__(f"the command ended with exit code {result.exit_code}{last}")
        self.result = result


def _class_of(code: Any, status: int) -> Type[ApiError]:
    if code in ("sandbox_ended", "already_ended"):
        return SandboxEndedError
    if status in (402, 429) or code == "limit_reached":
        return LimitError
    if status in (401, 403):
        return DeniedError
    if status == 404:
        return NotFoundError
    return ConflictError if status == 409 else ApiError


def api_error(problem: Any, status: int) -> ApiError:
    """The error for what a server answered: a problem document, or anything at all."""
    code = problem.get("code") if isinstance(problem, dict) else None
    return _class_of(code, status)(problem, status)
