"""From frame to lane, and from lane to handler.

Why: one table says who handles what; the receiver and the handlers do not know each other.
Must never: wait while filing.
Rules: operator 3.5 and 3.6.
"""

import asyncio

import structlog

from bigfleet.aio.clock import Clock, monotonic_s
from bigfleet.kube.errors import NotFoundError
from bigfleet.kube.resources import UPCOMING_NODES
from bigfleet.model.frames import CapacityHint, MachineNews, ReclaimAck, ReclaimOrder
from bigfleet.obs.metrics import Metrics
from bigfleet.operator.available import AvailableCapacities
from bigfleet.operator.caches import Caches
from bigfleet.operator.cordons import Cordons
from bigfleet.operator.drains import Drains
from bigfleet.operator.items import (
    NEWEST_ONLY,
    DrainEndedItem,
    Item,
    NewsItem,
    NodeSeenItem,
    OrphanItem,
    ReclaimItem,
)
from bigfleet.operator.landing import Landing
from bigfleet.operator.lanes import Lanes
from bigfleet.operator.node_states import NodeStates
from bigfleet.operator.notes import Notes
from bigfleet.operator.options import HANDLERS, OperatorOptions
from bigfleet.operator.reclaims import Reclaims
from bigfleet.operator.sending import Uplink
from bigfleet.operator.sweeps import Sweep
from bigfleet.operator.upcoming_writes import UpcomingWrites
from bigfleet.wire.operator_frames import answer_frame


class Dispatch:
    """Knows every handler."""

    def __init__(
        self,
        options: OperatorOptions,
        caches: Caches,
        *,
        states: NodeStates,
        reclaims: Reclaims,
        cordons: Cordons,
        writes: UpcomingWrites,
        drains: Drains,
        notes: Notes,
        hints: AvailableCapacities,
        clock: Clock,
        landing: Landing,
        metrics: Metrics,
    ) -> None:
        self._options, self._caches, self._states, self._reclaims = options, caches, states, reclaims
        self._cordons, self._writes, self._drains, self._notes = cordons, writes, drains, notes
        self._hints, self._clock, self._landing, self._metrics = hints, clock, landing, metrics
        self._log = structlog.get_logger("bigfleet.operator")
        permits = asyncio.Semaphore(HANDLERS)
        self.lanes: Lanes[Item] = Lanes(self._handle, permits, metrics, newest_only=NEWEST_ONLY)
        self._hint_lanes: Lanes[CapacityHint] = Lanes(
            self._handle_hint, permits, metrics, newest_only=(CapacityHint,)
        )

    # ---- filing, for sessions and background tasks

    def news(self, news: MachineNews) -> None:
        self.lanes.file(news.machine_id, NewsItem(news, monotonic_s(self._clock)))

    def reclaim(self, order: ReclaimOrder, uplink: Uplink) -> None:
        def ack(answer: ReclaimAck) -> None:
            if not uplink.put(answer_frame(answer)):
                self._log.warning("reclaim_ack_dropped", instruction=answer.instruction_id)

        job = self._reclaims.open(order, ack)
        for target in order.targets:
            self.lanes.file(self._reclaims.lane_of(target), ReclaimItem(job, target))

    def hint(self, hint: CapacityHint) -> None:
        self._hint_lanes.file(self._hints.heard(hint), hint)

    def node_seen(self, machine_id: str) -> None:
        """File that a machine's Node is there, or has changed."""
        self.lanes.file(machine_id, NodeSeenItem())

    def sweep(self) -> Sweep | None:
        if not self._options.orphan_sweep:
            return None
        return Sweep(
            self._caches,
            lambda: self._drains.machines,
            self._orphan,
            under_way=self.lanes,
            clock=self._clock,
            patience_s=self._options.sweep_patience_s,
        )

    def _orphan(self, machine_id: str, uid: str) -> None:
        self.lanes.file(machine_id, OrphanItem(uid))

    async def close(self) -> None:
        """Stop all lanes."""
        await self.lanes.close()
        await self._hint_lanes.close()

    # ---- handling, inside a lane

    async def _handle(self, machine_id: str, item: Item) -> None:
        match item:
            case NewsItem():
                await self._states.handle(machine_id, item, self.lanes)
            case ReclaimItem():
                await self._reclaims.handle(machine_id, item.job, item.target)
            case DrainEndedItem():
                await self._drain_ended(machine_id, item)
            case NodeSeenItem():
                await self._states.look_at_node(machine_id)
            case OrphanItem():
                await self._delete_orphan(machine_id, item.uid)

    async def _handle_hint(self, name: str, hint: CapacityHint) -> None:
        await self._hints.handle(name, hint, self._hint_lanes)

    async def _drain_ended(self, machine_id: str, item: DrainEndedItem) -> None:
        """Say on the object how it ended, then take the deadline off the Node: a crash in between repeats, and loses nothing."""
        drain = item.drain
        if drain.is_overtaken:
            return
        node, upcoming = self._caches.named(drain.node), self._caches.upcoming_of(machine_id)
        self._notes.drain_ended(node, upcoming, item.error)
        await self._reclaims.set_phase(machine_id, "Failed" if item.error else "Drained", item.error)
        try:
            await self._landing.land(lambda: self._cordons.drain_is_over(drain.node))
        except NotFoundError:
            return

    async def _delete_orphan(self, machine_id: str, uid: str) -> None:
        async def attempt() -> bool:
            stored = await self._writes.current(machine_id)
            if stored is None or uid not in ("", stored.uid):
                return False
            await self._writes.remove(stored.name, stored.uid)
            return True

        if await self._landing.land(attempt):
            self._metrics.counter("bigfleet_operator_orphans_deleted_total", kind=UPCOMING_NODES.kind).inc()
