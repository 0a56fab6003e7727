"""The provider of a real fleet killed with -9: who says so, what is tried meanwhile, who is drained, how soon all is well again.

Times are reported, not judged: the machine that runs the tests is shared. `scaletest.bench.recovery` judges them.
"""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

import pytest

from bigfleet.model.machine import MachineState as S
from tests.support.builders import need, of_type
from tests.support.coordinator.processes import settled_port
from tests.support.program import http_ask
from tests.support.real_fleet import RealFleet, ShardProcess, bigfleet, listens_since

pytestmark = [pytest.mark.integration, pytest.mark.asyncio]

Evidence = Callable[[str, Mapping[str, object]], None]
POOLS = """
pools:
  - {name: b, count: 12, instance_type: m6i.large, zones: [za], resources: {cpu: 4}, price_per_hour: 1.0}
  - {name: g, count: 12, instance_type: g6.large, zones: [za], resources: {gpu: 1}, price_per_hour: 5.0}
"""
PLAIN, GPU = of_type("m6i.large"), of_type("g6.large")
MOST_CALLS = 15
SHRINKS_EVERY_S = 1.5
CALLS = "bigfleet_shard_provider_calls_total"
AWAY_S = [pytest.param(8.0, id="8 s"), pytest.param(120.0, id="two minutes", marks=pytest.mark.long)]


@pytest.mark.rule("shard#provider-standing")
@pytest.mark.parametrize("away_s", AWAY_S)
async def test_an_outage_is_seen_everywhere_costs_few_calls_drains_nothing_and_ends_at_once(
    tmp_path: Path, away_s: float, evidence: Evidence
) -> None:
    dashboard = settled_port()
    async with RealFleet(tmp_path, POOLS) as fleet:
        await fleet.start_provider()
        shard = await fleet.start_shard(
            "--cycle-interval=1s",
            "--reclaim-cap-fraction=0",
            "--execute-concurrency=8",
            f"--dashboard-addr=127.0.0.1:{dashboard}",
        )
        async with fleet.operator(shard, "web") as web, fleet.operator(shard, "batch") as batch:
            await web.demand(need("web", GPU, gpu=1))
            await batch.demand(need("batch", PLAIN, cpu=40))
            await web.until(lambda: len(web.in_state(S.CONFIGURED)) == 1)
            await batch.until(lambda: len(batch.in_state(S.CONFIGURED)) == 10)
            await fleet.until(
                "the dashboard shows the shard", lambda: _dashboard_says(dashboard, "Configured")
            )
            tried = await fleet.total(shard.program, CALLS)
            assert tried > 0, f"{CALLS} counts nothing"

            await fleet.kill_provider()
            died_s = time.monotonic()
            await web.demand(need("web", GPU, gpu=3))
            seen_s = await _seen(fleet, shard, dashboard, died_s)
            left = 10
            while time.monotonic() - died_s < away_s:
                left = max(left - 1, 2)
                await batch.demand(need("batch", PLAIN, cpu=4 * left))
                await asyncio.sleep(SHRINKS_EVERY_S)
            tried = await fleet.total(shard.program, CALLS) - tried
            told = len(batch.instructions) + len(web.instructions)

            assert len(web.in_state(S.CONFIGURED)) == 1
            back_s = listens_since(await fleet.start_provider())
            await web.until(lambda: len(web.in_state(S.CONFIGURED)) == 3)
            served_s = time.time() - back_s
            await batch.until(
                lambda: len(batch.instructions) > 0
            )  # it would have been told, had the provider lived
            assert (await bigfleet("status", f"--shard={shard.address}"))[0] == 0
        figures = {"away_s": away_s, "calls_tried": tried, "drains_told": told, "seen_s": seen_s}
        evidence("fleet-faults.jsonl", {"case": "outage", **figures, "served_s": round(served_s, 2)})
        assert tried <= MOST_CALLS
        assert told == 0
        assert not web.in_state(S.FAILED)
        assert not batch.in_state(S.FAILED)


async def _seen(fleet: RealFleet, shard: ShardProcess, dashboard: int, died_s: float) -> dict[str, float]:
    """Wait until every place where people look says it; return when each did, in seconds since the death."""

    async def metric() -> bool:
        page = await fleet.metrics(shard.program)
        return page.get("bigfleet_shard_provider_reachable") == 0

    async def readiness() -> bool:
        _, text = await asyncio.to_thread(shard.program.http, "/readyz")
        return "unreachable" in text

    async def status() -> bool:
        code, text = await bigfleet("status", f"--shard={shard.address}")
        return code == 1 and "unreachable" in text and "web" in text

    async def needs() -> bool:
        _, text = await bigfleet("needs", f"--shard={shard.address}", "-o", "json")
        rows = {row["cluster_id"]: row["coverage"] for row in json.loads(text)["needs"]}
        missing = rows["web"].get("missing", {})
        return rows["web"]["held_off"] == "provider-unreachable" and "gpu" in json.dumps(missing)

    async def overview() -> bool:
        return await _dashboard_says(dashboard, "unreachable")

    places = {"metric": metric, "readyz": readiness, "dashboard": overview, "status": status, "needs": needs}

    async def seen(name: str, says: Callable[[], Awaitable[bool]]) -> tuple[str, float]:
        await fleet.until(f"{name} says that the provider is unreachable", says)
        return name, round(time.monotonic() - died_s, 2)

    return dict(await asyncio.gather(*(seen(name, says) for name, says in places.items())))


async def _dashboard_says(port: int, word: str) -> bool:
    _, _, text = await http_ask(port, "GET", "/api/v1/x/status", Connection="close")
    return word in text
