"""Contributions become rows."""

from typing import Any

import pytest

from bigfleet.operator.core.contribution import Contribution, Contributions
from bigfleet.operator.core.rollup import RollupBuilder


def build(specs: list[dict[str, Any]]) -> RollupBuilder:
    makes, builder = Contributions(), RollupBuilder()
    for spec in specs:
        found = makes.of({"namespace": "shop"}, spec)
        assert isinstance(found, Contribution)
        builder.add(found)
    return builder


@pytest.mark.rule("operator#aggregation")
def test_ten_thousand_requests_of_ten_profiles_are_ten_rows_with_exact_sums_and_maxima() -> None:
    specs: list[dict[str, Any]] = [
        {"priority": n % 10, "resources": {"cpu": f"{(n // 10) % 7 + 1}00m", "memory": f"{n % 3 + 1}Gi"}}
        for n in range(10_000)
    ]
    rows = list(build(specs).rows())
    assert [row.profile.priority for row in rows] == list(range(9, -1, -1))
    for row in rows:
        mine = [spec for spec in specs if spec["priority"] == row.profile.priority]
        milli = sum(int(str(spec["resources"]["cpu"]).removesuffix("m")) for spec in mine)
        expected = f"{milli}m" if milli % 1000 else str(milli // 1000)
        assert row.total["cpu"] == expected
        assert row.unit == {"cpu": "700m", "memory": "3Gi"}


@pytest.mark.rule("operator#empty-rollup")
def test_no_requests_are_no_rows() -> None:
    builder = build([])
    assert list(builder.rows()) == []
    assert (len(builder), builder.requests) == (0, 0)


def test_rows_go_out_by_priority_then_fingerprint_then_group() -> None:
    gang = {"topologyKey": "rack"}
    rows = build(
        [
            {"priority": 1, "resources": {}},
            {"priority": 5, "resources": {}, "requirements": [{"key": "b", "operator": "Exists"}]},
            {"priority": 5, "resources": {}, "requirements": [{"key": "a", "operator": "Exists"}]},
            {"priority": 5, "resources": {}, "coLocation": {**gang, "labelSelector": {}}},
            {"priority": 5, "resources": {}, "coLocation": gang},
        ]
    )
    order = [(row.profile.priority, row.profile.fingerprint, row.group) for row in rows.rows()]
    assert order == sorted(order, key=lambda entry: (-entry[0], entry[1], entry[2]))
    assert len(order) == 5
