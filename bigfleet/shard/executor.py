"""Carries one action out: does what the lifecycle says and tells it what came of it, until there is an outcome.

Why: the only place where a decision becomes a call. Everything that can go wrong on the way is turned into an event here.
Must never: repeat a call, go beyond the action's deadline, or leave a machine in a state that no later cycle can settle.
Rules: shard 8; decisions S3, S4, S5, S12, S17, S20.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from structlog.typing import FilteringBoundLogger

from bigfleet.aio.clock import Clock, SteadyWall, monotonic_s, timeout
from bigfleet.aio.host import Host
from bigfleet.model.action import ActionKind
from bigfleet.model.errors import IllegalTransitionError, UnknownMachineError
from bigfleet.model.machine import Machine, MachineState
from bigfleet.obs.metrics import Metrics
from bigfleet.provider.client import ProviderClient
from bigfleet.provider.contract import OperationKind
from bigfleet.provider.errors import (
    BadAnswerError,
    FencedError,
    NeverSentError,
    OutcomeUnknownError,
    ProviderError,
)
from bigfleet.shard.core.actuation import Actuation, Mode
from bigfleet.shard.core.held_off import HoldOffs
from bigfleet.shard.core.latency import FirstSeen
from bigfleet.shard.core.lifecycle import (
    Acked,
    AckUnreadable,
    AskBlob,
    BlobArrived,
    BlobFailed,
    BlobProblem,
    Call,
    Done,
    Effect,
    Event,
    Execution,
    Instruct,
    NeverSent,
    Refused,
    Step,
    Unanswered,
    Write,
)
from bigfleet.shard.core.orders import Order, Outcome
from bigfleet.shard.options import ShardOptions
from bigfleet.shard.session import SessionGoneError
from bigfleet.shard.sessions import Sessions
from bigfleet.shard.stock import Stock
from bigfleet.wire.machines import rejection_reason
from bigfleet.wire.metadata import assignment_to_metadata


class Slot:
    """One worker's place among those that may call the provider at the same time."""

    def __init__(self, slots: asyncio.Semaphore) -> None:
        self._slots, self._held = slots, True

    def give_back(self) -> None:
        """Let somebody else work; harmless when done before."""
        if self._held:
            self._held = False
            self._slots.release()

    async def take(self) -> None:
        """Wait for a place again."""
        if not self._held:
            await self._slots.acquire()
            self._held = True


@dataclass(slots=True)
class _Run:
    """One execution under way."""

    order: Order
    execution: Execution
    slot: Slot
    deadline_s: float
    entered_s: float = 0.0  # when the machine last changed its state
    blob: bytes = b""
    blob_expires_s: float | None = None


class Executor:
    """Does what is decided; one instance serves all workers."""

    def __init__(
        self,
        options: ShardOptions,
        *,
        stock: Stock,
        provider: ProviderClient,
        sessions: Sessions,
        actuation: Actuation,
        hold_offs: HoldOffs,
        first_seen: FirstSeen,
        metrics: Metrics,
        log: FilteringBoundLogger,
        clock: Clock,
        steady: SteadyWall,
        host: Host,
        stopping: Callable[[], bool],
    ) -> None:
        self._options, self._stock, self._provider, self._sessions = options, stock, provider, sessions
        self._actuation, self._hold_offs, self._first_seen = actuation, hold_offs, first_seen
        self._metrics, self._log, self._clock, self._steady = metrics, log, clock, steady
        self._host, self._stopping = host, stopping

    async def execute(self, order: Order, slot: Slot) -> Outcome:
        """Carry an action out and return how it ended; the slot is lent to others while an operator is waited for."""
        run = _Run(order, Execution(order), slot, self._now_s() + self._options.execute_timeout_s)
        event: Event | None = None
        while True:
            await self._host.charge("execute")  # a point at which a process may end, and be found so
            await self._stock.free()
            try:
                step = self._next_step(run, event)
                last = self._do_at_once(run, step)
            except UnknownMachineError:
                return Outcome.INVENTORY_MISS
            except IllegalTransitionError as error:
                return self._illegal(run, error)
            if isinstance(last, Done):
                return last.outcome
            event = await self._carry_out(run, last)

    def _next_step(self, run: _Run, event: Event | None) -> Step:
        machine = self._stock.inventory.get(run.order.machine_id)
        return run.execution.begin(machine) if event is None else run.execution.handle(machine, event)

    def _do_at_once(self, run: _Run, step: Step) -> Effect:
        """Write and send all but the last effect, which is returned."""
        for effect in step[:-1]:
            if isinstance(effect, Write):
                self._write(run, effect)
            elif isinstance(effect, Instruct):
                self._instruct(run.order, effect.machine)
        return step[-1]

    def _write(self, run: _Run, write: Write) -> None:
        inventory, after = self._stock.inventory, write.machine
        before = inventory.get(after.id)
        if write.undo:
            inventory.undo(after, self._steady.now_s())
        else:
            inventory.apply(after, self._steady.now_s())
        if before.state is not after.state:
            self._observe(run, before.state, after)
        elif after.state is MachineState.CONFIGURING:
            self._metrics.histogram("bigfleet_shard_configure_phase_seconds").observe(
                self._now_s() - run.entered_s
            )  # an asynchronous provider accepted
        self._sessions.tell(after, before.cluster)

    def _observe(self, run: _Run, before: MachineState, after: Machine) -> None:
        now_s = self._now_s()
        if before is MachineState.CONFIGURING and after.state is MachineState.CONFIGURED:
            self._metrics.histogram("bigfleet_shard_configure_phase_seconds").observe(now_s - run.entered_s)
            self.configured(after)
        run.entered_s = now_s

    def configured(self, machine: Machine) -> None:
        """A machine serves its cluster now: the wait of whoever asked for it is over."""
        waited_s = self._first_seen.configured(
            machine.cluster, machine.assigned.fingerprint, self._steady.now_s()
        )
        if waited_s is not None:
            self._metrics.histogram("bigfleet_shard_provisioning_latency_seconds").observe(waited_s)

    def _instruct(self, order: Order, machine: Machine) -> None:
        session = self._sessions.get(order.cluster)
        if session is not None:
            action = order.action
            session.instruct(machine, action.grace_s or 0, action.preemptor_priority or 0)
        elif order.kind is ActionKind.RECLAIM:
            self._log.warning("reclaim_without_operator", machine=order.machine_id, cluster=order.cluster)

    async def _carry_out(self, run: _Run, effect: Effect) -> Event:
        if isinstance(effect, AskBlob):
            return await self._ask_blob(run, effect)
        if isinstance(effect, Call):
            await run.slot.take()
            while (
                effect.kind is OperationKind.CONFIGURE
                and self._blob_expired(run)
                and run.order.need is not None
            ):
                if isinstance(await self._ask_blob(run, AskBlob(run.order.need)), BlobFailed):
                    # Nothing was sent, so what a call that was never sent undoes is undone here too.
                    return NeverSent()
                await run.slot.take()
            if self._stopping() or self._actuation.mode is Mode.PAUSED:  # since the action began
                return NeverSent()
            return await self._call(run, effect)
        raise TypeError(f"no effect to wait for: {effect!r}")

    # The blob

    async def _ask_blob(self, run: _Run, ask: AskBlob) -> Event:
        need = ask.need
        if self._options.local_bootstrap:
            run.blob = f"# stub bootstrap for cluster {need.cluster}\n".encode()
            return BlobArrived()
        if self._stopping():
            return BlobFailed(BlobProblem.STOPPING)
        session = self._sessions.get(need.cluster)
        if session is None:
            return BlobFailed(BlobProblem.NO_SESSION)
        asked_s = self._now_s()
        wait_s = min(self._options.bootstrap_timeout_s, run.deadline_s - asked_s)
        run.slot.give_back()
        try:
            blob = await session.ask_blob(need.profile, run.order.machine_id, wait_s)
        except TimeoutError:
            return BlobFailed(BlobProblem.TIMED_OUT)
        except SessionGoneError:
            return BlobFailed(BlobProblem.STOPPING if self._stopping() else BlobProblem.SESSION_GONE)
        finally:
            self._metrics.histogram("bigfleet_shard_request_bootstrap_seconds").observe(
                self._now_s() - asked_s
            )
        fingerprint = need.profile.fingerprint
        if blob.error:
            self._hold_offs.failed(need.cluster, fingerprint, blob.error, self._steady.now_s())
            self._log.warning(
                "blob_error", cluster=need.cluster, machine=run.order.machine_id, problem=blob.error
            )
            return BlobFailed(BlobProblem.REFUSED)
        self._hold_offs.worked(need.cluster, fingerprint)
        run.blob = blob.data
        run.blob_expires_s = self._now_s() + blob.ttl_s if blob.ttl_s > 0 else None
        return BlobArrived()

    def _blob_expired(self, run: _Run) -> bool:
        return run.blob_expires_s is not None and self._now_s() >= run.blob_expires_s

    # The provider

    async def _call(self, run: _Run, call: Call) -> Event:
        began_s = self._now_s()
        left_s = run.deadline_s - began_s
        if left_s <= 0:
            return NeverSent()
        try:
            async with timeout(self._clock, left_s):
                record = await self._send(run, call, left_s)
        except (TimeoutError, OutcomeUnknownError) as error:
            self._log.warning(
                "call_unanswered", call=call.kind.call, machine=call.machine.id, problem=str(error)
            )
            return Unanswered()
        except NeverSentError:
            return NeverSent()
        except BadAnswerError as error:
            self._note_answer(fenced=False)
            if error.cause is not None:
                self._metrics.counter(
                    "bigfleet_shard_machines_rejected_total", reason=rejection_reason(error.cause)
                ).inc()
            self._log.error("ack_rejected", call=error.call, machine=error.machine_id, problem=error.detail)
            return AckUnreadable(error.detail)
        except ProviderError as error:
            return self._refused(error)
        self._note_answer(fenced=False)
        if call.kind is OperationKind.DRAIN:
            self._metrics.histogram("bigfleet_shard_drain_phase_seconds").observe(self._now_s() - began_s)
        elif call.kind is OperationKind.DELETE:
            self._metrics.counter("bigfleet_shard_idle_releases_total").inc()
        return Acked(record)

    async def _send(self, run: _Run, call: Call, left_s: float) -> Machine:
        machine, provider = call.machine, self._provider
        match call.kind:
            case OperationKind.CREATE:
                return await provider.create(machine.id, timeout_s=left_s)
            case OperationKind.CONFIGURE:
                metadata = assignment_to_metadata(machine.assigned, self._options.shard_id)
                return await provider.configure(
                    machine.id, machine.cluster, run.blob, metadata, timeout_s=left_s
                )
            case OperationKind.DRAIN:
                return await provider.drain(machine.id, run.order.action.grace_s or 0, timeout_s=left_s)
            case OperationKind.DELETE:
                return await provider.delete(machine.id, timeout_s=left_s)

    def _refused(self, error: ProviderError) -> Refused:
        fenced = isinstance(error, FencedError)
        self._note_answer(fenced=fenced)
        if fenced:
            self._log.error(
                "fenced", call=error.call, machine=error.machine_id, problem=error.detail,
                meaning="another process bears this shard id, or the epoch was lost; this call is not repeated",
            )  # fmt: skip
        else:
            self._log.warning("call_refused", call=error.call, machine=error.machine_id, problem=error.detail)
        return Refused(error.detail, fenced=fenced)

    def _note_answer(self, *, fenced: bool) -> None:
        if self._actuation.answered(fenced=fenced):
            self._metrics.gauge("bigfleet_shard_self_paused").set(1)
            self._log.error("self_paused", why=self._actuation.not_ready()[0])

    def _illegal(self, run: _Run, error: IllegalTransitionError) -> Outcome:
        self._log.warning("transition_refused", machine=run.order.machine_id, problem=str(error))
        if self._stock.inventory.state_of(run.order.machine_id) is MachineState.IDLE:
            return Outcome.RACED_TO_IDLE
        return Outcome.TRANSITION_ERROR

    def _now_s(self) -> float:
        return monotonic_s(self._clock)
