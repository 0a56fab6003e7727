"""Demand files of simulated clusters (`packaging#other-commands`)."""

from typing import Any

import pytest

from bigfleet.clustersim.core.demand import SimulatedDemand, read_demand
from bigfleet.clustersim.fleet import demand_of
from bigfleet.document.errors import DocumentError
from bigfleet.model.need import Need

ROW: dict[str, Any] = {"name": "shop", "need": {"priority": 5, "unit": {"cpu": "2"}}, "units": 3}


def demand(**changed: Any) -> SimulatedDemand:
    return read_demand({"rows": [{**ROW, **changed}]}, "web")


def cpus(needs: tuple[Need, ...]) -> list[str]:
    return [need.total.texts()["cpu"] for need in needs]


def test_a_row_asks_for_its_unit_times_its_units() -> None:
    (need,) = demand().needs_at(0)
    assert (need.cluster, need.profile.priority) == ("web", 5)
    assert (need.total.texts(), need.unit.texts()) == ({"cpu": "6"}, {"cpu": "2"})


def test_the_schedule_says_how_many_units_from_when_on() -> None:
    given = demand(schedule=[{"at": 10, "units": 5}, {"at": 20, "units": 0}])
    assert [cpus(given.needs_at(at)) for at in (0, 9.9, 10, 19.9, 20, 999)] == [
        ["6"],
        ["6"],
        ["10"],
        ["10"],
        [],
        [],
    ]


def test_a_schedule_can_begin_anew() -> None:
    given = demand(schedule=[{"at": 10, "units": 5}], repeat_after=30)
    assert [cpus(given.needs_at(at)) for at in (0, 10, 30, 40, 3_000_010)] == [
        ["6"],
        ["10"],
        ["6"],
        ["10"],
        ["10"],
    ]


def test_wobble_stays_in_its_bounds_changes_each_half_minute_and_is_the_same_each_time() -> None:
    given, again = demand(wobble=2), demand(wobble=2)
    seen = [cpus(given.needs_at(at)) for at in range(0, 3000, 30)]
    assert seen == [cpus(again.needs_at(at)) for at in range(0, 3000, 30)]
    assert {int(total[0]) // 2 for total in seen if total} == {1, 2, 3, 4, 5}
    assert cpus(given.needs_at(0)) == cpus(given.needs_at(29.9))


def test_another_seed_is_another_story() -> None:
    rows = [{**ROW, "wobble": 2}]
    one, two = (read_demand({"seed": seed, "rows": rows}, "web") for seed in (1, 2))
    assert [cpus(one.needs_at(at)) for at in range(0, 900, 30)] != [
        cpus(two.needs_at(at)) for at in range(0, 900, 30)
    ]


@pytest.mark.parametrize(
    ("changed", "path"),
    [
        ({"name": ""}, "rows[0].name"),
        ({"units": -1}, "rows[0].units"),
        ({"need": {"unit": {"cpu": "lots"}}}, "rows[0].need.unit[cpu]"),
        ({"need": {"unit": {}}}, "rows[0].need.unit"),
        ({"need": {"unit": {"cpu": "1"}, "cluster": "other"}}, "rows[0].need.cluster"),
        ({"schedule": [{"at": 5, "units": 1}, {"at": 5, "units": 2}]}, "rows[0].schedule"),
        ({"schedule": [{"at": -1, "units": 1}]}, "rows[0].schedule[0].at"),
        ({"schedule": [{"at": 50, "units": 1}], "repeat_after": 50}, "rows[0].repeat_after"),
        ({"colour": "red"}, "rows[0].colour"),
    ],
)
def test_a_flaw_is_refused_by_its_path(changed: dict[str, Any], path: str) -> None:
    with pytest.raises(DocumentError) as refused:
        demand(**changed)
    assert refused.value.field == path


def test_two_rows_of_one_name_are_refused() -> None:
    with pytest.raises(DocumentError, match=r"rows\[1\].name"):
        read_demand({"rows": [ROW, ROW]}, "web")


def test_a_file_is_yaml_or_json() -> None:
    yaml = b"rows:\n  - name: shop\n    need: {unit: {cpu: '2'}}\n    units: 3\n"
    json = b'{"rows": [{"name": "shop", "need": {"unit": {"cpu": "2"}}, "units": 3}]}'
    assert demand_of(yaml, "web") == demand_of(json, "web")
