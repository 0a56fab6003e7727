"""Reads roll-ups: small ones where they arrive, large ones in a thread, a slice of each cluster in turn.

Why: reading a roll-up takes up to seconds, all clusters share one interpreter, and a peer decides how many rows it sends and how
often. So a large roll-up is read slice by slice, clusters take turns by slices, and one that is over its share waits.
Must never: let one cluster's roll-up wait for the whole of another's, or apply roll-ups of a session in another order than they came.
Rules: `shard#two-lanes`, `shard#rollup-ingest`, `shard#ingest-share`; ADR-0235.
"""

import asyncio
from collections import deque
from collections.abc import Generator
from functools import partial
from typing import Final

from bigfleet.aio.clock import Clock, monotonic_s
from bigfleet.aio.net import Code, RpcRefusedError
from bigfleet.model.errors import InvalidFieldError
from bigfleet.obs.limited_log import LimitedLog
from bigfleet.obs.metrics import Metrics
from bigfleet.shard.core.ingest_shares import IngestShares
from bigfleet.shard.session.operator_session import OperatorSession
from bigfleet.shard.session.rollup_intake import ReadRollup, RollupIntake
from bigfleet.shard.session.sessions import Sessions
from bigfleet.transport.status import GENERIC_DETAIL
from bigfleet.wire import session_frames
from bigfleet.wire.rollups import Rollup

READ_ASIDE_BYTES: Final = 16 * 1024
"""A larger roll-up is read in a thread, to keep the event loop free: this one may have a thousand rows, each costing what a
usual row of ten times its length costs."""

REFUSAL_KEY: Final = "refusal"
"""Only the newest refusal waits for an operator that does not read."""

_Reading = Generator[None, None, Rollup]


class RollupLanes:
    """Gives the lanes of all sessions their turns."""

    def __init__(
        self,
        intake: RollupIntake,
        sessions: Sessions,
        *,
        share: float,
        clock: Clock,
        metrics: Metrics,
        log: LimitedLog,
    ) -> None:
        self.intake, self.sessions = intake, sessions
        self._shares, self._clock, self._metrics, self._log = IngestShares(share), clock, metrics, log
        self._turns: deque[RollupLane] = deque()
        self._working: asyncio.Task[None] | None = None

    def lane(self, session: OperatorSession) -> "RollupLane":
        """Return the lane of a session."""
        return RollupLane(session, self)

    def is_within_share(self, cluster: str) -> bool:
        """Whether the cluster's next roll-up need not wait for its share."""
        return not self._shares.wait_s(cluster, monotonic_s(self._clock))

    def charge(self, cluster: str, since_s: float) -> None:
        """Charge a cluster for the time since then."""
        now_s = monotonic_s(self._clock)
        self._shares.charge(cluster, now_s - since_s, now_s)

    def now_s(self) -> float:
        """The time to give to `charge` later."""
        return monotonic_s(self._clock)

    def enqueue(self, lane: "RollupLane") -> None:
        """Give a lane a turn after all that wait."""
        self._turns.append(lane)
        if self._working is None or self._working.done():
            self._working = asyncio.get_running_loop().create_task(self._work(), name="roll-up lanes")

    async def _work(self) -> None:
        while self._turns:
            lane = self._turns.popleft()
            wait_s = self._shares.wait_s(lane.cluster, monotonic_s(self._clock))
            if wait_s > 0 and lane.session.is_open:
                self._metrics.counter("bigfleet_shard_ingest_waits_total", what="rollup").inc()
                # Its turn comes later; the newest roll-up that arrives until then is the one that is read.
                self._clock.call_later(wait_s, partial(self.enqueue, lane))
                continue
            try:
                unfinished = await lane.turn()
            except Exception:
                # A defect met in one cluster's roll-up ends its session and no other's.
                self._log.error("rollup_defect", lane.cluster, exc_info=True)
                lane.session.end(RpcRefusedError(Code.INTERNAL, GENERIC_DETAIL))
                continue
            if unfinished:
                self._turns.append(lane)


class RollupLane:
    """The roll-ups of one session: one in work, one waiting; a newer one replaces the waiting one, which gets no acknowledgement."""

    def __init__(self, session: OperatorSession, lanes: RollupLanes) -> None:
        self.session, self._lanes = session, lanes
        self._reader = lanes.intake.reader(session.cluster)
        self._waiting: bytes | None = None
        self._reading: _Reading | None = None
        self._has_turn = False
        session.ended.add_done_callback(self._drop)

    @property
    def cluster(self) -> str:
        return self.session.cluster

    def put(self, data: bytes) -> None:
        """Read a roll-up now, or queue it."""
        small = len(data) <= READ_ASIDE_BYTES
        if small and not self._has_turn and self._lanes.is_within_share(self.cluster):
            self._take(data)
            return
        self._waiting = data
        if not self._has_turn:
            self._has_turn = True
            self._lanes.enqueue(self)

    def _drop(self, _ended: object) -> None:
        """Forget what was not read; a lane that is over its share waits for minutes before it has a turn."""
        self._waiting = self._reading = None

    async def turn(self) -> bool:
        """Read a slice of the roll-up in work, or begin the one that waits; return whether there is more to read."""
        if self._reading is None and self._waiting is not None:
            self._reading, self._waiting = self._reader.in_slices(self._waiting), None
        if self._reading is not None:
            began_s = self._lanes.now_s()
            try:
                rollup = await asyncio.to_thread(self._slice, self._reading)
            except InvalidFieldError as error:
                self._reading = None
                self._refuse(error)
            else:
                if rollup is not None:
                    self._reading = None
                    self._apply(rollup)
            self._lanes.charge(self.cluster, began_s)
        self._has_turn = self._reading is not None or self._waiting is not None
        return self._has_turn

    def _take(self, data: bytes) -> None:
        began_s = self._lanes.now_s()
        try:
            self._apply(self._lanes.intake.prepared(self._reader.read(data)))
        except InvalidFieldError as error:
            self._refuse(error)
        self._lanes.charge(self.cluster, began_s)

    def _apply(self, rollup: ReadRollup) -> None:
        if self.session.is_open:
            self._lanes.intake.take(rollup)
            self.session.send(self._lanes.sessions.acknowledge(session_frames.ROLLUP_ECHO))

    def _refuse(self, error: InvalidFieldError) -> None:
        self._lanes.intake.refused(self.cluster, error)
        self.session.send(self._lanes.sessions.refuse_rollup(str(error)), REFUSAL_KEY)

    def _slice(self, reading: _Reading) -> ReadRollup | None:
        """Read on until the next pause; the roll-up once it is whole. For a thread."""
        try:
            next(reading)
        except StopIteration as end:
            whole: Rollup = end.value
            return self._lanes.intake.prepared(whole)
        return None
