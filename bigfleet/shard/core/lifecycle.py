"""The state machine of one action: events in, effects out.

Why: provision, bootstrap, drain and delete each take several steps, any of which can fail, hang or never begin, against
providers that finish inside the call or long after it. Every such path is a value, so that tests can cut it at any point.
Must never: wait, read the time, or touch a machine other than the action's.
Rules: `shard#provision`, `shard#bootstrap`, `shard#drain`, `shard#delete`, `shard#sync-and-async`; timeouts leave the
transitional state (`shard#unanswered-calls`), calls never sent are undone (`shard#inventory-writes`), blob errors roll
back (`shard#blob-back-off`), a Creating machine is stamped for its cluster (`engine#crediting`, `engine#stamps`), a
preempted one for its need (`engine#preemption-in-flight`).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from bigfleet.model.action import ActionKind
from bigfleet.model.errors import BigFleetError
from bigfleet.model.machine import NO_HOST, UNASSIGNED, Assignment, Machine, MachineState, NeedRef
from bigfleet.model.need import Need, assignment_of
from bigfleet.provider.contract import OperationKind
from bigfleet.shard.core.pending_action import ActionOutcome, PendingAction

S = MachineState


# Events: what happened.


@dataclass(frozen=True, slots=True)
class ExecutionEvent:
    """Something that happened to an execution."""


@dataclass(frozen=True, slots=True)
class BlobArrived(ExecutionEvent):
    """The operator sent the bootstrap blob; the shell keeps it, since it is a secret."""


class BlobProblem(StrEnum):
    """Why no blob came."""

    NO_SESSION = "no session"
    SESSION_GONE = "the session ended"
    TIMED_OUT = "no answer in time"
    STOPPING = "the shard is stopping"
    REFUSED = "the operator reported an error"


@dataclass(frozen=True, slots=True)
class BlobFailed(ExecutionEvent):
    """No blob came; the provider has not been called yet."""

    problem: BlobProblem
    text: str = ""


@dataclass(frozen=True, slots=True)
class CallAcked(ExecutionEvent):
    """The provider accepted the call and returned the machine's record."""

    record: Machine


@dataclass(frozen=True, slots=True)
class CallAckUnreadable(ExecutionEvent):
    """The provider accepted the call, but returned an invalid record."""

    text: str


@dataclass(frozen=True, slots=True)
class CallRefused(ExecutionEvent):
    """The provider refused the call."""

    text: str
    fenced: bool = False


@dataclass(frozen=True, slots=True)
class CallNeverSent(ExecutionEvent):
    """No connection was made, so the provider cannot have received the call; `held_off`: it was not even tried."""

    text: str = ""
    held_off: bool = False


@dataclass(frozen=True, slots=True)
class CallUnanswered(ExecutionEvent):
    """The deadline passed or the connection broke; the call may still take effect."""

    text: str = ""


@dataclass(frozen=True, slots=True)
class MachineRead(ExecutionEvent):
    """The provider answered with the machine's present record."""

    record: Machine


@dataclass(frozen=True, slots=True)
class MachineNotRead(ExecutionEvent):
    """The provider did not say in which state the machine is."""

    outcome: ActionOutcome
    text: str = ""


# Effects: what to do, in order. The shell waits only for the last one.


@dataclass(frozen=True, slots=True)
class ExecutionEffect:
    """Something that the shell has to do."""


@dataclass(frozen=True, slots=True)
class WriteMachine(ExecutionEffect):
    """Write the record and send its state to the operator of its present or previous cluster; `undo` follows no edge."""

    machine: Machine
    undo: bool = False


@dataclass(frozen=True, slots=True)
class InstructOperator(ExecutionEffect):
    """Instruct the operator, if connected, to drain the node; the shell does not wait for it."""

    machine: Machine


@dataclass(frozen=True, slots=True)
class RequestBlob(ExecutionEffect):
    """Request the machine's bootstrap blob from the operator."""

    need: Need


@dataclass(frozen=True, slots=True)
class CallProvider(ExecutionEffect):
    """Call the provider."""

    kind: OperationKind
    machine: Machine


@dataclass(frozen=True, slots=True)
class ReadMachine(ExecutionEffect):
    """Read the machine's record from the provider."""

    machine_id: str


@dataclass(frozen=True, slots=True)
class ApplyReport(ExecutionEffect):
    """Treat a record as one that a listing reported."""

    record: Machine


@dataclass(frozen=True, slots=True)
class EndExecution(ExecutionEffect):
    """The execution is over."""

    outcome: ActionOutcome


Effects = tuple[ExecutionEffect, ...]


class UnexpectedEventError(BigFleetError):
    """An execution got an event that cannot occur in its state; a defect, with the events so far."""


class Execution:
    """One action while it is carried out."""

    def __init__(self, pending: PendingAction) -> None:
        self.pending = pending
        self._before: Machine | None = None  # the record before the call in flight
        self._waits_for: str = ""
        self._history: list[str] = []

    def begin(self, machine: Machine) -> Effects:
        """Check that the action still applies, and return the first effects."""
        self._history.append(f"{self.pending.kind} in {machine.state.label}")
        return self._wait_for_last(_BEGIN[self.pending.kind](self, machine))

    def handle(self, machine: Machine, event: ExecutionEvent) -> Effects:
        """Continue with the result of the last effect; `machine` is the present record."""
        self._history.append(type(event).__name__)
        transition = TRANSITIONS.get((self._waits_for, type(event)))
        if transition is None:
            history = ", ".join(self._history)
            raise UnexpectedEventError(
                f"machine {machine.id}: waits for {self._waits_for!r}; so far {history}"
            )
        return self._wait_for_last(transition(self, machine, event))

    def _wait_for_last(self, effects: Effects) -> Effects:
        last = effects[-1]
        if isinstance(last, RequestBlob):
            self._waits_for = _BLOB
        elif isinstance(last, CallProvider):
            self._waits_for = last.kind
        elif isinstance(last, ReadMachine):
            self._waits_for = _READ
        else:
            self._waits_for = ""
        return effects

    # First effects

    def _provision(self, machine: Machine) -> Effects:
        need = self.pending.need
        if need is None:
            return (EndExecution(ActionOutcome.MISSING_PROFILE),)
        if machine.state is not S.SPECULATIVE:
            return (EndExecution(ActionOutcome.STALE_STATE),)
        self._before = machine
        stamp = Assignment(fingerprint=need.profile.fingerprint, group=need.group, cluster=need.cluster)
        creating = replace(machine, state=S.CREATING, assigned=stamp)
        return WriteMachine(creating), CallProvider(OperationKind.CREATE, creating)

    def _bootstrap(self, machine: Machine) -> Effects:
        need = self.pending.need
        if need is None:
            return (EndExecution(ActionOutcome.MISSING_PROFILE),)
        serves = (machine.cluster, machine.assigned.fingerprint) == (need.cluster, need.profile.fingerprint)
        if machine.state is S.CONFIGURED and serves:
            return (EndExecution(ActionOutcome.SUCCESS),)
        if machine.state is not S.IDLE:
            return (EndExecution(ActionOutcome.STALE_STATE),)
        self._before = replace(machine, assigned=UNASSIGNED)
        bound = replace(
            machine, state=S.CONFIGURING, cluster=need.cluster, assigned=assignment_of(need), idle_since=None
        )
        return WriteMachine(bound), RequestBlob(need)

    def _drain(self, machine: Machine) -> Effects:
        if machine.state is not S.CONFIGURED:
            return (EndExecution(ActionOutcome.SUCCESS),)
        # An operator that evicts pods for a provider that is away empties a node for nothing.
        return (ReadMachine(machine.id),)

    def _read(self, machine: Machine, event: MachineRead) -> Effects:
        record = event.record
        if machine.state is not S.CONFIGURED:
            return (EndExecution(ActionOutcome.SUCCESS),)
        if (record.state, record.cluster) != (S.CONFIGURED, machine.cluster):
            return ApplyReport(record), EndExecution(ActionOutcome.STALE_STATE)
        self._before = machine
        need = self.pending.need if self.pending.kind is ActionKind.PREEMPT else None
        draining = replace(
            machine,
            state=S.DRAINING,
            draining_for=None
            if need is None
            else NeedRef(need.cluster, need.profile.fingerprint, need.group),
        )
        return InstructOperator(machine), WriteMachine(draining), CallProvider(OperationKind.DRAIN, draining)

    def _not_read(self, _machine: Machine, event: MachineNotRead) -> Effects:
        return (EndExecution(event.outcome),)

    def _delete(self, machine: Machine) -> Effects:
        if machine.state is not S.IDLE:
            return (EndExecution(ActionOutcome.SUCCESS),)
        self._before = machine
        deleting = replace(machine, state=S.DELETING, idle_since=None)
        return WriteMachine(deleting), CallProvider(OperationKind.DELETE, deleting)

    # Results of calls

    def _created(self, machine: Machine, event: CallAcked) -> Effects:
        record = event.record
        after = replace(machine, state=record.state, shape=record.shape, host=record.host)
        if record.state is S.IDLE:
            idle = replace(after, assigned=UNASSIGNED)
            return (WriteMachine(idle), *self._bootstrap(idle))
        if record.state is S.FAILED:
            return self._failed(machine, record.last_error)
        return WriteMachine(after), EndExecution(ActionOutcome.SUCCESS)

    def _create_ack_unreadable(self, machine: Machine, event: CallAckUnreadable) -> Effects:
        return self._failed(machine, f"create: ack rejected: {event.text}")

    def _blob_arrived(self, machine: Machine, _event: BlobArrived) -> Effects:
        return (CallProvider(OperationKind.CONFIGURE, machine),)

    def _blob_failed(self, machine: Machine, event: BlobFailed) -> Effects:
        # The provider has not been called yet, so there is nothing to undo there.
        return WriteMachine(unbound(machine)), EndExecution(_BLOB_OUTCOMES[event.problem])

    def _configured(self, machine: Machine, event: CallAcked) -> Effects:
        record = event.record
        if record.state is S.FAILED:
            return self._failed(machine, record.last_error)
        if record.state is S.IDLE:
            return WriteMachine(unbound(machine)), EndExecution(ActionOutcome.RACED_TO_IDLE)
        if record.cluster != machine.cluster:
            # The record names another cluster; adopting it would move the machine without a drain.
            return (EndExecution(ActionOutcome.PROVIDER_ERROR),)
        after = replace(machine, state=record.state, host=record.host, shape=record.shape)
        return WriteMachine(after), EndExecution(ActionOutcome.SUCCESS)

    def _drained(self, machine: Machine, event: CallAcked) -> Effects:
        if event.record.state is not S.IDLE:
            return (
                EndExecution(ActionOutcome.SUCCESS),
            )  # the provider is still draining; reconcile finishes (ADR-0059)
        return WriteMachine(unbound(machine, event.record)), EndExecution(ActionOutcome.SUCCESS)

    def _deleted(self, machine: Machine, event: CallAcked) -> Effects:
        record = event.record
        if record.state is S.FAILED:
            return self._failed(machine, record.last_error)
        if record.state is S.DELETING:
            return (EndExecution(ActionOutcome.SUCCESS),)
        after = replace(machine, state=record.state, host=record.host, cluster="", assigned=UNASSIGNED)
        if record.state is S.SPECULATIVE:
            after = replace(after, host=NO_HOST)
        return WriteMachine(after), EndExecution(ActionOutcome.SUCCESS)

    def _drain_refused(self, _machine: Machine, event: CallRefused) -> Effects:
        """The machine still serves; the write says so to the operator, which was instructed to drain it."""
        if self._before is None:
            raise UnexpectedEventError(f"machine {self.pending.machine_id}: nothing to undo")
        outcome = ActionOutcome.FENCED if event.fenced else ActionOutcome.PROVIDER_ERROR
        return WriteMachine(self._before, undo=True), EndExecution(outcome)

    def _ack_unreadable(self, _machine: Machine, _event: CallAckUnreadable) -> Effects:
        # The call was accepted; the next listing shows the result.
        return (EndExecution(ActionOutcome.PROVIDER_ERROR),)

    def _refused(self, machine: Machine, event: CallRefused) -> Effects:
        return self._failed(machine, f"{self._waits_for}: {event.text}", fenced=event.fenced)

    def _never_sent(self, _machine: Machine, event: CallNeverSent) -> Effects:
        if self._before is None:
            raise UnexpectedEventError(f"machine {self.pending.machine_id}: nothing to undo")
        outcome = ActionOutcome.HELD_OFF if event.held_off else ActionOutcome.PROVIDER_ERROR
        return WriteMachine(self._before, undo=True), EndExecution(outcome)

    def _unanswered(self, _machine: Machine, _event: CallUnanswered) -> Effects:
        return (EndExecution(ActionOutcome.CTX_CANCELED),)

    @staticmethod
    def _failed(machine: Machine, text: str, *, fenced: bool = False) -> Effects:
        failed = replace(
            machine, state=S.FAILED, last_error=text, assigned=UNASSIGNED, draining_for=None, idle_since=None
        )
        return WriteMachine(failed), EndExecution(
            ActionOutcome.FENCED if fenced else ActionOutcome.PROVIDER_ERROR
        )


def unbound(machine: Machine, record: Machine | None = None) -> Machine:
    """The machine Idle and unbound; binding and assignment end together."""
    host = record.host if record is not None and record.host else machine.host
    return replace(
        machine,
        state=S.IDLE,
        host=host,
        cluster="",
        assigned=UNASSIGNED,
        last_error="",
        draining_for=None,
        drain_grace_remaining_s=0.0,
        idle_since=None,
    )


_BLOB = "blob"
_READ = "read"

_BLOB_OUTCOMES = {
    BlobProblem.NO_SESSION: ActionOutcome.NO_SESSION,
    BlobProblem.SESSION_GONE: ActionOutcome.CTX_CANCELED,
    BlobProblem.TIMED_OUT: ActionOutcome.CTX_CANCELED,
    BlobProblem.STOPPING: ActionOutcome.CTX_CANCELED,
    BlobProblem.REFUSED: ActionOutcome.BLOB_ERROR,
}

_BEGIN: Mapping[ActionKind, Callable[[Execution, Machine], Effects]] = {
    ActionKind.PROVISION: Execution._provision,
    ActionKind.BOOTSTRAP: Execution._bootstrap,
    ActionKind.RECLAIM: Execution._drain,
    ActionKind.PREEMPT: Execution._drain,
    ActionKind.DELETE: Execution._delete,
}

# `Any`: the key pins the event's type.
TRANSITIONS: Mapping[tuple[str, type[ExecutionEvent]], Callable[[Execution, Machine, Any], Effects]] = {
    (OperationKind.CREATE, CallAcked): Execution._created,
    (OperationKind.CREATE, CallAckUnreadable): Execution._create_ack_unreadable,
    (_BLOB, BlobArrived): Execution._blob_arrived,
    (_BLOB, BlobFailed): Execution._blob_failed,
    (OperationKind.CONFIGURE, CallAcked): Execution._configured,
    (OperationKind.CONFIGURE, CallAckUnreadable): Execution._ack_unreadable,
    (OperationKind.DRAIN, CallAcked): Execution._drained,
    (OperationKind.DRAIN, CallAckUnreadable): Execution._ack_unreadable,
    (OperationKind.DELETE, CallAcked): Execution._deleted,
    (OperationKind.DELETE, CallAckUnreadable): Execution._ack_unreadable,
    (_READ, MachineRead): Execution._read,
    (_READ, MachineNotRead): Execution._not_read,
    **{(kind, CallRefused): Execution._refused for kind in OperationKind},
    (OperationKind.DRAIN, CallRefused): Execution._drain_refused,
    **{(kind, CallNeverSent): Execution._never_sent for kind in OperationKind},
    **{(kind, CallUnanswered): Execution._unanswered for kind in OperationKind},
}
"""The method for an event, by what the execution waits for: a blob, the machine's record, or the answer to a call."""
