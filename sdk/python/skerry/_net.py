"""Bytes over a connection, twice: with sockets, and with asyncio. All that differs between the two
clients is here; the rest is written once, for asyncio, and made into the other by unasync.py."""

from __future__ import annotations

import asyncio
import io
import select
import socket
import ssl
import time
from typing import Any, AsyncIterable, AsyncIterator, Iterable, Iterator, Optional, Union

from ._errors import ConnectionLostError

READ_BYTES = 64 << 10


class Stream:
    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock

    @classmethod
    def connect(cls, host: str, port: int, tls: Optional[ssl.SSLContext], timeout: float) -> Stream:
        sock = socket.create_connection((host, port), timeout)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls:
            try:
                sock = tls.wrap_socket(sock, server_hostname=host)
            except BaseException:
                sock.close()
                raise
        return cls(sock)

    def read(self, timeout: Optional[float]) -> bytes:
        """Some bytes; none at the end. Raises TimeoutError."""
        self._socket.settimeout(timeout)
        try:
            return self._socket.recv(READ_BYTES)
        except socket.timeout:
            raise TimeoutError() from None

    def write(self, data: bytes, timeout: Optional[float]) -> None:
        self._socket.settimeout(timeout)
        try:
            self._socket.sendall(data)
        except socket.timeout:
            raise ConnectionLostError("the server does not take what is sent") from None

    @property
    def is_usable(self) -> bool:
        """Nothing came meanwhile, not even its end."""
        try:
            return not select.select([self._socket], [], [], 0)[0]
        except (OSError, ValueError):  # closed, or a descriptor that select cannot take
            return False

    def close(self) -> None:
        self._socket.close()


class AsyncStream:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._loop = asyncio.get_running_loop()

    @classmethod
    async def connect(
        cls, host: str, port: int, tls: Optional[ssl.SSLContext], timeout: float
    ) -> AsyncStream:
        try:
            opening = asyncio.open_connection(host, port, ssl=tls)
            return cls(*await asyncio.wait_for(opening, timeout))
        except asyncio.TimeoutError:
            raise TimeoutError("timed out") from None

    async def read(self, timeout: Optional[float]) -> bytes:
        """Some bytes; none at the end. Raises TimeoutError."""
        try:
            return await asyncio.wait_for(self._reader.read(READ_BYTES), timeout)
        except asyncio.TimeoutError:
            raise TimeoutError() from None

    async def write(self, data: bytes, timeout: Optional[float]) -> None:
        self._writer.write(data)
        try:
            await asyncio.wait_for(self._writer.drain(), timeout)
        except asyncio.TimeoutError:
            raise ConnectionLostError("the server does not take what is sent") from None

    @property
    def is_usable(self) -> bool:
        """It has not ended, and belongs to the event loop that runs."""
        return self._loop is asyncio.get_running_loop() and not self._reader.at_eof()

    def close(self) -> None:
        self._writer.close()


def sleep(seconds: float) -> None:
    time.sleep(seconds)


async def async_sleep(seconds: float) -> None:
    await asyncio.sleep(seconds)


# ---- what is uploaded ----

FileData = Union[str, bytes, bytearray, memoryview, io.IOBase, Iterable[bytes]]
AsyncFileData = Union[FileData, AsyncIterable[bytes]]


def chunks(data: Any) -> Iterator[bytes]:
    """The pieces of a file that is open in binary mode, or of an iterable of bytes."""
    if hasattr(data, "read"):
        while True:
            piece = data.read(READ_BYTES)
            if not piece:
                return
            yield piece
    yield from data


async def async_chunks(data: Any) -> AsyncIterator[bytes]:
    """The same; pieces may also come asynchronously."""
    if hasattr(data, "__aiter__"):
        async for piece in data:
            yield piece
        return
    for piece in chunks(data):
        yield piece
