"""Times as people and JSON read them.

Must never: print a local time.
"""

from datetime import UTC, datetime


def moment(unix_s: float) -> str:
    """Return a time as RFC 3339 in UTC, whole seconds."""
    return datetime.fromtimestamp(unix_s, UTC).replace(microsecond=0).isoformat().replace("+00:00", "Z")
