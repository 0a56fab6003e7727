"""A dashboard over three real coordinators, one of which is killed (`dashboard#coordinator-source`)."""

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from tests.integration.dashboard.world import dashboard_world
from tests.support.coordinator.processes import ProcessCluster

pytestmark = [pytest.mark.integration, pytest.mark.long, pytest.mark.asyncio]
DEADLINE_S = 120.0


@pytest.mark.rule("dashboard#coordinator-source")
async def test_a_killed_leader_leaves_rebuilding_and_then_its_successor(
    tmp_path: Path, record_property: Any
) -> None:
    async with ProcessCluster(tmp_path, proxied=False) as cluster:
        cluster.start_all()
        first = await cluster.formed()
        addresses = [member.grpc_address for member in cluster.members]
        async with dashboard_world(names=(), coordinator=addresses) as world, asyncio.timeout(DEADLINE_S):

            async def topology() -> tuple[int, str]:
                world.dashboard.fleet.answers.forget()
                status, _, _ = await world.get("/api/v1/topology")
                return status, (await world.get("/topology"))[1]

            while (await topology())[0] != 200:
                await world.look()
            leader = cluster.members[first].grpc_address
            _, page = await topology()
            assert all(address in page for address in addresses)
            await cluster.kill(first)
            begin = time.monotonic()
            seen = set[str]()
            while True:
                await world.look()
                status, page = await topology()
                if status == 200 and _serving(page) not in {"", leader}:
                    break
                # Meanwhile the page reports that no replica leads, and nothing else.
                assert status == 503, page
                seen.add("rebuilding" if "rebuilding" in page else page)
            record_property("recovered_s", round(time.monotonic() - begin, 1))
            assert seen <= {"rebuilding"}
            kinds = {row["kind"] for row in (await world.json("/api/v1/x/events"))["events"]}
            assert kinds & {"coordinator_back", "failover"}


def _serving(page: str) -> str:
    """The replica that the page shows as the one that serves."""
    head, found, _ = page.partition(">serving<")
    return head.rpartition("127.0.0.1:")[2].partition("<")[0].join(["127.0.0.1:", ""]) if found else ""
