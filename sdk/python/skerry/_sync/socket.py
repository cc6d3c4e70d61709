# Made of ../_async by unasync.py: do not edit.
"""A WebSocket: the way in by an upgrade of HTTP, then messages."""

from __future__ import annotations

import base64
import os
from typing import List, Optional

from .._errors import ConnectionLostError, ProtocolError
from .._frames import CLOSE, PING, PONG, FrameParser, Message, accept_of, close_code, encode_frame
from .connection import Connection
from .transport import Response, Transport, read_error

LOST = 1006  # what closes a connection that was lost without a word


class Socket:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._parser = FrameParser()
        self._messages: List[Message] = []
        self.code: Optional[int] = None
        """Why it was closed; None while it is open."""

    @classmethod
    def open(cls, transport: Transport, target: str, protocol: str) -> Socket:
        """Raises what the server answers in place of an upgrade."""
        nonce = base64.b64encode(os.urandom(16)).decode()
        headers = {
            "Connection": "Upgrade",
            "Upgrade": "websocket",
            "Sec-WebSocket-Version": "13",
            "Sec-WebSocket-Key": nonce,
            "Sec-WebSocket-Protocol": protocol,
            **transport.authorization(),
        }
        connection = transport.connection(fresh=True)
        try:
            head = connection.request("GET", target, headers)
            if head.status == 101 and head.headers.get("sec-websocket-accept") == accept_of(nonce):
                return cls(connection)
            if head.status == 101:
                raise ProtocolError("what answered is no WebSocket")
            raise read_error(Response(transport, connection, head))
        except OSError as error:
            connection.close()
            raise ConnectionLostError(f"no answer from {transport.host}: {error}") from error
        except BaseException:
            connection.close()
            raise

    def send(self, opcode: int, payload: bytes) -> None:
        """Raises ConnectionLostError; receive then says the end."""
        try:
            self._connection.write(encode_frame(opcode, payload, os.urandom(4)))
        except OSError as error:
            raise ConnectionLostError(f"the WebSocket broke: {error}") from error

    def receive(self, timeout: Optional[float]) -> Optional[Message]:
        """The next message, text or binary; None once it is closed. Raises TimeoutError, after which it
        may be asked again."""
        while self.code is None:
            while self._messages:
                message = self._messages.pop(0)
                if message.opcode < CLOSE:
                    return message
                self._control(message)
                if self.code is not None:
                    return None
            self._read(timeout)
        return None

    def _read(self, timeout: Optional[float]) -> None:
        try:
            data = self._connection.read_raw(timeout)
        except OSError as error:
            if isinstance(error, TimeoutError):
                raise
            data = b""
        if not data:
            self.code = LOST
            self._connection.close()
            return
        try:
            self._messages += self._parser.push(data)
        except ProtocolError:
            self.close()
            raise

    def _control(self, message: Message) -> None:
        try:
            if message.opcode == PING:
                self.send(PONG, message.payload)
            elif message.opcode == CLOSE:
                self.code = close_code(message.payload)
                self.send(CLOSE, message.payload[:2])
                self._connection.close()
        except ConnectionLostError:
            self.close()

    def say_goodbye(self) -> None:
        if self.code is None:
            try:
                self.send(CLOSE, b"\x03\xe8")  # 1000
            except ConnectionLostError:
                pass  # it is gone already
            self.close()

    def close(self) -> None:
        if self.code is None:
            self.code = LOST
        self._connection.close()
