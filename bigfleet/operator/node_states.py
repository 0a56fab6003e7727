"""A frame about a machine becomes its UpcomingNode.

Why: the shard sends a state once; whatever goes wrong with the write is made good here, or never.
Must never: drop a frame for an error that passes, write what is there already, or leave a machine that serves cordoned by us.
Rules: operator 6, 7.6; ADR-0016, ADR-0054 (the duration from frame to write), ADR-0057, ADR-0165.
"""

from typing import Final

from bigfleet.aio.clock import Clock, monotonic_s
from bigfleet.kube.errors import KubeError, NotFoundError
from bigfleet.model.frames import MachineNews
from bigfleet.model.machine import MachineState
from bigfleet.model.times import rfc3339_of_ns
from bigfleet.obs.metrics import Metrics
from bigfleet.operator.caches import Caches
from bigfleet.operator.cordons import Cordons
from bigfleet.operator.core.node_identity import Names, find_node, reference_to
from bigfleet.operator.core.upcoming import Keep, Leave, Remove, wanted_after
from bigfleet.operator.core.views import NodeView, UpcomingView
from bigfleet.operator.drains import Drains
from bigfleet.operator.items import Item, NewsItem, OrphanItem
from bigfleet.operator.landing import Landing
from bigfleet.operator.lanes import Lanes
from bigfleet.operator.upcoming_writes import UpcomingWrites

_SERVING: Final = (MachineState.CONFIGURING, MachineState.CONFIGURED)
"""States in which no reclaim is under way: a shard that wants a machine back says Draining."""


class NodeStates:
    """Keeps UpcomingNodes equal to what the shard says."""

    def __init__(
        self,
        caches: Caches,
        writes: UpcomingWrites,
        cordons: Cordons,
        drains: Drains,
        *,
        clock: Clock,
        landing: Landing,
        metrics: Metrics,
    ) -> None:
        self._caches, self._writes, self._cordons, self._drains = caches, writes, cordons, drains
        self._clock, self._landing, self._metrics = clock, landing, metrics

    async def handle(self, machine_id: str, item: NewsItem, lanes: Lanes[Item]) -> None:
        """Write the object until it has landed, a newer frame waits, or the machine is gone."""
        if item.news.state in _SERVING:
            await self._end_reclaim(machine_id, item.news)
        missing = False

        async def attempt() -> str:
            nonlocal missing
            try:
                return await self._apply(machine_id, item.news, missing=missing)
            except NotFoundError:
                # Deleted by hand: the machine is still bound, so the next try creates it.
                missing = True
                return await self._apply(machine_id, item.news, missing=True)

        phase = await self._landing.land(
            attempt, is_stale=lambda: lanes.has_newer(machine_id, NewsItem, OrphanItem)
        )
        if phase:
            took_s = monotonic_s(self._clock) - item.arrived_s
            self._metrics.histogram(
                "bigfleet_operator_node_state_update_duration_seconds", phase=phase
            ).observe(took_s)

    async def look_at_node(self, machine_id: str) -> None:
        """Note the machine's Node on its object, where it is not noted yet."""

        async def attempt() -> None:
            stored = await self._writes.current(machine_id)
            if stored is None or not stored.status.get("phase"):
                return  # the frame whose object this is has yet to write its status, and notes the Node with it
            node = self._node_of(machine_id, stored)
            if node is not None and stored.node_ref != reference_to(node):
                await self._writes.set_status(stored, {**stored.status, "nodeRef": reference_to(node)})

        try:
            await self._landing.land(attempt)
        except NotFoundError:
            return  # it went meanwhile, and its reference with it

    async def _apply(self, machine_id: str, news: MachineNews, *, missing: bool) -> str:
        """Write the object once; return the phase it ended in, empty when there was nothing to write about."""
        stored = None if missing else await self._writes.current(machine_id)
        node = self._node_of(machine_id, stored, news)
        wanted = wanted_after(
            news,
            stored,
            node_ref=reference_to(node) if node is not None else _named(news),
            drain_has_spoken=node is not None and bool(node.reclaim_id),
            now=rfc3339_of_ns(self._clock.wall_ns(), 0),
        )
        match wanted:
            case Leave():
                return ""
            case Remove() if stored is not None:
                await self._writes.remove(stored.name, wanted.uid)
                return "Drained"
            case Keep():
                await self._writes.keep(machine_id, wanted, stored)
                return wanted.phase
        return ""

    def _node_of(
        self, machine_id: str, stored: UpcomingView | None, news: MachineNews | None = None
    ) -> NodeView | None:
        entries = (news.node_name, machine_id) if news is not None else (machine_id,)
        provider_id = news.provider_id if news is not None else ""
        return find_node(Names(entries, machine_id, provider_id), stored, self._caches).node

    async def _end_reclaim(self, machine_id: str, news: MachineNews) -> None:
        """End what an earlier instruction began: the machine has a new life, or is not to leave after all (ADR-0165)."""
        node = self._node_of(machine_id, self._caches.upcoming_of(machine_id), news)
        self._drains.end(machine_id, node.name if node is not None else "")
        if node is None:
            return
        try:
            await self._landing.land(lambda: self._cordons.lift(node.name))
        except NotFoundError:
            return
        except KubeError as error:
            self._cordons.log_refusal(node.name, error)


def _named(news: MachineNews) -> dict[str, str] | None:
    """Return the reference that a frame brings itself, for a Node that is not in sight yet."""
    return {"apiVersion": "v1", "kind": "Node", "name": news.node_name} if news.node_name else None
