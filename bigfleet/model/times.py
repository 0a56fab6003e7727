"""Points in time as RFC 3339 text, and back.

Why: the contract counts nanoseconds since 1970 while archives, Kubernetes objects, logs and pages hold texts.
Must never: write a local time, lose a nanosecond, or ask for the current time.
"""

import re
from datetime import UTC, date, datetime, timedelta
from typing import Final

from bigfleet.model.errors import InvalidFieldError

NANOSECONDS: Final = 1_000_000_000
_DAY_S: Final = 86_400
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_TEXT: Final = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt](\d\d):(\d\d):(\d\d)(?:\.(\d{1,9})\d*)?(?:[Zz]|([+-])(\d\d):(\d\d))"
)


def rfc3339_of_ns(nanoseconds: int, digits: int | None = None) -> str:
    """Write a time in UTC with so many digits of its fraction; None writes all but trailing zeros."""
    seconds, fraction = divmod(nanoseconds, NANOSECONDS)
    text = (_EPOCH + timedelta(seconds=seconds)).isoformat()[:19]
    tail = f".{fraction:09}"
    tail = tail.rstrip("0.") if digits is None else tail[: digits + 1] if digits else ""
    return f"{text}{tail}Z"


def rfc3339_of(moment: datetime, timespec: str = "auto") -> str:
    """Write a time in UTC, its fraction as `datetime.isoformat` has it."""
    return moment.astimezone(UTC).isoformat(timespec=timespec).removesuffix("+00:00") + "Z"


def rfc3339_of_s(seconds: float) -> str:
    """Write a time in UTC, cut to whole seconds."""
    return datetime.fromtimestamp(seconds, UTC).isoformat()[:19] + "Z"


def ns_of_rfc3339(text: object, field: str) -> int:
    """Read a time; one before 1970, such as Go's zero time, counts as 0."""
    match = _TEXT.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise InvalidFieldError(field, text, "a time such as 2026-11-17T18:00:00Z")
    year, month, day, hour, minute, second = (int(part) for part in match.groups()[:6])
    if not (1 <= month <= 12 and 1 <= day <= 31 and hour < 24 and minute < 60 and second <= 60):
        raise InvalidFieldError(field, text, "a time such as 2026-11-17T18:00:00Z")
    # From the first of the month: a day that the month does not have counts into the next one.
    days = (date(max(1, year), month, 1) - _EPOCH.date()).days + day - 1
    seconds = days * _DAY_S + hour * 3600 + minute * 60 + second
    if match[8]:
        offset = int(match[9]) * 3600 + int(match[10]) * 60
        seconds += -offset if match[8] == "+" else offset
    return max(0, seconds * NANOSECONDS + int((match[7] or "0").ljust(9, "0")))


def ns_of_iso8601(text: str) -> int | None:
    """Read a time with its zone to the microsecond, in any form that ISO 8601 allows; None when it is none."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    if moment.tzinfo is None:
        return None
    return int(moment.timestamp() // 1) * NANOSECONDS + moment.microsecond * 1_000
