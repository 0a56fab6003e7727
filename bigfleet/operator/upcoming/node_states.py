"""Writes each node state of the shard to the UpcomingNode of its machine.

Why: the shard sends a state once, so a write that fails must be repeated here.
Must never: drop a node state on a temporary error, write what is stored already, or leave our cordon on a machine that serves.
Rules: `operator#upcoming-lifecycle`, `operator#serving-ends-reclaim`; ADR-0016, ADR-0054, ADR-0057, ADR-0165.
"""

from typing import Final

from bigfleet.aio.clock import Clock, monotonic_s
from bigfleet.kube.errors import KubeError, NotFoundError
from bigfleet.kube.resources import UPCOMING_NODES
from bigfleet.kube.write_retry import WriteRetry
from bigfleet.model.frames import NodeStateUpdate
from bigfleet.model.machine import MachineState
from bigfleet.model.times import rfc3339_of_ns
from bigfleet.obs.metrics import Metrics
from bigfleet.operator.caches import OperatorCaches
from bigfleet.operator.core.node_identity import MachineNames, find_node, reference_to
from bigfleet.operator.core.upcoming import Keep, Leave, Remove, wanted_after
from bigfleet.operator.core.views import NodeView, UpcomingNodeView
from bigfleet.operator.drains.cordons import Cordons
from bigfleet.operator.drains.drains import Drains
from bigfleet.operator.task_queues import TaskQueues
from bigfleet.operator.tasks import DeleteOrphanTask, MachineTask, NodeStateTask
from bigfleet.operator.upcoming.writes import UpcomingNodeWriter

_SERVING: Final = (MachineState.CONFIGURING, MachineState.CONFIGURED)
"""States in which no reclaim is under way: a shard that reclaims a machine sends Draining."""


class NodeStateHandler:
    """Keeps the UpcomingNodes equal to the node states."""

    def __init__(
        self,
        caches: OperatorCaches,
        writer: UpcomingNodeWriter,
        cordons: Cordons,
        drains: Drains,
        *,
        clock: Clock,
        retry: WriteRetry,
        metrics: Metrics,
    ) -> None:
        self._caches, self._writer, self._cordons, self._drains = caches, writer, cordons, drains
        self._clock, self._retry, self._metrics = clock, retry, metrics

    async def handle(self, machine_id: str, task: NodeStateTask, queues: TaskQueues[MachineTask]) -> None:
        """Write the object until it is written, a newer node state waits, or the machine is gone."""
        if task.update.state in _SERVING:
            await self._end_reclaim(machine_id, task.update)
        missing = False

        async def attempt() -> str:
            nonlocal missing
            try:
                return await self._apply(machine_id, task.update, missing=missing)
            except NotFoundError:
                # Deleted by hand: the machine is still bound, so the object is created again.
                missing = True
                return await self._apply(machine_id, task.update, missing=True)

        phase = await self._retry.until_written(
            attempt, is_stale=lambda: queues.has_waiting(machine_id, NodeStateTask, DeleteOrphanTask)
        )
        if phase:
            took_s = monotonic_s(self._clock) - task.arrived_s
            self._metrics.histogram(
                "bigfleet_operator_node_state_update_duration_seconds", phase=phase
            ).observe(took_s)

    async def record_node(self, machine_id: str) -> None:
        """Write the reference to the machine's Node into its object, if it is not there yet."""

        async def attempt() -> None:
            stored = await self._writer.current(machine_id)
            if stored is None or not stored.status.get("phase"):
                return  # the task that creates the object has yet to write its status, with the reference
            node = self._node_of(machine_id, stored)
            if node is not None and stored.node_ref != reference_to(node):
                await self._writer.set_status(stored, {**stored.status, "nodeRef": reference_to(node)})

        try:
            await self._retry.until_written(attempt)
        except NotFoundError:
            return  # the object was deleted meanwhile

    async def delete_orphan(self, machine_id: str, uid: str) -> None:
        """Delete the object of a machine that has left, unless another object has its name by now."""

        async def attempt() -> bool:
            stored = await self._writer.current(machine_id)
            if stored is None or uid not in ("", stored.uid):
                return False
            await self._writer.remove(stored.name, stored.uid)
            return True

        if await self._retry.until_written(attempt):
            self._metrics.counter("bigfleet_operator_orphans_deleted_total", kind=UPCOMING_NODES.kind).inc()

    async def _apply(self, machine_id: str, update: NodeStateUpdate, *, missing: bool) -> str:
        """Write the object once; return the phase it ended in, empty if there was nothing to write."""
        stored = None if missing else await self._writer.current(machine_id)
        node = self._node_of(machine_id, stored, update)
        wanted = wanted_after(
            update,
            stored,
            node_ref=reference_to(node) if node is not None else _named(update),
            under_reclaim=node is not None and bool(node.reclaim_id),
            now=rfc3339_of_ns(self._clock.wall_ns(), 0),
        )
        match wanted:
            case Leave():
                return ""
            case Remove() if stored is not None:
                await self._writer.remove(stored.name, wanted.uid)
                return "Drained"
            case Keep():
                await self._writer.keep(machine_id, wanted, stored)
                return wanted.phase
        return ""

    def _node_of(
        self, machine_id: str, stored: UpcomingNodeView | None, update: NodeStateUpdate | None = None
    ) -> NodeView | None:
        entries = (update.node_name, machine_id) if update is not None else (machine_id,)
        provider_id = update.provider_id if update is not None else ""
        return find_node(MachineNames(entries, machine_id, provider_id), stored, self._caches).node

    async def _end_reclaim(self, machine_id: str, update: NodeStateUpdate) -> None:
        """Cancel an earlier reclaim: the machine serves again, or is not to leave after all (ADR-0165)."""
        node = self._node_of(machine_id, self._caches.upcoming_of(machine_id), update)
        self._drains.cancel(machine_id, node.name if node is not None else "")
        if node is None:
            return
        try:
            await self._retry.until_written(lambda: self._cordons.lift(node.name))
        except NotFoundError:
            return
        except KubeError as error:
            self._cordons.log_refusal(node.name, error)


def _named(update: NodeStateUpdate) -> dict[str, str] | None:
    """Return the reference in the node state itself, for a Node that is not in the cache yet."""
    return {"apiVersion": "v1", "kind": "Node", "name": update.node_name} if update.node_name else None
