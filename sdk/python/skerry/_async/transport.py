"""Requests: where arguments go, the key, retries, and answers checked for what they claim to be.

What is asked again after a lost answer is what the server calls idempotent, and what carries an
Idempotency-Key; what the server refused before it did anything (rate_limited, 503 with Retry-After) is
asked again whatever it was.
"""

from __future__ import annotations

import json
import os
import ssl
import time
from typing import Any, AsyncGenerator, Dict, List, NamedTuple, Optional, Tuple
from urllib.parse import quote, urlencode, urlsplit

from .._errors import ApiError, ConnectionLostError, ProtocolError, SkerryError, api_error
from .._net import async_sleep
from .._retry import back_off, is_transient, retry_after, was_refused
from .._sse import EventParser, ServerEvent
from .._types import OPERATIONS
from .connection import AsyncBody, AsyncConnection, Head

JSON_BYTES_MAX = 128 << 20
IDLE_SECONDS = 5.0  # a connection that was not used for so long is not used again
IDLE_MAX = 8


class Target(NamedTuple):
    path: str
    body: Dict[str, Any]


def locate(name: str, args: Dict[str, Any]) -> Target:
    """The path and query of an operation, and the arguments that are left for its body."""
    operation = OPERATIONS[name]
    left = dict(args)
    parts = operation.path.split("/")
    for at, part in enumerate(parts):
        if not part.startswith("{"):
            continue
        key = part[1:-1]
        value = left.pop(key, None)
        if value is None or value == "":
            raise SkerryError(f'{name} needs the argument "{key}"')
        parts[at] = quote(str(value), safe="")
    query = [(key, _query_text(left.pop(key))) for key in operation.query if key in left]
    path = "/".join(parts)
    return Target(f"{path}?{urlencode(query)}" if query else path, left)


def _query_text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


class AsyncResponse:
    """An answer of success, whose body was not read."""

    def __init__(self, transport: AsyncTransport, connection: AsyncConnection, head: Head) -> None:
        self._transport, self._connection = transport, connection
        self._body = AsyncBody(connection, head)
        self.status, self.headers = head.status, head.headers

    def close(self) -> None:
        """Gives the connection back, or up where something is still to come."""
        can_go_on = self._body.is_reusable and self.headers.get("connection", "").lower() != "close"
        self._transport.give_back(self._connection, can_go_on)

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        try:
            while True:
                data = await self._body.read_some()
                if not data:
                    return
                yield data
        finally:
            self.close()

    async def read(self, most: Optional[int] = None) -> bytes:
        pieces: List[bytes] = []
        size = 0
        try:
            while True:
                piece = await self._body.read_some()
                if not piece:
                    return b"".join(pieces)
                pieces.append(piece)
                size += len(piece)
                if most is not None and size > most:
                    raise ProtocolError(f"the answer is longer than {most} bytes")
        finally:
            self.close()

    async def json(self) -> Dict[str, Any]:
        """The object that the answer holds."""
        text = await self.read(JSON_BYTES_MAX)
        try:
            value = json.loads(text)
        except ValueError:
            value = None
        if not isinstance(value, dict):
            raise ProtocolError(f"the answer is no JSON object: {text[:100]!r}")
        return value

    async def events(self, silence: float) -> AsyncGenerator[ServerEvent, None]:
        """Server-sent events. Raises ConnectionLostError when they break off or fall silent."""
        parser = EventParser()
        self._connection.timeout = silence
        try:
            while True:
                data = await self._body.read_some()
                if not data:
                    return
                for event in parser.push(data):
                    yield event
        finally:
            self.close()


class AsyncTransport:
    def __init__(
        self,
        url: Optional[str] = None,
        key: Optional[str] = None,
        *,
        retries: int = 4,
        timeout: float = 300.0,
        silence: float = 60.0,
        reconnect: float = 60.0,
        tls: Optional[ssl.SSLContext] = None,
    ) -> None:
        parts = urlsplit(url or os.environ.get("SKERRY_URL") or "http://127.0.0.1:7171")
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise SkerryError(f"the URL of a server is like http://127.0.0.1:7171, not {url!r}")
        self.host = parts.hostname
        self.port = parts.port or (443 if parts.scheme == "https" else 80)
        self.key = key if key is not None else os.environ.get("SKERRY_API_KEY", "")
        self.silence, self.reconnect = silence, reconnect
        self._tls = (tls or ssl.create_default_context()) if parts.scheme == "https" else None
        self._retries, self._timeout = retries, timeout
        self._idle: List[Tuple[AsyncConnection, float]] = []

    # ---- connections ----

    async def connection(self, fresh: bool = False) -> AsyncConnection:
        while not fresh:
            try:
                connection, since = self._idle.pop()  # in one step: threads share them
            except IndexError:
                break
            if time.monotonic() - since < IDLE_SECONDS and connection.is_usable:
                return connection
            connection.close()
        try:
            return await AsyncConnection.connect(
                self.host, self.port, self._tls, min(self._timeout, 10.0)
            )
        except OSError as error:
            raise _NotSent(f"no answer from {self.host}:{self.port}: {error}") from error

    def give_back(self, connection: AsyncConnection, can_go_on: bool) -> None:
        if can_go_on and len(self._idle) < IDLE_MAX:
            self._idle.append((connection, time.monotonic()))
        else:
            connection.close()

    def close(self) -> None:
        """Ends what is not in use."""
        idle, self._idle = self._idle, []
        for connection, _ in idle:
            connection.close()

    def authorization(self) -> Dict[str, str]:
        return {"Authorization": f"Bearer {self.key}"} if self.key else {}

    # ---- calls ----

    async def call(
        self,
        name: str,
        args: Dict[str, Any],
        *,
        headers: Optional[Dict[str, str]] = None,
        repeatable: Optional[bool] = None,
        once: bool = False,
    ) -> Dict[str, Any]:
        """Calls an operation that answers with JSON."""
        response = await self.send(name, args, headers=headers, repeatable=repeatable, once=once)
        return await response.json()

    async def send(
        self,
        name: str,
        args: Dict[str, Any],
        *,
        headers: Optional[Dict[str, str]] = None,
        body: Any = None,
        repeatable: Optional[bool] = None,
        once: bool = False,
    ) -> AsyncResponse:
        """Calls an operation. repeatable overrides what is known of it: whether it may be asked again."""
        operation = OPERATIONS[name]
        target, left = locate(name, args)
        fields = {"Accept": "*/*", **self.authorization(), **(headers or {})}
        if body is not None:
            fields.setdefault("Content-Type", "application/octet-stream")
        elif operation.method not in ("GET", "DELETE"):
            body = json.dumps(left).encode()
            fields["Content-Type"] = "application/json"
        can_repeat = operation.idempotent if repeatable is None else repeatable
        replayable = body is None or isinstance(body, bytes)
        attempt = 0
        while True:
            try:
                return await self._attempt(operation.method, target, fields, body)
            except _Refused as refusal:
                failure: SkerryError = refusal.error
                after = refusal.after
                again = was_refused(failure, after) or (can_repeat and is_transient(failure))
            except ConnectionLostError as lost:
                failure, after = lost, None
                again = can_repeat or isinstance(lost, _NotSent)
            if once or not again or not replayable or attempt >= self._retries:
                raise failure
            await async_sleep(max(after or 0.0, back_off(attempt)))
            attempt += 1

    async def _attempt(
        self, method: str, target: str, fields: Dict[str, str], body: Any
    ) -> AsyncResponse:
        connection = await self.connection()
        try:
            connection.timeout = self._timeout
            head = await connection.request(method, target, fields, body)
            response = AsyncResponse(self, connection, head)
        except OSError as error:
            connection.close()
            raise ConnectionLostError(f"no answer from {self.host}:{self.port}: {error}") from error
        except BaseException:
            connection.close()
            raise
        if 200 <= head.status < 300:
            return response
        refused = await read_error(response)
        raise _Refused(refused, retry_after(head.headers.get("retry-after")))


class _NotSent(ConnectionLostError):
    """Nothing was asked."""


class _Refused(Exception):
    def __init__(self, error: ApiError, after: Optional[float]) -> None:
        super().__init__()
        self.error, self.after = error, after


async def read_error(response: AsyncResponse) -> ApiError:
    problem = None
    if "json" in response.headers.get("content-type", ""):
        try:
            problem = await response.json()
        except SkerryError:
            pass  # the status is all there is
    response.close()
    return api_error(problem, response.status)
