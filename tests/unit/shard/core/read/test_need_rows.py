"""Rows of inspection: order and joins (`wire#need-row-order`, `shard#inspection`)."""

from dataclasses import replace

import pytest

from bigfleet.model.errors import InvalidFieldError
from bigfleet.model.machine import MachineState as S
from bigfleet.model.need import Need
from bigfleet.model.profile import Profile, Requirement, RequirementOperator
from bigfleet.model.situation import GangRef, Situation
from bigfleet.shard.core.read.need_rows import NeedQuery, NeedRows, NeedsFound, NeedStatus
from tests.support.builders import amounts, assigned, machine, shape
from tests.support.shard_views import cycle_of

GANG = Profile((Requirement("rack", RequirementOperator.SAME),), priority=900)


def need(cluster: str, priority: int = 0, arrival_ns: int = 0, group: str = "", cpu: int = 4) -> Need:
    return Need(cluster, Profile(priority=priority), amounts(cpu=cpu), arrival_ns=arrival_ns, group=group)


def test_rows_stand_by_priority_arrival_cluster_fingerprint_and_group() -> None:
    needs = (need("b", 5, 7), need("a", 5, 7), need("c", 5, 3), need("a", 9, 99), need("a", 5, 7, group="z"))
    rows = NeedRows(cycle_of(Situation(0.0, (), needs)))
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
    rows = NeedRows(cycle_of(Situation(0.0, fleet, (need("a", 1), *fold))))
    assert [row.verdict.need.profile.priority for row in rows] == [900, 1]
    assert len(rows[0].verdict.folded_from) == 3


def test_the_age_of_a_shortfall_is_joined_by_fingerprint_and_only_where_the_need_itself_is_left() -> None:
    """A need that shares its profile with a short one, but is served, is not short."""
    fleet = (machine("m-1", S.CONFIGURED, cluster="a", assigned=assigned(5)),)
    view = cycle_of(Situation(0.0, fleet, (need("a", 5), need("b", 5))))
    view = replace(view, unmet_ages={Profile(priority=5).fingerprint: 12})
    ages = {row.verdict.need.cluster: row.unmet_age for row in NeedRows(view)}
    assert ages == {"a": 0, "b": 12}


def test_a_need_about_to_be_met_by_preemption_has_no_age() -> None:
    fleet = (machine("m-1", S.CONFIGURED, cluster="low", assigned=assigned(1)),)
    view = cycle_of(Situation(0.0, fleet, (need("high", 9), need("low", 1))))
    view = replace(view, unmet_ages={Profile(priority=9).fingerprint: 3, Profile(priority=1).fingerprint: 3})
    high = NeedRows(view)[0]
    assert not high.verdict.satisfied
    assert (high.unresolved, high.unmet_age) == (None, 0)


def test_the_parked_age_is_shown_for_parked_gangs_only() -> None:
    gang = Need("a", GANG, amounts(cpu=64), amounts(cpu=4), group="g")
    parked = GangRef("a", "g", GANG.fingerprint)
    view = cycle_of(Situation(0.0, (machine("m-1"),), (gang,), parked=frozenset({parked})))
    assert [row.parked_age for row in NeedRows(replace(view, parked_ages={parked: 17}))] == [17]
    free = cycle_of(Situation(0.0, (machine("m-1"),), (gang,)))
    assert [row.parked_age for row in NeedRows(replace(free, parked_ages={parked: 3}))] == [0]


def found_in(query: NeedQuery) -> tuple[NeedsFound, list[str]]:
    """Of five needs: a and b are served, c finds no victim, d and the parked gang e have nothing that fits."""
    gang = Need("e", GANG, amounts(cpu=64), amounts(cpu=4), group="llm-7")
    needs = (need("a", 9), need("b", 8, group="web"), need("c", 7), need("d", 6, cpu=400), gang)
    fleet = (machine("m-1"), machine("m-2"))
    parked = frozenset({GangRef("e", "llm-7", GANG.fingerprint)})
    rows = NeedRows(cycle_of(Situation(0.0, fleet, needs, parked=parked)))
    found = rows.find(query)
    return found, [rows[row].verdict.need.cluster for row in found.rows]


@pytest.mark.parametrize(
    ("query", "clusters"),
    [
        (NeedQuery(), ["e", "a", "b", "c", "d"]),
        (NeedQuery(status=NeedStatus.SHORT), ["e", "c", "d"]),
        (NeedQuery(status=NeedStatus.SATISFIED), ["a", "b"]),
        (NeedQuery(status=NeedStatus.PARKED), ["e"]),
        (NeedQuery(clusters=("d", "a", "nobody")), ["a", "d"]),
        (NeedQuery(reasons=("TOPOLOGY_UNSATISFIABLE",)), ["e"]),
        (NeedQuery(reasons=("TOPOLOGY_UNSATISFIABLE", "PRIORITY_STARVED")), ["e", "c", "d"]),
        (NeedQuery(reasons=("TOPOLOGY_UNSATISFIABLE",), status=NeedStatus.SATISFIED), []),
        (NeedQuery(text="llm"), ["e"]),
        (NeedQuery(text="rack"), ["e"]),
        (NeedQuery(text="web", status=NeedStatus.SHORT), []),
    ],
)
def test_a_filter_leaves_rows_out_and_keeps_their_order(query: NeedQuery, clusters: list[str]) -> None:
    assert found_in(query)[1] == clusters


def test_what_is_found_is_counted_by_how_it_fares() -> None:
    found, _ = found_in(NeedQuery())
    assert (len(found.rows), found.short, found.parked, found.before_first_short) == (5, 3, 1, 0)
    assert found.by_reason == {"PRIORITY_STARVED": 2, "TOPOLOGY_UNSATISFIABLE": 1}
    found, _ = found_in(NeedQuery(clusters=("a", "b", "c")))
    assert (len(found.rows), found.short, found.parked, found.before_first_short) == (3, 1, 0, 2)
    found, _ = found_in(NeedQuery(clusters=("a", "b")))
    assert (found.short, found.before_first_short, found.by_reason) == (0, 2, {})


def test_an_unknown_reason_is_refused_with_those_there_are() -> None:
    with pytest.raises(InvalidFieldError, match=r"reasons.*NO_MATCHING_SUPPLY"):
        found_in(NeedQuery(reasons=("SATISFIED",)))


def test_a_filter_makes_no_verdict_of_needs_that_are_served() -> None:
    view = cycle_of(
        Situation(0.0, (machine("m-1", S.CONFIGURED, cluster="a", assigned=assigned(5)),), (need("a", 5),))
    )
    rows = NeedRows(view)
    assert len(rows.find(NeedQuery(text="5")).rows) == 1
    assert vars(view.decision.verdicts)["_made"] == {}


def grouped_rows() -> NeedRows:
    """Two profiles of one priority that arrived in turn, below one that is served and above one that is not."""
    other = Profile((Requirement("zone", RequirementOperator.IN, ("z1",)),), priority=5)
    needs = (
        need("a", 9),
        need("a", 5, 1),
        Need("b", other, amounts(cpu=4), arrival_ns=2),
        need("c", 5, 3),
        Need("d", other, amounts(cpu=4), arrival_ns=4),
        need("e", 1),
    )
    fleet = tuple(
        machine(f"m-{n}", S.CONFIGURED, cluster=name, assigned=assigned(5)) for n, name in enumerate("abe")
    )
    return NeedRows(cycle_of(Situation(0.0, (machine("m-9"), *fleet), needs)))


def test_needs_of_one_profile_stand_together_where_the_first_of_them_stands() -> None:
    rows = grouped_rows()
    apart, together = rows.find(NeedQuery()), rows.find(NeedQuery(grouped=True))

    def clusters(found: NeedsFound) -> str:
        return "".join(rows[row].verdict.need.cluster for row in found.rows)

    assert (clusters(apart), clusters(together)) == ("aabcde", "aacbde")
    assert (apart.short, apart.by_reason) == (together.short, together.by_reason)
    satisfied = [rows[row].verdict.satisfied for row in together.rows]
    assert satisfied.index(False) == together.before_first_short


def test_a_group_is_told_with_all_of_its_needs_whatever_page_shows_one() -> None:
    rows = grouped_rows()
    found = rows.find(NeedQuery(grouped=True))
    whole = rows.groups(found, 0, 6)
    assert [(group.first, group.needs) for group in whole] == [(0, 1), (1, 2), (3, 2), (5, 1)]
    assert sum(group.short for group in whole) == found.short
    for group in whole:
        members = range(group.first, group.first + group.needs)
        short = [place for place in members if not rows[found.rows[place]].verdict.satisfied]
        assert group.short == len(short)
        assert group.before_first_short == (short[0] if short else members.stop)
    assert rows.groups(found, 2, 3) == whole[1:2]
    assert rows.groups(found, 2, 4) == whole[1:3]
    assert rows.groups(found, 4, 6) == whole[2:]
    assert rows.groups(found, 6, 6) == []
    few = rows.find(NeedQuery(clusters=("c", "d"), grouped=True))
    assert [(group.first, group.needs) for group in rows.groups(few, 0, 2)] == [(0, 1), (1, 1)]
