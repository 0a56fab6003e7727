"""What readers of a shard see while machines do not come (`shard#coverage-split`, `shard#problems-in-one-look`)."""

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import pytest
import structlog
from prometheus_client import CollectorRegistry
from structlog.testing import CapturingLogger

from bigfleet.insight.v1 import insight_pb2 as pb
from bigfleet.model.action import Action, ActionKind
from bigfleet.model.machine import CapacityType
from bigfleet.model.machine import MachineState as S
from bigfleet.model.need import Need
from bigfleet.model.profile import Profile
from bigfleet.model.situation import Situation
from bigfleet.obs.metrics import Metrics
from bigfleet.shard.core.read.decision_log import DecisionLog
from bigfleet.shard.core.read.status_sources import StatusSources
from bigfleet.shard.core.views import (
    CycleFacts,
    CycleView,
    HoldOff,
    MachineBackoff,
    OfferingCoolOff,
    ProviderHealth,
)
from bigfleet.shard.metrics import SHARD_METRICS
from bigfleet.shard.read.coverage_reader import CoverageReader
from bigfleet.shard.read.cycle_follower import CycleFollower
from bigfleet.shard.read.insight_service import InsightService
from bigfleet.shard.read.problem_watch import ProblemWatch
from bigfleet.testing.clock import VirtualClock
from bigfleet.testing.loop import run_virtual
from bigfleet.testing.net.network import Network
from bigfleet.transport import shard_reading as calls
from tests.support.builders import amounts, machine, shape
from tests.support.shard_views import StaticShard

NOW = 1_700_000_000.0
SLOTS = tuple(machine(f"s-{n}", S.SPECULATIVE, shape=shape("m5")) for n in (1, 2))
WEB = Need("web", Profile(priority=5), amounts(cpu=8))
PROVISIONS = tuple(Action(ActionKind.PROVISION, f"s-{n}") for n in (1, 2))
UNREACHABLE = ProviderHealth(False, 12.0, 3, "connection refused", 4.0, last_listing_age_s=15.0)


class TroubledWorld:
    """A static shard whose machines move between two cycles."""

    def __init__(self) -> None:
        self.live: dict[str, S] = {}
        self.now_s = NOW
        self.shard = StaticShard(provider_address="127.0.0.1:9000")
        self.sources = StatusSources(
            cycle_interval_s=10.0, live_states=self._live_states, now_s=lambda: self.now_s
        )
        self.clock = VirtualClock()
        self.log: Any = CapturingLogger()  # Any: it takes every method and remembers it
        self.metrics = Metrics(SHARD_METRICS, CollectorRegistry(), version="1", commit="2")
        self.coverage = CoverageReader(self.shard, self.sources)
        self.watch = ProblemWatch(
            self.shard,
            self.coverage,
            self.sources,
            clock=self.clock,
            metrics=self.metrics,
            log=self.log,
        )

    async def _live_states(self, machine_ids: Sequence[str]) -> Mapping[str, S | None]:
        return {each: self.live[each] for each in machine_ids if each in self.live}

    def complete(self, **given: Any) -> CycleView:  # Any: fields of the view
        return self.shard.complete(Situation(NOW, SLOTS, (WEB,)), **given)

    async def start(self) -> "TroubledWorld":
        follower = CycleFollower(self.shard, DecisionLog(), log=structlog.get_logger())
        service = InsightService(self.shard, follower, self.sources)
        network = Network()
        await network.host("shard-0").serve(":7780", [service.bound()])
        self.channel = network.host("reader").dial("shard-0:7780")
        return self

    async def status(self) -> pb.GetStatusResponse:
        return (await self.channel.unary(calls.GET_STATUS, pb.GetStatusRequest(), timeout_s=60)).message

    async def needs(self, **given: Any) -> list[pb.ListNeedsResponse]:  # Any: fields of the request
        request = pb.ListNeedsRequest(**given)
        async with self.channel.server_stream(calls.LIST_NEEDS, request, timeout_s=60) as frames:
            return [frame async for frame in frames]

    async def machines(self) -> list[pb.ListMachinesResponse]:
        request = pb.ListMachinesRequest()
        async with self.channel.server_stream(calls.LIST_MACHINES, request, timeout_s=60) as frames:
            return [frame async for frame in frames]


def virtually(scenario: Callable[[TroubledWorld], Any]) -> None:  # Any: a coroutine
    async def run() -> None:
        await scenario(await TroubledWorld().start())

    run_virtual(run())


@pytest.mark.rule("shard#coverage-split")
def test_needs_and_status_follow_a_machine_from_wanted_to_running_between_two_cycles() -> None:
    async def scenario(world: TroubledWorld) -> None:
        world.complete(facts=CycleFacts(dispatched=PROVISIONS))

        async def split() -> tuple[int, int, int, int, str, int]:
            need, status = (await world.needs())[1].need, await world.status()
            assert need.coverage == status.coverage == status.clusters[0].coverage
            assert need.satisfied, "the verdict of the engine stays"
            part = need.coverage
            missing = part.missing.resources["cpu"] if part.HasField("missing") else ""
            return (part.running, part.joining, part.on_order, part.wanted, missing, status.needs_covered)

        assert await split() == (0, 0, 0, 2, "8", 0)
        world.live["s-1"] = S.CREATING
        assert await split() == (0, 0, 1, 1, "4", 0)
        world.live["s-1"], world.live["s-2"] = S.CONFIGURING, S.CREATING
        assert await split() == (0, 1, 1, 0, "", 1)
        world.live["s-1"], world.live["s-2"] = S.CONFIGURED, S.CONFIGURED
        assert await split() == (2, 0, 0, 0, "", 1)

    virtually(scenario)


@pytest.mark.rule("shard#coverage-split", "shard#problems-in-one-look")
def test_with_a_dead_provider_status_needs_and_shortfalls_name_it_and_who_is_short() -> None:
    async def scenario(world: TroubledWorld) -> None:
        world.complete(
            held_off={0: HoldOff.PROVIDER_UNREACHABLE},
            waiting_since_s={0: NOW - 30},
            facts=CycleFacts(backed_off=2),
        )
        world.shard.stand(provider=UNREACHABLE)
        status = await world.status()
        assert [(item.kind, item.text) for item in status.problems] == [
            (
                "provider_unreachable",
                "provider 127.0.0.1:9000 unreachable for 12 s: connection refused; 2 actions wait; next attempt in 4 s",
            ),
            ("shortfalls", "web is short 8 CPUs: provider unreachable"),
        ]
        assert (status.needs, status.needs_short, status.needs_covered) == (1, 1, 0)
        provider = status.provider
        assert (provider.reachable, provider.held_off_actions, provider.last_listing_age_seconds) == (
            False,
            2,
            15.0,
        )
        header, row = await world.needs(status=pb.ListNeedsRequest.STATUS_SHORT)
        assert (header.header.short, dict(header.header.by_reason)) == (1, {"PROVIDER_UNREACHABLE": 1})
        assert (row.need.coverage.held_off, row.need.coverage.waiting_seconds) == ("provider-unreachable", 30)
        assert len(await world.needs(reasons=["PROVIDER_UNREACHABLE"])) == 2
        assert len(await world.needs(status=pb.ListNeedsRequest.STATUS_SATISFIED)) == 1

    virtually(scenario)


@pytest.mark.rule("shard#offering-cool-off", "shard#machine-back-off")
def test_machines_left_out_of_a_decision_are_listed_and_say_when_they_are_tried_again() -> None:
    async def scenario(world: TroubledWorld) -> None:
        stocked_out = machine(
            "z-1", S.SPECULATIVE, shape=shape("g8", zone="za", capacity_type=CapacityType.SPOT)
        )
        every = world.shard.complete(Situation(NOW, (*SLOTS, stocked_out), (WEB,))).snapshot
        cool_off = OfferingCoolOff("g8", "za", CapacityType.SPOT, "stockout: none left", 2, NOW + 40, 1)
        world.complete(
            inventory=every,
            cool_offs=(cool_off,),
            machine_backoffs={"s-2": MachineBackoff("create: quota", NOW + 5)},
        )
        header, *rows = await world.machines()
        assert (header.header.total, header.header.machines) == (3, 3)
        held = {
            row.machine.id: (
                row.machine.held_off,
                row.machine.held_off_error,
                row.machine.next_attempt_in_seconds,
            )
            for row in rows
        }
        assert held == {
            "s-1": ("", "", 0.0),
            "s-2": ("machine-back-off", "create: quota", 5.0),
            "z-1": ("stocked-out", "stockout: none left", 40.0),
        }
        status = await world.status()
        assert sum(item.count for item in status.machines) == 3
        (shown,) = status.cool_offs
        assert (shown.instance_type, shown.next_attempt_in_seconds, shown.machines) == ("g8", 40.0, 1)
        assert [item.text for item in status.problems] == [
            "g8 in za (Spot) is stocked out; next attempt in 40 s"
        ]
        world.now_s = NOW + 50
        assert (await world.status()).cool_offs[0].next_attempt_in_seconds == 0

    virtually(scenario)


@pytest.mark.rule("shard#problems-in-one-look")
def test_the_metric_and_the_readiness_detail_follow_problems_within_a_second() -> None:
    async def scenario(world: TroubledWorld) -> None:
        def gauge(kind: str) -> float:
            return world.metrics.value("bigfleet_shard_problems", kind=kind)

        assert gauge("provider_unreachable") == 0
        task = asyncio.create_task(world.watch.follow())
        world.complete(held_off={0: HoldOff.PROVIDER_UNREACHABLE})
        world.shard.stand(provider=UNREACHABLE)
        await world.clock.sleep(1.5)
        assert (gauge("provider_unreachable"), gauge("shortfalls"), gauge("self_paused")) == (1, 1, 0)
        assert world.watch.lines()[1] == "web is short 8 CPUs: provider unreachable"
        world.shard.stand(provider=ProviderHealth())
        world.complete()
        await world.clock.sleep(1.5)
        assert (gauge("provider_unreachable"), gauge("shortfalls")) == (0, 0)
        assert world.watch.lines() == ()
        task.cancel()
        await asyncio.wait([task])

    virtually(scenario)


@pytest.mark.rule("shard#problems-in-one-look")
def test_a_defect_in_one_look_is_logged_and_the_next_look_works() -> None:
    async def scenario(world: TroubledWorld) -> None:
        def broken(_cluster: str) -> int:
            raise RuntimeError("broken")

        world.complete()
        whole = world.watch._sources
        world.watch._sources = StatusSources(held_rollups=broken)
        task = asyncio.create_task(world.watch.follow())
        await world.clock.sleep(0.5)
        assert [call.method_name for call in world.log.calls] == ["exception"]
        world.watch._sources = whole
        world.shard.stand(provider=UNREACHABLE)
        await world.clock.sleep(1.0)
        assert len(world.watch.lines()) == 1
        task.cancel()
        await asyncio.wait([task])

    virtually(scenario)


CHEAP = shape("m5", zone="za", price=0.1, capacity_type=CapacityType.SPOT)
DEAR = shape("m5", zone="zb", price=0.38)


def stocked_out_world(world: TroubledWorld) -> None:
    """Two cheap slots are stocked out, so a dearer machine is ordered; another stocked-out one does not fit."""
    out = (
        machine("c-1", S.SPECULATIVE, shape=CHEAP),
        machine("c-2", S.SPECULATIVE, shape=CHEAP),
        machine("t-1", S.SPECULATIVE, shape=shape("tiny", zone="za", resources={"cpu": "1"})),
    )
    need = Need("web", Profile(priority=5), amounts(cpu=4), amounts(cpu=4))
    dear = machine("d-1", S.SPECULATIVE, shape=DEAR)
    every = world.shard.complete(Situation(NOW, (dear, *out), (need,))).snapshot
    world.shard.complete(
        Situation(NOW, (dear,), (need,)),
        inventory=every,
        cool_offs=(
            OfferingCoolOff("m5", "za", CapacityType.SPOT, "stockout: none left", 2, NOW + 40, 2),
            OfferingCoolOff("tiny", "za", CapacityType.ON_DEMAND, "stockout: none left", 1, NOW + 20, 1),
        ),
        facts=CycleFacts(dispatched=(Action(ActionKind.PROVISION, "d-1"),)),
    )


async def explained(world: TroubledWorld, machine_id: str = "") -> dict[str, Any]:  # Any: JSON
    if machine_id:
        asked = pb.ExplainMachineRequest(machine=machine_id)
        machine_answer = await world.channel.unary(calls.EXPLAIN_MACHINE, asked, timeout_s=60)
        return cast("dict[str, Any]", json.loads(machine_answer.message.document))
    request = pb.ExplainNeedRequest(need="web", quick=True)
    answer = await world.channel.unary(calls.EXPLAIN_NEED, request, timeout_s=60)
    return cast("dict[str, Any]", json.loads(answer.message.document))


@pytest.mark.rule("shard#offering-cool-off", "dashboard#explain-classes")
def test_an_explanation_says_that_the_cheaper_offering_is_stocked_out_and_when_it_is_tried_again() -> None:
    async def scenario(world: TroubledWorld) -> None:
        stocked_out_world(world)
        world.live["d-1"] = S.CREATING
        content = await explained(world)
        assert content["sentence"] == (
            "Covered: cpu=4 (1 on order). m5 in za (Spot) would cost less ($0.1/h against $0.38/h), but is stocked out; "
            "next attempt in 40 s."
        )
        refused = {
            row["detail"]: (row["reason"], row["count"], row["machines"]) for row in content["refused"]
        }
        assert refused["m5 in za (Spot), next attempt in 40 s"] == ("stocked out", 2, ["c-1", "c-2"])
        assert refused["tiny in za (OnDemand), next attempt in 20 s"] == ("stocked out", 1, ["t-1"])
        counted = sum(row["count"] for row in (*content["chosen"], *content["refused"]))
        assert counted == content["machines"] == 4

    virtually(scenario)


@pytest.mark.rule("shard#coverage-split", "dashboard#explain-sentence")
def test_an_explanation_never_counts_what_the_provider_did_not_accept_and_says_why_it_does_not_come() -> None:
    async def scenario(world: TroubledWorld) -> None:
        world.complete(held_off={0: HoldOff.PROVIDER_UNREACHABLE}, waiting_since_s={0: NOW - 30})
        content = await explained(world)
        assert content["sentence"] == (
            "Not covered: cpu=8 of cpu=8 missing (2 wanted); the wanted ones do not come: provider unreachable, "
            "waiting 30 s."
        )
        assert content["coverage"]["wanted"] == 2
        assert content["satisfied"] is True, "the verdict of the engine stays"

    virtually(scenario)


@pytest.mark.rule("shard#offering-cool-off", "dashboard#explain-machine")
def test_a_machine_that_the_decision_left_out_or_that_is_in_back_off_is_explained() -> None:
    async def scenario(world: TroubledWorld) -> None:
        stocked_out_world(world)
        sentence = (await explained(world, "c-2"))["sentence"]
        assert sentence == "Speculative; m5 in za (Spot) is stocked out, next attempt in 40 s."
        world.complete(machine_backoffs={"s-1": MachineBackoff("create: quota", NOW + 5)})
        sentence = (await explained(world, "s-1"))["sentence"]
        assert sentence == (
            "Speculative; to be ordered for need 0 of web. Held off: its last action failed (create: quota), next attempt "
            "in 5 s."
        )

    virtually(scenario)
