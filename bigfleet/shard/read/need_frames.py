"""Encodes rows of needs as frames, for every service that shows them; a row at most once per cycle unless machines of
its need are in flight.

Why: `InspectNeeds` and `ListNeeds` send the same bytes per row: field 2 of both responses is the need.
Must never: work on the event loop, hold the interpreter for long, or encode a row that was not requested.
Rules: `wire#inspection`, `shard#inspection`, `dashboard#insight-service`, `dashboard#budgets`.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Final
from weakref import ref

from bigfleet.insight.v1 import insight_pb2
from bigfleet.shard.core.coverage import Coverage
from bigfleet.shard.core.read.need_rows import NeedQuery, NeedRow, NeedRows, NeedsFound, Ordered
from bigfleet.shard.core.views import CycleView
from bigfleet.shard.read.coverage_reader import CoverageReader
from bigfleet.v1alpha1 import shardread_pb2 as pb
from bigfleet.wire.need_views import need_view_to_proto

AT_A_TIME: Final = 250
"""Rows encoded at a time: enough to be worth a thread switch, few enough not to hold the interpreter for long."""


class _Kept:
    """The row order and the encoded frames of the newest cycle read; not the cycle itself, see `Ordered`."""

    def __init__(self, view: CycleView, before: "_Kept | None" = None) -> None:
        self.view: ref[CycleView] = ref(view)
        self.ordered: Ordered = NeedRows(view, None if before is None else before.ordered).ordered
        self.frames: dict[int, bytes] = {}
        if before is not None and before.ordered is self.ordered:
            # The decision is the same: only short needs differ, since their age has grown.
            self.frames = before.frames.copy()  # the old dict may still be in use
            for row in self.ordered.short:
                self.frames.pop(row, None)


@dataclass(frozen=True, slots=True)
class NeedPage:
    """Rows that pass a filter, in one cycle."""

    found: NeedsFound
    rows: NeedRows
    made: dict[int, bytes]
    """The frames encoded so far, by row; without the rows that change between two cycles."""
    open_rows: frozenset[int]
    """The rows with machines in flight: encoded for every question."""

    async def frames(self, rows: Sequence[int]) -> AsyncIterator[bytes]:
        """The frames of some rows, encoded in a thread, a slice at a time."""
        for first in range(0, len(rows), AT_A_TIME):
            for frame in await asyncio.to_thread(self._frames, rows[first : first + AT_A_TIME]):
                yield frame

    async def batches(self, rows: Sequence[int]) -> AsyncIterator[bytes]:
        """The same with one frame per slice; a row is field 2 of both messages, so their bytes are joined."""
        for first in range(0, len(rows), AT_A_TIME):
            yield await asyncio.to_thread(self._batch, rows[first : first + AT_A_TIME])

    def _batch(self, rows: Sequence[int]) -> bytes:
        batch = insight_pb2.NeedBatch.FromString(b"".join(self._frames(rows)))
        return insight_pb2.ListNeedsResponse(batch=batch).SerializeToString(deterministic=True)

    def _frames(self, rows: Sequence[int]) -> list[bytes]:
        made, frames = self.made, []
        for row in rows:
            frame = made.get(row)
            if frame is None:
                frame = _frame(self.rows[row])
                if row not in self.open_rows:
                    made[row] = frame
            frames.append(frame)
        return frames


class NeedFrames:
    """The frames of the newest cycle read."""

    def __init__(self, coverage: CoverageReader) -> None:
        self._coverage = coverage
        self._kept: _Kept | None = None
        self._making = asyncio.Lock()

    async def page(self, view: CycleView, query: NeedQuery) -> NeedPage:
        """The rows of a cycle that pass a filter."""
        kept, coverage = await self._of(view), await self._coverage.now(view)
        return await asyncio.to_thread(_page, view, kept, query, coverage)

    async def _of(self, view: CycleView) -> _Kept:
        async with self._making:  # a second reader waits and reuses it
            if self._kept is None or self._kept.view() is not view:
                self._kept = await asyncio.to_thread(_Kept, view, self._kept)
            return self._kept


def _page(view: CycleView, kept: _Kept, query: NeedQuery, coverage: Coverage) -> NeedPage:
    rows = NeedRows(view, kept.ordered, coverage)
    row_of = kept.ordered.order.row_of
    open_rows = frozenset(row_of[place] for place in coverage.open_places)
    return NeedPage(rows.find(query), rows, kept.frames, open_rows)


def _frame(row: NeedRow) -> bytes:
    need = need_view_to_proto(
        row.verdict,
        row.unresolved,
        unmet_age=row.unmet_age,
        parked_age=row.parked_age,
        coverage=row.coverage,
    )
    return pb.InspectNeedsResponse(need=need).SerializeToString(deterministic=True)
