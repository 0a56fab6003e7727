"""Encodes answers as compact JSON: no blanks, no ASCII escapes, no NaN or infinity.

Why: a row is encoded to learn its size; `JsonText` lets the answer use that text instead of encoding the row again.
Must never: write a NaN or an infinity.
Rules: `dashboard#compatible-routes`, `dashboard#budgets`.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))


class JsonText(str):
    """JSON that is already encoded; `write_answer` inserts it unchanged."""

    __slots__ = ()


def write(value: Any) -> str:  # Any: a JSON value
    """Return a value as text."""
    return _ENCODER.encode(value)


def write_answer(answer: Mapping[str, Any]) -> str:
    """Return an object as text; its values may be `JsonText`."""
    parts = (
        f"{write(key)}:{value if isinstance(value, JsonText) else write(value)}"
        for key, value in answer.items()
    )
    return f"{{{','.join(parts)}}}"
