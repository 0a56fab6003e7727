"""The service `ShardRead`: the needs of the last cycle and the verdict on each.

Must never: delay a cycle or a session. Rows are encoded in a worker thread, a slice at a time, and once per cycle.
Rules: `wire#inspection`, `wire#identity`, `shard#inspection`; ADR-0061.
"""

from collections.abc import AsyncIterator

from bigfleet.aio.identity import ADMIN, READONLY
from bigfleet.aio.net import Call
from bigfleet.aio.service import BoundService
from bigfleet.shard.core.read.need_rows import NeedQuery
from bigfleet.shard.core.views import ShardViews
from bigfleet.shard.read.coverage_reader import CoverageReader
from bigfleet.shard.read.need_frames import NeedFrames
from bigfleet.transport.gates import allow
from bigfleet.transport.shard_reading import SHARD_READ
from bigfleet.v1alpha1 import shardread_pb2 as pb


class ReadService:
    """Answers `InspectNeeds` from the last completed cycle."""

    def __init__(self, views: ShardViews, frames: NeedFrames | None = None) -> None:
        """`frames` are shared with the other services that show needs of this shard."""
        self._views, self._frames = views, frames or NeedFrames(CoverageReader(views))

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
        query = NeedQuery(clusters=(request.cluster_id,) if request.cluster_id else ())
        page = await self._frames.page(view, query)
        yield pb.InspectNeedsResponse(
            header=pb.InspectNeedsHeader(
                cycle=view.number,
                computed_at_unix_nanos=view.computed_at_ns,
                total_needs=len(page.found.rows),
            )
        )
        shown = page.found.rows[: request.limit] if request.limit > 0 else page.found.rows
        async for frame in page.frames(shown):
            yield frame
