"""Many short texts in one buffer: ids, host references and wide labels, a few bytes each instead of an object each.

Why: half a million small Python strings cost more memory than everything else about their machines.
Must never: move or overwrite bytes that a snapshot may still read; growth and compaction make a new buffer.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

NO_TEXT = 65_535
"""The length that means "no text"; real ones stay below it."""


class Arena:
    """Append-only bytes; what is replaced or removed stays as waste until `compacted`."""

    def __init__(self, reserve: int = 0) -> None:
        self.buffer: NDArray[np.uint8] = np.empty(reserve, dtype=np.uint8)
        self.used = 0

    def extend(self, joined: bytes | bytearray) -> int:
        """Store one text, or several one behind the other, and return the offset of the first."""
        start, self.used = self.used, self.used + len(joined)
        if self.used > self.buffer.size:
            # The first time exactly what is asked for: a full listing comes in one piece.
            grown = np.empty(self.used + (start >> 3), dtype=np.uint8)
            grown[:start] = self.buffer[:start]
            self.buffer = grown
        self.buffer[start : self.used] = np.frombuffer(joined, dtype=np.uint8)
        return start

    def text(self, offset: int, length: int) -> bytes:
        """The bytes of one text."""
        return self.buffer[offset : offset + length].tobytes()

    def equal(
        self, offsets: NDArray[np.int64], lengths: NDArray[np.int64], texts: Sequence[bytes]
    ) -> NDArray[np.bool_]:
        """Whether each stored text, given by offset and length, is the text beside it."""
        same: NDArray[np.bool_] = np.fromiter(map(len, texts), dtype=np.int64, count=len(texts)) == lengths
        at = np.flatnonzero(same & (lengths > 0))
        sizes = lengths[at]
        starts = np.cumsum(sizes) - sizes
        if at.size:
            source = np.repeat(offsets[at] - starts, sizes) + np.arange(int(sizes.sum()))
            wanted = np.frombuffer(b"".join([texts[place] for place in at.tolist()]), dtype=np.uint8)
            same[at] = np.logical_and.reduceat(self.buffer[source] == wanted, starts)
        return same

    def compacted(self, offsets: NDArray[np.uint32], lengths: NDArray[np.uint16]) -> NDArray[np.uint32]:
        """Keep only the texts named here, in a new buffer, and return their new offsets."""
        kept = np.where(lengths == NO_TEXT, 0, lengths).astype(np.int64)
        ends = np.cumsum(kept)
        starts = ends - kept
        total = int(ends[-1]) if ends.size else 0
        # One long gather: the position of every kept byte in the old buffer.
        source = np.repeat(offsets.astype(np.int64) - starts, kept) + np.arange(total)
        self.buffer = self.buffer[source]
        self.used = total
        return starts.astype(np.uint32)

    @property
    def nbytes(self) -> int:
        """Bytes of memory held."""
        return int(self.buffer.nbytes)
