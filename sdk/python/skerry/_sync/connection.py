# Made of ../_async by unasync.py: do not edit.
"""HTTP/1.1 over one connection: requests with bodies of known or unknown length, answers as they come, and
the way to a WebSocket."""

from __future__ import annotations

import ssl
from typing import Any, Dict, Optional

from .._errors import ConnectionLostError, ProtocolError
from .._net import Stream, chunks

HEAD_BYTES_MAX = 64 << 10
LINE_BYTES_MAX = 1024
CONTINUE_SECONDS = 2.0  # as long as curl waits for a server that may not know of 100-continue
SMALL_BODY_BYTES = 64 << 10


class Head:
    def __init__(self, status: int, headers: Dict[str, str]) -> None:
        self.status = status
        self.headers = headers  # names in lower case


def parse_head(data: bytes) -> Head:
    """The status line and headers, without the empty line."""
    first, *lines = data.decode("latin-1").split("\r\n")
    words = first.split(" ", 2)
    if len(words) < 2 or not words[0].startswith("HTTP/1.") or not words[1].isdigit():
        raise ProtocolError(f"the answer is no HTTP: {first[:100]!r}")
    headers = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon:
            raise ProtocolError(f"the answer has a header that is none: {line[:100]!r}")
        headers[name.strip().lower()] = value.strip()
    return Head(int(words[1]), headers)


class Connection:
    def __init__(self, stream: Stream, host: str, timeout: Optional[float]) -> None:
        self._stream = stream
        self._host = host
        self._held = bytearray()  # what was read and not used yet
        self.timeout = timeout
        self.was_used = False

    @classmethod
    def connect(
        cls, host: str, port: int, tls: Optional[ssl.SSLContext], timeout: float
    ) -> Connection:
        stream = Stream.connect(host, port, tls, timeout)
        name = f"[{host}]" if ":" in host else host
        return cls(stream, f"{name}:{port}", timeout)

    @property
    def is_usable(self) -> bool:
        return not self._held and self._stream.is_usable

    def close(self) -> None:
        self._stream.close()

    # ---- reading ----

    def _more(self) -> None:
        try:
            data = self._stream.read(self.timeout)
        except TimeoutError:
            raise ConnectionLostError(f"the server was silent for {self.timeout:g} s") from None
        if not data:
            raise ConnectionLostError("the server closed the connection")
        self._held += data

    def _until(self, end: bytes, most: int) -> bytes:
        while True:
            at = self._held.find(end)
            if 0 <= at <= most:
                found = bytes(self._held[:at])
                del self._held[: at + len(end)]
                return found
            if at > most or len(self._held) > most + len(end):
                raise ProtocolError("the answer has a line or head that is too long")
            self._more()

    def read_some(self, most: int) -> bytes:
        """At least one byte."""
        if not self._held:
            self._more()
        found = bytes(self._held[:most])
        del self._held[:most]
        return found

    def read_to_end(self) -> bytes:
        """What comes until the server closes the connection; none at the end."""
        if not self._held:
            try:
                self._held += self._stream.read(self.timeout)
            except TimeoutError:
                raise ConnectionLostError(f"the server was silent for {self.timeout:g} s") from None
        found = bytes(self._held)
        self._held.clear()
        return found

    def read_raw(self, timeout: Optional[float]) -> bytes:
        """What comes, once this is HTTP no more. Raises TimeoutError."""
        if self._held:
            found = bytes(self._held)
            self._held.clear()
            return found
        return self._stream.read(timeout)

    def read_line(self) -> bytes:
        return self._until(b"\r\n", LINE_BYTES_MAX)

    def _head(self) -> Head:
        return parse_head(self._until(b"\r\n\r\n", HEAD_BYTES_MAX))

    # ---- writing ----

    def write(self, data: bytes) -> None:
        self._stream.write(data, self.timeout)

    def _write_chunks(self, body: Any) -> None:
        for piece in chunks(body):
            if piece:
                self.write(b"%x\r\n%b\r\n" % (len(piece), piece))
        self.write(b"0\r\n\r\n")

    # ---- a request ----

    def request(
        self, method: str, target: str, headers: Dict[str, str], body: Any = None
    ) -> Head:
        """Sends it and answers the head of the answer. body: bytes, a file or an iterable of bytes."""
        fields = {"Host": self._host, **headers}
        small = body is None or (isinstance(body, bytes) and len(body) <= SMALL_BODY_BYTES)
        if isinstance(body, bytes):
            fields["Content-Length"] = str(len(body))
        elif body is not None:
            fields["Transfer-Encoding"] = "chunked"
        if not small:
            fields["Expect"] = "100-continue"
        lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items())]
        head = "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n"
        self.was_used = True
        if small:
            self.write(head + (body or b""))
            return self._final_head()
        self.write(head)
        return self._send_large(body)

    def _send_large(self, body: Any) -> Head:
        """A server that refuses says so before the body is sent, or while it is."""
        early = self._interim()
        if early and early.status != 100:
            return early
        try:
            if isinstance(body, bytes):
                self.write(body)
            else:
                self._write_chunks(body)
        except OSError as error:
            try:
                return self._final_head()
            except (OSError, ConnectionLostError):
                raise ConnectionLostError(f"the upload broke off: {error}") from error
        return self._final_head()

    def _interim(self) -> Optional[Head]:
        timeout, self.timeout = self.timeout, CONTINUE_SECONDS
        try:
            return self._head()
        except ConnectionLostError:
            if not self._stream.is_usable:
                raise
            return None
        finally:
            self.timeout = timeout

    def _final_head(self) -> Head:
        while True:
            head = self._head()
            if head.status >= 200 or head.status == 101:
                return head


class Body:
    """The body of an answer. Whoever has read all of it gets the connection's other uses."""

    def __init__(self, connection: Connection, head: Head) -> None:
        self._connection = connection
        self._chunked = head.headers.get("transfer-encoding", "").lower() == "chunked"
        self._left: Optional[int] = None
        length = head.headers.get("content-length")
        if head.status in (204, 304):
            self._chunked, self._left = False, 0
        elif not self._chunked and length is not None:
            if not length.isdigit():
                raise ProtocolError(f"the answer has a length that is none: {length[:100]!r}")
            self._left = int(length)
        self._in_chunk = 0
        self._to_end = not self._chunked and self._left is None
        self.is_complete = self._left == 0

    @property
    def is_reusable(self) -> bool:
        return self.is_complete and not self._to_end

    def read_some(self) -> bytes:
        """Some bytes; none at the end. Raises ConnectionLostError where it breaks off before."""
        if self.is_complete:
            return b""
        try:
            return self._read_some()
        except OSError as error:
            raise ConnectionLostError(f"the answer broke off: {error}") from error

    def _read_some(self) -> bytes:
        if self._to_end:
            data = self._connection.read_to_end()
            self.is_complete = not data
            return data
        if self._chunked:
            return self._read_chunked()
        data = self._connection.read_some(min(self._left or 0, 1 << 20))
        self._left = (self._left or 0) - len(data)
        self.is_complete = self._left == 0
        return data

    def _read_chunked(self) -> bytes:
        if self._in_chunk == 0:
            size = (self._connection.read_line()).split(b";")[0].strip()
            try:
                self._in_chunk = int(size, 16)
            except ValueError:
                raise ProtocolError(f"the answer has a chunk without a size: {size[:20]!r}") from None
            if self._in_chunk == 0:
                while self._connection.read_line():
                    pass  # trailers
                self.is_complete = True
                return b""
        data = self._connection.read_some(self._in_chunk)
        self._in_chunk -= len(data)
        if self._in_chunk == 0 and self._connection.read_line():
            raise ProtocolError("the answer has a chunk that is longer than its size")
        return data

