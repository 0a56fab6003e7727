"""How a need is split into running, joining, on order and wanted (`shard#coverage-split`)."""

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bigfleet.model.action import Action, ActionKind
from bigfleet.model.coverage import CoverageSplit
from bigfleet.model.machine import Assignment, Machine
from bigfleet.model.machine import MachineState as S
from bigfleet.model.need import Need
from bigfleet.model.profile import Profile
from bigfleet.model.resources import ZERO
from bigfleet.model.situation import Situation
from bigfleet.shard.core.coverage import NOT_ACCEPTED, Coverage, HeldMachines, LiveMachines
from bigfleet.shard.core.views import CycleFacts, CycleView, HoldOff
from tests.reference.supply import counts_as
from tests.support.builders import amounts, assigned, machine, shape
from tests.support.shard_views import cycle_of
from tests.support.situations import situations

pytestmark = pytest.mark.rule("shard#coverage-split")

WEB = Profile(priority=1000)
ORDERED = Assignment(fingerprint=WEB.fingerprint, cluster="a")
NOW = 100.0


def fleet(**states: S) -> tuple[Machine, ...]:
    """Machines of 4 CPUs by id; Creating ones are on order for cluster a."""
    return tuple(
        machine(name.replace("_", "-"), state, **({"assigned": ORDERED} if state is S.CREATING else {}))
        for name, state in states.items()
    )


def web(cpu: int) -> Need:
    return Need("a", WEB, amounts(cpu=cpu))


def coverage(
    view: CycleView,
    states: Mapping[str, S | None] | None = None,
    *,
    refused: frozenset[str] = frozenset(),
    now_s: float = NOW,
) -> Coverage:
    live = LiveMachines(states or {}, lambda machine_id: machine_id not in refused)
    return Coverage(view, HeldMachines(view), live, now_s=now_s, cycle_interval_s=10.0)


def test_each_machine_of_a_need_is_in_one_part_and_wanted_machines_leave_demand_missing() -> None:
    machines = fleet(m_1=S.CONFIGURED, m_2=S.CONFIGURING, m_3=S.CREATING, m_4=S.IDLE, m_5=S.SPECULATIVE)
    view = cycle_of(Situation(NOW, machines, (web(20),)))
    assert view.decision.verdicts[0].satisfied, "the engine counts what it decided"
    assert coverage(view).of(0) == CoverageSplit(1, 1, 1, 2, amounts(cpu=8))


def test_a_need_is_covered_by_what_runs_joins_or_is_on_order() -> None:
    machines = fleet(m_1=S.CONFIGURED, m_2=S.CONFIGURING, m_3=S.CREATING)
    split = coverage(cycle_of(Situation(NOW, machines, (web(12),)))).of(0)
    assert (split.covered, split.wanted) == (True, 0)


def test_an_order_that_the_provider_has_not_accepted_is_wanted() -> None:
    view = cycle_of(Situation(NOW, fleet(m_1=S.CREATING), (web(4),)))
    split = coverage(view, refused=frozenset({"m-1"})).of(0)
    assert (split.on_order, split.wanted, split.missing) == (0, 1, amounts(cpu=4))


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (S.CREATING, CoverageSplit(on_order=1)),
        (S.CONFIGURING, CoverageSplit(joining=1)),
        (S.CONFIGURED, CoverageSplit(running=1)),
        (S.FAILED, CoverageSplit(wanted=1, missing=amounts(cpu=4))),
        (S.SPECULATIVE, CoverageSplit(wanted=1, missing=amounts(cpu=4))),
        (None, CoverageSplit(wanted=1, missing=amounts(cpu=4))),
    ],
)
def test_a_machine_that_moved_on_since_the_cycle_counts_as_it_is_now(
    state: S | None, expected: CoverageSplit
) -> None:
    view = cycle_of(Situation(NOW, fleet(m_1=S.SPECULATIVE), (web(4),)))
    assert coverage(view, {"m-1": state}).of(0) == expected


def test_a_machine_that_is_preempted_no_longer_counts_for_the_need_that_it_leaves() -> None:
    low = machine("m-1", S.CONFIGURED, assigned=assigned(1))
    high = Need("b", Profile(priority=9000), amounts(cpu=4))
    view = cycle_of(Situation(NOW, (low,), (high, Need("a", Profile(priority=1), amounts(cpu=4)))))
    assert coverage(view).of(1).running == 1
    assert coverage(view, {"m-1": S.DRAINING}).of(1) == CoverageSplit(missing=amounts(cpu=4))


def test_only_machines_that_the_shard_acts_on_are_read_again() -> None:
    machines = fleet(m_1=S.CONFIGURED, m_2=S.CONFIGURING, m_3=S.CREATING, m_4=S.IDLE, m_5=S.SPECULATIVE)
    view = cycle_of(Situation(NOW, machines, (web(20),)))
    view = replace(view, facts=CycleFacts(dispatched=(Action(ActionKind.BOOTSTRAP, "m-4"),)))
    held = HeldMachines(view)
    assert held.acted_on(view, lambda machine_id: machine_id == "m-3") == ["m-3", "m-4"]
    assert held.open_places == {0}


def test_a_need_with_nothing_in_flight_is_the_same_until_the_next_cycle() -> None:
    view = cycle_of(Situation(NOW, fleet(m_1=S.CONFIGURED), (web(4),)))
    assert HeldMachines(view).open_places == frozenset()


def test_a_need_whose_orders_are_held_off_is_short_and_says_why() -> None:
    view = cycle_of(
        Situation(NOW, fleet(m_1=S.SPECULATIVE), (web(4),)),
        held_off={0: HoldOff.PROVIDER_UNREACHABLE},
        waiting_since_s={0: 70.0},
    )
    found = coverage(view)
    assert found.held_short == {0: "provider-unreachable"}
    assert found.of(0) == CoverageSplit(
        wanted=1, missing=amounts(cpu=4), held_off="provider-unreachable", waiting_s=30.0
    )


def test_orders_held_off_and_accepted_since_the_cycle_leave_no_need_short() -> None:
    view = cycle_of(
        Situation(NOW, fleet(m_1=S.SPECULATIVE), (web(4),)),
        held_off={0: HoldOff.PROVIDER_UNREACHABLE},
        waiting_since_s={0: 70.0},
    )
    found = coverage(view, {"m-1": S.CREATING})
    assert (found.held_short, found.uncovered) == ({}, ())
    assert found.of(0) == CoverageSplit(on_order=1)


def test_a_need_that_waits_for_two_cycles_is_short_even_if_nothing_is_held_off() -> None:
    view = cycle_of(Situation(NOW, fleet(m_1=S.SPECULATIVE), (web(4),)), waiting_since_s={0: 85.0})
    assert coverage(view, now_s=104.9).held_short == {}
    assert coverage(view, now_s=105.0).held_short == {0: NOT_ACCEPTED}


def test_a_need_that_the_engine_left_short_keeps_its_verdict_as_the_reason() -> None:
    view = cycle_of(
        Situation(NOW, fleet(m_1=S.SPECULATIVE), (web(8),)), held_off={0: HoldOff.PROVIDER_UNREACHABLE}
    )
    assert coverage(view).held_short == {}
    assert coverage(view).of(0).held_off == "provider-unreachable"


def test_sums_are_made_per_cluster_and_over_all() -> None:
    machines = (*fleet(m_1=S.CONFIGURED, m_2=S.SPECULATIVE), machine("m-3", S.CONFIGURED, cluster="b"))
    found = coverage(cycle_of(Situation(NOW, machines, (web(8), Need("b", WEB, amounts(cpu=8))))))
    assert found.by_cluster() == {
        "a": CoverageSplit(running=1, wanted=1, missing=amounts(cpu=4)),
        "b": CoverageSplit(running=1, missing=amounts(cpu=4)),
    }
    assert found.total == CoverageSplit(running=2, wanted=1, missing=amounts(cpu=8))
    assert found.uncovered == (0, 1)


def test_a_cycle_without_needs_has_an_empty_split() -> None:
    found = coverage(cycle_of(Situation(NOW, fleet(m_1=S.CONFIGURED), ())))
    assert (found.total, found.by_cluster(), found.uncovered) == (CoverageSplit(), {}, ())


PARTS = {S.CONFIGURED: "running", S.CONFIGURING: "joining", S.CREATING: "on_order"}


@given(situations(), st.data())
def test_the_split_equals_a_count_machine_by_machine(situation: Situation, data: st.DataObject) -> None:
    view = cycle_of(situation)
    ids = HeldMachines(view).ids
    moved = st.sampled_from([S.CREATING, S.CONFIGURING, S.CONFIGURED, S.FAILED, S.SPECULATIVE, S.IDLE])
    states = {each: data.draw(moved) for each in ids if data.draw(st.booleans())}
    refused = frozenset(each for each in ids if data.draw(st.booleans()))
    found = coverage(view, states, refused=refused)
    by_id = {each.id: each for each in situation.machines}
    for place, verdict in enumerate(view.decision.verdicts):
        counts = dict.fromkeys(("running", "joining", "on_order", "wanted"), 0)
        capacity = ZERO
        for machine_id in verdict.claimed:
            state = states.get(machine_id, by_id[machine_id].state)
            part = PARTS.get(state, "wanted")
            if part == "on_order" and machine_id in refused:
                part = "wanted"
            counts[part] += 1
            if part != "wanted":
                capacity += counts_as(by_id[machine_id], verdict.need)
        assert found.of(place) == CoverageSplit(
            counts["running"],
            counts["joining"],
            counts["on_order"],
            counts["wanted"],
            verdict.need.total - capacity,
        )


def test_capacity_counts_as_a_whole_like_in_the_engine() -> None:
    """A machine of 16 CPUs and no GPU counts for a need of CPU and GPU while one of them is missing."""
    wide = machine("m-1", S.CONFIGURED, shape=shape(resources={"cpu": "16"}))
    view = cycle_of(Situation(NOW, (wide,), (Need("a", WEB, amounts(cpu=8, gpu=2)),)))
    assert coverage(view).of(0) == CoverageSplit(running=1, missing=amounts(gpu=2))
