"""A snapshot document in pieces: the same bytes as when it is written at once, a little at a time.

Why: the document of half a million machines is hundreds of megabytes; the sender must hold a piece of it and not the
whole, and must be able to do something else between two pieces.
Must never: differ from `bigfleet.document.snapshot.write_situation` by a byte.
Rules: `engine#snapshot-live`.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice
from typing import Final

from bigfleet.document.canonical import text_of
from bigfleet.document.machines import machine_object
from bigfleet.document.snapshot import SnapshotDocument, situation_object
from bigfleet.model.machine import Machine
from bigfleet.model.situation import Situation

AT_A_TIME: Final = 200
"""Lines of a piece; some tens of kilobytes."""


def situation_pieces(situation: Situation, machines: Iterable[Machine]) -> Iterator[bytes]:
    """Write a situation whose machines are handed over one by one; those in the situation itself are not looked at."""
    bare = replace(situation, machines=())
    fields = situation_object(SnapshotDocument(bare, tuple(range(len(bare.needs)))))
    before = "{\n"
    for name, value in fields.items():
        yield f"{before}{text_of(name)}: ".encode()
        if name == "machines":
            yield from _list(machine_object(machine) for machine in machines)
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            yield from _list(value)
        else:
            yield text_of(value).encode()
        before = ",\n"
    yield b"\n}\n"


def _list(objects: Iterable[object]) -> Iterator[bytes]:
    left = iter(objects)
    before = "[\n"
    while batch := [text_of(item) for item in islice(left, AT_A_TIME)]:
        yield (before + ",\n".join(batch)).encode()
        before = ",\n"
    yield b"[]" if before == "[\n" else b"\n]"
