"""The rows of needs as frames, made at most once per cycle, for every service that shows them.

Why: `InspectNeeds` and `ListNeeds` send the same row in a frame of the same bytes: field 2 of either response is the need.
Must never: work on the event loop, hold the interpreter for long, or make a row that nobody asked for.
Rules: wire 6, shard 19, dashboard 8 and 9.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Final
from weakref import ref

from bigfleet.insight.v1 import insight_pb2
from bigfleet.shard.core.read.need_rows import NeedQuery, NeedRow, NeedRows, NeedsFound, Ordered
from bigfleet.shard.core.views import CycleView
from bigfleet.v1alpha1 import shardread_pb2 as pb
from bigfleet.wire.need_views import need_view_to_proto

AT_A_TIME: Final = 250
"""Rows that are encoded in one go; few enough to let others at the interpreter, many enough to be worth the way."""


class _Kept:
    """What is kept of the newest cycle that somebody asked about: its order, and the frames that were made.

    Not the cycle itself: see `Ordered`.
    """

    def __init__(self, view: CycleView, before: "_Kept | None" = None) -> None:
        self.view: ref[CycleView] = ref(view)
        self.ordered: Ordered = NeedRows(view, None if before is None else before.ordered).ordered
        self.frames: dict[int, bytes] = {}
        if before is not None and before.ordered is self.ordered:
            # Nothing was decided anew: only needs that are short look different, since they have grown older.
            self.frames = before.frames.copy()  # theirs may still be read, and added to
            for row in self.ordered.short:
                self.frames.pop(row, None)


@dataclass(frozen=True, slots=True)
class NeedPage:
    """Rows that pass a filter, in one cycle."""

    found: NeedsFound
    rows: NeedRows
    made: dict[int, bytes]
    """The frames of rows that somebody has asked for, each made at most once."""

    async def frames(self, rows: Sequence[int]) -> AsyncIterator[bytes]:
        """The frames of some of the rows, made off the event loop, a slice at a time."""
        for first in range(0, len(rows), AT_A_TIME):
            for frame in await asyncio.to_thread(self._frames, rows[first : first + AT_A_TIME]):
                yield frame

    async def batches(self, rows: Sequence[int]) -> AsyncIterator[bytes]:
        """The same, a slice in one frame: rows are field 2 there as here, so their bytes only stand one after the other."""
        for first in range(0, len(rows), AT_A_TIME):
            yield await asyncio.to_thread(self._batch, rows[first : first + AT_A_TIME])

    def _batch(self, rows: Sequence[int]) -> bytes:
        batch = insight_pb2.NeedBatch.FromString(b"".join(self._frames(rows)))
        return insight_pb2.ListNeedsResponse(batch=batch).SerializeToString(deterministic=True)

    def _frames(self, rows: Sequence[int]) -> list[bytes]:
        made = self.made
        for row in rows:
            if row not in made:
                made[row] = _frame(self.rows[row])
        return [made[row] for row in rows]


class NeedFrames:
    """The frames of the newest cycle that somebody asked about."""

    def __init__(self) -> None:
        self._kept: _Kept | None = None
        self._making = asyncio.Lock()

    async def page(self, view: CycleView, query: NeedQuery) -> NeedPage:
        """The rows of a cycle that pass a filter."""
        kept = await self._of(view)
        return await asyncio.to_thread(_page, view, kept, query)

    async def _of(self, view: CycleView) -> _Kept:
        async with self._making:  # who comes second finds it made
            if self._kept is None or self._kept.view() is not view:
                self._kept = await asyncio.to_thread(_Kept, view, self._kept)
            return self._kept


def _page(view: CycleView, kept: _Kept, query: NeedQuery) -> NeedPage:
    rows = NeedRows(view, kept.ordered)
    return NeedPage(rows.find(query), rows, kept.frames)


def _frame(row: NeedRow) -> bytes:
    need = need_view_to_proto(row.verdict, row.unresolved, unmet_age=row.unmet_age, parked_age=row.parked_age)
    return pb.InspectNeedsResponse(need=need).SerializeToString(deterministic=True)
