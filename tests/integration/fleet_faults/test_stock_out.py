"""One offering of a real provider out of stock, with a dearer one available: who is ordered, how often the first is tried, who says why.

The schedule of further attempts is shown on virtual time in `tests/unit/shard`; the long round here shows it on real processes.
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from bigfleet.model.machine import MachineState as S
from tests.support.builders import need
from tests.support.real_fleet import Document, RealFleet, ShardProcess, bigfleet

pytestmark = [pytest.mark.integration, pytest.mark.asyncio]

Evidence = Callable[[str, Mapping[str, object]], None]
POOLS = """
pools:
  - {name: cheap, count: 60, instance_type: m6i.large, zones: [za], resources: {cpu: 4}, price_per_hour: 1.0}
  - {name: dear, count: 60, instance_type: m7i.large, zones: [za], resources: {cpu: 4}, price_per_hour: 2.0}
"""
FEWER_CALLS_THAN = 12
GROWS_EVERY_S = 20.0
STOCKED_OUT_S = 600.0


@pytest.mark.rule("shard#offering-cool-off")
async def test_a_dearer_offering_is_ordered_within_two_cycles_and_both_are_explained(
    tmp_path: Path, evidence: Evidence
) -> None:
    async with RealFleet(tmp_path, POOLS) as fleet:
        await fleet.start_provider()
        await fleet.control("stockout", type="m6i.large")
        shard = await fleet.start_shard("--cycle-interval=2s", "--execute-concurrency=8")
        async with fleet.operator(shard) as operator:
            await operator.demand(need(cpu=12))
            await operator.until(lambda: len(operator.in_state(S.CONFIGURED)) == 3)
            assert all(machine.startswith("dear-") for machine in operator.in_state(S.CONFIGURED))
            await _both_explained(shard)
            cycles = _cycles_until_dearer(shard.audited())
            tried = await _creates(fleet, "cheap-")
            evidence(
                "fleet-faults.jsonl", {"case": "stock-out", "cycles": cycles, "cheap_creates": len(tried)}
            )
        assert cycles <= 2
        assert len(tried) <= 3  # one for each machine wanted, before the first of them was answered


@pytest.mark.rule("shard#offering-cool-off")
@pytest.mark.long
async def test_an_offering_that_is_out_of_stock_for_ten_minutes_is_tried_by_its_schedule(
    tmp_path: Path, evidence: Evidence
) -> None:
    """Demand grows all the time, so that the cheaper offering would be tried again and again."""
    async with RealFleet(tmp_path, POOLS) as fleet:
        await fleet.start_provider()
        await fleet.control("stockout", type="m6i.large")
        shard = await fleet.start_shard("--cycle-interval=2s", "--execute-concurrency=8")
        async with fleet.operator(shard) as operator:
            began_s, machines = time.monotonic(), 2
            while time.monotonic() - began_s < STOCKED_OUT_S:
                machines += 1
                await operator.demand(need(cpu=4 * machines))
                await operator.until(lambda wanted=machines: len(operator.in_state(S.CONFIGURED)) == wanted)  # type: ignore[misc]
                await asyncio.sleep(GROWS_EVERY_S)
            during = await _creates(fleet, "cheap-")
            await _both_explained(shard)
            await fleet.control("stockout", type="m6i.large", over=True)
            served: list[str] = []
            while not served and time.monotonic() - began_s < STOCKED_OUT_S + 900:
                machines += 1
                await operator.demand(need(cpu=4 * machines))
                await asyncio.sleep(GROWS_EVERY_S)
                served = [name for name in operator.in_state(S.CONFIGURED) if name.startswith("cheap-")]
            back_s = time.monotonic() - began_s - STOCKED_OUT_S
        attempts = [round(call["at_s"] - during[0]["at_s"]) for call in during]
        figures = {"seconds": STOCKED_OUT_S, "attempts_s": attempts, "used_again_after_s": round(back_s)}
        evidence("fleet-faults.jsonl", {"case": "stock-out, ten minutes", **figures})
        assert 2 < len(during) < FEWER_CALLS_THAN
        assert served


async def _creates(fleet: RealFleet, prefix: str) -> list[Document]:
    return [call for call in await fleet.calls("Create") if call["machine_id"].startswith(prefix)]


def _cycles_until_dearer(records: list[Document]) -> int:
    """Return how many cycles after the first that wanted the cheap offering the last dear machine was decided."""
    ordered = [record for record in records if record["kind"] == "Provision"]
    first = min(record["cycle"] for record in ordered if record["machine"].startswith("cheap-"))
    last = max(record["cycle"] for record in ordered if record["machine"].startswith("dear-"))
    return int(last - first)


async def _both_explained(shard: ShardProcess) -> None:
    _, text = await bigfleet("explain", f"--shard={shard.address}", "--need=prod")
    assert "stocked out" in text, text
    assert "m7i.large" in text, text
    code, text = await bigfleet("status", f"--shard={shard.address}")
    assert code == 1, text
    assert "m6i.large" in text, text
