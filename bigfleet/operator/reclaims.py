"""A reclaim instruction: find the nodes, cordon them, say how many, and leave the rest to their drains.

Why: the shard is told within seconds that nothing new lands on the node; emptying it may take ten minutes.
Must never: count a node that is not cordoned, evict from one that is not, or wait for a drain.
Rules: operator 7.2 and 7.3, ADR-0009, ADR-0074.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import structlog

from bigfleet.aio.clock import NANOSECONDS, Clock, monotonic_s, timeout
from bigfleet.kube.errors import KubeError, NotFoundError
from bigfleet.model.frames import ReclaimAck, ReclaimOrder, ReclaimTarget
from bigfleet.model.times import ns_of_iso8601, rfc3339_of_ns
from bigfleet.obs.metrics import Metrics
from bigfleet.operator.caches import Caches
from bigfleet.operator.cordons import Cordons
from bigfleet.operator.core.drain_plan import DEFAULT_GRACE_S
from bigfleet.operator.core.node_identity import Found, Names, find_node
from bigfleet.operator.core.upcoming import phase_status
from bigfleet.operator.core.views import NodeView, UpcomingView
from bigfleet.operator.drains import Drain, Drains
from bigfleet.operator.landing import Landing
from bigfleet.operator.notes import Notes
from bigfleet.operator.options import CORDON_PATIENCE_S
from bigfleet.operator.upcoming_writes import UpcomingWrites

_NANO: Final = NANOSECONDS


@dataclass(slots=True)
class ReclaimJob:
    """One instruction; the ack goes out when each of its nodes is cordoned or given up."""

    order: ReclaimOrder
    grace_s: int
    arrived_wall_ns: int
    arrived_s: float
    ack: Callable[[ReclaimAck], None]
    left: int
    started: int = 0

    @property
    def deadline_text(self) -> str:
        """When the time is up, as the Node bears it; whole seconds, never too early."""
        return rfc3339_of_ns(self.arrived_wall_ns + self.grace_s * _NANO + _NANO - 1, 0)

    def done(self, *, started: bool) -> None:
        """Take one node off the list; send the ack with the last one."""
        self.left -= 1
        self.started += started
        if self.left == 0:
            self.ack(ReclaimAck(self.order.instruction_id, self.started))


class Reclaims:
    """Carries instructions out as far as the cordon."""

    def __init__(
        self,
        caches: Caches,
        cordons: Cordons,
        writes: UpcomingWrites,
        drains: Drains,
        notes: Notes,
        *,
        clock: Clock,
        landing: Landing,
        metrics: Metrics,
    ) -> None:
        self._caches, self._cordons, self._writes = caches, cordons, writes
        self._drains, self._notes = drains, notes
        self._clock, self._landing, self._metrics = clock, landing, metrics
        self._log = structlog.get_logger("bigfleet.operator")

    def open(self, order: ReclaimOrder, ack: Callable[[ReclaimAck], None]) -> ReclaimJob:
        """Begin an instruction; its time runs from now on."""
        grace_s = order.grace_s if order.grace_s > 0 else DEFAULT_GRACE_S
        return ReclaimJob(
            order, grace_s, self._clock.wall_ns(), monotonic_s(self._clock), ack, len(order.targets)
        )

    def lane_of(self, target: ReclaimTarget) -> str:
        """Return the machine whose lane an entry belongs to: itself, or the one on the node it names."""
        if target.machine_id or self._caches.upcoming_of(target.entry) is not None:
            return target.lane
        on_node = self._caches.upcoming_on(target.entry)
        return on_node[0].machine_id if len(on_node) == 1 else target.entry

    async def handle(self, machine_id: str, job: ReclaimJob, target: ReclaimTarget) -> None:
        """Cordon the node of one entry and start its drain."""
        upcoming = self._caches.upcoming_of(machine_id)
        names = Names((target.entry, target.node_name), target.machine_id or machine_id, target.provider_id)
        found = find_node(names, upcoming, self._caches)
        if found.node is None:
            self._unresolved(job, target, upcoming, found)
            job.done(started=False)
            return
        if (running := self._drains.on(found.node.name)) is not None:
            await self._tighten(job, running)
            job.done(started=True)
            return
        acked = False
        try:
            async with timeout(self._clock, CORDON_PATIENCE_S):
                await self._cordon(job, found.node, refusals_pass=True)
        except TimeoutError:
            # Told without it, and tried on for as long as there is time: evicting without a cordon only reshuffles pods.
            self._metrics.counter("bigfleet_operator_reclaims_total", outcome="cordon_failed").inc()
            job.done(started=False)
            acked = True
            if not await self._cordon_late(job, found.node, machine_id):
                return
        except NotFoundError:
            job.done(started=False)
            return
        except KubeError as error:
            await self._refused(job, machine_id, found.node, error)
            return
        await self._begin(job, machine_id, found.node, acked=acked)

    async def _begin(self, job: ReclaimJob, machine_id: str, node: NodeView, *, acked: bool) -> None:
        deadline_s = job.arrived_s + job.grace_s
        drain = Drain(node.name, machine_id, job.order.instruction_id, deadline_s, job.grace_s)
        upcoming = self._caches.upcoming_of(machine_id)
        if not acked:
            self._metrics.counter("bigfleet_operator_reclaims_total", outcome="started").inc()
        self._notes.reclaim_started(
            node, upcoming, job.order.instruction_id, job.grace_s, job.order.preemptor_priority
        )
        if upcoming is not None:
            await self.set_phase(machine_id, "Draining")
        if not acked:
            job.done(started=True)
        self._drains.start(drain)

    async def set_phase(self, machine_id: str, phase: str, error: str = "") -> None:
        """Write a phase onto the machine's object until it has landed or the object is gone."""

        async def attempt() -> None:
            stored = await self._writes.current(machine_id)
            if stored is not None:
                now = rfc3339_of_ns(self._clock.wall_ns(), 0)
                await self._writes.set_status(stored, phase_status(stored, phase, last_error=error, now=now))

        try:
            await self._landing.land(attempt)
        except NotFoundError:
            return

    async def _cordon(self, job: ReclaimJob, node: NodeView, *, refusals_pass: bool) -> None:
        await self._landing.land(
            lambda: self._cordons.set(node, job.order.instruction_id, job.deadline_text),
            refusals_pass=refusals_pass,
        )

    async def _cordon_late(self, job: ReclaimJob, node: NodeView, machine_id: str) -> bool:
        left_s = job.arrived_s + job.grace_s - monotonic_s(self._clock)
        try:
            async with timeout(self._clock, max(left_s, 0.0)):
                await self._cordon(job, node, refusals_pass=False)
        except (TimeoutError, KubeError) as error:
            why = str(error) or "the API server did not answer in time"
            await self.set_phase(machine_id, "Failed", f"node {node.name} could not be cordoned: {why}")
            # One of the patches may have been carried out all the same; no drain follows, so no deadline may stay.
            await self._drain_is_over(node.name)
            return False
        return True

    async def _refused(self, job: ReclaimJob, machine_id: str, node: NodeView, error: KubeError) -> None:
        self._metrics.counter("bigfleet_operator_reclaims_total", outcome="cordon_failed").inc()
        self._cordons.log_refusal(node.name, error)
        job.done(started=False)
        await self.set_phase(machine_id, "Failed", f"node {node.name} could not be cordoned: {error.message}")

    async def _tighten(self, job: ReclaimJob, running: Drain) -> None:
        self._metrics.counter("bigfleet_operator_reclaims_total", outcome="started").inc()
        deadline_s = job.arrived_s + job.grace_s
        if deadline_s >= running.deadline_s:
            return
        running.deadline_s = deadline_s
        try:
            await self._landing.land(lambda: self._cordons.tighten(running.node, job.deadline_text))
        except NotFoundError as error:
            self._cordons.log_refusal(running.node, error)

    async def _drain_is_over(self, node: str) -> None:
        try:
            await self._landing.land(lambda: self._cordons.drain_is_over(node))
        except NotFoundError:
            return

    def _unresolved(
        self, job: ReclaimJob, target: ReclaimTarget, upcoming: UpcomingView | None, found: Found
    ) -> None:
        if not found.ambiguous and (upcoming is None or upcoming.phase != "Ready"):
            self._log.info("reclaim_without_node", entry=target.entry, instruction=job.order.instruction_id)
            return  # no node has joined yet, so there is nobody to evict
        outcome = "ambiguous" if found.ambiguous else "unresolved"
        self._metrics.counter("bigfleet_operator_reclaims_total", outcome=outcome).inc()
        self._log.error(f"reclaim_{outcome}", entry=target.entry, instruction=job.order.instruction_id)
        self._notes.reclaim_unresolved(target.lane, upcoming, ambiguous=found.ambiguous)


def remaining_s(node: NodeView, clock: Clock) -> float:
    """Return how much of a recorded deadline is left; none, where it cannot be read."""
    deadline_ns = ns_of_iso8601(node.reclaim_deadline)
    return 0.0 if deadline_ns is None else max(deadline_ns - clock.wall_ns(), 0) / NANOSECONDS
