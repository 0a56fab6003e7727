"""Carries out one action: performs the effects of the lifecycle and feeds it the results, until there is an outcome.

Why: the only place where a decision becomes a provider call. Every failure on the way becomes an event of the lifecycle.
Must never: repeat a call, exceed the action's deadline, or leave a machine in a state that no later cycle can settle.
Rules: `shard#executing`, `shard#unanswered-calls`, `shard#blob-back-off`, `shard#fenced`, `shard#reclaim-instruction`,
`shard#metadata`, `shard#stopping`.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from bigfleet.aio.clock import monotonic_s
from bigfleet.model.action import ActionKind
from bigfleet.model.errors import IllegalTransitionError, UnknownMachineError
from bigfleet.model.machine import Machine, MachineState
from bigfleet.provider.contract import OperationKind
from bigfleet.provider.errors import (
    BadAnswerError,
    FencedError,
    NeverSentError,
    OutcomeUnknownError,
    ProviderError,
)
from bigfleet.shard.context import ShardContext
from bigfleet.shard.core.actuation import ActuationMode
from bigfleet.shard.core.lifecycle import (
    ApplyReport,
    BlobArrived,
    BlobFailed,
    BlobProblem,
    CallAcked,
    CallAckUnreadable,
    CallNeverSent,
    CallProvider,
    CallRefused,
    CallUnanswered,
    Effects,
    EndExecution,
    Execution,
    ExecutionEffect,
    ExecutionEvent,
    InstructOperator,
    MachineNotRead,
    MachineRead,
    ReadMachine,
    RequestBlob,
    WriteMachine,
)
from bigfleet.shard.core.pending_action import ActionOutcome, ActionResult, PendingAction
from bigfleet.shard.core.views import StateChange
from bigfleet.shard.provider_link import HeldOffError, ProviderLink
from bigfleet.shard.session.operator_session import SessionGoneError
from bigfleet.shard.session.sessions import Sessions
from bigfleet.wire.machines import rejection_reason
from bigfleet.wire.metadata import assignment_to_metadata

_CHANGES_KEPT = 20_000  # for readers, who may be absent
_OBTAINS = frozenset({OperationKind.CREATE, OperationKind.CONFIGURE})
_FAULT_OF_THE_MACHINE = frozenset(
    {ActionOutcome.PROVIDER_ERROR, ActionOutcome.FENCED, ActionOutcome.RACED_TO_IDLE}
)
"""Outcomes after which the machine backs off; others are the fault of an operator, a connection or a race."""


class WorkerPermit:
    """The permit of one worker to call the provider."""

    def __init__(self, permits: asyncio.Semaphore) -> None:
        self._permits, self._held = permits, True

    def release(self) -> None:
        """Release the permit; a second release does nothing."""
        if self._held:
            self._held = False
            self._permits.release()

    async def acquire(self) -> None:
        """Acquire the permit again if it was released."""
        if not self._held:
            await self._permits.acquire()
            self._held = True


@dataclass(slots=True)
class _Run:
    """One execution in flight."""

    pending: PendingAction
    execution: Execution
    permit: WorkerPermit
    deadline_s: float
    entered_s: float = 0.0  # when the machine last changed its state
    error: str = ""  # of the last event
    blob: bytes = b""
    blob_expires_s: float | None = None


class Executor:
    """Carries out actions; one instance serves all workers."""

    def __init__(
        self,
        context: ShardContext,
        *,
        provider: ProviderLink,
        sessions: Sessions,
        stopping: Callable[[], bool],
        reported: Callable[[Machine], None],
        wake: Callable[[], None],
    ) -> None:
        """`reported` is called with a record that the provider gave instead of the expected one."""
        self._options, self._guarded, self._actuation = context.options, context.guarded, context.actuation
        self._backoffs, self._setbacks = context.backoffs, context.setbacks
        self._first_seen, self._waiting = context.first_seen, context.waiting
        self._clock, self._steady, self._host = context.clock, context.steady, context.host
        self._metrics, self._log = context.metrics, context.log
        self._provider, self._sessions = provider, sessions
        self._stopping, self._reported, self._wake = stopping, reported, wake
        self._changes: deque[StateChange] = deque(maxlen=_CHANGES_KEPT)

    async def execute(self, pending: PendingAction, permit: WorkerPermit) -> ActionResult:
        """Carry out an action and return its result; the permit is released while waiting for an operator."""
        if not self._provider.reachable:  # since it was queued
            return ActionResult(ActionOutcome.HELD_OFF)
        run = _Run(pending, Execution(pending), permit, self._now_s() + self._options.execute_timeout_s)
        event: ExecutionEvent | None = None
        while True:
            await self._host.charge("execute")  # virtual time can end the process at this point
            await self._guarded.available()
            try:
                effects = self._next_effects(run, event)
                last = self._do_at_once(run, effects)
            except UnknownMachineError as error:
                return ActionResult(ActionOutcome.INVENTORY_MISS, str(error))
            except IllegalTransitionError as error:
                return ActionResult(self._illegal(run, error), str(error))
            if isinstance(last, EndExecution):
                return self._ended(run, last.outcome)
            event = await self._carry_out(run, last)
            run.error = _text_of(event)

    def take_changes(self, until_s: float) -> list[StateChange]:
        """The changes of state that actions made until a moment, oldest first; each is returned once."""
        changes, taken = self._changes, []
        while changes and changes[0].at_s <= until_s:
            taken.append(changes.popleft())
        return taken

    def _ended(self, run: _Run, outcome: ActionOutcome) -> ActionResult:
        """The result of an execution; a failure that did not make the machine Failed holds it off for a while."""
        if outcome is ActionOutcome.SUCCESS or outcome is ActionOutcome.HELD_OFF:
            return ActionResult(outcome)
        machine_id, error = run.pending.machine_id, run.error
        state = self._guarded.inventory.state_of(machine_id)
        if outcome in _FAULT_OF_THE_MACHINE and state not in (None, MachineState.FAILED):
            self._setbacks.machines.failed(machine_id, error or outcome.value, self._steady.now_s())
        return ActionResult(outcome, error)

    def _next_effects(self, run: _Run, event: ExecutionEvent | None) -> Effects:
        machine = self._guarded.inventory.get(run.pending.machine_id)
        return run.execution.begin(machine) if event is None else run.execution.handle(machine, event)

    def _do_at_once(self, run: _Run, effects: Effects) -> ExecutionEffect:
        """Carry out all effects but the last, which is returned."""
        for effect in effects[:-1]:
            if isinstance(effect, WriteMachine):
                self._write(run, effect)
            elif isinstance(effect, InstructOperator):
                self._instruct(run.pending, effect.machine)
            elif isinstance(effect, ApplyReport):
                self._reported(effect.record)
        return effects[-1]

    def _write(self, run: _Run, write: WriteMachine) -> None:
        inventory, after = self._guarded.inventory, write.machine
        before = inventory.get(after.id)
        now = self._steady.now_s()
        if write.undo:
            inventory.undo(after, now)
        else:
            inventory.apply(after, now)
            if self._setbacks.changed(before, after, now):
                self._wake()
        if before.state is not after.state:
            self._changes.append(StateChange(after.id, before.state, after.state, now))
            self._observe(run, before.state, after)
        elif after.state is MachineState.CONFIGURING:
            # An asynchronous provider accepted the call.
            self._metrics.histogram("bigfleet_shard_configure_phase_seconds").observe(
                self._now_s() - run.entered_s
            )
        self._sessions.send_node_state(after, before.cluster)

    def _observe(self, run: _Run, before: MachineState, after: Machine) -> None:
        now_s = self._now_s()
        if before is MachineState.CONFIGURING and after.state is MachineState.CONFIGURED:
            self._metrics.histogram("bigfleet_shard_configure_phase_seconds").observe(now_s - run.entered_s)
            self.configured(after)
        run.entered_s = now_s

    def configured(self, machine: Machine) -> None:
        """A machine became Configured: observe how long its profile has waited."""
        waited_s = self._first_seen.configured(
            machine.cluster, machine.assigned.fingerprint, self._steady.now_s()
        )
        if waited_s is not None:
            self._metrics.histogram("bigfleet_shard_provisioning_latency_seconds").observe(waited_s)

    def _instruct(self, pending: PendingAction, machine: Machine) -> None:
        session = self._sessions.get(pending.cluster)
        if session is not None:
            action = pending.action
            session.instruct(machine, action.grace_s or 0, action.preemptor_priority or 0)
        elif pending.kind is ActionKind.RECLAIM:
            self._log.warning("reclaim_without_operator", machine=pending.machine_id, cluster=pending.cluster)

    async def _carry_out(self, run: _Run, effect: ExecutionEffect) -> ExecutionEvent:
        if isinstance(effect, RequestBlob):
            return await self._request_blob(run, effect)
        if isinstance(effect, CallProvider):
            await run.permit.acquire()
            while (
                effect.kind is OperationKind.CONFIGURE
                and self._blob_expired(run)
                and run.pending.need is not None
            ):
                if isinstance(await self._request_blob(run, RequestBlob(run.pending.need)), BlobFailed):
                    # The provider was not called, so this ends like a call that was never sent.
                    return CallNeverSent("no new blob came for the one that expired")
                await run.permit.acquire()
            if self._stopping() or self._actuation.mode is ActuationMode.PAUSED:  # since the action began
                return CallNeverSent()
            return await self._call(run, effect)
        if isinstance(effect, ReadMachine):
            return await self._read(run)
        raise TypeError(f"no effect to wait for: {effect!r}")

    # Bootstrap blobs

    async def _request_blob(self, run: _Run, ask: RequestBlob) -> ExecutionEvent:
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
        run.permit.release()
        try:
            blob = await session.request_blob(need.profile, run.pending.machine_id, wait_s)
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
            self._backoffs.failed(need.cluster, fingerprint, blob.error, self._steady.now_s())
            self._log.warning(
                "blob_error", cluster=need.cluster, machine=run.pending.machine_id, problem=blob.error
            )
            return BlobFailed(BlobProblem.REFUSED, blob.error)
        self._backoffs.worked(need.cluster, fingerprint)
        run.blob = blob.data
        run.blob_expires_s = self._now_s() + blob.ttl_s if blob.ttl_s > 0 else None
        return BlobArrived()

    def _blob_expired(self, run: _Run) -> bool:
        return run.blob_expires_s is not None and self._now_s() >= run.blob_expires_s

    # Provider calls

    async def _call(self, run: _Run, call: CallProvider) -> ExecutionEvent:
        machine = call.machine
        if call.kind is OperationKind.CREATE and self._setbacks.offerings.holds(machine.shape, machine.id):
            return CallNeverSent(held_off=True)  # out of stock since it was decided
        began_s = self._now_s()
        left_s = run.deadline_s - began_s
        if left_s <= 0:
            return CallNeverSent("the deadline passed before the call")
        try:
            record = await self._send(run, call, left_s)
        except OutcomeUnknownError as error:
            self._log.warning(
                "call_unanswered", call=call.kind.call, machine=call.machine.id, problem=str(error)
            )
            return CallUnanswered(error.detail)
        except NeverSentError as error:
            return CallNeverSent(error.detail, held_off=isinstance(error, HeldOffError))
        except BadAnswerError as error:
            self._count_fencing(fenced=False)
            if error.cause is not None:
                self._metrics.counter(
                    "bigfleet_shard_machines_rejected_total", reason=rejection_reason(error.cause)
                ).inc()
            self._log.error("ack_rejected", call=error.call, machine=error.machine_id, problem=error.detail)
            return CallAckUnreadable(error.detail)
        except ProviderError as error:
            return self._refused(error)
        self._count_fencing(fenced=False)
        if call.kind in _OBTAINS and record.state is not MachineState.FAILED:
            self._waiting.accepted(run.pending.need)
        if call.kind is OperationKind.DRAIN:
            self._metrics.histogram("bigfleet_shard_drain_phase_seconds").observe(self._now_s() - began_s)
        elif call.kind is OperationKind.DELETE:
            self._metrics.counter("bigfleet_shard_idle_releases_total").inc()
        return CallAcked(record)

    async def _read(self, run: _Run) -> ExecutionEvent:
        machine_id, left_s = run.pending.machine_id, run.deadline_s - self._now_s()
        if self._stopping() or self._actuation.mode is ActuationMode.PAUSED:
            return MachineNotRead(ActionOutcome.HELD_OFF)
        try:
            return MachineRead(await self._provider.get(machine_id, timeout_s=left_s))
        except HeldOffError:
            return MachineNotRead(ActionOutcome.HELD_OFF)
        except ProviderError as error:
            unanswered = isinstance(error, OutcomeUnknownError | NeverSentError)
            self._log.warning("drain_not_begun", machine=machine_id, problem=str(error))
            outcome = ActionOutcome.CTX_CANCELED if unanswered else ActionOutcome.PROVIDER_ERROR
            return MachineNotRead(outcome, str(error))

    async def _send(self, run: _Run, call: CallProvider, left_s: float) -> Machine:
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
                return await provider.drain(machine.id, run.pending.action.grace_s or 0, timeout_s=left_s)
            case OperationKind.DELETE:
                return await provider.delete(machine.id, timeout_s=left_s)

    def _refused(self, error: ProviderError) -> CallRefused:
        fenced = isinstance(error, FencedError)
        self._count_fencing(fenced=fenced)
        if fenced:
            self._log.error(
                "fenced", call=error.call, machine=error.machine_id, problem=error.detail,
                meaning="another process uses this shard id, or the epoch was lost; this call is not repeated",
            )  # fmt: skip
        else:
            self._log.warning("call_refused", call=error.call, machine=error.machine_id, problem=error.detail)
        return CallRefused(error.detail, fenced=fenced)

    def _count_fencing(self, *, fenced: bool) -> None:
        if self._actuation.answered(fenced=fenced):
            self._metrics.gauge("bigfleet_shard_self_paused").set(1)
            self._log.error("self_paused", why=self._actuation.not_ready()[0])

    def _illegal(self, run: _Run, error: IllegalTransitionError) -> ActionOutcome:
        self._log.warning("transition_refused", machine=run.pending.machine_id, problem=str(error))
        if self._guarded.inventory.state_of(run.pending.machine_id) is MachineState.IDLE:
            return ActionOutcome.RACED_TO_IDLE
        return ActionOutcome.TRANSITION_ERROR

    def _now_s(self) -> float:
        return monotonic_s(self._clock)


def _text_of(event: ExecutionEvent) -> str:
    """What an event says about a failure."""
    if isinstance(event, CallAcked):
        return event.record.last_error
    if isinstance(event, BlobFailed):
        return event.text or event.problem.value
    failures = CallAckUnreadable | CallRefused | CallNeverSent | CallUnanswered | MachineNotRead
    return event.text if isinstance(event, failures) else ""
