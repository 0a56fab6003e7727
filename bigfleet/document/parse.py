"""Bytes to JSON values, with everything noted that the standard reader would let pass.

Why: by the JSON of the standard library a repeated key silently wins, `NaN` is a number, and enough brackets end in a
traceback. A document decides over machines, so none of this may pass; but only who walks the values knows the path.
Must never: judge a field. What is odd is marked (`RepeatedKeys`, `Unreadable`) and refused where it is met.
"""

import json
from json import JSONDecodeError

from bigfleet.document.errors import WHOLE, DocumentError, Unreadable

_OBJECT = "one JSON object"
_BOM = "\ufeff"


class RepeatedKeys(dict[str, object]):
    """An object that says one key twice; `key` is the first such."""

    __slots__ = ("key",)

    def __init__(self, pairs: list[tuple[str, object]]) -> None:
        super().__init__(pairs)
        seen: set[str] = set()
        # `set.add` returns None, so the test is true exactly for a key that was there before.
        self.key = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]


def parse_json(data: bytes | str) -> object:
    """Read one JSON value; a byte order mark before it is tolerated, as some editors leave one."""
    text = _decoded(data).removeprefix(_BOM)
    if not text or text.isspace():
        raise DocumentError(WHOLE, "nothing", _OBJECT)
    try:
        return _value(text)
    except JSONDecodeError as error:
        raise _broken(error) from None
    except RecursionError:
        raise DocumentError(WHOLE, "objects or lists nested too deeply", _OBJECT) from None


def _value(text: str) -> object:
    try:
        return _PLAIN.decode(text)
    except JSONDecodeError:
        raise
    except ValueError:
        # A number of more digits than the interpreter turns into an integer; met again, where its path is known.
        return _PATIENT.decode(text)


def _decoded(data: bytes | str) -> str:
    if isinstance(data, str):
        return data
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        found = f"byte 0x{data[error.start]:02x} at offset {error.start}"
        raise DocumentError(WHOLE, found, "UTF-8 text") from None


def _broken(error: JSONDecodeError) -> DocumentError:
    found = f"broken JSON at line {error.lineno} column {error.colno} ({error.msg})"
    return DocumentError(WHOLE, found, _OBJECT)


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    made = dict(pairs)
    return made if len(made) == len(pairs) else RepeatedKeys(pairs)


def _integer(digits: str) -> int | Unreadable:
    try:
        return int(digits)
    except ValueError:
        return Unreadable(f"a number of {len(digits.lstrip('-'))} digits")


_PLAIN = json.JSONDecoder(object_pairs_hook=_object, parse_constant=Unreadable)
_PATIENT = json.JSONDecoder(object_pairs_hook=_object, parse_constant=Unreadable, parse_int=_integer)
