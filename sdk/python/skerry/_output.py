"""What commands print: chunks as they come, the collection of them, of bounded size, and where a view of
a command is."""

from __future__ import annotations

import base64
import binascii
from typing import Any, Dict, List, NamedTuple, Optional, Union

from ._errors import ProtocolError
from ._sse import ServerEvent, parse_data
from ._types import ExecDenial

STREAMS = ("stdout", "stderr")


class OutputChunk(NamedTuple):
    """A piece of what a command printed."""

    stream: str
    """stdout or stderr."""
    offset: int
    """Of its first byte in the whole of the stream."""
    data: bytes

    @property
    def text(self) -> str:
        return self.data.decode("utf-8", "replace")


class OutputGap(NamedTuple):
    """Bytes that the sandbox does not keep any more: the newest were kept, and the first ones."""

    stream: str
    start: int
    end: int


class CommandResult(NamedTuple):
    """How a command ended, and what it printed."""

    exec_id: str
    exit_code: int
    """124: timed out; 128 + n: ended by signal n."""
    stdout: str
    stderr: str
    stdout_raw: bytes
    stderr_raw: bytes
    signal: Optional[str]
    duration_ms: int
    timed_out: bool
    truncated: bool
    """Some of the output was left out."""
    out_of_memory: bool
    stdout_bytes: int
    stderr_bytes: int
    egress_denied: List[ExecDenial]
    """What was not reached while it ran, with the rule that would allow each."""


def _whole_prefix(data: bytes) -> bytes:
    """Without the beginning of a character whose end is not there."""
    for back in range(1, min(4, len(data)) + 1):
        first = data[-back]
        if first & 0xC0 == 0x80:
            continue
        wanted = 4 if first >= 0xF0 else 3 if first >= 0xE0 else 2 if first >= 0xC0 else 1
        return data if back >= wanted else data[:-back]
    return data


def _whole_suffix(data: bytes) -> bytes:
    """Without the end of a character whose beginning is not there."""
    start = 0
    while start < min(3, len(data)) and data[start] & 0xC0 == 0x80:
        start += 1
    return data[start:]


class Collector:
    """Keeps a stream whole up to a number of bytes; of a longer one its beginning and its end."""

    def __init__(self, max_bytes: int) -> None:
        self._head_max = (max_bytes + 1) // 2
        self._tail_max = max_bytes - self._head_max
        self._head = bytearray()
        self._tail = bytearray()
        self.left_out = 0  # bytes that are neither in the head nor in the tail

    def add(self, data: bytes) -> None:
        room = 0 if self.left_out else max(0, self._head_max - len(self._head))
        self._head += data[:room]
        self._tail += data[room:]
        self._trim(self._tail_max)

    def skip(self, count: int) -> None:
        """Bytes that never came; what was kept for the tail before them is not the end any more."""
        self._trim(0)
        self.left_out += count

    def _trim(self, most: int) -> None:
        excess = len(self._tail) - most
        if excess > 0:
            del self._tail[:excess]
            self.left_out += excess

    @property
    def raw(self) -> bytes:
        return bytes(self._head + self._tail)

    @property
    def text(self) -> str:
        if not self.left_out:
            return self.raw.decode("utf-8", "replace")
        head = _whole_prefix(bytes(self._head)).decode("utf-8", "replace")
        tail = _whole_suffix(bytes(self._tail)).decode("utf-8", "replace")
        return f"{head}\n… {self.left_out} bytes were left out …\n{tail}"


class Position:
    """Where a view of a command is.

    Each chunk has its offset. When a connection is lost, the next one asks for what follows the last
    byte that was taken, and what comes twice all the same is cut off here: nothing is lost, nothing is
    doubled.
    """

    def __init__(self, exec_id: Optional[str] = None, stdout: int = 0, stderr: int = 0) -> None:
        self.exec_id = exec_id
        self.offsets: Dict[str, int] = {"stdout": stdout, "stderr": stderr}

    def take(self, event: ServerEvent) -> List[Union[OutputChunk, OutputGap]]:
        """What of an event is new."""
        data = parse_data(event)
        if event.event == "started" and isinstance(data.get("exec_id"), str):
            self.exec_id = data["exec_id"]
        if event.event in STREAMS:
            return self._chunk(event.event, data)
        if event.event == "gap" and data.get("stream") in STREAMS:
            return self._skip_to(data["stream"], _offset(data.get("to"), event.event))
        return []

    def _skip_to(self, stream: str, to: int) -> List[Union[OutputChunk, OutputGap]]:
        start = self.offsets[stream]
        if to <= start:
            return []
        self.offsets[stream] = to
        return [OutputGap(stream, start, to)]

    def _chunk(self, stream: str, data: Dict[str, Any]) -> List[Union[OutputChunk, OutputGap]]:
        offset = _offset(data.get("offset"), stream)
        found = self._skip_to(stream, offset)
        at = self.offsets[stream]
        new = _bytes_of(data, stream)[at - offset :]
        if new:
            self.offsets[stream] = at + len(new)
            found.append(OutputChunk(stream, at, new))
        return found


def _offset(value: Any, what: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ProtocolError(f'event "{what}" has no offset')
    return value


def _bytes_of(data: Dict[str, Any], what: str) -> bytes:
    if isinstance(data.get("data"), str):
        return str(data["data"]).encode("utf-8", "surrogatepass")
    try:
        return base64.b64decode(data["data_base64"], validate=True)
    except (KeyError, TypeError, ValueError, binascii.Error):
        raise ProtocolError(f'event "{what}" carries no bytes') from None
