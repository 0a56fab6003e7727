"""Every pod gets its node: worlds whose sum does not say how many machines they need, with everything real but the machines.

One small world is part of every run. The eight long ones write a line each into `worlds.jsonl` with `--evidence`. `BIGFLEET_WORLDS_QUIET_S` says for how long each is watched once it is quiet; 600 if unset.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.fleet.harness import fleet, start_fleet_clusters
from tests.e2e.fleet.worlds import SMALL, WORLDS, World, play
from tests.support.control_plane.cluster import Cluster

pytestmark = pytest.mark.asyncio

QUIET_S = float(os.environ.get("BIGFLEET_WORLDS_QUIET_S", "600"))
MOST = 1.15


@pytest.fixture
def own_cluster(testbed_binary: Path) -> Iterator[list[Cluster]]:
    """A cluster of one world: what one leaves behind would count in the next."""
    clusters = start_fleet_clusters(testbed_binary, 1)
    try:
        yield clusters
    finally:
        for cluster in clusters:
            cluster.stop()


async def test_a_pod_that_the_sum_leaves_without_a_node_gets_one_more_machine(
    own_cluster: list[Cluster], tmp_path: Path
) -> None:
    async with fleet(own_cluster, tmp_path) as one:
        provider = one.start_provider(SMALL.pools)
        one.start_shard(provider)
        one.start_cluster_programs("prod-1", None, "--stuck-after=2s")
        one.deploy("web", SMALL.pods, cpu="7500m")
        await one.until("all pods run", lambda: len(one.running()) == SMALL.pods)
        # The sum is 150 cores, which 19 machines of 8 hold; a 20th pod fits on none of them. A node takes pods a moment before its
        # machine is called Configured.
        await one.until("each has a machine", lambda: len(one.machines(state="Configured")) >= SMALL.pods)
        assert len(one.machines(state="Configured")) == SMALL.best.machines == 20
        assert one.refused() == []


@pytest.mark.long
@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name)
async def test_every_pod_of_the_world_runs_and_then_nothing_moves(
    world: World,
    own_cluster: list[Cluster],
    tmp_path: Path,
    evidence: Callable[[str, Mapping[str, object]], None],
) -> None:
    async with fleet(own_cluster, tmp_path) as one:
        found = await play(one, world, QUIET_S)
        evidence("worlds.jsonl", found)
        _judge(found)
        assert one.refused() == []


def _judge(found: Mapping[str, Any]) -> None:
    assert found["all_run"], found
    assert found["started_in_quiet"] == {}, found
    assert found["times_best_price"] <= MOST, found
