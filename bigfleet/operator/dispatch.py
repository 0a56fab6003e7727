"""Puts frames and observations into task queues, and tasks into the hands of their handlers.

Must never: wait in a method that a session calls.
Rules: `operator#frame-dispatch`, `operator#lanes`.
"""

import asyncio

import structlog

from bigfleet.aio.clock import Clock, monotonic_s
from bigfleet.model.frames import CapacityHint, NodeStateUpdate, ReclaimAck, ReclaimOrder
from bigfleet.obs.metrics import Metrics
from bigfleet.operator.available_capacities import AvailableCapacities
from bigfleet.operator.caches import OperatorCaches
from bigfleet.operator.drains.drains import Drains
from bigfleet.operator.drains.reclaims import Reclaims
from bigfleet.operator.options import HANDLERS, OperatorOptions
from bigfleet.operator.session.uplink import Uplink
from bigfleet.operator.task_queues import TaskQueues
from bigfleet.operator.tasks import (
    NEWEST_ONLY,
    DeleteOrphanTask,
    DrainEndedTask,
    MachineTask,
    NodeSeenTask,
    NodeStateTask,
    ReclaimTask,
)
from bigfleet.operator.upcoming.node_states import NodeStateHandler
from bigfleet.operator.upcoming.orphan_sweep import OrphanSweep
from bigfleet.wire.operator_frames import answer_frame


class TaskDispatcher:
    """Knows every queue and every handler."""

    def __init__(
        self,
        options: OperatorOptions,
        caches: OperatorCaches,
        *,
        states: NodeStateHandler,
        reclaims: Reclaims,
        drains: Drains,
        hints: AvailableCapacities,
        clock: Clock,
        metrics: Metrics,
    ) -> None:
        self._options, self._caches, self._states, self._reclaims = options, caches, states, reclaims
        self._drains, self._hints, self._clock = drains, hints, clock
        self._log = structlog.get_logger("bigfleet.operator")
        permits = asyncio.Semaphore(HANDLERS)
        self.queues: TaskQueues[MachineTask] = TaskQueues(
            self._handle, permits, metrics, newest_only=NEWEST_ONLY
        )
        self._hint_queues: TaskQueues[CapacityHint] = TaskQueues(
            self._handle_hint, permits, metrics, newest_only=(CapacityHint,)
        )

    # ---- for sessions and background tasks

    def node_state(self, update: NodeStateUpdate) -> None:
        """Queue a node state."""
        self.queues.put(update.machine_id, NodeStateTask(update, monotonic_s(self._clock)))

    def reclaim(self, order: ReclaimOrder, uplink: Uplink) -> None:
        """Queue an instruction; its ack goes out on this session."""

        def ack(answer: ReclaimAck) -> None:
            if not uplink.put(answer_frame(answer)):
                self._log.warning("reclaim_ack_dropped", instruction=answer.instruction_id)

        job = self._reclaims.open(order, ack)
        for target in order.targets:
            self.queues.put(self._reclaims.machine_of(target), ReclaimTask(job, target))

    def hint(self, hint: CapacityHint) -> None:
        """Queue a hint."""
        self._hint_queues.put(self._hints.received(hint), hint)

    def node_seen(self, machine_id: str) -> None:
        """Queue that a machine's Node has appeared or changed."""
        self.queues.put(machine_id, NodeSeenTask())

    def sweep(self) -> OrphanSweep | None:
        """Return the orphan sweep of a new session; None if sweeps are off."""
        if not self._options.orphan_sweep:
            return None
        return OrphanSweep(
            self._caches,
            lambda: self._drains.machines,
            lambda machine_id, uid: self.queues.put(machine_id, DeleteOrphanTask(uid)),
            under_way=self.queues,
            clock=self._clock,
            patience_s=self._options.sweep_patience_s,
        )

    async def close(self) -> None:
        """Stop all queues."""
        await self.queues.close()
        await self._hint_queues.close()

    # ---- handling, one task of a queue at a time

    async def _handle(self, machine_id: str, task: MachineTask) -> None:
        match task:
            case NodeStateTask():
                await self._states.handle(machine_id, task, self.queues)
            case ReclaimTask():
                await self._reclaims.handle(machine_id, task.job, task.target)
            case DrainEndedTask():
                await self._reclaims.drain_ended(machine_id, task.drain, task.error)
            case NodeSeenTask():
                await self._states.record_node(machine_id)
            case DeleteOrphanTask():
                await self._states.delete_orphan(machine_id, task.uid)

    async def _handle_hint(self, name: str, hint: CapacityHint) -> None:
        await self._hints.handle(name, hint, self._hint_queues)
