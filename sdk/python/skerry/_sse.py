"""Server-sent events: a parser that is a pure function of the bytes it is given."""

from __future__ import annotations

import codecs
import json
from typing import Any, Dict, List, NamedTuple, Optional

from ._errors import ProtocolError

EVENT_CHARS_MAX = 64 << 20


class ServerEvent(NamedTuple):
    event: str
    data: str
    id: Optional[str]  # the last one that the stream gave, if any


class EventParser:
    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._rest: List[str] = []  # of a line whose end has not come
        self._rest_chars = 0
        self._event = ""
        self._data: List[str] = []
        self._chars = 0
        self._id: Optional[str] = None

    def push(self, data: bytes) -> List[ServerEvent]:
        """The events that end in this piece of the stream."""
        text = self._decoder.decode(data)
        if "\n" not in text:
            self._keep(text)
            return []
        lines = ("".join(self._rest) + text).split("\n")
        self._rest, self._rest_chars = [], 0
        self._keep(lines.pop())
        events = [self._line(line[:-1] if line.endswith("\r") else line) for line in lines]
        return [event for event in events if event]

    def _keep(self, text: str) -> None:
        self._rest.append(text)
        self._rest_chars += len(text)
        self._check(self._rest_chars)

    def _check(self, more: int) -> None:
        if self._chars + more > EVENT_CHARS_MAX:
            raise ProtocolError(f"an event is longer than {EVENT_CHARS_MAX} characters")

    def _line(self, line: str) -> Optional[ServerEvent]:
        if not line:
            return self._end()
        field, _, value = line.partition(":")
        value = value[1:] if value.startswith(" ") else value
        if field == "event":
            self._event = value
        elif field == "data":
            self._check(len(value))
            self._chars += len(value)
            self._data.append(value)
        elif field == "id":
            self._id = value
        return None

    def _end(self) -> Optional[ServerEvent]:
        data, event = self._data, self._event or "message"
        self._data, self._event, self._chars = [], "", 0
        return ServerEvent(event, "\n".join(data), self._id) if data else None


def parse_data(event: ServerEvent) -> Dict[str, Any]:
    """The object that an event carries."""
    try:
        value = json.loads(event.data)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise ProtocolError(f'event "{event.event}" carries no JSON object: {event.data[:100]}')
    return value
