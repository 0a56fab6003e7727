"""Durations in sentences: `12 s`, `3 min 20 s`, `5 h 10 min`.

Must never: be parsed; documents carry seconds.
"""

from typing import Final

_UNITS: Final = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))


def duration_text(seconds: float) -> str:
    """The two largest units of a duration, rounded to whole seconds; at least 1 s unless it is 0 or less."""
    if seconds <= 0:
        return "0 s"
    left = max(1, round(seconds))
    for place, (unit, size) in enumerate(_UNITS):
        if left >= size:
            whole, rest = divmod(left, size)
            text = f"{whole} {unit}"
            if rest and place + 1 < len(_UNITS):
                smaller, smaller_size = _UNITS[place + 1]
                if rest >= smaller_size:
                    text += f" {rest // smaller_size} {smaller}"
            return text
    return "0 s"
