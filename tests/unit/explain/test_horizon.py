"""A horizon of several cycles: what is begun comes to its end, and the answer is where that leads (`dashboard#what-if`)."""

from dataclasses import replace
from itertools import cycle

import pytest

from bigfleet.document.compare import NeedChangeKind
from bigfleet.document.edits import edits_of
from bigfleet.document.snapshot import SnapshotDocument
from bigfleet.engine.cycle import decide_situation
from bigfleet.explain.horizon import MAX_CYCLES, ONE_CYCLE, Horizon, HorizonResult, run_to_horizon
from bigfleet.explain.what_if import explain_document, run_what_if
from bigfleet.model.action import ActionKind
from bigfleet.model.decision import Decision
from bigfleet.model.errors import InvalidFieldError
from bigfleet.model.machine import UNASSIGNED, Assignment, Machine, MachineState, check
from bigfleet.model.need import Need
from bigfleet.model.profile import Profile
from bigfleet.model.situation import Situation
from tests.support.builders import amounts, assigned, machine, shape

S = MachineState
NOW = 1000.0
QUIET = Horizon(until_quiet=True)


def need(cluster: str, cpu: int, priority: int = 100) -> Need:
    return Need(cluster, Profile(priority=priority), amounts(cpu=cpu), amounts(cpu=4))


def document(machines: list[Machine], needs: list[Need]) -> SnapshotDocument:
    return SnapshotDocument(Situation(NOW, tuple(machines), tuple(needs)), tuple(range(len(needs))))


def states_of(played: HorizonResult) -> dict[str, tuple[MachineState, str]]:
    return {one.id: (one.state, one.cluster) for one in played.side.document.situation.machines}


def serving(machine_id: str, cluster: str, priority: int = 100) -> Machine:
    return machine(machine_id, S.CONFIGURED, cluster=cluster, assigned=assigned(priority))


def test_one_cycle_is_the_decision_and_nothing_else() -> None:
    given = document([machine("s", S.SPECULATIVE)], [need("a", 4)])
    played = run_to_horizon(given, ONE_CYCLE, decide_situation)
    assert played.side.document.situation == given.situation
    assert (played.cycles, played.seconds, played.quiet) == (1, 0.0, False)


def test_a_preempted_machine_drains_and_serves_who_took_it_a_cycle_later() -> None:
    given = document([serving("v", "low")], [need("high", 4, 1_000), need("low", 4)])
    played = run_to_horizon(given, QUIET, decide_situation)
    assert states_of(played) == {"v": (S.CONFIGURED, "high")}
    assert played.actions[ActionKind.PREEMPT] == played.actions[ActionKind.BOOTSTRAP] == 1
    assert (played.cycles, played.seconds, played.quiet) == (3, 20.0, True)
    verdicts = {verdict.need.cluster: verdict.satisfied for verdict in played.side.decision.verdicts}
    assert verdicts == {"high": True, "low": False}


def test_times_of_the_provider_pass_and_idle_cycles_are_not_counted() -> None:
    given = document([machine("s", S.SPECULATIVE)], [need("a", 4)])
    slow = Horizon(until_quiet=True, create_s=95.0, cycle_s=10.0)
    played = run_to_horizon(given, slow, decide_situation)
    assert states_of(played) == {"s": (S.CONFIGURED, "a")}
    # Ordered at 0; at 10 it is on order; at 100, the first cycle after 95, it serves.
    assert (played.cycles, played.seconds, played.quiet) == (3, 100.0, True)


@pytest.mark.parametrize(
    ("given", "ends"),
    [
        (machine("m", S.CREATING, assigned=Assignment(fingerprint="?", cluster="a")), (S.IDLE, "")),
        (machine("m", S.CONFIGURING, cluster="a", assigned=assigned(100)), (S.CONFIGURED, "a")),
        (machine("m", S.DRAINING, cluster="a"), (S.IDLE, "")),
        (machine("m", S.DELETING), (S.SPECULATIVE, "")),
        (machine("m", S.FAILED, last_error="fan"), (S.FAILED, "")),
    ],
    ids=["creating for nobody", "configuring", "draining", "deleting", "failed stays"],
)
def test_what_is_under_way_in_the_document_comes_to_its_end(
    given: Machine, ends: tuple[MachineState, str]
) -> None:
    played = run_to_horizon(document([given], []), Horizon(until_quiet=True, drain_s=5.0), decide_situation)
    state, cluster = states_of(played)["m"]
    if given.state is S.CONFIGURING:  # no need asks for it, so it is reclaimed
        assert played.actions[ActionKind.RECLAIM] == 1
    else:
        assert (state, cluster) == ends
    assert played.quiet
    for one in played.side.document.situation.machines:
        check(one)


def test_a_machine_on_order_joins_the_need_it_was_ordered_for() -> None:
    wanted = need("a", 4)
    stamp = Assignment(fingerprint=wanted.profile.fingerprint, cluster="a")
    played = run_to_horizon(
        document([machine("m", S.CREATING, assigned=stamp)], [wanted]), QUIET, decide_situation
    )
    (one,) = played.side.document.situation.machines
    assert (one.state, one.cluster, one.assigned.priority) == (S.CONFIGURED, "a", 100)
    assert one.assigned is not UNASSIGNED


def test_a_world_that_never_rests_ends_after_twenty_cycles_and_says_so() -> None:
    given = document([machine("s", S.SPECULATIVE)], [need("a", 4)])
    wishes = cycle((given.situation.needs, ()))

    def restless(situation: Situation) -> Decision:
        return decide_situation(replace(situation, needs=next(wishes)))

    played = run_to_horizon(given, QUIET, restless)
    assert (played.cycles, played.quiet) == (MAX_CYCLES, False)
    assert played.actions[ActionKind.RECLAIM] == MAX_CYCLES // 2


def test_the_question_compares_where_both_worlds_end() -> None:
    machines = [serving("v", "low"), machine("s", S.SPECULATIVE, shape=shape("big", price=2.0))]
    given = document(machines, [need("low", 4)])
    edits = edits_of(
        [{"edit": "add_need", "need": {"cluster": "high", "priority": 1000, "total": {"cpu": "4"}}}]
    )
    one, quiet = run_what_if(given, edits), run_what_if(given, edits, QUIET)
    assert [change.change for change in one.comparison.needs] == [NeedChangeKind.ADDED]
    written = quiet.document()
    assert written["horizon"] == {
        "until": "quiet", "create_seconds": 0.0, "drain_seconds": 0.0,
        "cycles": {"before": 1, "after": 2}, "seconds": {"before": 0.0, "after": 10.0},
        "quiet": {"before": True, "after": True},
    }  # fmt: skip
    (change,) = quiet.comparison.machines
    assert change.after is not None
    assert (change.machine_id, change.after.machine.state, change.after.cluster) == (
        "s",
        S.CONFIGURED,
        "high",
    )
    assert quiet.comparison.after.actions[ActionKind.PROVISION] == 1
    assert quiet.comparison.after.costs.serving == 3.0


def test_without_an_edit_there_is_no_difference_however_far_one_looks() -> None:
    given = document([machine("s", S.SPECULATIVE), serving("v", "gone")], [need("a", 4)])
    assert run_what_if(given, (), Horizon(until_quiet=True, create_s=60, drain_s=30)).comparison.same


def test_a_need_and_a_machine_are_explained_in_the_world_at_the_horizon() -> None:
    given = document([machine("i", S.IDLE, idle_since=NOW)], [need("a", 8)])
    edits = edits_of([{"edit": "add_machines", "like": "i", "count": 1}])
    assert explain_document(given, (), need="0", quick=True)["satisfied"] is False
    assert explain_document(given, edits, need="0", quick=True)["satisfied"] is True
    states_of = explain_document(given, edits, QUIET, machine="added-0000")
    assert states_of["sentence"].startswith("Configured; kept for need 0 of a")


def test_a_need_keeps_its_number_through_edits_and_one_that_is_gone_is_refused() -> None:
    given = document([machine("i", S.IDLE, idle_since=NOW)], [need("a", 4), need("b", 4)])
    edits = edits_of([{"edit": "remove_needs", "where": {"cluster": "a"}}])
    assert explain_document(given, edits, need=1, quick=True)["cluster"] == "b"
    with pytest.raises(InvalidFieldError, match=r"need: found '?0'?, allowed is the number"):
        explain_document(given, edits, need=0, quick=True)
