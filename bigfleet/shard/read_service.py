"""The service `ShardRead`: the needs of the last cycle and the verdict on each.

Why: the original's dashboard and our own tools ask it.
Called by: readers with the role readonly or admin; served on the port of the sessions.
Must never: delay a cycle or a session. Rows are made and encoded in a worker thread, a slice at a time, and once per cycle
however many ask.
Rules: wire 6 and 8, shard 19, ADR-0061.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Final

from bigfleet.aio.identity import ADMIN, READONLY
from bigfleet.aio.net import Call
from bigfleet.aio.service import BoundService
from bigfleet.shard.core.inspection import NeedRow, rows_of
from bigfleet.shard.core.views import CycleView, ShardViews
from bigfleet.transport.gates import allow
from bigfleet.transport.shard_reading import SHARD_READ
from bigfleet.v1alpha1 import shardread_pb2 as pb
from bigfleet.wire.need_views import need_view_to_proto

AT_A_TIME: Final = 250
"""Rows that are encoded in one go; few enough to let others at the interpreter, many enough to be worth the way."""


class _Inspected:
    """The rows of one cycle, and the frames of those that somebody has asked for."""

    def __init__(self, view: CycleView) -> None:
        self.view, self.rows = view, rows_of(view)
        self._frames: dict[int, bytes] = {}

    def places(self, cluster: str) -> Sequence[int]:
        """Where the rows of a cluster stand, or all of them."""
        if not cluster:
            return range(len(self.rows))
        return [place for place, row in enumerate(self.rows) if row.verdict.need.cluster == cluster]

    def frames(self, places: Sequence[int]) -> list[bytes]:
        """The frames of some rows, made at most once."""
        for place in places:
            if place not in self._frames:
                self._frames[place] = _frame(self.rows[place])
        return [self._frames[place] for place in places]


class ReadService:
    """Answers `InspectNeeds` from the last completed cycle."""

    def __init__(self, views: ShardViews) -> None:
        self._views = views
        self._inspected: _Inspected | None = None
        self._making = asyncio.Lock()

    def bound(self) -> BoundService:
        """The service, to be served."""
        return SHARD_READ.bind(self)

    @allow(READONLY, ADMIN)
    async def inspect_needs(
        self, request: pb.InspectNeedsRequest, _call: Call
    ) -> AsyncIterator[pb.InspectNeedsResponse | bytes]:
        view = self._views.last_cycle()
        if view is None:
            yield pb.InspectNeedsResponse(header=pb.InspectNeedsHeader())
            return
        inspected = await self._inspect(view)
        places = await asyncio.to_thread(inspected.places, request.cluster_id)
        yield pb.InspectNeedsResponse(
            header=pb.InspectNeedsHeader(
                cycle=view.number, computed_at_unix_nanos=view.computed_at_ns, total_needs=len(places)
            )
        )
        shown = places[: request.limit] if request.limit > 0 else places
        for first in range(0, len(shown), AT_A_TIME):
            for frame in await asyncio.to_thread(inspected.frames, shown[first : first + AT_A_TIME]):
                yield frame

    async def _inspect(self, view: CycleView) -> _Inspected:
        async with self._making:  # who comes second finds it made
            if self._inspected is None or self._inspected.view is not view:
                self._inspected = await asyncio.to_thread(_Inspected, view)
            return self._inspected


def _frame(row: NeedRow) -> bytes:
    need = need_view_to_proto(row.verdict, row.unresolved, unmet_age=row.unmet_age, parked_age=row.parked_age)
    return pb.InspectNeedsResponse(need=need).SerializeToString(deterministic=True)
