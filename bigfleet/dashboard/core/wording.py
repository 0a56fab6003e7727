"""Numbers, ages, money and times as people read them.

Must never: print a number for an unknown value; it prints a word.
Rules: `dashboard#first-screen`, `dashboard#look`.
"""

from typing import Final

UNKNOWN: Final = "unknown"
_SKEW_S: Final = 5.0
"""By so much the clocks of two hosts may differ before an age is not shown."""
_AGES: Final = ((86_400 * 2, 86_400, "d"), (7_200, 3_600, "h"), (120, 60, "min"), (0, 1, "s"))


def count(value: float | None) -> str:
    """Return a whole number with thousands separators."""
    return UNKNOWN if value is None else f"{round(value):,}"


def amount(value: float | None, digits: int = 2) -> str:
    """Return a number with at most so many decimals, without trailing zeros."""
    if value is None:
        return UNKNOWN
    text = f"{value:,.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def money(per_hour: float | None) -> str:
    """Return dollars for an hour."""
    return UNKNOWN if per_hour is None else f"${per_hour:,.2f}/h"


def share(part: float | None, whole: float | None) -> str:
    """Return a part as a percentage; a dash if the whole is 0."""
    if part is None or whole is None:
        return UNKNOWN
    return "—" if whole == 0 else f"{100 * part / whole:.1f} %"


def age(seconds: float | None) -> str:
    """Return an age in the largest unit that gives at least 2."""
    if seconds is None:
        return UNKNOWN
    seconds = max(seconds, 0.0)
    unit, name = next((unit, name) for least, unit, name in _AGES if seconds >= least)
    return f"{int(seconds // unit):,} {name}"


def ago(seconds: float | None) -> str:
    """Return how long ago something was; a time that another host's clock has put into the future is unknown."""
    if seconds is None:
        return UNKNOWN
    return f"{UNKNOWN}: clocks differ" if seconds < -_SKEW_S else f"{age(seconds)} ago"


def duration(seconds: float | None) -> str:
    """Return how long something took."""
    if seconds is None:
        return UNKNOWN
    if seconds < 1:
        return f"{seconds * 1000:.3g} ms"
    return f"{seconds:.2f} s" if seconds < 120 else age(seconds)


def plural(number: int, one: str, many: str = "") -> str:
    """Return a number with its noun."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def capitalised(sentence: str) -> str:
    """Return a sentence with a capital letter at its beginning, and the rest unchanged."""
    return sentence[:1].upper() + sentence[1:]
