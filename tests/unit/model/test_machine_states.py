"""The transition table is the thirteen edges of the contract and nothing else."""

import itertools

from bigfleet.model.errors import IllegalTransitionError
from bigfleet.model.machine import (
    BOUND_STATES,
    STABLE_STATES,
    TRANSITIONS,
    CapacityType,
    MachineState,
    check_transition,
)

THIRTEEN = {
    ("Speculative", "Creating"),
    ("Creating", "Idle"),
    ("Creating", "Failed"),
    ("Idle", "Configuring"),
    ("Idle", "Deleting"),
    ("Configuring", "Configured"),
    ("Configuring", "Failed"),
    ("Configuring", "Idle"),
    ("Configured", "Draining"),
    ("Draining", "Idle"),
    ("Draining", "Failed"),
    ("Deleting", "Speculative"),
    ("Deleting", "Failed"),
}


def allowed(before: MachineState, after: MachineState) -> bool:
    try:
        check_transition("m", before, after)
    except IllegalTransitionError:
        return False
    return True


def test_exactly_thirteen_edges_are_legal() -> None:
    pairs = itertools.permutations(TRANSITIONS, 2)
    assert {(before.label, after.label) for before, after in pairs if allowed(before, after)} == THIRTEEN


def test_staying_in_a_state_is_always_allowed() -> None:
    assert all(allowed(state, state) for state in TRANSITIONS)


def test_the_guard_value_is_no_state() -> None:
    assert len(TRANSITIONS) == 8
    assert MachineState.UNSPECIFIED not in TRANSITIONS


def test_only_transitional_states_can_fail() -> None:
    failing = {state for state, after in TRANSITIONS.items() if MachineState.FAILED in after}
    assert failing == set(TRANSITIONS) - STABLE_STATES
    assert MachineState.CONFIGURED in BOUND_STATES


def test_labels_are_those_of_documents() -> None:
    assert [state.label for state in TRANSITIONS] == [
        "Speculative", "Creating", "Idle", "Configuring", "Configured", "Draining", "Deleting", "Failed",
    ]  # fmt: skip
    assert [kind.label for kind in CapacityType] == [
        "Unspecified",
        "BareMetal",
        "Reserved",
        "OnDemand",
        "Spot",
    ]
