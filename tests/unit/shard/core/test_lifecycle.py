"""Every step of every action, as events in and effects out.

Rules: `shard#executing`, `shard#unanswered-calls`, `shard#blob-back-off`, `shard#inventory-writes`,
`engine#preemption-in-flight`, `engine#crediting`, `engine#stamps`.
"""

from collections.abc import Callable
from dataclasses import replace

import pytest

from bigfleet.model.action import Action, ActionKind
from bigfleet.model.buckets import PenaltyBucket
from bigfleet.model.machine import NO_HOST, UNASSIGNED, Assignment, HostRef, Machine, MachineState, NeedRef
from bigfleet.model.need import Need
from bigfleet.model.profile import Profile
from bigfleet.provider.contract import OperationKind
from bigfleet.shard.core.lifecycle import (
    TRANSITIONS,
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
    EndExecution,
    Execution,
    ExecutionEffect,
    ExecutionEvent,
    InstructOperator,
    MachineNotRead,
    MachineRead,
    ReadMachine,
    RequestBlob,
    UnexpectedEventError,
    WriteMachine,
)
from bigfleet.shard.core.pending_action import ActionOutcome, PendingAction
from tests.support.builders import amounts, machine, shape

S = MachineState
NEED = Need("prod", Profile(priority=7, interruption_bucket=PenaltyBucket(4)), amounts(cpu=4), group="gang")
STAMP = Assignment(7, 2.0, 0.0, NEED.profile.fingerprint, "gang")


def order(kind: ActionKind, need: Need | None = NEED) -> PendingAction:
    return PendingAction(Action(kind, "m-1", cluster="prod", grace_s=30), need)


def started(kind: ActionKind, state: MachineState, **fields: object) -> tuple[Execution, Machine]:
    """An execution after its first effects, and the machine's record."""
    execution = Execution(order(kind))
    step = execution.begin(machine("m-1", state, **fields))
    return execution, written(step)[-1]


def written(step: tuple[ExecutionEffect, ...]) -> list[Machine]:
    return [effect.machine for effect in step if isinstance(effect, WriteMachine)]


def ended(step: tuple[ExecutionEffect, ...]) -> ActionOutcome:
    last = step[-1]
    assert isinstance(last, EndExecution)
    return last.outcome


def test_provision_stamps_the_need_before_it_calls() -> None:
    step = Execution(order(ActionKind.PROVISION)).begin(machine("m-1", S.SPECULATIVE))
    creating = written(step)[0]
    assert (creating.state, creating.host) == (S.CREATING, NO_HOST)
    assert creating.assigned == Assignment(fingerprint=STAMP.fingerprint, group="gang", cluster="prod")
    assert step[-1] == CallProvider(OperationKind.CREATE, creating)


def test_a_machine_created_inside_the_call_goes_on_to_its_blob() -> None:
    execution, creating = started(ActionKind.PROVISION, S.SPECULATIVE)
    step = execution.handle(creating, CallAcked(machine("m-1", S.IDLE, shape=shape(price=3.0))))
    idle, configuring = written(step)
    assert (idle.state, idle.assigned, idle.shape.price_per_hour) == (S.IDLE, UNASSIGNED, 3.0)
    assert (configuring.state, configuring.cluster, configuring.assigned) == (S.CONFIGURING, "prod", STAMP)
    assert step[-1] == RequestBlob(NEED)


def test_a_machine_still_being_created_stays_stamped_and_the_action_is_done() -> None:
    execution, creating = started(ActionKind.PROVISION, S.SPECULATIVE)
    step = execution.handle(creating, CallAcked(machine("m-1", S.CREATING, shape=shape(price=3.0))))
    assert ended(step) is ActionOutcome.SUCCESS
    assert written(step)[0].assigned == creating.assigned
    assert written(step)[0].shape.price_per_hour == 3.0


def test_a_bootstrap_binds_and_stamps_before_it_asks() -> None:
    step = Execution(order(ActionKind.BOOTSTRAP)).begin(machine("m-1", S.IDLE))
    assert written(step) == [
        machine("m-1", S.CONFIGURING, cluster="prod", assigned=STAMP),
    ]
    assert step[-1] == RequestBlob(NEED)


@pytest.mark.parametrize(
    ("problem", "outcome"),
    [
        (BlobProblem.NO_SESSION, ActionOutcome.NO_SESSION),
        (BlobProblem.SESSION_GONE, ActionOutcome.CTX_CANCELED),
        (BlobProblem.TIMED_OUT, ActionOutcome.CTX_CANCELED),
        (BlobProblem.STOPPING, ActionOutcome.CTX_CANCELED),
        (BlobProblem.REFUSED, ActionOutcome.BLOB_ERROR),
    ],
)
def test_without_a_blob_the_machine_is_idle_and_nobodys_again(
    problem: BlobProblem, outcome: ActionOutcome
) -> None:
    execution, configuring = started(ActionKind.BOOTSTRAP, S.IDLE)
    step = execution.handle(configuring, BlobFailed(problem))
    assert ended(step) is outcome
    assert written(step) == [machine("m-1", S.IDLE)]


def with_blob() -> tuple[Execution, Machine]:
    execution, configuring = started(ActionKind.BOOTSTRAP, S.IDLE)
    assert execution.handle(configuring, BlobArrived()) == (
        CallProvider(OperationKind.CONFIGURE, configuring),
    )
    return execution, configuring


@pytest.mark.parametrize("state", [S.CONFIGURED, S.CONFIGURING])
def test_a_configure_that_is_accepted_keeps_the_assignment(state: MachineState) -> None:
    execution, configuring = with_blob()
    record = machine("m-1", state, cluster="prod", host=HostRef("rack", "new"))
    step = execution.handle(configuring, CallAcked(record))
    assert ended(step) is ActionOutcome.SUCCESS
    after = written(step)[0]
    assert (after.state, after.assigned, after.host.ref) == (state, STAMP, "new")


def test_a_configure_answered_with_idle_has_raced() -> None:
    execution, configuring = with_blob()
    step = execution.handle(configuring, CallAcked(machine("m-1", S.IDLE)))
    assert ended(step) is ActionOutcome.RACED_TO_IDLE
    assert written(step)[0].cluster == ""


def test_a_configure_answered_for_another_cluster_is_not_believed() -> None:
    execution, configuring = with_blob()
    step = execution.handle(configuring, CallAcked(machine("m-1", S.CONFIGURED, cluster="other")))
    assert step == (EndExecution(ActionOutcome.PROVIDER_ERROR),)


def draining() -> tuple[Execution, Machine]:
    """A drain whose machine was read and whose call was made."""
    before = machine("m-1", S.CONFIGURED, assigned=STAMP)
    execution = Execution(order(ActionKind.RECLAIM))
    execution.begin(before)
    return execution, written(execution.handle(before, MachineRead(before)))[-1]


@pytest.mark.rule("shard#get-before-drain")
@pytest.mark.parametrize("kind", [ActionKind.RECLAIM, ActionKind.PREEMPT])
def test_a_drain_reads_the_machine_then_instructs_the_operator_and_remembers_its_need(
    kind: ActionKind,
) -> None:
    before = machine("m-1", S.CONFIGURED, cluster="batch")
    execution = Execution(order(kind))
    assert execution.begin(before) == (ReadMachine("m-1"),)
    step = execution.handle(before, MachineRead(before))
    assert step[0] == InstructOperator(before)
    drained = written(step)[0]
    assert drained.state is S.DRAINING
    preempted = NeedRef("prod", NEED.profile.fingerprint, "gang") if kind is ActionKind.PREEMPT else None
    assert drained.draining_for == preempted
    assert step[-1] == CallProvider(OperationKind.DRAIN, drained)


@pytest.mark.rule("shard#get-before-drain")
@pytest.mark.parametrize("outcome", [ActionOutcome.CTX_CANCELED, ActionOutcome.HELD_OFF])
def test_a_machine_that_cannot_be_read_is_not_drained(outcome: ActionOutcome) -> None:
    before = machine("m-1", S.CONFIGURED)
    execution = Execution(order(ActionKind.RECLAIM))
    execution.begin(before)
    assert execution.handle(before, MachineNotRead(outcome)) == (EndExecution(outcome),)


@pytest.mark.rule("shard#get-before-drain")
@pytest.mark.parametrize(
    "record",
    [machine("m-1", S.FAILED, last_error="burnt"), machine("m-1", S.CONFIGURED, cluster="other")],
    ids=["failed", "bound elsewhere"],
)
def test_a_machine_that_the_provider_knows_otherwise_is_reported_and_not_drained(record: Machine) -> None:
    before = machine("m-1", S.CONFIGURED, cluster="prod")
    execution = Execution(order(ActionKind.RECLAIM))
    execution.begin(before)
    assert execution.handle(before, MachineRead(record)) == (
        ApplyReport(record),
        EndExecution(ActionOutcome.STALE_STATE),
    )


@pytest.mark.rule("shard#get-before-drain")
@pytest.mark.parametrize("fenced", [False, True])
def test_a_refused_drain_puts_the_machine_back_into_service(fenced: bool) -> None:
    execution, record = draining()
    step = execution.handle(record, CallRefused("busy", fenced=fenced))
    assert step[0] == WriteMachine(machine("m-1", S.CONFIGURED, assigned=STAMP), undo=True)
    assert ended(step) is (ActionOutcome.FENCED if fenced else ActionOutcome.PROVIDER_ERROR)


def test_a_drain_that_is_over_frees_the_machine_and_one_under_way_is_left_to_reconcile() -> None:
    execution, record = draining()
    assert execution.handle(record, CallAcked(machine("m-1", S.DRAINING))) == (
        EndExecution(ActionOutcome.SUCCESS),
    )
    execution, record = draining()
    step = execution.handle(record, CallAcked(machine("m-1", S.IDLE)))
    assert written(step) == [machine("m-1", S.IDLE)]


def test_a_delete_that_is_over_leaves_a_slot_without_a_host() -> None:
    execution, deleting = started(ActionKind.DELETE, S.IDLE)
    assert deleting.state is S.DELETING
    step = execution.handle(deleting, CallAcked(machine("m-1", S.SPECULATIVE)))
    assert written(step) == [machine("m-1", S.SPECULATIVE)]
    execution, deleting = started(ActionKind.DELETE, S.IDLE)
    assert execution.handle(deleting, CallAcked(machine("m-1", S.DELETING))) == (
        EndExecution(ActionOutcome.SUCCESS),
    )


STARTS: dict[OperationKind, Callable[[], tuple[Execution, Machine]]] = {
    OperationKind.CREATE: lambda: started(ActionKind.PROVISION, S.SPECULATIVE),
    OperationKind.CONFIGURE: with_blob,
    OperationKind.DRAIN: draining,
    OperationKind.DELETE: lambda: started(ActionKind.DELETE, S.IDLE),
}
BEFORE = {
    OperationKind.CREATE: machine("m-1", S.SPECULATIVE),
    OperationKind.CONFIGURE: machine("m-1", S.IDLE),
    OperationKind.DRAIN: machine("m-1", S.CONFIGURED, assigned=STAMP),
    OperationKind.DELETE: machine("m-1", S.IDLE),
}


@pytest.mark.parametrize("kind", [OperationKind.CREATE, OperationKind.CONFIGURE, OperationKind.DELETE])
def test_a_refusal_fails_the_machine_with_the_providers_words(kind: OperationKind) -> None:
    execution, record = STARTS[kind]()
    step = execution.handle(record, CallRefused("no quota"))
    assert ended(step) is ActionOutcome.PROVIDER_ERROR
    failed = written(step)[0]
    assert (failed.state, failed.last_error) == (S.FAILED, f"{kind}: no quota")
    assert failed.assigned == UNASSIGNED


@pytest.mark.parametrize("kind", list(OperationKind))
def test_a_fenced_call_is_told_apart(kind: OperationKind) -> None:
    execution, record = STARTS[kind]()
    assert ended(execution.handle(record, CallRefused("stale token", fenced=True))) is ActionOutcome.FENCED


@pytest.mark.rule("shard#unanswered-calls")
@pytest.mark.parametrize("kind", list(OperationKind))
def test_no_answer_leaves_the_transitional_state(kind: OperationKind) -> None:
    execution, record = STARTS[kind]()
    assert execution.handle(record, CallUnanswered()) == (EndExecution(ActionOutcome.CTX_CANCELED),)


@pytest.mark.rule("shard#inventory-writes")
@pytest.mark.parametrize("kind", list(OperationKind))
def test_a_call_never_sent_is_undone(kind: OperationKind) -> None:
    execution, record = STARTS[kind]()
    step = execution.handle(record, CallNeverSent())
    assert step[0] == WriteMachine(BEFORE[kind], undo=True)
    assert ended(step) is ActionOutcome.PROVIDER_ERROR


@pytest.mark.parametrize("kind", list(OperationKind))
def test_an_answer_that_cannot_be_true_fails_a_create_and_leaves_all_else_to_reconcile(
    kind: OperationKind,
) -> None:
    execution, record = STARTS[kind]()
    step = execution.handle(record, CallAckUnreadable("price_per_hour: found nan"))
    assert ended(step) is ActionOutcome.PROVIDER_ERROR
    if kind is OperationKind.CREATE:
        assert written(step)[0].last_error == "create: ack rejected: price_per_hour: found nan"
    else:
        assert not written(step)


@pytest.mark.parametrize("kind", [OperationKind.CREATE, OperationKind.CONFIGURE, OperationKind.DELETE])
def test_an_answer_that_says_failed_is_believed(kind: OperationKind) -> None:
    execution, record = STARTS[kind]()
    step = execution.handle(record, CallAcked(machine("m-1", S.FAILED, last_error="disk broke")))
    assert written(step)[0].last_error == "disk broke"


@pytest.mark.rule("shard#stale-action")
@pytest.mark.parametrize(
    ("kind", "state", "need", "outcome"),
    [
        (ActionKind.PROVISION, S.SPECULATIVE, None, ActionOutcome.MISSING_PROFILE),
        (ActionKind.BOOTSTRAP, S.IDLE, None, ActionOutcome.MISSING_PROFILE),
        (ActionKind.PROVISION, S.IDLE, NEED, ActionOutcome.STALE_STATE),
        (ActionKind.BOOTSTRAP, S.FAILED, NEED, ActionOutcome.STALE_STATE),
        (ActionKind.RECLAIM, S.IDLE, NEED, ActionOutcome.SUCCESS),
        (ActionKind.PREEMPT, S.DRAINING, NEED, ActionOutcome.SUCCESS),
        (ActionKind.DELETE, S.CONFIGURED, NEED, ActionOutcome.SUCCESS),
    ],
)
def test_what_no_longer_makes_sense_touches_nothing(
    kind: ActionKind, state: MachineState, need: Need | None, outcome: ActionOutcome
) -> None:
    assert Execution(order(kind, need)).begin(machine("m-1", state)) == (EndExecution(outcome),)


def test_a_machine_that_serves_the_need_already_is_a_success() -> None:
    served = machine("m-1", S.CONFIGURED, cluster="prod", assigned=STAMP)
    assert Execution(order(ActionKind.BOOTSTRAP)).begin(served) == (EndExecution(ActionOutcome.SUCCESS),)
    other = replace(served, cluster="other")
    assert Execution(order(ActionKind.BOOTSTRAP)).begin(other) == (EndExecution(ActionOutcome.STALE_STATE),)


def test_an_event_out_of_place_is_a_defect_with_its_story() -> None:
    execution, creating = started(ActionKind.PROVISION, S.SPECULATIVE)
    with pytest.raises(UnexpectedEventError, match="Provision in Speculative, BlobArrived"):
        execution.handle(creating, BlobArrived())


def test_every_call_has_an_answer_to_every_event() -> None:
    calls: set[type[ExecutionEvent]] = {
        CallAcked,
        CallAckUnreadable,
        CallRefused,
        CallNeverSent,
        CallUnanswered,
    }
    for kind in OperationKind:
        assert {event for waits, event in TRANSITIONS if waits == kind} == calls
