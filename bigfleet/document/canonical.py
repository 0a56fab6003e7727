"""JSON text in one way only: compact, in UTF-8, keys in the order of their form.

Why: golden tests and diff compare documents byte by byte; one value must have one text.
Must never: write what the reader of this room would refuse to parse, such as an infinite number.
"""

import json
from collections.abc import Iterable, Mapping

from bigfleet.document.errors import WHOLE, DocumentError

_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def plain(number: float) -> int | float:
    """A number in its short form: 600 and not 600.0; reading gives the same number either way."""
    value = float(number)  # an int passes for a float wherever one is asked for
    return int(value) if value.is_integer() and abs(value) < 2**53 else value


def without_defaults(form: Mapping[str, object], values: Iterable[object]) -> dict[str, object]:
    """Values in the order of their form, those left out that reading puts back."""
    named = zip(form.items(), values, strict=True)
    return {name: value for (name, default), value in named if value != default}


def one_line(value: object) -> bytes:
    """A value on one line, with its line end."""
    return _encoded(f"{text_of(value)}\n")


def many_lines(fields: Mapping[str, object]) -> bytes:
    """An object with one line per field, and per entry of those lists that hold objects."""
    return _encoded(
        "{\n" + ",\n".join(f"{text_of(name)}: {_block(fields[name])}" for name in fields) + "\n}\n"
    )


def _block(value: object) -> str:
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return "[\n" + ",\n".join(map(text_of, value)) + "\n]"
    return text_of(value)


def text_of(value: object) -> str:
    """A value without its line end, for those who put lines together themselves."""
    try:
        return _ENCODER.encode(value)
    except ValueError:
        raise DocumentError(WHOLE, "a number that is not finite", "finite numbers") from None


def _encoded(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise DocumentError(WHOLE, "a lone surrogate", "text without lone surrogates") from None
