"""A shell in a terminal of its own, which outlives the connections to it.

Output has offsets: a connection that was lost is taken up again at the next byte. Of the input, the
server says when it is joined how much had arrived; what had not is sent again.

The connection is served while output is read: a program that only writes should read from time to
time, or the server takes it for gone.
"""

from __future__ import annotations

import json
import time
from typing import Any, AsyncGenerator, Callable, Dict, NamedTuple, Optional, Union

from .._errors import ApiError, ConnectionLostError, ProtocolError, SkerryError, api_error
from .._frames import BINARY, TEXT
from .._net import async_sleep
from .._retry import back_off, is_passing
from .socket import AsyncSocket
from .transport import AsyncTransport, locate

PROTOCOL = "skerry.terminal"
ERROR, TAKEN_OVER, ENDED = 4000, 4001, 4002
MISUNDERSTOOD = (1002, 1007, 1009)
UNSENT_BYTES = 256 << 10  # input that is kept to be sent again


class TerminalExit(NamedTuple):
    """How what ran in a terminal ended."""

    exit_code: int
    signal: Optional[str]
    out_of_memory: bool
    output_bytes: int
    duration_ms: int


class AsyncTerminal:
    """Use sandbox.terminal()."""

    def __init__(
        self,
        transport: AsyncTransport,
        sandbox_id: str,
        args: Dict[str, Any],
        on_gap: Optional[Callable[[int, int], None]] = None,
        on_pause: Optional[Callable[[bool], None]] = None,
        reconnect: bool = True,
    ) -> None:
        self._transport, self._sandbox_id, self._args = transport, sandbox_id, args
        self._on_gap, self._on_pause, self._reconnects = on_gap, on_pause, reconnect
        self._socket: Optional[AsyncSocket] = None
        self._complaint: Optional[ApiError] = None  # what the server said last
        self._sent = bytearray()  # the newest input
        self._sent_total = 0  # bytes that the terminal was given, as far as this end knows
        self._left = False
        self.id = ""
        """For terminal_id, to join it later or from elsewhere."""
        self.offset = 0
        """Of the next byte of output."""
        self.exit: Optional[TerminalExit] = None
        """How it ended, once it has."""

    async def open(self) -> AsyncTerminal:
        await self._connect(self._args)
        return self

    async def _connect(self, args: Dict[str, Any]) -> None:
        target, _ = locate("open_terminal", {**args, "id": self._sandbox_id})
        socket = await AsyncSocket.open(self._transport, target, PROTOCOL)
        try:
            ready = await self._ready(socket)
            arrived = int(ready["input_bytes"])
            if not self.id:
                self._sent_total = arrived
            self.id, self.offset = str(ready["terminal_id"]), int(ready["offset"])
            missing = max(0, self._sent_total - arrived)
            if missing > len(self._sent):
                raise SkerryError(f"{missing} bytes of input were lost with the connection")
            if missing:
                await socket.send(BINARY, bytes(self._sent[-missing:]))
        except BaseException:
            socket.close()
            raise
        self._socket = socket

    async def _ready(self, socket: AsyncSocket) -> Dict[str, Any]:
        while True:
            try:
                message = await socket.receive(self._transport.silence)
            except TimeoutError:
                raise ConnectionLostError("the server does not say that the terminal is ready") from None
            if message is None:
                raise self._reason(socket.code)
            value = json.loads(message.payload) if message.opcode == TEXT else {}
            if value.get("type") == "ready":
                return dict(value)
            self._control(value)

    def _reason(self, code: Optional[int]) -> SkerryError:
        if self._left:
            return SkerryError("the terminal was left")
        if code == TAKEN_OVER:
            return SkerryError("somebody else has taken the terminal over")
        if code in (ERROR, ENDED):
            return self._complaint or SkerryError("the sandbox has ended")
        if code in MISUNDERSTOOD:
            return ProtocolError(f"the server did not understand this client ({code})")
        return ConnectionLostError(f"the terminal's connection was closed ({code})")

    def _control(self, message: Dict[str, Any]) -> None:
        kind = message.get("type")
        if kind == "gap":
            self.offset = int(message["to"])
            if self._on_gap:
                self._on_gap(int(message["from"]), self.offset)
        elif kind in ("paused", "resumed"):
            if self._on_pause:
                self._on_pause(kind == "paused")
        elif kind == "exit":
            fields = {name: message.get(name) for name in TerminalExit._fields}
            self.exit = TerminalExit(**fields)  # type: ignore[arg-type]
        elif kind == "error":
            self._complaint = api_error(message, 0)

    async def read(self, timeout: Optional[float] = None) -> bytes:
        """Some bytes of output; none once it has ended. Raises TimeoutError when none came in time, which
        is no harm."""
        until = None if timeout is None else time.monotonic() + timeout
        while True:
            if self._socket is None:
                if self.exit or self._left:
                    return b""
                await self._take_up(until)
            assert self._socket
            left = None if until is None else max(0.001, until - time.monotonic())
            message = await self._socket.receive(left)
            if message is None:
                self._closed(self._socket.code)
            elif message.opcode == TEXT:
                self._control(json.loads(message.payload))
            elif message.payload:
                self.offset += len(message.payload)
                return message.payload

    def _closed(self, code: Optional[int]) -> None:
        self._socket = None
        if self.exit or self._left:
            return
        reason = self._reason(code)
        if not is_passing(reason) or not self._reconnects:
            raise reason

    async def _take_up(self, until: Optional[float]) -> None:
        """A lost connection."""
        give_up = time.monotonic() + self._transport.reconnect
        attempt = 0
        while True:
            if until is not None and time.monotonic() > until:
                raise TimeoutError()
            try:
                await async_sleep(back_off(attempt))
                await self._connect({"terminal_id": self.id, "from_offset": self.offset})
                return
            except SkerryError as error:
                if not is_passing(error) or time.monotonic() > give_up:
                    raise
            attempt += 1

    async def read_until(self, text: Union[str, bytes], timeout: float = 60.0) -> bytes:
        """Output up to the first that contains the text."""
        wanted = text.encode() if isinstance(text, str) else text
        found = bytearray()
        until = time.monotonic() + timeout
        while wanted not in found:
            data = await self.read(max(0.001, until - time.monotonic()))
            if not data:
                raise SkerryError(f"the terminal has ended before {text!r}")
            found += data
        return bytes(found)

    def __aiter__(self) -> AsyncGenerator[bytes, None]:
        return self._output()

    async def _output(self) -> AsyncGenerator[bytes, None]:
        while True:
            data = await self.read()
            if not data:
                return
            yield data

    async def wait(self) -> TerminalExit:
        """Reads what is left of the output, and answers how it ended."""
        while await self.read():
            pass
        if self.exit is None:
            raise SkerryError("the terminal was left")
        return self.exit

    async def write(self, data: Union[str, bytes]) -> None:
        """Sends keys."""
        keys = data.encode() if isinstance(data, str) else data
        if self.exit or self._left:
            raise SkerryError("the terminal is not connected any more")
        self._sent += keys
        self._sent_total += len(keys)
        del self._sent[:-UNSENT_BYTES]
        await self._send(BINARY, keys)

    async def resize(self, cols: int, rows: int) -> None:
        await self._send(TEXT, json.dumps({"type": "resize", "cols": cols, "rows": rows}).encode())

    async def _send(self, opcode: int, payload: bytes) -> None:
        try:
            if self._socket:
                await self._socket.send(opcode, payload)
        except ConnectionLostError:
            pass  # read finds the connection closed, and sends again what did not arrive

    async def leave(self) -> None:
        """Lets go of it; what runs in it goes on."""
        self._left = True
        socket, self._socket = self._socket, None
        if socket:
            await socket.say_goodbye()

    async def end(self) -> None:
        """Ends it and all that runs in it."""
        args = {"id": self._sandbox_id, "terminal_id": self.id}
        self._left = True
        await self._transport.call("end_terminal", args)
        await self.leave()

    async def __aenter__(self) -> AsyncTerminal:
        return self

    async def __aexit__(self, *unused: object) -> None:
        await self.leave()
