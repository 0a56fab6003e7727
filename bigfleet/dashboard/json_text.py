"""JSON as every answer has it: without blanks, in plain characters, with no number that JSON does not know.

Why: how large a row becomes is known when it is written, and what was written is not to be written a second time.
Must never: write a NaN or an infinity.
Rules: dashboard 4.1, 9.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))


class JsonText(str):
    """JSON that stands as it is, in place of the value it is of."""

    __slots__ = ()


def write(value: Any) -> str:  # Any: what JSON can say
    """Return a value as text."""
    return _ENCODER.encode(value)


def write_answer(answer: Mapping[str, Any]) -> str:
    """Return an object as text; a value of it may be written already."""
    parts = (
        f"{write(key)}:{value if isinstance(value, JsonText) else write(value)}"
        for key, value in answer.items()
    )
    return f"{{{','.join(parts)}}}"
