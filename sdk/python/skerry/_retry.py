"""When to ask again, and how long to wait before."""

from __future__ import annotations

import random
from typing import Optional

from ._errors import ApiError, ConnectionLostError

FIRST_SECONDS = 0.2
LONGEST_SECONDS = 5.0
RETRY_AFTER_MAX = 30.0


def back_off(attempt: int) -> float:
    """Doubles with each attempt (0, 1, 2 …); half of it is left to chance, so that many do not return
    at once."""
    most = min(FIRST_SECONDS * (1 << min(attempt, 10)), LONGEST_SECONDS)
    return most / 2 + random.random() * most / 2


def retry_after(header: Optional[str]) -> Optional[float]:
    """Of a header Retry-After in seconds; None where there is none."""
    if header is None or not header.isascii() or not header.isdigit():
        return None
    return min(float(header), RETRY_AFTER_MAX)


def was_refused(error: Exception, after: Optional[float]) -> bool:
    """The server was asked and did nothing: it is safe to ask again, whatever it was."""
    return isinstance(error, ApiError) and after is not None and error.status in (429, 503)


def is_transient(error: Exception) -> bool:
    """The first attempt of a creation may still be under way when the second one comes."""
    return isinstance(error, ApiError) and (
        error.code == "idempotency_in_progress" or error.status in (502, 503, 504)
    )


def is_passing(error: Exception) -> bool:
    """A stream or a terminal may be taken up again: nobody has said no."""
    if isinstance(error, ApiError):
        return error.code in ("rate_limited", "agent_gone") or error.status in (502, 503, 504)
    return isinstance(error, ConnectionLostError)
