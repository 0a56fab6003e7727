"""Points in time as RFC 3339 text with all their nanoseconds, and back.

Why: the contract counts nanoseconds since 1970 while archives hold texts, and the library's own type stops at microseconds.
Must never: write a local time, or lose a nanosecond.
"""

import re
from typing import Final

from bigfleet.model.errors import InvalidFieldError

_NS: Final = 1_000_000_000
_DAY_S: Final = 86_400
_TEXT: Final = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt](\d\d):(\d\d):(\d\d)(?:\.(\d{1,9})\d*)?(?:[Zz]|([+-])(\d\d):(\d\d))"
)


def rfc3339_of_ns(nanoseconds: int) -> str:
    """Write a time in UTC, without trailing zeros of its fraction."""
    seconds, fraction = divmod(nanoseconds, _NS)
    days, rest = divmod(seconds, _DAY_S)
    year, month, day = _date(days)
    text = f"{year:04}-{month:02}-{day:02}T{rest // 3600:02}:{rest // 60 % 60:02}:{rest % 60:02}"
    tail = f".{fraction:09}".rstrip("0") if fraction else ""
    return f"{text}{tail}Z"


def ns_of_rfc3339(text: object, field: str) -> int:
    """Read a time; one before 1970, as the zero time of the original is, counts as 0."""
    match = _TEXT.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise InvalidFieldError(field, text, "a time such as 2026-11-17T18:00:00Z")
    year, month, day, hour, minute, second = (int(part) for part in match.groups()[:6])
    if not (1 <= month <= 12 and 1 <= day <= 31 and hour < 24 and minute < 60 and second <= 60):
        raise InvalidFieldError(field, text, "a time such as 2026-11-17T18:00:00Z")
    seconds = _days(year, month, day) * _DAY_S + hour * 3600 + minute * 60 + second
    if match[8]:
        offset = int(match[9]) * 3600 + int(match[10]) * 60
        seconds += -offset if match[8] == "+" else offset
    return max(0, seconds * _NS + int((match[7] or "0").ljust(9, "0")))


def _days(year: int, month: int, day: int) -> int:
    """Days since 1970 of a date of the Gregorian calendar, counted in years that begin in March."""
    year -= month <= 2
    era, of_era = divmod(year, 400)
    day_of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + day_of_year - 719_468


def _date(days: int) -> tuple[int, int, int]:
    """The date so many days after 1970 began."""
    era, of_era = divmod(days + 719_468, 146_097)
    year_of_era = (of_era - of_era // 1460 + of_era // 36_524 - of_era // 146_096) // 365
    day_of_year = of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    month_index = (5 * day_of_year + 2) // 153
    month = month_index + 3 if month_index < 10 else month_index - 9
    year = year_of_era + era * 400 + (month <= 2)
    return year, month, day_of_year - (153 * month_index + 2) // 5 + 1
