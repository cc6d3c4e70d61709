"""Frames of RFC 6455, the client's side: what we send is masked, what we read must not be. Pure."""

from __future__ import annotations

import base64
import hashlib
import struct
from typing import List, NamedTuple, Optional

from ._errors import ProtocolError

CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10
MESSAGE_MAX = 16 << 20
_GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


class Message(NamedTuple):
    opcode: int
    payload: bytes


class _Frame(NamedTuple):
    final: bool
    opcode: int
    payload: bytes


def accept_of(nonce: str) -> str:
    """What a server that speaks WebSocket makes of Sec-WebSocket-Key."""
    return base64.b64encode(hashlib.sha1((nonce + _GUID).encode()).digest()).decode()


def _masked(payload: bytes, mask: bytes) -> bytes:
    length = len(payload)
    pattern = (mask * (length // 4 + 1))[:length]
    return (int.from_bytes(payload, "big") ^ int.from_bytes(pattern, "big")).to_bytes(length, "big")


def encode_frame(opcode: int, payload: bytes, mask: bytes) -> bytes:
    """One whole frame; mask is four random bytes."""
    length = len(payload)
    if length < 126:
        head = struct.pack("!BB", 0x80 | opcode, 0x80 | length)
    elif length < 0x10000:
        head = struct.pack("!BBH", 0x80 | opcode, 0x80 | 126, length)
    else:
        head = struct.pack("!BBQ", 0x80 | opcode, 0x80 | 127, length)
    return head + mask + _masked(payload, mask)


def close_code(payload: bytes) -> int:
    """The code in a frame that closes; 1005: there is none."""
    return int(struct.unpack("!H", payload[:2])[0]) if len(payload) >= 2 else 1005


class FrameParser:
    """Makes messages of what a server sends; raises where that is no WebSocket."""

    def __init__(self) -> None:
        self._held = bytearray()
        self._opcode = 0  # of the message whose pieces are gathered; 0: none
        self._pieces: List[bytes] = []
        self._bytes = 0

    def push(self, data: bytes) -> List[Message]:
        messages: List[Message] = []
        self._held += data
        while True:
            frame = self._frame()
            if frame is None:
                return messages
            message = self._message(frame)
            if message:
                messages.append(message)

    def _frame(self) -> Optional[_Frame]:
        held = self._held
        if len(held) < 2:
            return None
        if held[0] & 0x70 or held[1] & 0x80:
            raise ProtocolError("the server sent a frame with reserved bits or a mask")
        short = held[1] & 0x7F
        head = 2 if short < 126 else 4 if short == 126 else 10
        if len(held) < head:
            return None
        length = short if short < 126 else int.from_bytes(held[2:head], "big")
        if length > MESSAGE_MAX:
            raise ProtocolError(f"the server sent a frame of {length} bytes")
        if len(held) < head + length:
            return None
        frame = _Frame(bool(held[0] & 0x80), held[0] & 0xF, bytes(held[head : head + length]))
        del held[: head + length]
        return frame

    def _message(self, frame: _Frame) -> Optional[Message]:
        if frame.opcode >= CLOSE:
            if not frame.final or len(frame.payload) > 125:
                raise ProtocolError("the server sent a control frame that is too long")
            return Message(frame.opcode, frame.payload)
        if (frame.opcode == CONTINUATION) != (self._opcode != 0):
            raise ProtocolError("the server mixed up the pieces of a message")
        self._opcode = self._opcode or frame.opcode
        self._pieces.append(frame.payload)
        self._bytes += len(frame.payload)
        if self._bytes > MESSAGE_MAX:
            raise ProtocolError("the server sent a message that is too long")
        if not frame.final:
            return None
        message = Message(self._opcode, b"".join(self._pieces))
        self._opcode, self._pieces, self._bytes = 0, [], 0
        return message
