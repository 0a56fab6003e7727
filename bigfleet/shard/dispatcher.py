"""Admits one action per machine into a bounded queue, and runs the workers that empty it.

Why: a cycle must never wait for an action, and a machine must never have two actions at once: that keeps the provider's
fencing mark of a machine monotonic.
Must never: wait when offered an action, retry, or lose a permit or a pending entry whatever an execution does.
Rules: `shard#dispatch`, `shard#audit-log`, `shard#stopping`, `shard#wake-ups`; ADR-0021, ADR-0058; a wait for a blob
holds no worker (ADR-0111).
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from bigfleet.aio.clock import timeout
from bigfleet.aio.disk import DiskError
from bigfleet.model.action import Action, ActionKind
from bigfleet.model.machine import STABLE_STATES
from bigfleet.obs.audit import Audit
from bigfleet.shard.context import ShardContext
from bigfleet.shard.core.actuation import ActuationMode
from bigfleet.shard.core.pending_action import (
    ACQUIRES,
    STARTS_IN,
    ActionOutcome,
    ActionResult,
    PendingAction,
)
from bigfleet.shard.executor import Executor, WorkerPermit

_SLICE = 500  # actions offered between two turns of the event loop
_ERROR_SHOWN = 500  # characters
SUPPRESSED, DRY_RUN = "suppressed", "dryrun"


@dataclass(slots=True)
class OfferResult:
    """What was done with the actions of one cycle."""

    queued: list[Action] = field(default_factory=list)
    deduped: int = 0
    dropped: int = 0


class ActionDispatcher:
    """The queue, the pending set and the workers."""

    def __init__(
        self,
        context: ShardContext,
        executor: Executor,
        *,
        audit: Audit,
        cycle: Callable[[], int],
        wake: Callable[[], None],
    ) -> None:
        self._guarded, self._actuation, self._clock = context.guarded, context.actuation, context.clock
        self._metrics, self._log = context.metrics, context.log
        self._executor, self._audit, self._cycle, self._wake = executor, audit, cycle, wake
        workers = max(1, context.options.execute_concurrency)
        self._capacity = 2 * workers
        self._queue: asyncio.Queue[PendingAction] = asyncio.Queue(self._capacity)
        self._permits = asyncio.Semaphore(workers)
        self._starter: asyncio.Task[None] | None = None
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._acquiring: Counter[str] = Counter()
        self._releasing: Counter[str] = Counter()
        # Clusters whose acquisitions were dropped because so many are in flight.
        self._crowded: set[str] = set()
        self._pending: dict[str, PendingAction] = {}
        self._watched: set[str] | None = None
        self._dropped_some = False
        self._unsettled: dict[str, PendingAction] = {}
        self.stopping = False

    # For the cycle and the reconciler

    @property
    def queued(self) -> int:
        """How many actions wait for a worker."""
        return self._queue.qsize()

    @property
    def in_flight(self) -> int:
        """How many actions are being carried out."""
        return len(self._tasks)

    def is_pending(self, machine_id: str) -> bool:
        """Whether an action of the machine is queued or in flight."""
        return machine_id in self._pending

    @property
    def unsettled(self) -> tuple[str, ...]:
        """Machines whose action ended without a state from the provider; the reconciler asks for it."""
        return tuple(self._unsettled)

    def settle(self, machine_id: str) -> None:
        """The provider has said in which state the machine is."""
        self._unsettled.pop(machine_id, None)

    def awaited(self) -> dict[str, PendingAction]:
        """Acquisitions that the provider has not accepted yet, by machine."""
        every = {**self._unsettled, **self._pending}
        return {machine_id: pending for machine_id, pending in every.items() if pending.kind in ACQUIRES}

    def is_accepted(self, machine_id: str) -> bool:
        """Whether no acquisition of the machine waits for an answer of the provider."""
        pending = self._pending.get(machine_id) or self._unsettled.get(machine_id)
        return pending is None or pending.kind not in ACQUIRES

    def pending_releases(self, cluster: str) -> int:
        """How many Reclaims of a cluster are queued or in flight."""
        return self._releasing[cluster]

    def watch(self) -> None:
        """Remember from now on every machine that has or gets an action: a listing is about to be requested."""
        self._watched = set(self._pending)

    def touched(self, machine_id: str) -> bool:
        """Whether the machine has had an action at any time since `watch`."""
        return machine_id in self._pending or (self._watched is not None and machine_id in self._watched)

    async def offer(self, actions: Iterable[PendingAction]) -> OfferResult:
        """Queue the actions that still apply; yields to the event loop now and then, and never waits otherwise."""
        offered = OfferResult()
        for place, pending in enumerate(actions, start=1):
            self._offer(pending, offered)
            if not place % _SLICE:
                await self._clock.sleep(0)
        self._metrics.counter("bigfleet_shard_actions_deduped_total").inc(offered.deduped)
        self._metrics.counter("bigfleet_shard_actions_dropped_total").inc(offered.dropped)
        self._metrics.gauge("bigfleet_shard_action_queue_depth").set(self.queued)
        self._wake_when_half_empty()
        return offered

    def _offer(self, pending: PendingAction, offered: OfferResult) -> None:
        self._metrics.counter("bigfleet_shard_actions_total", kind=pending.kind.value).inc()
        machine_id = pending.machine_id
        state = self._guarded.inventory.state_of(machine_id)
        stale = state is not None and state is not STARTS_IN[pending.kind]
        if stale or machine_id in self._pending:
            offered.deduped += 1
            return
        cluster = pending.cluster if pending.kind in ACQUIRES else ""
        if self.stopping or self._queue.full():
            offered.dropped += 1
            self._dropped_some = True
            return
        if self._acquiring[cluster] >= self._capacity:
            offered.dropped += 1
            self._crowded.add(cluster)
            return
        self._pending[machine_id] = pending
        self._unsettled.pop(machine_id, None)
        if cluster:
            self._acquiring[cluster] += 1
        elif pending.kind is ActionKind.RECLAIM:
            self._releasing[pending.cluster] += 1
        if self._watched is not None:
            self._watched.add(machine_id)
        self._queue.put_nowait(pending)
        offered.queued.append(pending.action)

    def audit(self, action: Action, outcome: str, *, decided: int, error: str = "") -> None:
        """Write the audit record of an action that a cycle decided and that is over now."""
        self._record(
            cycle=decided,
            kind=action.kind.value,
            machine=action.machine_id,
            cluster=action.cluster or "",
            reason=action.reason,
            grace_seconds=action.grace_s or 0,
            outcome=outcome,
            ended_cycle=self._cycle(),
            **({"error": error[:_ERROR_SHOWN]} if error else {}),
        )

    def audit_hold_off(self, reason: str, outcome: str, count: int) -> None:
        """Write the audit record of the beginning or end of a hold-off of many actions."""
        self._record(
            msg="hold-off", cycle=self._cycle(), kind="", machine="", cluster="", reason=reason,
            grace_seconds=0, outcome=outcome, actions=count,
        )  # fmt: skip

    def _record(self, **fields: str | int | float) -> None:
        try:
            self._audit.record(**fields)
        except DiskError as error:
            self._metrics.counter("bigfleet_shard_audit_write_errors_total").inc()
            if self._actuation.audited(written=False):
                self._log.error("audit_lost", problem=str(error))
        else:
            self._actuation.audited(written=True)

    # Workers

    def start(self) -> None:
        """Start the workers; they run until `stop`."""
        self._starter = asyncio.get_running_loop().create_task(self._start_queued(), name="execute starter")

    async def stop(self, grace_s: float) -> None:
        """Start nothing new, give running calls their grace, then leave them to reconcile (`shard#stopping`)."""
        self.stopping = True
        if self._starter is not None:
            self._starter.cancel()
            await asyncio.wait([self._starter])
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

    async def _start_queued(self) -> None:
        """Start each queued action, first in first out, as soon as a permit is free."""
        while True:
            pending = await self._queue.get()
            try:
                await self._permits.acquire()
            except asyncio.CancelledError:
                self._forget(pending)
                raise
            task = asyncio.get_running_loop().create_task(
                self._carry_out(pending), name=f"execute {pending.machine_id}"
            )
            self._tasks[task] = None
            self._metrics.gauge("bigfleet_shard_execute_inflight").set(len(self._tasks))
            task.add_done_callback(self._ended)

    async def _carry_out(self, pending: PendingAction) -> None:
        permit = WorkerPermit(self._permits)
        try:
            await self._run(pending, permit)
        finally:
            permit.release()
            self._forget(pending)

    def _forget(self, pending: PendingAction) -> None:
        self._pending.pop(pending.machine_id, None)
        if pending.kind is ActionKind.RECLAIM:
            self._releasing[pending.cluster] -= 1
            if not self._releasing[pending.cluster]:
                del self._releasing[pending.cluster]
        if pending.kind in ACQUIRES:
            self._acquiring[pending.cluster] -= 1
            if pending.cluster in self._crowded and self._acquiring[pending.cluster] * 2 <= self._capacity:
                self._crowded.discard(pending.cluster)
                self._wake()
            if not self._acquiring[pending.cluster]:
                del self._acquiring[pending.cluster]

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._tasks.pop(task, None)
        self._metrics.gauge("bigfleet_shard_execute_inflight").set(len(self._tasks))
        self._metrics.gauge("bigfleet_shard_action_queue_depth").set(self.queued)
        self._wake_when_half_empty()

    async def _run(self, pending: PendingAction, permit: WorkerPermit) -> None:
        if self._actuation.mode is ActuationMode.PAUSED:  # since it was queued
            self._metrics.counter("bigfleet_shard_actions_suppressed_total", kind=pending.kind.value).inc()
            self.audit(pending.action, SUPPRESSED, decided=pending.cycle)
            return
        try:
            result = await self._executor.execute(pending, permit)
        except Exception as error:
            self._log.exception("execution_defect", machine=pending.machine_id, kind=pending.kind.value)
            result = ActionResult(ActionOutcome.OTHER, repr(error))
        outcome = result.outcome
        if outcome is ActionOutcome.HELD_OFF:
            # Not carried out. The machine was undone after the last cycle, which took it for obtained; another one shows
            # that it is held off (`shard#hold-off`).
            self._wake()
            return
        self._metrics.counter(
            "bigfleet_shard_action_execute_outcomes_total", kind=pending.kind.value, outcome=outcome.value
        ).inc()
        if outcome is not ActionOutcome.SUCCESS:
            self._mark_unsettled(pending)
            self._log.info(
                "action_ended",
                kind=pending.kind.value,
                machine=pending.machine_id,
                cluster=pending.cluster,
                outcome=outcome.value,
                problem=result.error[:_ERROR_SHOWN],
            )
        self.audit(pending.action, outcome.value, decided=pending.cycle, error=result.error)

    def _mark_unsettled(self, pending: PendingAction) -> None:
        state = self._guarded.inventory.state_of(pending.machine_id)
        if state is not None and state not in STABLE_STATES:
            self._unsettled[pending.machine_id] = pending

    def _wake_when_half_empty(self) -> None:
        if self._dropped_some and self.queued * 2 <= self._capacity:
            self._dropped_some = False
            self._wake()
