"""How short needs fared lately: bounded, and forgotten with the demand (`dashboard#explain-history`, `shard#memory`)."""

import gc
import weakref

import pytest

from bigfleet.model.demand import Demand
from bigfleet.model.machine import NeedRef
from bigfleet.model.need import Need
from bigfleet.model.profile import Profile, Requirement, RequirementOperator
from bigfleet.shard.core.read import short_history
from bigfleet.shard.core.read.short_history import CHANGES_KEPT, HISTORY, SATISFIED, PastVerdict, ShortHistory
from tests.support.builders import amounts

STARVED = "PRIORITY_STARVED"


def need(cluster: str, priority: int, group: str = "") -> Need:
    same = Requirement("zone", RequirementOperator.SAME)
    return Need(cluster, Profile((same,) if group else (), (), priority), amounts(cpu=1), group=group)


def key(asked: Need) -> NeedRef:
    return NeedRef(*asked.stamp_key)


NEEDS = [need("a", 1), need("a", 2), need("b", 1)]
ALL = Demand.listed(NEEDS)


@pytest.mark.rule("dashboard#explain-history", "shard#memory")
def test_a_need_that_is_withdrawn_is_forgotten_and_those_of_other_clusters_are_not() -> None:
    history = ShortHistory()
    history.add(1, ALL, [(each, STARVED) for each in NEEDS])
    fewer = Demand.listed([NEEDS[0], NEEDS[2]])
    history.add(2, fewer, [(NEEDS[2], STARVED)])
    assert history.of(key(NEEDS[0])) == (PastVerdict(1, STARVED), PastVerdict(2, SATISFIED))
    assert history.of(key(NEEDS[1])) == ()
    assert history.of(key(NEEDS[2])) == (PastVerdict(1, STARVED), PastVerdict(2, STARVED))
    history.add(3, Demand({}), [])
    assert len(history) == 0


@pytest.mark.rule("shard#memory")
def test_nothing_of_demand_that_was_withdrawn_stays_alive() -> None:
    history = ShortHistory()
    asked = Demand.listed([need("a", 7)])
    part = weakref.ref(asked.by_cluster["a"])
    history.add(1, asked, [(row, STARVED) for row in asked.rows])
    del asked
    history.add(2, Demand({}), [])
    gc.collect()
    assert part() is None


@pytest.mark.rule("dashboard#explain-history")
def test_the_need_that_gangs_became_has_a_history_although_no_row_says_it() -> None:
    history, gangs = ShortHistory(), Demand.listed([need("a", 1, "g1"), need("a", 1, "g2")])
    (alike,) = gangs.by_cluster["a"].gang_classes
    history.add(1, Demand({}), [])
    history.add(2, gangs, [(alike.folded, STARVED)])
    again = Demand.listed([need("a", 1, "g1"), need("a", 1, "g2"), need("a", 5)])
    history.add(3, again, [])
    assert history.of(key(alike.folded)) == (PastVerdict(2, STARVED), PastVerdict(3, SATISFIED))


@pytest.mark.rule("dashboard#explain-history")
def test_a_need_that_was_satisfied_for_the_whole_history_is_dropped() -> None:
    history = ShortHistory()
    history.add(1, ALL, [(NEEDS[0], STARVED)])
    for cycle in range(2, HISTORY + 1):
        history.add(cycle, ALL, [])
    assert len(history.of(key(NEEDS[0]))) == HISTORY
    history.add(HISTORY + 1, ALL, [])
    assert len(history) == 0


@pytest.mark.rule("shard#memory")
def test_of_a_need_that_changes_in_each_cycle_the_last_changes_are_kept() -> None:
    history = ShortHistory()
    for cycle in range(1, 2 * HISTORY):
        history.add(cycle, ALL, [(NEEDS[0], f"r{cycle}")])
    past = history.of(key(NEEDS[0]))
    assert [item.reason for item in past] == [f"r{item.cycle}" for item in past]
    assert len(past) == CHANGES_KEPT
    assert past[-1].cycle == 2 * HISTORY - 1


@pytest.mark.rule("shard#memory")
def test_needs_beyond_the_bound_have_no_history(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(short_history, "NEEDS_KEPT", 2)
    history = ShortHistory()
    history.add(1, ALL, [(each, STARVED) for each in NEEDS])
    assert len(history) == 2
    history.add(2, ALL, [(each, STARVED) for each in NEEDS])
    assert len(history.of(key(NEEDS[0]))) == 2
