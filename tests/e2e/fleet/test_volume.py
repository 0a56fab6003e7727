"""E11 with everything real but the machines: a thousand pods, a thousand machines. Figures are reported, never judged."""

import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.e2e.fleet.harness import fleet, pool
from tests.support.control_plane.cluster import Cluster

pytestmark = [pytest.mark.asyncio, pytest.mark.long]

PODS = 1000
PATIENCE_S = 1800.0


@pytest.mark.rule("operator#e11")
async def test_a_thousand_pods_become_a_thousand_machines(
    clean_clusters: list[Cluster], tmp_path: Path, evidence: Callable[[str, Mapping[str, object]], None]
) -> None:
    async with fleet(clean_clusters[:1], tmp_path) as one:
        provider = one.start_provider([pool("metal", PODS)])
        one.start_shard(provider, 0, None, "--execute-concurrency=64")
        operator, _ = one.start_cluster_programs(
            "prod-1", None, "--rollup-interval=500ms", "--ack-concurrency=64"
        )
        await one.until("ready", lambda: operator.http("/readyz")[0] == 200)
        began = time.monotonic()
        took: dict[str, float] = {}

        async def reached(what: str, condition: Callable[[], object]) -> None:
            await one.until(what, condition, PATIENCE_S, poll_s=0.5)
            took[what] = round(time.monotonic() - began, 1)

        one.deploy(
            "web", PODS, cpu="8"
        )  # a whole machine each: smaller ones would be covered by fewer machines
        acknowledged = "bigfleet_operator_acknowledged_total"
        await reached("acknowledged_s", lambda: one.metric(operator, acknowledged) >= PODS)
        await reached("configured_s", lambda: len(one.machines(state="Configured")) == PODS)
        await reached("running_s", lambda: len(one.running()) == PODS)
        await reached("ready_s", lambda: one.phases() == ["Ready"] * PODS)
        assert len(one.requests()) == PODS
        assert {item["status"]["phase"] for item in one.requests()} == {"Acknowledged"}
        assert {item["cluster"] for item in one.machines(state="Configured")} == {"prod-1"}
        assert len({item["spec"]["nodeName"] for item in one.running()}) == PODS
        assert one.machines(state="Failed") == []
        assert one.refused() == []
        resident = one.metric(operator, "process_resident_memory_bytes") / 2**20
        evidence(
            "operator-volume.jsonl",
            {"case": "E11", "pods": PODS, **took, "operator_resident_mib": round(resident)},
        )
