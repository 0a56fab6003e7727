"""What a coordinator says about domains changes no decision of a shard, nor does having none.

Rules: `coordinator#static-stability`, `coordinator#provider-conflict`, `coordinator#what-a-domain-is`.
"""

import asyncio
from pathlib import PurePath
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from structlog.testing import CapturingLogger

from bigfleet.aio.identity import Identity
from bigfleet.coordlink.link import CoordinatorLink
from bigfleet.model.instruction import AssignDomain, Domain, Instruction, ReportAnswer
from bigfleet.model.machine import MachineState
from bigfleet.obs.metrics import Metrics
from bigfleet.provider.fake.options import FakeOptions
from bigfleet.shard.metrics import SHARD_METRICS
from bigfleet.testing.loop import run_virtual
from bigfleet.testing.process import virtual_process
from tests.support.builders import need
from tests.support.fake_provider import pool
from tests.support.observed_fleet import ObservedFleet
from tests.support.scripted_coordinator import ScriptedCoordinator

IDLE = pool("idle", 6, state=MachineState.IDLE)
DECIDED = ("Create", "Configure", "Drain", "Delete")
Decided = list[tuple[str, str]]


async def no_names(_host: str, _port: int) -> tuple[str, ...]:
    return ()


async def decided(coordinator: ScriptedCoordinator | None, cycles: int) -> tuple[Decided, int]:
    """Run a shard with some demand; returns what it asked of its provider, and how many instructions it acknowledged."""
    async with ObservedFleet((IDLE,), FakeOptions(sync=True)) as world:
        linking = None
        if coordinator is not None:
            net = world.network.host("coordinator", Identity.parse("bigfleet://admin"))
            await net.serve(":7790", [coordinator.bound()])
            life = world.run
            log: Any = CapturingLogger()  # Any: it takes every method
            link = CoordinatorLink(
                life.shard,
                life.shard.term,
                "coordinator:7790",
                data_dir=PurePath("/data"),
                net=life.net,
                resolve=no_names,
                clock=world.clock,
                disk=life.process.disk,
                metrics=Metrics(SHARD_METRICS, CollectorRegistry(), version="test", commit="test"),
                log=log,
            )
            linking = asyncio.create_task(link.run())
        operator = await world.operator()
        await operator.demand(need(cpu=8))
        await world.cycles(3)
        await operator.demand(need(cpu=16))
        for _ in range(cycles):
            await world.cycles(1)
        if linking is not None:
            assert not linking.done()
            linking.cancel()
            await asyncio.wait([linking])
        calls = [(call.rpc, call.machine_id) for call in world.fake.calls() if call.rpc in DECIDED]
    reports = () if coordinator is None else coordinator.reports
    return calls, sum(len(report.acks) for report in reports)


@pytest.mark.rule("coordinator#what-a-domain-is")
def test_domain_rows_change_no_decision_outside_partition_mode() -> None:
    async def story() -> None:
        alone, _ = await decided(None, 5)
        coordinator = ScriptedCoordinator(virtual_process("coordinator").clock)
        # Its only domain is a zone in which it has no machine.
        order = Instruction(7, 1, "i-1", AssignDomain(Domain("topology.kubernetes.io/zone", "elsewhere")))
        coordinator.answers(ReportAnswer(7, acknowledged=True, instructions=(order,)))
        coordinator.usually(ReportAnswer(7, acknowledged=True))
        led, acks = await decided(coordinator, 5)
        assert acks == 1
        assert alone
        assert led == alone

    run_virtual(story())


@pytest.mark.rule("coordinator#static-stability")
def test_a_shard_runs_a_hundred_cycles_with_no_coordinator_present() -> None:
    async def story() -> None:
        calls, _ = await decided(None, 100)
        assert [rpc for rpc, _ in calls].count("Configure") == 4

    run_virtual(story())
