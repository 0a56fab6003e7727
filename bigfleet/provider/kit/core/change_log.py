"""An append-only log of (revision, row) that says which machines changed after a revision.

Why: a shard that lists every ten seconds must pay for what changed, not for the fleet (ADR-0004).
Must never: miss a change. Only the newest entry of a row counts, so a machine that changed often appears once.
Rules: `providers#revision`, `providers#kit`.
"""

from array import array
from bisect import bisect_right

import numpy as np
from numpy.typing import NDArray

_COMPACT_FACTOR = 4
_COMPACT_FLOOR = 4096


class ChangeLog:
    """Changes in the order of their revisions; `floor` is the revision at which the log begins."""

    def __init__(self, floor: int = 0) -> None:
        self.floor = floor
        self._revisions = array("q")
        self._rows = array("l")

    def __len__(self) -> int:
        return len(self._revisions)

    def add(self, revision: int, row: int) -> None:
        """Append a change; revisions must rise."""
        self._revisions.append(revision)
        self._rows.append(row)

    def since(self, revision: int, changed_at: NDArray[np.int64]) -> NDArray[np.intp]:
        """Return the rows changed after a revision at or above the floor, in the order of their newest change."""
        start = bisect_right(self._revisions, revision)
        rows = np.array(self._rows[start:], dtype=np.intp)
        newest: NDArray[np.intp] = rows[changed_at[rows] == np.array(self._revisions[start:], dtype=np.int64)]
        return newest

    def compact(self, fleet: int, changed_at: NDArray[np.int64]) -> None:
        """Keep one entry per machine when there are many more entries than machines."""
        if len(self._revisions) <= max(_COMPACT_FLOOR, _COMPACT_FACTOR * fleet):
            return
        rows = np.array(self._rows, dtype=np.int64)
        revisions = np.array(self._revisions, dtype=np.int64)
        newest = changed_at[rows] == revisions
        self._rows = array("l", rows[newest].tolist())
        self._revisions = array("q", revisions[newest].tolist())


def read_cursor(cursor: bytes, head: int) -> int | None:
    """Return the revision of a cursor that this provider issued, None for any other.

    A cursor beyond the head comes from a state that was lost.
    """
    if not cursor or len(cursor) > 19 or not cursor.isdigit() or (cursor[:1] == b"0" and cursor != b"0"):
        return None
    revision = int(cursor)
    return revision if revision <= head else None
