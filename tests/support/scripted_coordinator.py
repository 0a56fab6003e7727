"""A coordinator that answers reports as a test scripts it, and records them.

Why: the shard's client must be tried against leaders that are late, deposed, refusing or gone, which no real one is on
demand.
Must never: answer any other call; nothing of a shard makes one.
Rules: `coordinator#calls`, `coordinator#instructions`.

    coordinator = ScriptedCoordinator(clock)
    coordinator.answers(ReportAnswer(term=7, acknowledged=True, instructions=(...)))
    server = await net.serve(":7790", [coordinator.bound()])
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator

from bigfleet.aio.clock import Clock, monotonic_s
from bigfleet.aio.net import Call, Code, RpcRefusedError
from bigfleet.aio.service import BoundService
from bigfleet.model.instruction import ReportAnswer
from bigfleet.model.shard_report import ShardReport
from bigfleet.transport.coordinator import COORDINATOR, LEADER, RAFT_STATE
from bigfleet.v1alpha1 import coordinator_pb2 as pb
from bigfleet.wire.shard_reports import answer_to_proto, report_from_proto


class ScriptedCoordinator:
    """Answers term 1 and nothing to do, unless the script says otherwise for the next report."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.reports: list[ShardReport] = []
        """Every report that arrived, refused ones included."""
        self.arrivals_s: list[float] = []
        """When each of them came, by the monotonic clock."""
        self.hangs = False
        """Takes reports and never answers."""
        self._script: deque[ReportAnswer | RpcRefusedError] = deque()
        self._usual: ReportAnswer | RpcRefusedError = ReportAnswer(1, acknowledged=True)
        self.calls_at_once = 0
        """The most calls that were ever under way together."""
        self._under_way = 0

    def answers(self, *answers: ReportAnswer | RpcRefusedError) -> None:
        """Give these answers to the next reports, in this order."""
        self._script.extend(answers)

    def usually(self, answer: ReportAnswer | RpcRefusedError) -> None:
        """Give this answer whenever the script is over."""
        self._usual = answer

    def follows(self, leader: str = "") -> None:
        """Answer as a follower from now on, with a hint where the leader is or without."""
        hint = ((LEADER, leader),) if leader else ()
        self._usual = RpcRefusedError(
            Code.FAILED_PRECONDITION, "not leader", (*hint, (RAFT_STATE, "follower"))
        )

    def bound(self) -> BoundService:
        """The service, to be served."""
        return COORDINATOR.bind(self)

    async def report_shard(self, request: pb.ShardReport, _call: Call) -> pb.ReportAck:
        self._under_way += 1
        self.calls_at_once = max(self.calls_at_once, self._under_way)
        try:
            self.reports.append(report_from_proto(request))
            self.arrivals_s.append(monotonic_s(self._clock))
            if self.hangs:
                await asyncio.get_running_loop().create_future()
            answer = self._script.popleft() if self._script else self._usual
            if isinstance(answer, RpcRefusedError):
                raise answer
            return answer_to_proto(answer)
        finally:
            self._under_way -= 1

    async def _nothing_else(self, _request: object, _call: Call) -> object:
        raise RpcRefusedError(Code.UNIMPLEMENTED, "a shard only reports")

    async def snapshot_save(self, _request: object, _call: Call) -> AsyncIterator[pb.SnapshotSaveChunk]:
        for chunk in list[pb.SnapshotSaveChunk]():
            yield chunk
        raise RpcRefusedError(Code.UNIMPLEMENTED, "a shard only reports")

    assign_domain = unassign_domain = remove_shard = join_raft_cluster = _nothing_else
    list_shards = list_domain_assignments = list_shard_reports = _nothing_else
