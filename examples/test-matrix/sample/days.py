"""Days of the week, wherever it is run."""

from datetime import datetime, timezone


def weekdays(timestamps):
    """The names of the days, in UTC, on which these moments lie; each once, in order of the alphabet."""
    return sorted({datetime.fromtimestamp(moment, timezone.utc).strftime("%A") for moment in timestamps})
