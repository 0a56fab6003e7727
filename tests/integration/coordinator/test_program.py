"""`bigfleet coordinator` as a process: probes, series, signals.

Rules: `coordinator#process`, `coordinator#series`, `coordinator#chart`, `coordinator#shutdown`, `coordinator#export`,
`coordinator#probes`.
"""

import asyncio
import re
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from bigfleet.coordinator.metrics import COORDINATOR_METRICS
from bigfleet.v1alpha1 import coordinator_pb2 as pb
from tests.integration.coordinator.harness import Running, running
from tests.support.coordinator.processes import ProcessCluster

pytestmark = pytest.mark.integration


async def until(fact: Callable[[], Awaitable[bool]]) -> None:
    """Wait for a fact; the runner of the tests gives up long after any machine would."""
    while True:
        if await fact():
            return
        await asyncio.sleep(0.05)


@pytest.mark.rule("coordinator#series", "coordinator#two-shards-one-provider")
def test_all_series_exist_and_at_most_one_replica_serves_at_every_scrape(tmp_path: Path) -> None:
    exports = tmp_path / "exports"
    flags = ["--snapshot-export-dir", str(exports), "--snapshot-export-interval", "1s"]
    with running(tmp_path, flags=flags) as here:
        here.report("s-1", 1, summary=pb.ShardSummary(provider_address="p:1"))
        here.report("s-2", 1, summary=pb.ShardSummary(provider_address="p:1", partition_key="zone"))
        here.ctl("assign-domain", "--key", "rack", "--value", "r1", "--shard", "s-1")
        (item,) = here.report("s-1", 2, shortfalls=[pb.Shortfall()] * 101).instructions
        acks = [pb.InstructAck(instruction_id=item.instruction_id, outcome=pb.InstructAck.OUTCOME_ACCEPTED)]
        here.report("s-1", 3, instruction_acks=acks)

        async def exported() -> bool:
            return (exports / "latest" / "meta.json").exists()

        here.wait(until(exported))
        text = "".join(here.http(ordinal, "/metrics")[1] for ordinal in range(3))
        assert 'bigfleet_coordinator_shard_address_mismatch{shard="s-1"} 0.0' in text
        assert 'bigfleet_coordinator_provider_conflict{provider="p:1"} 2.0' in text
        assert 'bigfleet_coordinator_partition_blocked_by{shard="s-2"} 1.0' in text
        leader = here.wait(here.cluster.leader())
        served: list[float] = []
        here.wait(_handed_over(here, leader, served))
        assert max(served) == 1.0
        text += "".join(here.http(ordinal, "/metrics")[1] for ordinal in range(3) if ordinal != leader)
        written = set(re.findall(r"^(bigfleet_coordinator_[a-z_]+)(?:\{| )", text, re.MULTILINE))
        bare = {re.sub(r"_(bucket|count|sum)$", "", name) for name in written}
        # Counted only when it happens, which here it does not.
        assert {metric.name for metric in COORDINATOR_METRICS.metrics} - bare <= {
            "bigfleet_coordinator_identity_rejected_total",
            "bigfleet_coordinator_raft_rejected_total",
            "bigfleet_coordinator_rebalance_flows_total",
        }


async def _handed_over(here: Running, leader: int, served: list[float]) -> None:
    """End the leader in good order, and look at the others until one of them serves."""
    here.cluster.signal(leader, signal.SIGTERM)

    async def somebody_serves() -> bool:
        texts = [
            await asyncio.to_thread(here.http, ordinal, "/metrics")
            for ordinal in range(3)
            if ordinal != leader
        ]
        found = [
            re.findall(r"^bigfleet_coordinator_serving (\S+)", text, re.MULTILINE)[0] for _, text in texts
        ]
        served.append(sum(map(float, found)))
        return bool(served[-1])

    await until(somebody_serves)
    assert await here.cluster.exit_code(leader) == 0


@pytest.mark.rule("coordinator#export")
def test_a_single_replica_is_ready_keeps_its_word_over_a_stop_and_ends_with_0(tmp_path: Path) -> None:
    with running(tmp_path, replicas=1) as here:
        assert here.http(0, "/healthz") == (200, "ok\n")
        assert here.http(0, "/readyz") == (200, "ok\n")
        assert here.http(0, "/debug/pprof")[0] == 404
        here.report("s-1")
        here.cluster.signal(0, signal.SIGTERM)
        assert here.wait(here.cluster.exit_code(0)) == 0
        here.cluster.start(0)
        here.wait(here.cluster.leader())
        assert "s-1" in here.ctl("list-shards").out
        assert "snapshot_exported" not in here.cluster.members[0].log_text()  # no directory, no exports


@pytest.mark.rule("coordinator#first-bootstrap", "coordinator#pod-missing-at-install")
def test_a_lone_replica_of_three_lives_is_not_ready_and_names_who_is_missing(tmp_path: Path) -> None:
    with asyncio.Runner() as runner:
        cluster = ProcessCluster(tmp_path, proxied=False)
        runner.run(cluster.__aenter__())
        try:
            cluster.start(0)
            here = Running(cluster, runner)

            async def listening() -> bool:
                return await cluster.facts(0) is not None

            async def names_both() -> bool:
                status, text = await asyncio.to_thread(here.http, 0, "/readyz")
                return status == 503 and "coordinator-1" in text and "coordinator-2" in text

            runner.run(until(listening))
            runner.run(until(names_both))
            assert here.http(0, "/healthz")[0] == 200
        finally:
            runner.run(cluster.__aexit__(None, None, None))
