"""In front of a coordinator that leads, follows, restarts.

Rules: `dashboard#sources`, `dashboard#compatible-routes`, `dashboard#original-calls`, `dashboard#coordinator-source`,
`dashboard#optional-sources`.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from bigfleet.aio.clock import SystemClock
from bigfleet.aio.identity import READONLY
from bigfleet.aio.net import Call, Code, RpcRefusedError
from bigfleet.dashboard.pages.pages import PAGES
from bigfleet.transport.coordinator import RAFT_STATE
from bigfleet.transport.gates import allow
from bigfleet.transport.grpc_net import GrpcNet
from bigfleet.v1alpha1 import capacity_pb2 as capacity
from bigfleet.v1alpha1 import coordinator_pb2 as pb
from tests.integration.dashboard.world import World, dashboard_world
from tests.support.scripted_coordinator import ScriptedCoordinator

pytestmark = pytest.mark.integration


class ReadCoordinator(ScriptedCoordinator):
    """Answers the three readings while it leads."""

    leads = True
    rebuilding = False

    def _check(self) -> None:
        if not self.leads:
            raise RpcRefusedError(Code.FAILED_PRECONDITION, "not leader", ((RAFT_STATE, "follower"),))

    @allow(READONLY)
    async def list_shards(self, _request: pb.ListShardsRequest, _call: Call) -> pb.ListShardsResponse:  # type: ignore[override]
        self._check()
        row = pb.ShardRegistryEntry(
            shard_id="shard-0", address="127.0.0.1:9", registered_at_unix_ns=1_000_000_000, last_heartbeat_unix_ns=time.time_ns()
        )  # fmt: skip
        return pb.ListShardsResponse(shards=[row])

    @allow(READONLY)
    async def list_domain_assignments(  # type: ignore[override]
        self, _request: pb.ListDomainAssignmentsRequest, _call: Call
    ) -> pb.ListDomainAssignmentsResponse:
        self._check()
        row = pb.DomainAssignment(topology_key="zone", topology_value="za", shard_id="shard-0")
        return pb.ListDomainAssignmentsResponse(assignments=[row])

    @allow(READONLY)
    async def list_shard_reports(  # type: ignore[override]
        self, _request: pb.ListShardReportsRequest, _call: Call
    ) -> pb.ListShardReportsResponse:
        self._check()
        if self.rebuilding:
            return pb.ListShardReportsResponse()
        row = pb.ShardReportSnapshot(shard_id="shard-0", cycle=7, received_at_unix_ns=time.time_ns())
        row.summary.total_machines, row.summary.provider_address = 12, "provider:9000"
        row.shortfalls.add(
            priority=5, age_cycles=2, interruption_penalty_bucket=capacity.PENALTY_BUCKET_PINNED
        )
        return pb.ListShardReportsResponse(reports=[row])


@asynccontextmanager
async def with_coordinator() -> AsyncIterator[tuple[ReadCoordinator, World]]:
    """A dashboard that knows a coordinator and nothing else."""
    coordinator = ReadCoordinator(SystemClock())
    server = await GrpcNet().serve("127.0.0.1:0", [coordinator.bound()])
    try:
        async with dashboard_world(names=(), coordinator=[f"127.0.0.1:{server.port}"]) as world:
            yield coordinator, world
    finally:
        await server.stop(0)


@pytest.mark.rule("dashboard#optional-sources", "dashboard#compatible-routes")
def test_with_a_coordinator_alone_every_page_loads_and_topology_and_reports_are_shown() -> None:
    async def play() -> None:
        async with with_coordinator() as (_, world):
            for page in PAGES:
                assert (await world.get(f"/{page}"))[0] == 200, page
            reply = await world.json("/api/v1/topology")
            assert [row["shardId"] for row in reply["shards"]] == ["shard-0"]
            assert reply["domainAssignments"] == [
                {"topologyKey": "zone", "topologyValue": "za", "shardId": "shard-0"}
            ]
            assert "--scrape" in reply["warnings"][0]
            (report,) = (await world.json("/api/v1/shard-reports"))["reports"]
            assert report["summary"]["providerAddress"] == "provider:9000"
            assert report["shortfalls"][0]["penaltyBucket"] == "PENALTY_BUCKET_PINNED"
            assert (await world.json("/api/v1/shard-reports?shard=other"))["reports"] == []

    asyncio.run(play())


@pytest.mark.rule("dashboard#coordinator-source")
def test_without_a_leader_topology_says_rebuilding_and_recovers_by_itself() -> None:
    async def play() -> None:
        async with with_coordinator() as (coordinator, world):
            coordinator.leads = False
            await world.look()
            world.dashboard.fleet.answers.forget()
            status, text, _ = await world.get("/api/v1/topology")
            assert (status, "no replica of the coordinator leads" in text) == (503, True)
            assert "rebuilding" in (await world.get("/topology"))[1]
            assert "no_coordinator" in {
                row["kind"] for row in (await world.json("/api/v1/x/status"))["reasons"]
            }
            coordinator.leads, coordinator.rebuilding = True, True
            await world.look()
            assert "rebuilding after a failover" in (await world.get("/capacity"))[1]
            coordinator.rebuilding = False
            await world.look()
            world.dashboard.fleet.answers.forget()
            assert (await world.json("/api/v1/topology"))["shards"]
            kinds = [row["kind"] for row in (await world.json("/api/v1/x/events"))["events"]]
            assert "coordinator_back" in kinds

    asyncio.run(play())
