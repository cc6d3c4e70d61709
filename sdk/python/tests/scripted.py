"""A server that does what a test's script says, and remembers what it was asked."""

from __future__ import annotations

import base64
import hashlib
import json
import socket
import socketserver
import threading
from typing import Any, Callable, Dict, List, NamedTuple, Tuple
from urllib.parse import parse_qsl, urlsplit


class Request(NamedTuple):
    method: str
    path: str
    query: Dict[str, str]
    headers: Dict[str, str]
    data: bytes

    @property
    def body(self) -> Any:
        return json.loads(self.data)


class Peer:
    """One connection, from the server's side."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock, self.file = sock, sock.makefile("rb")

    def send(self, data: bytes) -> None:
        self.sock.sendall(data)

    def cut(self) -> None:
        self.sock.shutdown(socket.SHUT_RDWR)

    def answer(self, status: int, data: bytes, kind: str = "application/json", **headers: str) -> None:
        lines = [f"HTTP/1.1 {status} X", f"Content-Type: {kind}", f"Content-Length: {len(data)}"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        self.send("\r\n".join(lines).encode() + b"\r\n\r\n" + data)

    def json(self, status: int, value: Any, **headers: str) -> None:
        self.answer(status, json.dumps(value).encode(), **headers)

    def problem(self, status: int, code: str, **headers: str) -> None:
        value = {"status": status, "code": code, "detail": f"detail of {code}", "hint": "do this", "request_id": "req_1"}
        self.answer(status, json.dumps(value).encode(), "application/problem+json", **headers)

    def stream(self, *pieces: bytes, cut: bool = False) -> None:
        """Events in chunks; cut breaks off."""
        self.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
        for piece in pieces:
            self.send(b"%x\r\n%b\r\n" % (len(piece), piece))
        if cut:
            self.cut()
        else:
            self.send(b"0\r\n\r\n")

    # ---- WebSocket ----

    def upgrade(self, request: Request) -> None:
        guid = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        digest = hashlib.sha1((request.headers["sec-websocket-key"] + guid).encode()).digest()
        self.send(
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Accept: " + base64.b64encode(digest) + b"\r\n\r\n"
        )

    def frame(self, opcode: int, payload: bytes) -> None:
        length = len(payload)
        head = bytes([0x80 | opcode, length]) if length < 126 else bytes([0x80 | opcode, 126, length >> 8, length & 255])
        self.send(head + payload)

    def say(self, message: Any) -> None:
        self.frame(1, json.dumps(message).encode())

    def close_frame(self, code: int) -> None:
        self.frame(8, code.to_bytes(2, "big"))

    def read_frame(self) -> Tuple[int, bytes]:
        head = self.file.read(2)
        if len(head) < 2:
            raise EOFError
        length = head[1] & 0x7F
        if length >= 126:
            length = int.from_bytes(self.file.read(2 if length == 126 else 8), "big")
        mask, payload = self.file.read(4), self.file.read(length)
        return head[0] & 0xF, bytes(byte ^ mask[i & 3] for i, byte in enumerate(payload))


Script = Callable[[Request, Peer, int], None]


class ScriptedServer:
    """script(request, peer, n) answers the n-th request, from 0 on."""

    def __init__(self, script: Script) -> None:
        self.requests: List[Request] = []
        self._lock = threading.Lock()
        outer = self

        class Handler(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                peer = Peer(self.request)
                try:
                    while True:
                        request = outer.read(peer)
                        if request is None:
                            return
                        with outer._lock:
                            n = len(outer.requests)
                            outer.requests.append(request)
                        script(request, peer, n)
                except (OSError, EOFError):
                    pass  # the client has gone, or the script has cut it off

        class Server(socketserver.ThreadingTCPServer):
            daemon_threads = True
            allow_reuse_address = True

        self._server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    @staticmethod
    def read(peer: Peer) -> Any:
        first = peer.file.readline().decode("latin-1").split()
        if len(first) != 3:
            return None
        headers: Dict[str, str] = {}
        for line in iter(peer.file.readline, b"\r\n"):
            if not line:
                return None
            name, _, value = line.decode("latin-1").partition(":")
            headers[name.strip().lower()] = value.strip()
        if headers.get("expect") == "100-continue":
            peer.send(b"HTTP/1.1 100 Continue\r\n\r\n")
        if headers.get("transfer-encoding") == "chunked":
            data = b""
            while True:
                size = int(peer.file.readline(), 16)
                data += peer.file.read(size)
                peer.file.readline()
                if size == 0:
                    break
        else:
            data = peer.file.read(int(headers.get("content-length", 0)))
        parts = urlsplit(first[1])
        return Request(first[0], parts.path, dict(parse_qsl(parts.query)), headers, data)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def event(name: str, data: Any, id: Any = None) -> bytes:
    head = "" if id is None else f"id: {id}\n"
    return f"{head}event: {name}\ndata: {json.dumps(data)}\n\n".encode()


def info(**more: Any) -> Dict[str, Any]:
    return {"id": "sbx_1", "status": "running", "expires_at": None, **more}


def exit_event(**more: Any) -> bytes:
    return event("exit", {
        "exec_id": "exec_1", "running": False, "exit_code": 0, "signal": None, "duration_ms": 5, "timed_out": False,
        "truncated": False, "out_of_memory": False, "stdout_bytes": 0, "stderr_bytes": 0, **more,
    })  # fmt: skip
