"""Labels with a value of their own for nearly every machine, such as a host name, kept apart from the shapes.

Why: one such label would give every machine its own shape, and shapes are Python objects.
Must never: lose or invent a label. A machine's labels are its shape's and its wide ones together, whichever of the two
a label lies in at the moment.
"""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from bigfleet.model.frozen_map import FrozenMap
from bigfleet.model.inventory.arena import NO_TEXT, Arena
from bigfleet.model.inventory.columns import Column, Columns
from bigfleet.model.inventory.rows import WideValues
from bigfleet.model.inventory.snapshot import Rows, Texts

MANY_VALUES = 2000
"""A key with more distinct values than this is wide."""


class WideLabels:
    """Notices keys that turn wide and holds their values in columns of texts."""

    def __init__(self, columns: Columns) -> None:
        self._columns = columns
        self._seen: dict[str, set[str]] = {}
        self._arenas: dict[str, Arena] = {}
        self._turned: list[str] = []
        self.keys: tuple[str, ...] = ()
        """Every wide key, in the order in which they turned wide."""

    def observe(self, labels: FrozenMap[str]) -> None:
        """Count the values of a new shape's labels."""
        for key, value in labels.items():
            if key in self.keys:
                continue
            seen = self._seen.setdefault(key, set())
            seen.add(value)
            if len(seen) > MANY_VALUES:
                del self._seen[key]
                self.keys += (key,)
                self._turned.append(key)

    def forget_seen(self) -> None:
        """Count again from nothing; keys that are wide stay so."""
        self._seen = {}

    def take_turned(self) -> list[str]:
        """The keys that turned wide since the last call; each now has its column, still empty."""
        turned, self._turned = self._turned, []
        for key in turned:
            self._arenas[key] = Arena()
            self._columns.add(_offset(key), np.uint32(0))
            self._columns.add(_length(key), np.uint16(NO_TEXT))
        return turned

    @property
    def columns(self) -> Iterable[str]:
        """Every wide key that has a column, so that its labels are there and not in shapes."""
        return self._arenas

    def write(self, row: int, labels: FrozenMap[str]) -> None:
        """Put a machine's wide labels into its row."""
        for key in self._arenas:
            value = labels.get(key)
            if value == self._texts(key).get(row):
                continue  # most writes leave labels alone, and an arena never forgets
            if value is None:
                self._columns.writable(_length(key))[row] = NO_TEXT
            else:
                encoded = value.encode()
                self._put(key, np.array([row]), encoded, np.array([len(encoded)]))

    def write_many(self, first: int, wide: Mapping[str, WideValues]) -> None:
        """Put the wide labels of new rows, given by place behind `first`, into their columns."""
        for key, values in wide.items():
            rows = np.asarray(values.places, dtype=np.intp) + first
            self._put(key, rows, values.texts, np.asarray(values.lengths, dtype=np.int64))

    def says(self, key: str, rows: Rows, values: Sequence[bytes | None]) -> NDArray[np.bool_]:
        """For each row whether it has just this value of a wide key, None meaning that it has none."""
        if key not in self._arenas:  # turned wide just now; nothing has moved yet
            return np.zeros(rows.size, dtype=np.bool_)
        lengths = self._columns[_length(key)][rows].astype(np.int64)
        absent = np.fromiter((value is None for value in values), dtype=np.bool_, count=len(values))
        has_none: NDArray[np.bool_] = lengths == NO_TEXT
        lengths[has_none] = 0
        offsets = self._columns[_offset(key)][rows].astype(np.int64)
        texts = [value or b"" for value in values]
        same: NDArray[np.bool_] = (absent == has_none) & self._arenas[key].equal(offsets, lengths, texts)
        return same

    def move_out(self, key: str, shape_of_row: Column, values: Mapping[int, str]) -> None:
        """Copy the value of each shape named in `values` to the rows of that shape."""
        numbers = list(values)
        texts = [values[number].encode() for number in numbers]
        place_of = np.full(int(shape_of_row.max(initial=0)) + max(numbers) + 1, -1, dtype=np.int64)
        place_of[numbers] = np.arange(len(numbers))
        places = place_of[shape_of_row]
        rows = np.flatnonzero(places >= 0)
        lengths = np.fromiter(map(len, texts), dtype=np.int64, count=len(texts))
        offsets = np.cumsum(lengths) - lengths + self._arenas[key].extend(b"".join(texts))
        self._columns.writable(_offset(key))[rows] = offsets[places[rows]]
        self._columns.writable(_length(key))[rows] = lengths[places[rows]]

    def _put(self, key: str, rows: Rows, joined: bytes | bytearray, lengths: NDArray[np.int64]) -> None:
        offsets = np.cumsum(lengths) - lengths + self._arenas[key].extend(joined)
        self._columns.writable(_offset(key))[rows] = offsets
        self._columns.writable(_length(key))[rows] = lengths

    def _texts(self, key: str) -> Texts:
        return Texts(self._arenas[key].buffer, self._columns[_offset(key)], self._columns[_length(key)])

    def texts(self) -> dict[str, Texts]:
        """The column of each wide key."""
        return {key: self._texts(key) for key in self._arenas}

    def compact(self, rows: int) -> None:
        """Drop texts that no row uses any more."""
        for key, arena in self._arenas.items():
            offsets = self._columns.writable(_offset(key))
            offsets[:rows] = arena.compacted(offsets[:rows], self._columns[_length(key)][:rows])

    @property
    def nbytes(self) -> int:
        """Bytes of memory held by the texts; the columns count theirs."""
        return sum(arena.nbytes for arena in self._arenas.values())


def _offset(key: str) -> str:
    return f"label {key} offset"


def _length(key: str) -> str:
    return f"label {key} length"
