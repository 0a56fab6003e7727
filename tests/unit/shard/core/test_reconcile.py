"""What a provider's record changes.

Rules: `shard#applying-a-record`, `shard#disputed-states`, `shard#reported-failure`; ADR-0059, ADR-0069.
"""

import pytest

from bigfleet.model.machine import TRANSITIONS, UNASSIGNED, Assignment, MachineState
from bigfleet.shard.core.reconcile import Disputes, is_progress, judge, vanished
from tests.support.builders import machine

S = MachineState
STAMP = Assignment(5, 1.0, 2.0, "fp", "gang")
STATES = tuple(TRANSITIONS)
LEGAL = [(one, other) for one in STATES for other in TRANSITIONS[one]]
LOSSES = [(S.CONFIGURED, S.FAILED), (S.IDLE, S.FAILED)]
JUMPS = [
    (one, other)
    for one in STATES
    for other in STATES
    if one is not other and (one, other) not in LEGAL and (one, other) not in LOSSES
]


@pytest.mark.parametrize("state", STATES)
def test_the_same_state_changes_nothing_at_all(state: MachineState) -> None:
    assert judge(machine(state=state), machine(state=state, last_error="other words"), Disputes()) is None


@pytest.mark.parametrize(("known", "reported"), LEGAL)
def test_a_legal_step_is_taken_at_once(known: MachineState, reported: MachineState) -> None:
    change = judge(machine(state=known), machine(state=reported), Disputes())
    assert change is not None
    assert (change.machine.state, change.adopted) == (reported, False)


@pytest.mark.rule("shard#reported-failure")
@pytest.mark.parametrize(("known", "reported"), LOSSES)
def test_a_loss_is_believed_at_once(known: MachineState, reported: MachineState) -> None:
    change = judge(machine(state=known), machine(state=reported), Disputes())
    assert change is not None
    assert change.adopted


@pytest.mark.rule("shard#disputed-states")
@pytest.mark.parametrize(("known", "reported"), JUMPS)
def test_a_jump_is_adopted_at_the_third_sighting_in_a_row(
    known: MachineState, reported: MachineState
) -> None:
    local, record, disputes = machine(state=known), machine(state=reported), Disputes()
    assert judge(local, record, disputes) is None
    assert judge(local, record, disputes) is None
    assert disputes.machine_ids == ("m-1",)
    change = judge(local, record, disputes)
    assert change is not None
    assert change.adopted
    assert not len(disputes)


def test_a_sighting_that_makes_sense_in_between_starts_the_count_anew() -> None:
    local, disputes = machine(state=S.DRAINING), Disputes()
    for _ in range(2):
        assert judge(local, machine(state=S.CONFIGURED), disputes) is None
    assert judge(local, machine(state=S.DRAINING), disputes) is None
    for _ in range(2):
        assert judge(local, machine(state=S.CONFIGURED), disputes) is None
    assert judge(local, machine(state=S.CONFIGURED), disputes) is not None


def test_another_state_in_between_starts_the_count_anew() -> None:
    local, disputes = machine(state=S.FAILED), Disputes()
    for state in (S.IDLE, S.IDLE, S.CONFIGURED, S.IDLE, S.IDLE):
        assert judge(local, machine(state=state), disputes) is None
    assert judge(local, machine(state=S.IDLE), disputes) is not None


def test_after_a_full_listing_only_what_it_disputes_is_in_dispute() -> None:
    disputes = Disputes()
    judge(machine("a", S.FAILED), machine("a", S.IDLE), disputes)
    judge(machine("b", S.FAILED), machine("b", S.IDLE), disputes)
    disputes.settle_all_but(["b"])
    assert disputes.machine_ids == ("b",)


@pytest.mark.parametrize(
    ("known", "reported", "kept"),
    [
        (S.CONFIGURING, S.CONFIGURED, True),
        (S.CONFIGURED, S.DRAINING, True),
        (S.DRAINING, S.IDLE, False),
        (S.CONFIGURING, S.IDLE, False),
        (S.DRAINING, S.FAILED, False),
        (S.CREATING, S.IDLE, False),
    ],
)
def test_memory_rules_while_bound_and_ends_with_the_binding(
    known: MachineState, reported: MachineState, kept: bool
) -> None:
    local = machine(state=known, assigned=STAMP)
    record = machine(state=reported, assigned=Assignment(fingerprint="what the provider says"))
    change = judge(local, record, Disputes())
    assert change is not None
    assert change.machine.assigned == (STAMP if kept else UNASSIGNED)


def test_a_binding_we_know_nothing_of_is_told_by_its_metadata() -> None:
    change = judge(machine(state=S.IDLE), machine(state=S.CONFIGURING, assigned=STAMP), Disputes())
    assert change is not None
    assert change.machine.assigned == STAMP


def test_the_last_word_about_a_vanished_machine_is_failed_with_a_reason() -> None:
    last = vanished(machine(state=S.CONFIGURED))
    assert last.state is S.FAILED
    assert last.last_error.startswith("removed:")


@pytest.mark.rule("shard#transition-polls")
def test_progress_is_the_end_of_a_transition_or_a_loss_and_nothing_else() -> None:
    progress = {
        (known.label, reported.label) for known in S for reported in S if is_progress(known, reported)
    }
    assert progress == {
        ("Creating", "Idle"),
        ("Creating", "Failed"),
        ("Configuring", "Configured"),
        ("Configuring", "Failed"),
        ("Draining", "Idle"),
        ("Draining", "Failed"),
        ("Idle", "Failed"),
        ("Configured", "Failed"),
    }
