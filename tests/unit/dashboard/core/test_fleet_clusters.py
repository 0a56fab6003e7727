"""Clusters of all shards in the order of the overview (`dashboard#six-answers`)."""

from dataclasses import replace

import pytest

from bigfleet.dashboard.core.fleet_clusters import clusters_of
from bigfleet.dashboard.core.observed import (
    FleetPicture,
    ObservedCluster,
    ObservedCoverage,
    ObservedShard,
    ShardPlace,
)
from bigfleet.dashboard.pages.supply import cluster_bar, coverage_bar
from tests.support.builders import amounts

WEB = ObservedCluster("web", True, 0.0, 1, 0, True, 40, 8.0, ObservedCoverage(40))


def picture(*shards: tuple[ObservedCluster, ...]) -> FleetPicture:
    return FleetPicture(
        0.0,
        tuple(
            ShardPlace(f"s{n}", "a:1", 0.0, 0.0, "", ObservedShard(f"s{n}", 1, 0.0, 1, clusters=clusters))
            for n, clusters in enumerate(shards)
        ),
    )


@pytest.mark.rule("dashboard#six-answers")
def test_those_that_miss_something_come_first() -> None:
    short = replace(WEB, cluster="train", machines=1, coverage=ObservedCoverage(1, missing=amounts(cpu=4)))
    wanted = replace(short, cluster="batch", coverage=ObservedCoverage(0, 0, 0, 3, amounts(cpu=4)))
    unknown = replace(WEB, cluster="old", coverage=None, price_per_hour=None, machines=90)
    found = clusters_of(picture((WEB, unknown, short, wanted)))
    assert [row.name for row in found] == ["batch", "train", "old", "web"]
    assert (found[2].dollars, found[2].coverage) == (None, None)


@pytest.mark.rule("dashboard#six-answers", "dashboard#need-parts")
def test_a_cluster_of_two_shards_is_one_row_and_unknown_when_one_does_not_tell() -> None:
    away = replace(WEB, connected=False)
    (found,) = clusters_of(picture((WEB,), (away,)))
    assert (found.shards, found.connected, found.machines, found.dollars) == (("s0", "s1"), False, 80, 16.0)
    assert found.coverage == ObservedCoverage(80)
    (found,) = clusters_of(picture((WEB,), (replace(WEB, coverage=None),)))
    assert found.coverage is None


@pytest.mark.rule("dashboard#six-answers")
def test_a_need_without_any_machine_is_not_a_bar_in_full_green() -> None:
    assert cluster_bar(ObservedCoverage(4)).count("<rect") == 1
    assert cluster_bar(ObservedCoverage(4, missing=amounts(cpu=4))).count("<rect") == 2
    nothing = cluster_bar(ObservedCoverage(0, missing=amounts(cpu=4)))
    assert nothing.count("<rect") == 1
    assert "s5" in nothing
    assert "more is missing" in nothing
    fleet = str(coverage_bar(ObservedCoverage(4, missing=amounts(cpu=4))))
    assert fleet.count("<rect") == 2
    assert "missing cpu=4" in fleet
