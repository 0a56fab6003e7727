"""The tables at one entry of the log, as the bytes that snapshots in etcd consist of.

Why: encoding 100,000 domains in one call would hold up every other thread for as long.
Must never: change the bytes of a format that another version reads.
Rules: `coordinator#etcd-snapshots`.
"""

import json
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, Final

from bigfleet.coordinator.etcd.client import WrongStoreError
from bigfleet.coordinator.log import Tables

_PER_SLICE: Final = 2000
_encode: Final = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode


def encode_tables(tables: Tables) -> bytes:
    """Return the tables as JSON, encoded in slices; the caller is on a thread of its own."""
    return "".join(_object(tables, depth=3)).encode()


def decode_tables(data: bytes) -> Mapping[str, Any]:
    """Read the tables; raises `WrongStoreError`."""
    try:
        tables = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise WrongStoreError(f"snapshot: {type(error).__name__}, allowed is JSON") from error
    if not isinstance(tables, dict):
        raise WrongStoreError("snapshot: found no object, allowed is one")
    return tables


def _object(given: Mapping[str, Any], depth: int) -> Iterator[str]:
    """Encode an object whose values may be large objects too, down to a depth."""
    yield "{"
    separator = ""
    items = iter(given.items())
    while piece := list(islice(items, _PER_SLICE)):
        plain = {}
        for name, value in piece:
            if depth > 1 and isinstance(value, dict) and value:
                yield f"{separator}{_encode(name)}:"
                yield from _object(value, depth - 1)
                separator = ","
            else:
                plain[name] = value
        if plain:
            yield separator + _encode(plain)[1:-1]
            separator = ","
    yield "}"
