"""Admits one action per machine into a bounded queue, and runs the workers that empty it.

Why: the cycle must never wait for an action, and no machine may have two of them at once: that is what keeps the
provider's fencing mark of a machine monotonic.
Must never: wait when offered something, retry, or lose a slot or a pending entry whatever an execution does.
Rules: shard 7 and 23; decisions S20, S25; ADR-0021, ADR-0058; a wait for a blob holds no worker (ADR-0111).
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from structlog.typing import FilteringBoundLogger

from bigfleet.aio.clock import Clock, timeout
from bigfleet.aio.disk import DiskError
from bigfleet.model.action import Action
from bigfleet.model.machine import STABLE_STATES
from bigfleet.obs.audit import Audit
from bigfleet.shard.core.actuation import Actuation, ActuationMode
from bigfleet.shard.core.pending_action import ACQUIRES, STARTS_IN, ActionOutcome, PendingAction
from bigfleet.shard.executor import Executor, WorkerPermit
from bigfleet.shard.guarded_inventory import GuardedInventory
from bigfleet.shard.metrics import ShardMetrics

_SLICE = 500  # orders looked at between two turns of the event loop
SUPPRESSED, DRY_RUN = "suppressed", "dryrun"


@dataclass(slots=True)
class OfferResult:
    """What became of the orders of one cycle."""

    queued: list[Action] = field(default_factory=list)
    deduped: int = 0
    dropped: int = 0


class ActionDispatcher:
    """Queue, pending set and workers."""

    def __init__(
        self,
        executor: Executor,
        guarded: GuardedInventory,
        *,
        concurrency: int,
        actuation: Actuation,
        audit: Audit,
        metrics: ShardMetrics,
        log: FilteringBoundLogger,
        clock: Clock,
        cycle: Callable[[], int],
        wake: Callable[[], None],
    ) -> None:
        self._executor, self._guarded, self._actuation, self._audit = executor, guarded, actuation, audit
        self._metrics, self._log, self._clock, self._cycle, self._wake = metrics, log, clock, cycle, wake
        workers = max(1, concurrency)
        self._capacity = 2 * workers
        self._queue: asyncio.Queue[PendingAction] = asyncio.Queue(self._capacity)
        self._slots = asyncio.Semaphore(workers)
        self._pump: asyncio.Task[None] | None = None
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._acquiring: Counter[str] = Counter()
        self._crowded: set[str] = (
            set()
        )  # clusters whose acquisitions were dropped because so many are under way
        self._pending: dict[str, None] = {}
        self._watched: set[str] | None = None
        self._dropped_some = False
        self.unsettled: set[str] = set()
        """Machines whose action ended without the provider having said where they stand; the reconciler asks."""
        self.stopping = False

    # For the cycle and the reconciler

    @property
    def queued(self) -> int:
        """Orders that wait for a worker."""
        return self._queue.qsize()

    @property
    def in_flight(self) -> int:
        """Orders being carried out."""
        return len(self._tasks)

    def is_pending(self, machine_id: str) -> bool:
        """Whether an action of the machine is queued or under way."""
        return machine_id in self._pending

    def watch(self) -> None:
        """From now on remember every machine that has, or gets, an action: a listing is about to be asked for."""
        self._watched = set(self._pending)

    def touched(self, machine_id: str) -> bool:
        """Whether the machine has had an action at any time since `watch`."""
        return machine_id in self._pending or (self._watched is not None and machine_id in self._watched)

    async def offer(self, orders: Iterable[PendingAction]) -> OfferResult:
        """Queue what still makes sense; gives the event loop a turn now and then, and waits for nothing else."""
        offered = OfferResult()
        for place, order in enumerate(orders, start=1):
            self._offer(order, offered)
            if not place % _SLICE:
                await self._clock.sleep(0)
        self._metrics.deduped.inc(offered.deduped)
        self._metrics.dropped.inc(offered.dropped)
        self._metrics.queue_depth.set(self.queued)
        self._wake_when_half_empty()
        return offered

    def _offer(self, order: PendingAction, offered: OfferResult) -> None:
        self._metrics.action(order.kind)
        machine_id = order.machine_id
        state = self._guarded.inventory.state_of(machine_id)
        stale = state is not None and state is not STARTS_IN[order.kind]
        if stale or machine_id in self._pending:
            offered.deduped += 1
            return
        cluster = order.cluster if order.kind in ACQUIRES else ""
        if self.stopping or self._queue.full():
            offered.dropped += 1
            self._dropped_some = True
            return
        if self._acquiring[cluster] >= self._capacity:
            offered.dropped += 1
            self._crowded.add(cluster)
            return
        self._pending[machine_id] = None
        if cluster:
            self._acquiring[cluster] += 1
        if self._watched is not None:
            self._watched.add(machine_id)
        self._queue.put_nowait(order)
        offered.queued.append(order.action)

    def note(self, action: Action, outcome: str) -> None:
        """Write the audit record of an action."""
        try:
            self._audit.record(
                cycle=self._cycle(),
                kind=action.kind.value,
                machine=action.machine_id,
                cluster=action.cluster or "",
                reason=action.reason,
                grace_seconds=action.grace_s or 0,
                outcome=outcome,
            )
        except DiskError as error:
            self._metrics.audit_lost.inc()
            if self._actuation.audited(written=False):
                self._log.error("audit_lost", problem=str(error))
        else:
            self._actuation.audited(written=True)

    # Workers

    def start(self) -> None:
        """Start to empty the queue, until `stop`."""
        self._pump = asyncio.get_running_loop().create_task(self._work(), name="execute pump")

    async def stop(self, grace_s: float) -> None:
        """Start nothing new, give calls under way their grace, then leave them to reconcile (decision S20)."""
        self.stopping = True
        if self._pump is not None:
            self._pump.cancel()
            await asyncio.wait([self._pump])
        while not self._queue.empty():
            self._forget(self._queue.get_nowait())
        if self._tasks:
            await self._wait_for(list(self._tasks), grace_s)
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(list(self._tasks))

    async def _wait_for(self, tasks: "list[asyncio.Task[None]]", grace_s: float) -> None:
        try:
            async with timeout(self._clock, grace_s):
                await asyncio.wait(tasks)
        except TimeoutError:
            left = sorted(self._pending)
            self._log.warning("left_in_flight", machines=left[:20], count=len(left))

    async def _work(self) -> None:
        """Give every order its slot, in the order in which they came."""
        while True:
            order = await self._queue.get()
            try:
                await self._slots.acquire()
            except asyncio.CancelledError:
                self._forget(order)
                raise
            task = asyncio.get_running_loop().create_task(
                self._carry_out(order), name=f"execute {order.machine_id}"
            )
            self._tasks[task] = None
            self._metrics.in_flight.set(len(self._tasks))
            task.add_done_callback(self._ended)

    async def _carry_out(self, order: PendingAction) -> None:
        slot = WorkerPermit(self._slots)
        try:
            await self._run(order, slot)
        finally:
            slot.give_back()
            self._forget(order)

    def _forget(self, order: PendingAction) -> None:
        self._pending.pop(order.machine_id, None)
        if order.kind in ACQUIRES:
            self._acquiring[order.cluster] -= 1
            if order.cluster in self._crowded and self._acquiring[order.cluster] * 2 <= self._capacity:
                self._crowded.discard(order.cluster)
                self._wake()
            if not self._acquiring[order.cluster]:
                del self._acquiring[order.cluster]

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._tasks.pop(task, None)
        self._metrics.in_flight.set(len(self._tasks))
        self._metrics.queue_depth.set(self.queued)
        self._wake_when_half_empty()

    async def _run(self, order: PendingAction, slot: WorkerPermit) -> None:
        if self._actuation.mode is ActuationMode.PAUSED:  # since it was queued
            self._metrics.suppressed(order.kind)
            self.note(order.action, SUPPRESSED)
            return
        try:
            outcome = await self._executor.execute(order, slot)
        except Exception:
            self._log.exception("execution_defect", machine=order.machine_id, kind=order.kind.value)
            outcome = ActionOutcome.OTHER
        self._metrics.outcome(order.kind, outcome)
        if outcome is not ActionOutcome.SUCCESS:
            self._note_unsettled(order.machine_id)
            self._log.info(
                "action_ended",
                kind=order.kind.value,
                machine=order.machine_id,
                cluster=order.cluster,
                outcome=outcome.value,
            )
        self.note(order.action, outcome.value)

    def _note_unsettled(self, machine_id: str) -> None:
        state = self._guarded.inventory.state_of(machine_id)
        if state is not None and state not in STABLE_STATES:
            self.unsettled.add(machine_id)

    def _wake_when_half_empty(self) -> None:
        if self._dropped_some and self.queued * 2 <= self._capacity:
            self._dropped_some = False
            self._wake()
