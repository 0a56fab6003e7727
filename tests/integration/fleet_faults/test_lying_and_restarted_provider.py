"""A provider that lists half of its machines, and one that is restarted while machines are in transition, as real processes."""

import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from bigfleet.model.machine import MachineState as S
from tests.support.builders import need, of_type
from tests.support.program import DEADLINE_S
from tests.support.real_fleet import RealFleet

pytestmark = [pytest.mark.integration, pytest.mark.asyncio]

Evidence = Callable[[str, Mapping[str, object]], None]
BOUND, SPARE = 40, 60
FULL = f"""
pools:
  - {{name: m, count: {BOUND}, state: Configured, cluster: prod, instance_type: m6i.large, zones: [za], resources: {{cpu: 4}}}}
  - {{name: s, count: {SPARE}, instance_type: m6i.large, zones: [za], resources: {{cpu: 4}}, price_per_hour: 1.0}}
"""
MIXED = """
pools:
  - {name: serve, count: 4, state: Configured, cluster: leaves, instance_type: m6i.large, zones: [za], resources: {cpu: 4}}
  - {name: idle, count: 2, state: Idle, instance_type: r6i.large, zones: [za], resources: {memory: 4}}
  - {name: slot, count: 2, instance_type: g6.large, zones: [za], resources: {gpu: 1}, price_per_hour: 1.0}
"""
LIES_S = [pytest.param(6.0, id="6 s"), pytest.param(90.0, id="90 s", marks=pytest.mark.long)]


@pytest.mark.rule("shard#listing-guard")
@pytest.mark.parametrize("lies_s", LIES_S)
async def test_half_listings_lead_to_no_create_and_no_drain(
    tmp_path: Path, lies_s: float, evidence: Evidence
) -> None:
    async with RealFleet(tmp_path, FULL) as fleet:
        await fleet.start_provider()
        shard = await fleet.start_shard("--cycle-interval=500ms", "--reclaim-cap-fraction=0")
        async with fleet.operator(shard) as operator:
            await operator.demand(need(cpu=4 * BOUND))
            await operator.until(lambda: len(operator.in_state(S.CONFIGURED)) == BOUND)
            listed = len(await fleet.calls("List"))
            await fleet.control("lie", name="drop-list", share=0.5)
            began_s = time.monotonic()

            async def lied_to() -> bool:
                return len(await fleet.calls("List")) >= listed + 8 and time.monotonic() - began_s >= lies_s

            await fleet.until("half listings were read", lied_to, lies_s + 60)
            while_lying = await fleet.calls()
            await fleet.control("honest")
            listed = len(await fleet.calls("List"))

            async def read_again() -> bool:
                return len(await fleet.calls("List")) >= listed + 4

            await fleet.until("whole listings were read", read_again)
            afterwards = await fleet.calls()
        figures = {"seconds": lies_s, "calls": len(while_lying), "calls_afterwards": len(afterwards)}
        evidence("fleet-faults.jsonl", {"case": "half listings", **figures})
        assert [(call["rpc"], call["machine_id"]) for call in afterwards] == []
        assert operator.instructions == []


@pytest.mark.long
async def test_a_restarted_provider_fails_no_machine_in_transition(tmp_path: Path) -> None:
    """Two machines are created, two configured and two drained when it is killed; each of them gets where it was to go.

    `tests/integration/provider` shows the same of the provider alone; here operators must not be told of a failure either.
    """
    async with RealFleet(tmp_path, MIXED) as fleet:
        await fleet.start_provider()
        shard = await fleet.start_shard(
            "--cycle-interval=500ms", "--reclaim-cap-fraction=0", "--execute-concurrency=8"
        )
        async with (
            fleet.operator(shard, "leaves") as leaves,
            fleet.operator(shard, "joins") as joins,
            fleet.operator(shard, "orders") as orders,
        ):
            await leaves.demand(need("leaves", of_type("m6i.large"), cpu=16))
            await leaves.until(lambda: len(leaves.in_state(S.CONFIGURED)) == 4)
            for kind in ("create", "configure", "drain"):
                await fleet.control("hold", kind=kind)
            await joins.demand(need("joins", of_type("r6i.large"), memory=8))
            await orders.demand(need("orders", of_type("g6.large"), gpu=2))
            await leaves.demand(need("leaves", of_type("m6i.large"), cpu=8))

            async def in_transition() -> bool:
                states = Counter(machine["state"] for machine in await fleet.machines())
                return all(states[name] == 2 for name in ("Creating", "Configuring", "Draining"))

            await fleet.until("two machines are in each transition", in_transition)
            await fleet.kill_provider()
            await fleet.start_provider()
            await joins.until(lambda: len(joins.in_state(S.CONFIGURED)) == 2, DEADLINE_S)
            await orders.until(lambda: len(orders.in_state(S.CONFIGURED)) == 2, DEADLINE_S)

            async def drained() -> bool:
                found = await fleet.machines(instance_type="m6i.large")
                return Counter(machine["state"] for machine in found) == {"Configured": 2, "Idle": 2}

            await fleet.until("two machines are drained", drained)
            assert await fleet.machines(state="Failed") == []
            updates = (*leaves.updates, *joins.updates, *orders.updates)
            assert [update.machine_id for update in updates if update.state == S.FAILED.value] == []
