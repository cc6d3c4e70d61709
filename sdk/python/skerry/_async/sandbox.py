"""A sandbox: a microVM with its own kernel, disk and address."""

from __future__ import annotations

from typing import Any, AsyncGenerator, Callable, Dict, List, NamedTuple, Optional, Union, cast

from .._errors import NotFoundError, SandboxEndedError
from .._output import CommandResult
from .._types import (
    Denial,
    Event,
    EventGap,
    ExposePortResult,
    ForkReport,
    GetStatsResult,
    NetworkMembership,
    Snapshot,
)
from .._types import Command as CommandInfo
from .._types import Sandbox as SandboxInfo
from .._types import Terminal as TerminalInfo
from .commands import OUTPUT_BYTES, AsyncCommand, OnGap, OnOutput, exec_args, run
from .events import follow_events
from .files import AsyncFiles
from .terminal import AsyncTerminal
from .transport import AsyncTransport


class AsyncFork(NamedTuple):
    sandboxes: List[AsyncSandbox]
    report: ForkReport
    """What was made distinct, and what cannot be."""


class AsyncSandbox:
    """Use client.create(), client.attach() or client.sandboxes()."""

    def __init__(self, transport: AsyncTransport, info: SandboxInfo) -> None:
        self._transport = transport
        self.id = info["id"]
        self.info = info
        """As the server described it last; refresh() asks again."""
        self.files = AsyncFiles(transport, self.id)

    async def _call(self, operation: str, /, **args: Any) -> Dict[str, Any]:
        given = {key: value for key, value in args.items() if value is not None}
        return await self._transport.call(operation, {**given, "id": self.id})

    async def _describe(self, name: str) -> SandboxInfo:
        self.info = cast(SandboxInfo, await self._call(name))
        return self.info

    # ---- commands ----

    async def exec(
        self,
        command: str,
        *,
        timeout_ms: Optional[int] = None,
        cwd: Optional[str] = None,
        env: Optional[Dict[str, str]] = None,
        stdin: Union[str, bytes, None] = None,
        stdin_open: Optional[bool] = None,
        user: Optional[str] = None,
        max_output_bytes: int = OUTPUT_BYTES,
        on_stdout: Optional[OnOutput] = None,
        on_stderr: Optional[OnOutput] = None,
        on_gap: Optional[OnGap] = None,
        check: bool = False,
    ) -> CommandResult:
        """Runs a shell command to its end. A connection that is lost meanwhile is taken up again.

        Of each stream max_output_bytes are kept for the result: more loses its middle. With check an
        exit code that is not 0 raises CommandError.
        """
        args = exec_args(
            self.id, command, stdin,
            timeout_ms=timeout_ms, cwd=cwd, env=env, stdin_open=stdin_open, user=user,
        )  # fmt: skip
        return await run(
            self._transport, args, max_output_bytes, on_stdout, on_stderr, on_gap, check
        )

    async def start(
        self,
        command: str,
        *,
        timeout_ms: Optional[int] = None,
        cwd: Optional[str] = None,
        env: Optional[Dict[str, str]] = None,
        stdin: Union[str, bytes, None] = None,
        stdin_open: Optional[bool] = None,
        user: Optional[str] = None,
    ) -> AsyncCommand:
        """Starts a command that goes on by itself."""
        args = exec_args(
            self.id, command, stdin,
            timeout_ms=timeout_ms, cwd=cwd, env=env, stdin_open=stdin_open, user=user, background=True,
        )  # fmt: skip
        answer = await self._transport.call("exec", args)
        return AsyncCommand(self._transport, self.id, answer["exec_id"])

    def command(self, exec_id: str) -> AsyncCommand:
        """A command that was started before, by its id."""
        return AsyncCommand(self._transport, self.id, exec_id)

    async def commands(self) -> List[CommandInfo]:
        """The commands that run, then those that have ended, newest first."""
        return cast(List[CommandInfo], (await self._call("list_execs"))["items"])

    async def terminal(
        self,
        *,
        cols: Optional[int] = None,
        rows: Optional[int] = None,
        command: Optional[str] = None,
        user: Optional[str] = None,
        cwd: Optional[str] = None,
        term: Optional[str] = None,
        terminal_id: Optional[str] = None,
        from_offset: Optional[int] = None,
        on_gap: Optional[Callable[[int, int], None]] = None,
        on_pause: Optional[Callable[[bool], None]] = None,
        reconnect: bool = True,
    ) -> AsyncTerminal:
        """Opens a terminal, or joins one (terminal_id)."""
        given = {
            "cols": cols, "rows": rows, "command": command, "user": user, "cwd": cwd, "term": term,
            "terminal_id": terminal_id, "from_offset": from_offset,
        }  # fmt: skip
        args = {key: value for key, value in given.items() if value is not None}
        terminal = AsyncTerminal(self._transport, self.id, args, on_gap, on_pause, reconnect)
        return await terminal.open()

    async def terminals(self) -> List[TerminalInfo]:
        """The terminals that are open."""
        return cast(List[TerminalInfo], (await self._call("list_terminals"))["items"])

    # ---- its life ----

    async def refresh(self) -> SandboxInfo:
        return await self._describe("get_sandbox")

    async def stats(self) -> GetStatsResult:
        """What it took of processor and memory lately."""
        return cast(GetStatsResult, await self._call("get_stats"))

    async def extend(self, additional_minutes: int) -> str:
        """Moves its deadline; answers the new one."""
        answer = await self._call("extend_sandbox", additional_minutes=additional_minutes)
        self.info["expires_at"] = answer["expires_at"]
        return cast(str, answer["expires_at"])

    async def pause(self) -> SandboxInfo:
        """Saves it with its processes and stops its clock; the next use resumes it."""
        return await self._describe("pause_sandbox")

    async def resume(self) -> SandboxInfo:
        return await self._describe("resume_sandbox")

    async def fork(
        self,
        count: Optional[int] = None,
        *,
        name: Optional[str] = None,
        timeout_minutes: Optional[int] = None,
        labels: Optional[Dict[str, str]] = None,
    ) -> AsyncFork:
        """Copies it with its processes, memory and disk."""
        answer = await self._call(
            "fork_sandbox", count=count, name=name, timeout_minutes=timeout_minutes, labels=labels
        )
        children = [AsyncSandbox(self._transport, info) for info in answer["sandboxes"]]
        return AsyncFork(children, answer["fork_report"])

    async def snapshot(self, name: str) -> Snapshot:
        """Keeps its state under a name, to create others from."""
        return cast(Snapshot, await self._call("create_snapshot", name=name))

    async def destroy(self) -> None:
        """Ends it and deletes everything in it."""
        self.info["status"] = (await self._call("destroy_sandbox"))["status"]

    async def __aenter__(self) -> AsyncSandbox:
        return self

    async def __aexit__(self, *unused: object) -> None:
        try:
            await self.destroy()
        except (NotFoundError, SandboxEndedError):
            pass  # it has ended already

    # ---- what it reaches, and who reaches it ----

    async def egress(self) -> Optional[List[str]]:
        """None: the internet; []: nothing; else exactly this."""
        return cast(Optional[List[str]], (await self._call("get_egress"))["rules"])

    async def set_egress(self, rules: Optional[List[str]]) -> Optional[List[str]]:
        answer = await self._transport.call("set_egress", {"id": self.id, "rules": rules})
        return cast(Optional[List[str]], answer["rules"])

    async def change_egress(
        self, *, add: Optional[List[str]] = None, remove: Optional[List[str]] = None
    ) -> Optional[List[str]]:
        """Adds rules to its list, and takes others out."""
        answer = await self._call("change_egress", add=add, remove=remove)
        return cast(Optional[List[str]], answer["rules"])

    async def denials(self) -> List[Denial]:
        """What it tried to reach and was denied, with the rule that would allow each."""
        return cast(List[Denial], (await self._call("list_denials"))["items"])

    async def expose(self, port: int, *, ttl_minutes: Optional[int] = None) -> ExposePortResult:
        """A URL for a port of it: whoever has the URL reaches the port until it expires."""
        answer = await self._call("expose_port", port=port, ttl_minutes=ttl_minutes)
        return cast(ExposePortResult, answer)

    async def join(self, network: str, *, name: Optional[str] = None) -> NetworkMembership:
        """Makes it a member of a private network, there under a name."""
        answer = await self._call("join_network", name=network, **{"as": name})
        return cast(NetworkMembership, answer)

    async def leave(self, network: str) -> None:
        await self._call("leave_network", name=network)

    def events(
        self,
        *,
        cursor: Optional[int] = None,
        type: Optional[str] = None,
        on_ready: Optional[Callable[[int], None]] = None,
        on_gap: Optional[Callable[[EventGap], None]] = None,
    ) -> AsyncGenerator[Event, None]:
        """What happens to it, as it does."""
        return follow_events(
            self._transport,
            cursor=cursor, sandbox_id=self.id, type=type, on_ready=on_ready, on_gap=on_gap,
        )  # fmt: skip
