"""Worlds: pools and clusters in one file (`packaging#all-in-one`)."""

import pytest

from bigfleet.clustersim.fleet import first_fleet, read_simulated_fleet
from bigfleet.document.errors import DocumentError


def test_the_first_fleet_has_machines_for_everybody_and_demand_that_moves() -> None:
    world = first_fleet()
    assert {pool.name: pool.count for pool in world.pools}["dev-gpu"] == 8
    assert sorted(world.clusters) == ["batch", "train", "web"]
    for demand in world.clusters.values():
        assert len({demand.needs_at(float(at)) for at in range(0, 300, 5)}) > 1


def test_a_flaw_in_one_cluster_is_told_with_its_place() -> None:
    with pytest.raises(DocumentError) as refused:
        read_simulated_fleet(b"clusters: {web: {rows: [{name: a, need: {unit: {cpu: '1'}}, units: x}]}}")
    assert refused.value.field == "clusters.web.rows[0].units"
