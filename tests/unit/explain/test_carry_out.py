"""Carrying decisions out on records leaves the stamps of `engine#stamps`, and only legal states and edges."""

import pytest

from bigfleet.explain.carry_out import at_once, begun, finished
from bigfleet.model.action import Action, ActionKind
from bigfleet.model.buckets import PINNED, bucket_of
from bigfleet.model.decision import Decision, Verdict
from bigfleet.model.machine import (
    UNASSIGNED,
    Assignment,
    Machine,
    MachineState,
    NeedRef,
    check,
    check_transition,
)
from bigfleet.model.need import Need
from bigfleet.model.profile import Profile
from bigfleet.model.situation import Situation
from tests.support.builders import assigned, machine
from tests.support.engine.carry_out import carried_out

S = MachineState
NEED = Need(
    "x", Profile(priority=500, interruption_bucket=bucket_of(1), reclamation_bucket=PINNED), group="A"
)
FINGERPRINT = NEED.profile.fingerprint
FULL = Assignment(500, 1.0, float("inf"), FINGERPRINT, "A")
SERVED = assigned(100, 5, 1, fingerprint="old", group="B")


def action(kind: ActionKind, grace_s: int | None = None) -> Action:
    return Action(kind, "m-1", need=0, grace_s=grace_s)


@pytest.mark.parametrize(
    ("before", "kind", "between", "after"),
    [
        pytest.param(
            machine(state=S.SPECULATIVE), ActionKind.PROVISION,
            (S.CREATING, Assignment(fingerprint=FINGERPRINT, group="A", cluster="x")), (S.CONFIGURED, FULL),
            id="provision stamps the destination too (E7), and serves at the end",
        ),
        pytest.param(
            machine(state=S.IDLE), ActionKind.BOOTSTRAP,
            (S.CONFIGURING, Assignment(fingerprint=FINGERPRINT, group="A")), (S.CONFIGURED, FULL),
            id="bootstrap stamps profile and group, then all",
        ),
        pytest.param(
            machine(state=S.CONFIGURED, assigned=SERVED), ActionKind.PREEMPT,
            (S.DRAINING, SERVED), (S.IDLE, UNASSIGNED),
            id="a preempted machine keeps its stamp while it drains",
        ),
        pytest.param(
            machine(state=S.CONFIGURED, assigned=SERVED), ActionKind.RECLAIM,
            (S.DRAINING, SERVED), (S.IDLE, UNASSIGNED),
            id="a reclaimed machine too",
        ),
        pytest.param(
            machine(state=S.IDLE, idle_since=5.0), ActionKind.DELETE,
            (S.DELETING, UNASSIGNED), (S.SPECULATIVE, UNASSIGNED),
            id="a released machine is a quota slot again",
        ),
    ],
)  # fmt: skip
def test_an_action_stamps_the_machine(
    before: Machine,
    kind: ActionKind,
    between: tuple[MachineState, Assignment],
    after: tuple[MachineState, Assignment],
) -> None:
    underway = begun(before, action(kind, 30), NEED)
    check(underway)
    check_transition("m-1", before.state, underway.state)
    assert (underway.state, underway.assigned) == between
    done = at_once(before, action(kind, 30), NEED, now=9.0)
    check(done)
    assert (done.state, done.assigned) == after
    assert done.cluster == ("x" if done.state is S.CONFIGURED else "")
    assert done.idle_since == (9.0 if done.state is S.IDLE else None)


def test_only_a_preempted_machine_drains_for_a_need() -> None:
    bound = machine(state=S.CONFIGURED)
    victim = begun(bound, action(ActionKind.PREEMPT, 30), NEED)
    assert victim.draining_for == NeedRef("x", FINGERPRINT, "A")
    assert victim.drain_grace_remaining_s == 30
    assert begun(bound, action(ActionKind.RECLAIM, 600), None).draining_for is None
    assert finished(victim, now=9.0).draining_for is None


def test_the_first_action_on_a_machine_wins() -> None:
    bound = machine(state=S.CONFIGURED)
    both = Decision(
        (action(ActionKind.PREEMPT, 30), Action(ActionKind.DELETE, "m-1")), (Verdict(NEED, (0,)),), ()
    )
    (after,) = carried_out(Situation(9.0, (bound,), (NEED,)), both).machines
    assert after.state is S.IDLE


def test_a_machine_at_rest_has_nothing_to_finish() -> None:
    with pytest.raises(AssertionError, match="nothing is under way"):
        finished(machine(state=S.IDLE), now=9.0)
