"""Contributions become rows."""

from typing import Any

import pytest

from bigfleet.kube.resources import ObjectKey
from bigfleet.model.resources import Resources
from bigfleet.operator.core.contribution import Contribution, Contributions
from bigfleet.operator.core.request_status import RequestView, view_of
from bigfleet.operator.core.rollup import NO_SURPLUS, KeptDemand, RollupRow, Surplus, SurplusKey

MAKES = Contributions()


def view(spec: dict[str, Any] | None, *, uid: str = "u", phase: str = "") -> RequestView:
    return view_of({"uid": uid}, {"phase": phase}, MAKES.of({"namespace": "shop"}, spec))


def key(name: object) -> ObjectKey:
    return ObjectKey("shop", f"r{name}")


def build(specs: list[dict[str, Any]]) -> KeptDemand:
    demand = KeptDemand()
    for number, spec in enumerate(specs):
        demand.put(key(number), view(spec))
    return demand


def rows(demand: KeptDemand) -> list[RollupRow]:
    made = dict(demand.take_changed(10**6))
    found = [made[row] for row in demand.order()]
    return [row for row in found if row is not None]


@pytest.mark.rule("operator#aggregation")
def test_ten_thousand_requests_of_ten_profiles_are_ten_rows_with_exact_sums_and_maxima() -> None:
    specs: list[dict[str, Any]] = [
        {"priority": n % 10, "resources": {"cpu": f"{(n // 10) % 7 + 1}00m", "memory": f"{n % 3 + 1}Gi"}}
        for n in range(10_000)
    ]
    made = rows(build(specs))
    assert [row.profile.priority for row in made] == list(range(9, -1, -1))
    for row in made:
        mine = [spec for spec in specs if spec["priority"] == row.profile.priority]
        milli = sum(int(str(spec["resources"]["cpu"]).removesuffix("m")) for spec in mine)
        expected = f"{milli}m" if milli % 1000 else str(milli // 1000)
        assert row.total["cpu"] == expected
        assert row.unit == {"cpu": "700m", "memory": "3Gi"}


@pytest.mark.rule("operator#empty-rollup")
def test_no_requests_are_no_rows() -> None:
    demand = build([])
    assert rows(demand) == []
    assert len(demand) == 0


def test_rows_go_out_by_priority_then_fingerprint_then_group() -> None:
    gang = {"topologyKey": "rack"}
    demand = build(
        [
            {"priority": 1, "resources": {}},
            {"priority": 5, "resources": {}, "requirements": [{"key": "b", "operator": "Exists"}]},
            {"priority": 5, "resources": {}, "requirements": [{"key": "a", "operator": "Exists"}]},
            {"priority": 5, "resources": {}, "coLocation": {**gang, "labelSelector": {}}},
            {"priority": 5, "resources": {}, "coLocation": gang},
        ]
    )
    order = [(row.profile.priority, row.profile.fingerprint, row.group) for row in rows(demand)]
    assert order == sorted(order, key=lambda entry: (-entry[0], entry[1], entry[2]))
    assert len(order) == 5


ONE: dict[str, Any] = {"priority": 1, "resources": {"cpu": "1"}}
FOUR: dict[str, Any] = {"priority": 1, "resources": {"cpu": "4"}}
BAD: dict[str, Any] = {"priority": 1, "resources": {"cpu": "-1"}}


@pytest.mark.rule("operator#kept-demand")
def test_the_largest_unit_goes_down_when_its_last_request_goes() -> None:
    demand = build([ONE, FOUR, FOUR])
    assert [(row.total, row.unit) for row in rows(demand)] == [({"cpu": "9"}, {"cpu": "4"})]
    assert demand.put(key(1), None)
    assert [(row.total, row.unit) for row in rows(demand)] == [({"cpu": "5"}, {"cpu": "4"})]
    assert demand.put(key(2), None)
    assert demand.requested == {"cpu": 10**9}
    assert [(row.total, row.unit) for row in rows(demand)] == [({"cpu": "1"}, {"cpu": "1"})]


@pytest.mark.rule("operator#kept-demand")
def test_only_rows_that_changed_are_added_up_again_and_an_empty_one_is_named_as_gone() -> None:
    other = {**ONE, "priority": 2}
    demand = build([ONE, other])
    assert len(list(demand.take_changed(10**6))) == 2
    assert list(demand.take_changed(10**6)) == []
    order = demand.order()
    demand.put(key(0), view(FOUR))
    ((row, made),) = demand.take_changed(10**6)
    assert row.profile.priority == 1
    assert made is not None
    assert made.total == {"cpu": "4"}
    assert demand.order() is order
    demand.put(key(0), None)
    assert [made for _, made in demand.take_changed(10**6)] == [None]
    assert [row.profile.priority for row in demand.order()] == [2]


@pytest.mark.rule("operator#kept-demand", "operator#rollup-cadence")
@pytest.mark.parametrize(
    ("before", "after", "changes"),
    [
        pytest.param(None, view(ONE), True, id="a new request"),
        pytest.param(view(ONE), None, True, id="a deleted one"),
        pytest.param(view(ONE), view(FOUR), True, id="another amount"),
        pytest.param(view(ONE), view(BAD), True, id="no longer readable"),
        pytest.param(view(BAD), view(ONE), True, id="repaired"),
        pytest.param(view(ONE), view(ONE, uid="v"), True, id="a namesake that must be acknowledged"),
        pytest.param(view(ONE), view(ONE, phase="Acknowledged"), False, id="acknowledged"),
        pytest.param(view(BAD), view(BAD, phase="Pending"), False, id="left out before and after"),
        pytest.param(None, view(BAD), False, id="left out from the start"),
        pytest.param(view(BAD), None, False, id="left out and deleted"),
        pytest.param(None, None, False, id="never seen"),
    ],
)
def test_a_rollup_is_wanted_after(
    before: RequestView | None, after: RequestView | None, changes: bool
) -> None:
    demand = KeptDemand()
    demand.put(key(0), before)
    assert demand.put(key(0), after) is changes
    assert not demand.put(key(0), after)


def test_who_waits_for_a_status_is_kept_with_the_demand() -> None:
    demand = build([ONE, BAD, BAD])
    assert (list(demand.pending), list(demand.unmarked)) == ([key(0)], [key(1), key(2)])
    assert demand.skipped["quantity"] == 2
    demand.put(key(0), view(ONE, phase="Acknowledged"))
    demand.put(key(1), view(ONE))
    demand.put(key(2), None)
    assert (list(demand.pending), list(demand.unmarked)) == ([key(1)], [])
    assert set(demand.skipped.values()) == {0}


# ---- what is asked for on top of the sum

GANG: dict[str, Any] = {**ONE, "coLocation": {"topologyKey": "rack"}}


def surplus(spec: dict[str, Any], cpu: str, *, unit: str = "1", max_units: int = 0) -> Surplus:
    found = MAKES.of({"namespace": "shop"}, spec)
    assert isinstance(found, Contribution)
    key = SurplusKey(found.row.profile, found.row.group, Resources.parse({"cpu": unit}), max_units)
    return {key: Resources.parse({"cpu": cpu})}


@pytest.mark.rule("operator#surplus")
def test_a_surplus_is_a_row_of_its_own_beside_the_sum() -> None:
    demand = build([ONE, FOUR])
    assert demand.put_surplus(surplus(ONE, "8", unit="4", max_units=1))
    assert [(row.total, row.unit) for row in rows(demand)] == [
        ({"cpu": "8"}, {"cpu": "4"}),
        ({"cpu": "5"}, {"cpu": "4"}),
    ]
    assert [(row.max_units, row.for_fragments) for row in demand.order()] == [(1, True), (0, False)]
    assert len(demand) == 2


@pytest.mark.rule("operator#surplus")
def test_only_a_surplus_that_differs_changes_the_demand_and_only_its_row() -> None:
    demand = build([ONE])
    demand.put_surplus({**surplus(ONE, "8"), **surplus({**ONE, "priority": 2}, "3")})
    rows(demand)
    assert not demand.put_surplus({**surplus(ONE, "8"), **surplus({**ONE, "priority": 2}, "3")})
    assert demand.put_surplus(surplus(ONE, "9"))
    changed = demand.take_changed(10)
    assert sorted((row.profile.priority, made and made.total["cpu"]) for row, made in changed) == [
        (1, "9"),
        (2, None),
    ]
    assert demand.put_surplus(NO_SURPLUS)
    assert not demand.put_surplus({key: Resources() for key in surplus(ONE, "1")})
    assert [row.for_fragments for row in demand.order()] == [False]


@pytest.mark.rule("operator#surplus")
def test_the_surplus_of_a_gang_is_in_its_own_row_and_goes_with_it() -> None:
    demand = build([GANG])
    rows(demand)
    assert demand.put_surplus(surplus(GANG, "4"))
    assert [(row.total, row.unit) for row in rows_changed(demand)] == [({"cpu": "5"}, {"cpu": "1"})]
    demand.put(key(0), None)
    assert not len(demand.order())
    assert not demand.put_surplus(surplus(GANG, "2")), "of a gang that is gone"
    demand.put(key(0), view(GANG))
    assert [row.total for row in rows_changed(demand)] == [{"cpu": "3"}]
    assert demand.put_surplus(NO_SURPLUS)
    assert [row.total for row in rows_changed(demand)] == [{"cpu": "1"}]


@pytest.mark.rule("operator#surplus")
def test_a_limit_on_units_of_nothing_is_not_sent_as_it_would_refuse_the_whole_roll_up() -> None:
    demand = build([ONE])
    demand.put_surplus(surplus(ONE, "4", unit="0", max_units=1))
    assert [row.max_units for row in demand.order()] == [0, 0]


@pytest.mark.rule("operator#surplus")
def test_requests_of_a_row_for_fragments_are_those_that_it_is_on_top_of() -> None:
    demand = build([ONE, {**ONE, "priority": 2}])
    demand.put_surplus(surplus(ONE, "8"))
    row = next(row for row in demand.order() if row.for_fragments)
    assert [found for found, _ in demand.requests_of(row, 5)] == [key(0)]


def rows_changed(demand: KeptDemand) -> list[RollupRow]:
    return [made for _, made in demand.take_changed(10**6) if made is not None]
