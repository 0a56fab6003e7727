"""Rows of inspection: order and joins (wire 6.1, shard 19; shard 28, item 17)."""

from dataclasses import replace

from bigfleet.model.machine import MachineState as S
from bigfleet.model.need import Need
from bigfleet.model.profile import Operator, Profile, Requirement
from bigfleet.model.situation import GangRef, Situation
from bigfleet.shard.core.inspection import rows_of
from bigfleet.testing.builders import amounts, assigned, machine, shape
from bigfleet.testing.shard_views import cycle_of

GANG = Profile((Requirement("rack", Operator.SAME),), priority=900)


def need(cluster: str, priority: int = 0, arrival_ns: int = 0, group: str = "", cpu: int = 4) -> Need:
    return Need(cluster, Profile(priority=priority), amounts(cpu=cpu), arrival_ns=arrival_ns, group=group)


def test_rows_stand_by_priority_arrival_cluster_fingerprint_and_group() -> None:
    needs = (need("b", 5, 7), need("a", 5, 7), need("c", 5, 3), need("a", 9, 99), need("a", 5, 7, group="z"))
    rows = rows_of(cycle_of(Situation(0.0, (), needs)))
    assert [(row.verdict.need.cluster, row.verdict.need.group) for row in rows] == [
        ("a", ""),
        ("c", ""),
        ("a", ""),
        ("a", "z"),
        ("b", ""),
    ]


def test_small_gangs_that_fold_take_their_place_by_priority_like_any_other() -> None:
    fold = tuple(Need("a", GANG, amounts(cpu=2), amounts(cpu=2), group=f"g{n}") for n in range(3))
    fleet = (machine("m-1", shape=shape(labels={"rack": "r1"})),)
    rows = rows_of(cycle_of(Situation(0.0, fleet, (need("a", 1), *fold))))
    assert [row.verdict.need.profile.priority for row in rows] == [900, 1]
    assert len(rows[0].verdict.folded_from) == 3


def test_the_age_of_a_shortfall_is_joined_by_fingerprint_and_only_where_the_need_itself_is_left() -> None:
    """A need that shares its profile with a short one, but is served, is not short."""
    fleet = (machine("m-1", S.CONFIGURED, cluster="a", assigned=assigned(5)),)
    view = cycle_of(Situation(0.0, fleet, (need("a", 5), need("b", 5))))
    view = replace(view, unmet_ages={Profile(priority=5).fingerprint: 12})
    ages = {row.verdict.need.cluster: row.unmet_age for row in rows_of(view)}
    assert ages == {"a": 0, "b": 12}


def test_a_need_about_to_be_met_by_preemption_has_no_age() -> None:
    fleet = (machine("m-1", S.CONFIGURED, cluster="low", assigned=assigned(1)),)
    view = cycle_of(Situation(0.0, fleet, (need("high", 9), need("low", 1))))
    view = replace(view, unmet_ages={Profile(priority=9).fingerprint: 3, Profile(priority=1).fingerprint: 3})
    high = rows_of(view)[0]
    assert not high.verdict.satisfied
    assert (high.unresolved, high.unmet_age) == (None, 0)


def test_the_parked_age_is_shown_for_parked_gangs_only() -> None:
    gang = Need("a", GANG, amounts(cpu=64), amounts(cpu=4), group="g")
    parked = GangRef("a", "g", GANG.fingerprint)
    view = cycle_of(Situation(0.0, (machine("m-1"),), (gang,), parked=frozenset({parked})))
    assert [row.parked_age for row in rows_of(replace(view, parked_ages={parked: 17}))] == [17]
    free = cycle_of(Situation(0.0, (machine("m-1"),), (gang,)))
    assert [row.parked_age for row in rows_of(replace(free, parked_ages={parked: 3}))] == [0]
