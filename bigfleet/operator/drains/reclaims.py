"""Reclaim instructions: find the nodes, cordon them, acknowledge, and start their drains.

Why: the shard learns within seconds that no new pod gets onto the node; the drain may take ten minutes.
Must never: count or drain a node that is not cordoned, or wait for a drain.
Rules: `operator#node-identity`, `operator#reclaim-order`; ADR-0009, ADR-0074, ADR-0208.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import structlog

from bigfleet.aio.clock import NANOSECONDS, Clock, monotonic_s, timeout
from bigfleet.kube.errors import KubeError, NotFoundError
from bigfleet.kube.write_retry import WriteRetry
from bigfleet.model.frames import ReclaimAck, ReclaimOrder, ReclaimTarget
from bigfleet.model.times import ns_of_iso8601, rfc3339_of_ns
from bigfleet.obs.metrics import Metrics
from bigfleet.operator.caches import OperatorCaches
from bigfleet.operator.core.drain_plan import DEFAULT_GRACE_S
from bigfleet.operator.core.node_identity import MachineNames, NodeMatch, find_node, next_step
from bigfleet.operator.core.upcoming import phase_status
from bigfleet.operator.core.views import NodeView, UpcomingNodeView
from bigfleet.operator.drains.cordons import Cordons
from bigfleet.operator.drains.drains import Drain, Drains
from bigfleet.operator.events import ReclaimEvents
from bigfleet.operator.options import CORDON_PATIENCE_S
from bigfleet.operator.upcoming.writes import UpcomingNodeWriter

_MOST_WARNED: Final = 10_000
"""Machines of which the operator remembers that it warned; with more it begins again."""


@dataclass(slots=True)
class ReclaimJob:
    """One instruction; the ack is sent when each of its nodes is cordoned or given up."""

    order: ReclaimOrder
    grace_s: int
    arrived_wall_ns: int
    arrived_s: float
    ack: Callable[[ReclaimAck], None]
    left: int
    started: int = 0

    @property
    def deadline_text(self) -> str:
        """The deadline as the Node holds it: whole seconds, rounded up."""
        return rfc3339_of_ns(self.arrived_wall_ns + self.grace_s * NANOSECONDS + NANOSECONDS - 1, 0)

    def done(self, *, started: bool) -> None:
        """Finish one node; send the ack with the last one."""
        self.left -= 1
        self.started += started
        if self.left == 0:
            self.ack(ReclaimAck(self.order.instruction_id, self.started))


class Reclaims:
    """Carries out instructions up to the cordon, and records how their drains end."""

    def __init__(
        self,
        caches: OperatorCaches,
        cordons: Cordons,
        writer: UpcomingNodeWriter,
        drains: Drains,
        events: ReclaimEvents,
        *,
        clock: Clock,
        retry: WriteRetry,
        metrics: Metrics,
    ) -> None:
        self._caches, self._cordons, self._writer = caches, cordons, writer
        self._drains, self._events = drains, events
        self._clock, self._retry, self._metrics = clock, retry, metrics
        self._warned: set[str] = set()
        self._log = structlog.get_logger("bigfleet.operator")

    def open(self, order: ReclaimOrder, ack: Callable[[ReclaimAck], None]) -> ReclaimJob:
        """Begin an instruction; its grace starts now."""
        grace_s = order.grace_s if order.grace_s > 0 else DEFAULT_GRACE_S
        return ReclaimJob(
            order, grace_s, self._clock.wall_ns(), monotonic_s(self._clock), ack, len(order.targets)
        )

    def machine_of(self, target: ReclaimTarget) -> str:
        """Return the machine whose queue a target belongs to: the one it names, or the one on the node it names."""
        if target.machine_id or self._caches.upcoming_of(target.entry) is not None:
            return target.machine
        on_node = self._caches.upcoming_on(target.entry)
        return on_node[0].machine_id if len(on_node) == 1 else target.entry

    def resume_drains(self) -> None:
        """Start the drains that an earlier process left unfinished: those of Nodes with a deadline."""
        for node in sorted(self._caches.nodes.by_index("draining", "yes"), key=lambda view: view.name):
            left_s, machine_id = self._remaining_s(node), self._machine_on(node)
            self._log.info("drain_resumed", node=node.name, machine=machine_id, left_s=left_s)
            deadline_s = monotonic_s(self._clock) + left_s
            self._drains.start(Drain(node.name, machine_id, node.reclaim_id, deadline_s, left_s))

    async def handle(self, machine_id: str, job: ReclaimJob, target: ReclaimTarget) -> None:
        """Cordon the node of one target and start its drain."""
        upcoming = self._caches.upcoming_of(machine_id)
        names = MachineNames(
            (target.entry, target.node_name), target.machine_id or machine_id, target.provider_id
        )
        found = find_node(names, upcoming, self._caches)
        if found.node is None:
            self._unresolved(job, target, upcoming, found)
            job.done(started=False)
            return
        self._warned.discard(target.machine)
        if (running := self._drains.on(found.node.name)) is not None:
            await self._tighten(job, running)
            job.done(started=True)
            return
        acked = False
        try:
            async with timeout(self._clock, CORDON_PATIENCE_S):
                await self._cordon(job, found.node, retry_forbidden=True)
        except TimeoutError:
            # Acknowledged without this node, but still tried within the grace: evicting without a cordon only moves pods around.
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

    async def drain_ended(self, machine_id: str, drain: Drain, error: str) -> None:
        """Write the result to the UpcomingNode, then remove the deadline from the Node; a crash in between repeats both."""
        if drain.is_cancelled:
            return
        node, upcoming = self._caches.named(drain.node), self._caches.upcoming_of(machine_id)
        self._events.drain_ended(node, upcoming, error)
        await self._set_phase(machine_id, "Failed" if error else "Drained", error)
        await self._clear_deadline(drain.node)

    async def _begin(self, job: ReclaimJob, machine_id: str, node: NodeView, *, acked: bool) -> None:
        deadline_s = job.arrived_s + job.grace_s
        drain = Drain(node.name, machine_id, job.order.instruction_id, deadline_s, job.grace_s)
        upcoming = self._caches.upcoming_of(machine_id)
        if not acked:
            self._metrics.counter("bigfleet_operator_reclaims_total", outcome="started").inc()
        self._events.reclaim_started(
            node, upcoming, job.order.instruction_id, job.grace_s, job.order.preemptor_priority
        )
        if upcoming is not None:
            await self._set_phase(machine_id, "Draining")
        if not acked:
            job.done(started=True)
        self._drains.start(drain)

    async def _set_phase(self, machine_id: str, phase: str, error: str = "") -> None:
        """Write a phase to the machine's UpcomingNode until it is written or the object is gone."""

        async def attempt() -> None:
            stored = await self._writer.current(machine_id)
            if stored is not None:
                now = rfc3339_of_ns(self._clock.wall_ns(), 0)
                await self._writer.set_status(stored, phase_status(stored, phase, last_error=error, now=now))

        try:
            await self._retry.until_written(attempt)
        except NotFoundError:
            return

    async def _cordon(self, job: ReclaimJob, node: NodeView, *, retry_forbidden: bool) -> None:
        await self._retry.until_written(
            lambda: self._cordons.set(node, job.order.instruction_id, job.deadline_text),
            retry_forbidden=retry_forbidden,
        )

    async def _cordon_late(self, job: ReclaimJob, node: NodeView, machine_id: str) -> bool:
        left_s = job.arrived_s + job.grace_s - monotonic_s(self._clock)
        try:
            async with timeout(self._clock, max(left_s, 0.0)):
                await self._cordon(job, node, retry_forbidden=False)
        except (TimeoutError, KubeError) as error:
            why = str(error) or "the API server did not answer in time"
            await self._set_phase(machine_id, "Failed", f"node {node.name} could not be cordoned: {why}")
            # One of the patches may have been carried out. No drain follows, so no deadline may stay.
            await self._clear_deadline(node.name)
            return False
        return True

    async def _refused(self, job: ReclaimJob, machine_id: str, node: NodeView, error: KubeError) -> None:
        self._metrics.counter("bigfleet_operator_reclaims_total", outcome="cordon_failed").inc()
        self._cordons.log_refusal(node.name, error)
        job.done(started=False)
        await self._set_phase(
            machine_id, "Failed", f"node {node.name} could not be cordoned: {error.message}"
        )

    async def _tighten(self, job: ReclaimJob, running: Drain) -> None:
        self._metrics.counter("bigfleet_operator_reclaims_total", outcome="started").inc()
        deadline_s = job.arrived_s + job.grace_s
        if deadline_s >= running.deadline_s:
            return
        running.deadline_s = deadline_s
        try:
            await self._retry.until_written(lambda: self._cordons.tighten(running.node, job.deadline_text))
        except NotFoundError as error:
            self._cordons.log_refusal(running.node, error)

    async def _clear_deadline(self, node: str) -> None:
        try:
            await self._retry.until_written(lambda: self._cordons.clear_deadline(node))
        except NotFoundError:
            return

    def _unresolved(
        self, job: ReclaimJob, target: ReclaimTarget, upcoming: UpcomingNodeView | None, found: NodeMatch
    ) -> None:
        if not found.ambiguous and (upcoming is None or upcoming.phase != "Ready"):
            self._log.info("reclaim_without_node", entry=target.entry, instruction=job.order.instruction_id)
            return  # no node has joined yet, so there is no pod to evict
        outcome = "ambiguous" if found.ambiguous else "unresolved"
        self._metrics.counter("bigfleet_operator_reclaims_total", outcome=outcome).inc()
        if target.machine not in self._warned:
            if len(self._warned) >= _MOST_WARNED:
                self._warned.clear()
            self._warned.add(target.machine)
            self._log.warning(
                f"reclaim_{outcome}",
                machine=target.machine,
                instruction=job.order.instruction_id,
                next_step=next_step(target.machine, ambiguous=found.ambiguous),
            )
        self._events.reclaim_unresolved(target.machine, upcoming, ambiguous=found.ambiguous)

    def _remaining_s(self, node: NodeView) -> float:
        """Return how much of a recorded deadline is left; 0 if it cannot be read."""
        deadline_ns = ns_of_iso8601(node.reclaim_deadline)
        return 0.0 if deadline_ns is None else max(deadline_ns - self._clock.wall_ns(), 0) / NANOSECONDS

    def _machine_on(self, node: NodeView) -> str:
        on_node = self._caches.upcoming_on(node.name)
        if len(on_node) == 1:
            return on_node[0].machine_id
        provided = self._caches.upcoming_provided(node)
        if not node.machine_id and len(provided) == 1:
            return provided[0].machine_id
        return node.machine_id or node.name
