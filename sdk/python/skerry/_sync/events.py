# Made of ../_async by unasync.py: do not edit.
"""What happens to the account's sandboxes, followed over lost connections and restarts of the server."""

from __future__ import annotations

import time
from typing import Any, Generator, Callable, Dict, Optional, cast

from .._errors import ConnectionLostError, SkerryError
from .._net import sleep
from .._retry import back_off, is_passing
from .._sse import parse_data
from .._types import Event, EventGap
from .transport import Transport

EVENT_STREAM = {"Accept": "text/event-stream"}


def follow_events(
    transport: Transport,
    *,
    cursor: Optional[int] = None,
    sandbox_id: Optional[str] = None,
    type: Optional[str] = None,
    on_ready: Optional[Callable[[int], None]] = None,
    on_gap: Optional[Callable[[EventGap], None]] = None,
) -> Generator[Event, None, None]:
    lost_since: Optional[float] = None
    attempt = 0
    while True:
        given: Dict[str, Any] = {"cursor": cursor, "sandbox_id": sandbox_id, "type": type}
        args = {key: value for key, value in given.items() if value is not None}
        try:
            response = transport.send("list_events", args, headers=EVENT_STREAM, once=True)
            events = response.events(transport.silence)
            try:
                for event in events:
                    attempt, lost_since = 0, None
                    data = parse_data(event)
                    cursor = int(event.id) if event.id else cursor
                    if event.event == "ready":
                        if on_ready:
                            on_ready(cursor or 0)
                    elif event.event == "gap":
                        if on_gap:
                            on_gap(cast(EventGap, data))
                    else:
                        yield cast(Event, data)
            finally:
                events.close()
            raise ConnectionLostError("the stream of events ended")
        except SkerryError as error:
            now = time.monotonic()
            lost_since = now if lost_since is None else lost_since
            if not is_passing(error) or now - lost_since > transport.reconnect:
                raise
        sleep(back_off(attempt))
        attempt += 1
