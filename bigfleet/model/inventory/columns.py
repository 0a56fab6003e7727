"""One NumPy array per field and a row per machine, shared with snapshots until the next write.

Why: a snapshot of half a million machines must cost nothing; a write then copies only the column it touches.
Must never: write into an array that a snapshot holds.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Column = NDArray[Any]  # the element type differs by column, as the fill values say


_AT_LEAST = 16  # rows, so that a handful of machines does not grow every column with each of them


class Columns:
    """Named arrays of one length, grown together and copied on the first write after a snapshot."""

    def __init__(self, fills: Mapping[str, np.generic]) -> None:
        self._fills = dict(fills)
        self._arrays: dict[str, Column] = {
            name: np.empty(0, dtype=fill.dtype) for name, fill in fills.items()
        }
        self._shared: set[str] = set()
        self.writes = 0
        """Increases whenever an array is handed out for writing."""

    def __getitem__(self, name: str) -> Column:
        return self._arrays[name]

    def writable(self, name: str) -> Column:
        """The array to write into; a snapshot keeps the one it has."""
        self.writes += 1
        if name in self._shared:
            self._arrays[name] = self._arrays[name].copy()
            self._shared.discard(name)
        return self._arrays[name]

    def arrays(self) -> dict[str, Column]:
        """All arrays as they are now, to be read before the next write."""
        return self._arrays

    def shared(self) -> dict[str, Column]:
        """All arrays as they are now, safe to read for ever."""
        self._shared.update(self._arrays)
        return dict(self._arrays)

    def add(self, name: str, fill: np.generic) -> None:
        """Add a column, every row of it holding `fill`."""
        rows = max((array.size for array in self._arrays.values()), default=0)
        self.writes += 1
        self._fills[name] = fill
        self._arrays[name] = np.full(rows, fill, dtype=fill.dtype)

    def reserve(self, rows: int) -> None:
        """Make room for this many rows; a little more than asked, so that single additions stay cheap."""
        for name, old in self._arrays.items():
            if rows > old.size:
                grown = np.full(
                    max(rows, old.size + (old.size >> 3), _AT_LEAST), self._fills[name], dtype=old.dtype
                )
                grown[: old.size] = old
                self._arrays[name] = grown
                self._shared.discard(name)

    def reset(self, row: int) -> None:
        """Give one row its fill values back."""
        for name, fill in self._fills.items():
            self.writable(name)[row] = fill

    @property
    def nbytes(self) -> int:
        """Bytes of memory held."""
        return sum(int(array.nbytes) for array in self._arrays.values())
