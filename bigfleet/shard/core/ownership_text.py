"""The text of `ownership.json`: what a shard that shares its provider owns, with a checksum.

Must never: read a text that is damaged, or half of one: what a shard wrongly believes to own gives a machine two owners.
Rules: `coordinator#ownership-file`.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Final

from bigfleet.model.errors import InvalidFieldError
from bigfleet.model.ownership import Ownership

FORMAT: Final = 1
_LARGEST: Final = 2**63 - 1


def ownership_text(ownership: Ownership) -> str:
    """Return the text, the same for equal ownership."""
    body = {
        "v": FORMAT,
        "key": ownership.key,
        "domains": sorted(ownership.domains),
        "leaving": sorted(ownership.leaving),
        "adopted": dict(sorted(ownership.adopted.items())),
        "released": dict(sorted(ownership.released.items())),
        "settled": ownership.settled,
    }
    return json.dumps({"b": body, "h": _digest(body)}, separators=(",", ":")) + "\n"


def read_ownership(text: str) -> Ownership:
    """Read the text; raises `InvalidFieldError`, which names the field."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        raise InvalidFieldError("text", text[:40], "JSON") from None
    body = _mapping({"document": document}, "document").get("b")
    if not isinstance(body, dict):
        raise InvalidFieldError("b", ascii(body)[:80], "an object")
    if document.get("h") != _digest(body):
        raise InvalidFieldError("h", ascii(document.get("h"))[:80], "the checksum of what is in b")
    if body.get("v") != FORMAT:
        raise InvalidFieldError("v", ascii(body.get("v"))[:80], str(FORMAT))
    key, settled = body.get("key"), body.get("settled")
    if not isinstance(key, str) or not key:
        raise InvalidFieldError("key", ascii(key)[:80], "a label key")
    if not isinstance(settled, bool):
        raise InvalidFieldError("settled", ascii(settled)[:80], "true or false")
    return Ownership(
        key,
        _values(body, "domains"),
        _values(body, "leaving"),
        _marks(body, "adopted"),
        _marks(body, "released"),
        settled,
    )


def _digest(body: Mapping[str, Any]) -> str:  # Any: JSON
    return hashlib.sha256(json.dumps(body, separators=(",", ":"), sort_keys=True).encode()).hexdigest()


def _mapping(given: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = given.get(name)
    if not isinstance(value, dict):
        raise InvalidFieldError(name, ascii(value)[:80], "an object")
    return value


def _values(body: Mapping[str, Any], name: str) -> set[str]:
    values = body.get(name)
    if not isinstance(values, list) or not all(isinstance(value, str) and value for value in values):
        raise InvalidFieldError(name, ascii(values)[:80], "a list of texts that are not empty")
    return set(values)


def _marks(body: Mapping[str, Any], name: str) -> dict[str, int]:
    marks = _mapping(body, name)
    for machine_id, seq in marks.items():
        if type(seq) is not int or not 0 <= seq <= _LARGEST or not machine_id:
            raise InvalidFieldError(
                f"{name}[{machine_id}]", ascii(seq)[:80], f"a number from 0 to {_LARGEST}"
            )
    return dict(marks)
