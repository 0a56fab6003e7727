"""From machine id to row: sorted 64-bit hashes beside their rows, twelve bytes a machine.

Why: a dict from id to row would cost ten times as much and an object per machine.
Must never: decide by the hash alone.
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

NOT_FOUND = -1
_MERGE_AT = 1024


HoldIds = Callable[[NDArray[np.intp], Sequence[str]], NDArray[np.bool_]]
"""Whether each row holds the id beside it; many at a time."""


class IdIndex:
    """Finds rows by id; single additions wait in a small dict until they are worth a merge."""

    def __init__(self, id_of: Callable[[int], str], hold_ids: HoldIds) -> None:
        self._id_of = id_of  # "" for a row that is free
        self._hold_ids = hold_ids
        self._hashes: NDArray[np.int64] = np.empty(0, dtype=np.int64)
        self._rows: NDArray[np.int32] = np.empty(0, dtype=np.int32)
        self._recent: dict[str, int] = {}
        self._stale = 0

    def find(self, machine_id: str) -> int:
        """The machine's row, or NOT_FOUND."""
        row = self._recent.get(machine_id, NOT_FOUND)
        if row != NOT_FOUND:
            return row
        wanted = hash(machine_id)
        place = int(self._hashes.searchsorted(wanted))
        return self._settle(machine_id, wanted, place)

    def find_many(self, machine_ids: Sequence[str]) -> NDArray[np.intp]:
        """The row of each machine, NOT_FOUND where there is none."""
        wanted = _hashes_of(machine_ids)
        places = self._hashes.searchsorted(wanted)
        found = np.full(len(machine_ids), NOT_FOUND, dtype=np.intp)
        inside = places < self._hashes.size
        inside[inside] = self._hashes[places[inside]] == wanted[inside]
        at = np.flatnonzero(inside)
        found[at] = self._rows[places[at]]
        doubtful = at[~self._hold_ids(found[at], [machine_ids[position] for position in at.tolist()])]
        for position in doubtful.tolist():  # another id of that hash, or an entry that is out of date
            found[position] = self._settle(
                machine_ids[position], int(wanted[position]), int(places[position])
            )
        if self._recent:
            for position in np.flatnonzero(found == NOT_FOUND).tolist():
                found[position] = self._recent.get(machine_ids[position], NOT_FOUND)
        return found

    def _settle(self, machine_id: str, wanted: int, place: int) -> int:
        while place < self._hashes.size and self._hashes[place] == wanted:
            row = int(self._rows[place])
            if self._id_of(row) == machine_id:  # a free row has the empty id, which no machine has
                return row
            place += 1
        return NOT_FOUND

    def add(self, machine_id: str, row: int) -> None:
        """Record one machine; the caller has made sure that it is new."""
        self._recent[machine_id] = row
        if len(self._recent) >= max(_MERGE_AT, self._rows.size >> 6):
            recent, self._recent = self._recent, {}
            rows = np.fromiter(recent.values(), dtype=np.int32, count=len(recent))
            self.add_many(_hashes_of(list(recent)), rows)

    def add_many(self, hashes: NDArray[np.int64], rows: NDArray[np.int32]) -> None:
        """Record many machines, given by the interpreter's hash of their ids, in one merge."""
        order = hashes.argsort(kind="stable")
        hashes, rows = hashes[order], rows[order]
        places = self._hashes.searchsorted(hashes)
        self._hashes = np.insert(self._hashes, places, hashes)
        self._rows = np.insert(self._rows, places, rows)

    def discard(self, machine_id: str) -> None:
        """Forget one machine; the caller frees its row, which makes an entry in the arrays void."""
        if self._recent.pop(machine_id, None) is None:
            self._stale += 1
            if self._stale > max(_MERGE_AT, self._rows.size >> 2):
                self._drop_void()

    def _drop_void(self) -> None:
        ids = [self._id_of(row) for row in self._rows.tolist()]
        # A row can have been freed and taken again, so the hash must fit too.
        valid = (_hashes_of(ids) == self._hashes) & np.fromiter(
            map(bool, ids), dtype=np.bool_, count=len(ids)
        )
        self._hashes, self._rows = self._hashes[valid], self._rows[valid]
        self._stale = 0

    @property
    def nbytes(self) -> int:
        """Bytes of memory held by the arrays."""
        return int(self._hashes.nbytes + self._rows.nbytes)


def _hashes_of(texts: Sequence[str]) -> NDArray[np.int64]:
    # The interpreter's own hash is good within one process, which is all that is asked of it.
    return np.fromiter(map(hash, texts), dtype=np.int64, count=len(texts))
