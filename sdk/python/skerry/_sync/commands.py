# Made of ../_async by unasync.py: do not edit.
"""Commands: run to their end, or started and held by a handle."""

from __future__ import annotations

import base64
import time
from typing import Any, Generator, Callable, Dict, NamedTuple, Optional, Union, cast

from .._errors import ApiError, CommandError, ConnectionLostError, SkerryError, api_error
from .._net import sleep
from .._output import STREAMS, Collector, CommandResult, OutputChunk, OutputGap, Position
from .._retry import back_off, is_passing
from .._sse import parse_data
from .._types import ExecResult
from .transport import Response, Transport

EVENT_STREAM = {"Accept": "text/event-stream"}
OUTPUT_BYTES = 1 << 20
INPUT_PIECE = 256 << 10  # what a request carries: the server caps its body
INPUT_PAUSE_SECONDS = 0.2

OnOutput = Callable[[str], None]
OnGap = Callable[[OutputGap], None]


class _Exit(NamedTuple):
    result: ExecResult


FollowEvent = Union[OutputChunk, OutputGap, _Exit]


def follow(
    transport: Transport,
    sandbox_id: str,
    position: Position,
    first: Optional[Response] = None,
) -> Generator[FollowEvent, None, None]:
    """What is new of a command until it has ended, and at last how it ended; over lost connections."""
    lost_since: Optional[float] = None
    attempt = 0
    while True:
        try:
            response = first or _resume(transport, sandbox_id, position)
            first = None
            events = response.events(transport.silence)
            try:
                for event in events:
                    attempt, lost_since = 0, None
                    if event.event == "exit":
                        yield _Exit(cast(ExecResult, parse_data(event)))
                        return
                    if event.event == "error":
                        problem = parse_data(event)
                        status = problem.get("status")
                        raise api_error(problem, status if isinstance(status, int) else 500)
                    for new in position.take(event):
                        yield new
            finally:
                events.close()
            raise ConnectionLostError("the stream ended before the command")
        except SkerryError as error:
            now = time.monotonic()
            lost_since = now if lost_since is None else lost_since
            over = now - lost_since > transport.reconnect
            if not is_passing(error) or not position.exec_id or over:
                if isinstance(error, ConnectionLostError):
                    raise _lost(error, position) from error
                raise
        sleep(back_off(attempt))
        attempt += 1


def _lost(error: ConnectionLostError, position: Position) -> ConnectionLostError:
    what = f"command {position.exec_id} goes on" if position.exec_id else "the command may have been started"
    return ConnectionLostError(f"{error}; {what}", position.exec_id)


def _resume(transport: Transport, sandbox_id: str, position: Position) -> Response:
    args = {
        "id": sandbox_id,
        "exec_id": position.exec_id,
        "from_offset": position.offsets["stdout"],
        "from_stderr_offset": position.offsets["stderr"],
    }
    return transport.send("exec_wait", args, headers=EVENT_STREAM, once=True)


def exec_args(sandbox_id: str, command: str, stdin: Union[str, bytes, None], **more: Any) -> Dict[str, Any]:
    args = {key: value for key, value in more.items() if value is not None}
    if isinstance(stdin, str):
        args["stdin"] = stdin
    elif stdin is not None:
        args["stdin_base64"] = base64.b64encode(stdin).decode()
    return {**args, "id": sandbox_id, "command": command}


def run(
    transport: Transport,
    args: Dict[str, Any],
    max_output_bytes: int,
    on_stdout: Optional[OnOutput],
    on_stderr: Optional[OnOutput],
    on_gap: Optional[OnGap],
    check: bool,
) -> CommandResult:
    """Runs a command to its end."""
    first = transport.send("exec", args, headers=EVENT_STREAM)
    events = follow(transport, args["id"], Position(), first)
    return _collect(events, max_output_bytes, on_stdout, on_stderr, on_gap, check)


def _collect(
    events: Generator[FollowEvent, None, None],
    max_output_bytes: int,
    on_stdout: Optional[OnOutput],
    on_stderr: Optional[OnOutput],
    on_gap: Optional[OnGap],
    check: bool,
) -> CommandResult:
    kept = {stream: Collector(max_output_bytes) for stream in STREAMS}
    listeners = {"stdout": on_stdout, "stderr": on_stderr}
    try:
        for event in events:
            if isinstance(event, _Exit):
                return _checked(_result_of(event.result, kept), check)
            if isinstance(event, OutputGap):
                kept[event.stream].skip(event.end - event.start)
                if on_gap:
                    on_gap(event)
                continue
            kept[event.stream].add(event.data)
            listener = listeners[event.stream]
            if listener:
                listener(event.text)
        raise AssertionError("follow ends with an exit")
    finally:
        events.close()


def _result_of(ended: ExecResult, kept: Dict[str, Collector]) -> CommandResult:
    code = ended["exit_code"]
    return CommandResult(
        exec_id=ended["exec_id"],
        exit_code=-1 if code is None else code,
        stdout=kept["stdout"].text,
        stderr=kept["stderr"].text,
        stdout_raw=kept["stdout"].raw,
        stderr_raw=kept["stderr"].raw,
        signal=ended["signal"],
        duration_ms=ended["duration_ms"],
        timed_out=ended["timed_out"],
        truncated=any(one.left_out for one in kept.values()),
        out_of_memory=ended["out_of_memory"],
        stdout_bytes=ended["stdout_bytes"],
        stderr_bytes=ended["stderr_bytes"],
        egress_denied=ended.get("egress_denied", []),
    )


def _checked(result: CommandResult, check: bool) -> CommandResult:
    if check and result.exit_code != 0:
        raise CommandError(result)
    return result


class Command:
    """A command that runs, or has run, in a sandbox."""

    def __init__(self, transport: Transport, sandbox_id: str, exec_id: str) -> None:
        self._transport = transport
        self.sandbox_id, self.exec_id = sandbox_id, exec_id

    def _args(self, **more: Any) -> Dict[str, Any]:
        return {"id": self.sandbox_id, "exec_id": self.exec_id, **more}

    def wait(
        self,
        *,
        max_output_bytes: int = OUTPUT_BYTES,
        on_stdout: Optional[OnOutput] = None,
        on_stderr: Optional[OnOutput] = None,
        on_gap: Optional[OnGap] = None,
        check: bool = False,
    ) -> CommandResult:
        """Waits for its end; callbacks and the result get all of its output, from the first byte on."""
        events = follow(self._transport, self.sandbox_id, Position(self.exec_id))
        return _collect(events, max_output_bytes, on_stdout, on_stderr, on_gap, check)

    def output(self, *, stdout: int = 0, stderr: int = 0) -> Generator[OutputChunk, None, None]:
        """Its output as it comes, from the given bytes on; ends with the command."""
        position = Position(self.exec_id, stdout, stderr)
        events = follow(self._transport, self.sandbox_id, position)
        try:
            for event in events:
                if isinstance(event, OutputChunk):
                    yield event
        finally:
            events.close()

    def poll(self, *, wait_ms: int = 0) -> ExecResult:
        """How it stands: running, and its exit code once it has ended."""
        args = self._args(wait_ms=wait_ms, max_output_bytes=1)
        return cast(ExecResult, self._transport.call("exec_wait", args))

    def write(self, data: Union[str, bytes]) -> None:
        """Writes to its stdin, which it was started with stdin_open=True for; waits while it does not
        read."""
        whole = data.encode() if isinstance(data, str) else data
        for at in range(0, len(whole), INPUT_PIECE):
            piece = base64.b64encode(whole[at : at + INPUT_PIECE]).decode()
            self._feed(data_base64=piece)

    def close_stdin(self) -> None:
        self._feed(close=True)

    def _feed(self, **what: Any) -> None:
        while True:
            try:
                self._transport.call("exec_input", self._args(**what), once=True)
                return
            except ApiError as error:
                if error.code not in ("input_full", "rate_limited"):
                    raise
            sleep(INPUT_PAUSE_SECONDS)

    def signal(self, name: str) -> None:
        """Sends a signal (SIGINT, SIGTERM …) to all of its processes."""
        self._transport.call("exec_signal", self._args(signal=name))

    def kill(self) -> None:
        """Ends it and all that it started."""
        self.signal("SIGKILL")


