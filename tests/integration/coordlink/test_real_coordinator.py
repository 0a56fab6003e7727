"""A shard's client and three real coordinators: registration, an instruction, a killed leader.

Rules: `coordinator#self-registration`; ADR-0006.
"""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import structlog
from prometheus_client import CollectorRegistry

from bigfleet.aio.clock import SystemClock
from bigfleet.aio.system_disk import SystemDisk
from bigfleet.coordlink.link import CoordinatorLink
from bigfleet.model.instruction import Domain
from bigfleet.model.situation import Situation
from bigfleet.obs.metrics import Metrics
from bigfleet.shard.core.views import TermMark
from bigfleet.shard.metrics import SHARD_METRICS
from bigfleet.transport.coordinator import ASSIGN_DOMAIN, LIST_SHARD_REPORTS, LIST_SHARDS
from bigfleet.transport.grpc_net import GrpcNet
from bigfleet.transport.leader import LeaderClient, NoLeaderError
from bigfleet.transport.resolve import system_resolve
from bigfleet.v1alpha1 import coordinator_pb2 as pb
from tests.support.builders import machine
from tests.support.coordinator.processes import ProcessCluster
from tests.support.shard_views import StaticShard

pytestmark = [pytest.mark.integration, pytest.mark.asyncio]
DEADLINE_S = 120.0


async def until(fact: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while not await fact():  # noqa: ASYNC110  it comes true in another process
            await asyncio.sleep(0.05)


@pytest.mark.rule("shard#coordinator-down")
async def test_the_client_registers_its_shard_obeys_and_follows_the_leader_across_a_kill(
    tmp_path: Path,
) -> None:
    shard, mark = StaticShard(), TermMark()
    shard.complete(Situation(0.0, (machine("m-1"), machine("m-2"))))
    async with ProcessCluster(tmp_path, proxied=False) as cluster:
        cluster.start_all()
        first = await cluster.formed()
        addresses = [member.grpc_address for member in cluster.members]
        link = CoordinatorLink(
            shard,
            mark,
            ",".join(addresses),
            data_dir=tmp_path,
            net=GrpcNet(),
            resolve=system_resolve,
            clock=SystemClock(),
            disk=SystemDisk(),
            metrics=Metrics(SHARD_METRICS, CollectorRegistry(), version="test", commit="test"),
            log=structlog.get_logger(),
            interval_s=0.2,
        )
        task = asyncio.create_task(link.run())
        try:
            async with LeaderClient(GrpcNet(), addresses, resolve=system_resolve) as admin:

                async def registered() -> bool:
                    reply = await admin.unary(LIST_SHARDS, pb.ListShardsRequest(), timeout_s=20)
                    return [(s.shard_id, s.address) for s in reply.message.shards] == [
                        ("shard-0", "shard-0.example:7780")
                    ]

                async def obeyed() -> bool:
                    return link.domains.listed() == (Domain("rack", "r1"),)

                async def back() -> bool:
                    try:
                        asked = pb.ListShardReportsRequest(shard_id="shard-0")
                        reply = await admin.unary(LIST_SHARD_REPORTS, asked, timeout_s=20)
                    except NoLeaderError:
                        return False
                    reports = reply.message.reports
                    return link.status.failures == 0 and bool(reports) and mark.value > before

                await until(registered)
                request = pb.AssignDomainRequest(topology_key="rack", topology_value="r1", shard_id="shard-0")
                await admin.unary(ASSIGN_DOMAIN, request, timeout_s=20)
                await until(obeyed)
                before = mark.value
                await cluster.kill(first)
                await until(back)  # the new leader has heard the shard, and the term rose
                assert (tmp_path / "coordinator-term").read_text() == f"{mark.value}\n"
                assert link.status.restarts == 0
        finally:
            task.cancel()
            await asyncio.wait([task])
