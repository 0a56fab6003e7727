"""Times as the API server writes them: RFC 3339 in UTC, of whole seconds or of microseconds.

Must never: use local time; a lease stamped so, and labelled UTC, is broken twice a year.
Rules: operator 2.1, 15.5.
"""

from datetime import UTC, datetime

_MICROSECONDS = 1_000
_SECONDS = 1_000_000_000


def seconds_text(wall_ns: int) -> str:
    """Return a time of whole seconds, as `metadata` and status fields have it."""
    return datetime.fromtimestamp(wall_ns // _SECONDS, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def microseconds_text(wall_ns: int) -> str:
    """Return a time of microseconds, as leases have it."""
    whole, rest = divmod(wall_ns // _MICROSECONDS, 1_000_000)
    return datetime.fromtimestamp(whole, UTC).strftime("%Y-%m-%dT%H:%M:%S") + f".{rest:06d}Z"


def wall_ns_of(text: str) -> int | None:
    """Return the nanoseconds since 1970 of a time, or None if it cannot be read."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    if moment.tzinfo is None:
        return None
    whole = int(moment.timestamp() // 1)
    return whole * _SECONDS + moment.microsecond * _MICROSECONDS
