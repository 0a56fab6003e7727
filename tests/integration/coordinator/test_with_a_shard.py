"""A real shard before three real replicas.

The shard starts before any coordinator, gets domains, is redirected from a follower to the leader, and follows a failover.
Rules: `coordinator#instructions`, `coordinator#self-registration`, `coordinator#term-mark`,
`coordinator#address-learned-once`, `coordinator#domain-delivery`, `coordinator#what-a-domain-is`,
`coordinator#failover-with-instructions`, `coordinator#coordinator-absent`.
"""

import signal
from pathlib import Path

import pytest

from bigfleet.transport.coordinator import ASSIGN_DOMAIN, LIST_SHARD_REPORTS, LIST_SHARDS, UNASSIGN_DOMAIN
from bigfleet.transport.leader import LeaderClient
from bigfleet.transport.resolve import system_resolve
from bigfleet.v1alpha1 import coordinator_pb2 as pb
from tests.integration.coordinator.test_program import until
from tests.support.coordinator.processes import ProcessCluster
from tests.support.program import running as program

pytestmark = [pytest.mark.integration, pytest.mark.asyncio]

ACCEPTED = 'bigfleet_shard_coordinator_instructions_total{kind="%s",outcome="accepted"}'


@pytest.mark.rule("coordinator#coordinator-absent")
async def test_a_shard_registers_is_told_and_follows_the_leader(tmp_path: Path) -> None:
    async with ProcessCluster(tmp_path, proxied=False) as cluster:
        asked = cluster.members[1]
        shard = program(
            "bigfleet",
            "shard",
            *("--id", "shard-0", "--listen", "127.0.0.1:0", "--metrics-addr", "127.0.0.1:0"),
            *("--data-dir", str(tmp_path / "shard"), "--advertise-addr", "shard-0.example:7780"),
            *("--coordinator-addr", asked.grpc_address, "--coordinator-heartbeat-interval", "200ms"),
        )
        async with shard as running:

            async def alone() -> bool:
                failed = await running.metric('bigfleet_shard_coordinator_reports_total{outcome="failed"}')
                return failed >= 2 and (await running.get("/readyz"))[0] == 200

            await until(alone)  # it lives without a coordinator
            cluster.start_all()
            await cluster.formed()
            addresses = [member.grpc_address for member in cluster.members]
            async with LeaderClient(cluster.net, addresses, resolve=system_resolve) as leader:

                async def registered() -> bool:
                    listed = (await leader.unary(LIST_SHARDS, pb.ListShardsRequest(), timeout_s=20)).message
                    return [row.address for row in listed.shards] == ["shard-0.example:7780"]

                await until(registered)

                async def instructed(kind: str, times: int) -> None:
                    async def fact() -> bool:
                        return await running.metric(ACCEPTED % kind) >= times

                    await until(fact)

                rack = pb.AssignDomainRequest(topology_key="rack", topology_value="r1", shard_id="shard-0")
                await leader.unary(ASSIGN_DOMAIN, rack, timeout_s=20)
                await instructed("assign_domain", 1)
                # A failover: the new leader sends it again, under its own term, which the shard keeps.
                before = await running.metric("bigfleet_shard_coordinator_term")
                serving = await cluster.leader()
                survivors = [ordinal for ordinal in range(3) if ordinal != serving]
                if serving == asked.ordinal:
                    cluster.signal(serving, signal.SIGTERM)
                    assert await cluster.exit_code(serving) == 0
                    cluster.start(serving)
                else:
                    await cluster.kill(serving)
                await cluster.leader(among=survivors)
                await instructed("assign_domain", 2)
                assert await running.metric("bigfleet_shard_coordinator_term") > before
                free = pb.UnassignDomainRequest(topology_key="rack", topology_value="r1")
                await leader.unary(UNASSIGN_DOMAIN, free, timeout_s=20)
                await instructed("unassign_domain", 1)
                reports = await leader.unary(LIST_SHARD_REPORTS, pb.ListShardReportsRequest(), timeout_s=20)
                (report,) = reports.message.reports
                assert report.shard_id == "shard-0"
            assert (await running.get("/readyz"))[0] == 200
            assert await running.end() == 0
        term = int((tmp_path / "shard" / "coordinator-term").read_text())
        assert term > before
