"""The way to the coordinator on virtual time, against a scripted one.

Every coordinator row of `shard#failures` has a test here; the others hold `coordinator#term-mark`, `coordinator#repeated-acks`,
`coordinator#shard-client` and `coordinator#self-registration`.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import PurePosixPath
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from structlog.testing import CapturingLogger
from structlog.typing import FilteringBoundLogger

from bigfleet.aio.disk import atomic_write, ensure_directory
from bigfleet.aio.identity import Identity
from bigfleet.aio.net import Code, RpcRefusedError
from bigfleet.coordlink.link import CALL_DEADLINE_S, CoordinatorLink
from bigfleet.coordlink.term_file import NAME, TermFileError
from bigfleet.model.instruction import (
    AssignDomain,
    Domain,
    Instruction,
    Outcome,
    Payload,
    ReportAnswer,
    TransferOwnership,
)
from bigfleet.model.situation import Situation
from bigfleet.obs.metrics import Metrics
from bigfleet.shard.core.views import CycleView, TermMark
from bigfleet.shard.metrics import SHARD_METRICS
from bigfleet.testing.disk.image import DiskImage
from bigfleet.testing.loop import run_virtual
from bigfleet.testing.net.network import Network
from bigfleet.testing.process import virtual_process
from tests.support.builders import machine
from tests.support.scripted_coordinator import ScriptedCoordinator
from tests.support.shard_views import StaticShard

DATA = PurePosixPath("/data")
RACK = Domain("rack", "r1")


async def no_names(_host: str, _port: int) -> tuple[str, ...]:
    return ()


class World:
    """An idle shard, its link, and scripted coordinators on hosts c-0, c-1, c-2."""

    def __init__(self, *, replicas: int = 1, image: DiskImage | None = None, secured: bool = False) -> None:
        self.process = virtual_process("shard", image=image)
        self.network = Network(secured=secured)
        self.shard, self.mark = StaticShard(), TermMark()
        self.coordinators = [ScriptedCoordinator(self.process.clock) for _ in range(replicas)]
        self.registry = CollectorRegistry()
        self.metrics = Metrics(SHARD_METRICS, self.registry, version="test", commit="test")
        self.log: Any = CapturingLogger()  # Any: it takes every method and remembers it

    @property
    def coordinator(self) -> ScriptedCoordinator:
        return self.coordinators[0]

    def link(self, address: str = "", **given: Any) -> CoordinatorLink:
        if not self.process.disk.exists(DATA):
            ensure_directory(self.process.disk, DATA)
        log: FilteringBoundLogger = self.log
        return CoordinatorLink(
            given.pop("views", self.shard),
            self.mark,
            address or ",".join(f"c-{number}:7790" for number in range(len(self.coordinators))),
            data_dir=DATA,
            net=self.network.host("shard-0", Identity.shard("shard-0")),
            resolve=no_names,
            clock=self.process.clock,
            disk=self.process.disk,
            metrics=self.metrics,
            log=log,
            **given,
        )

    async def serve(self, number: int = 0) -> None:
        host = self.network.host(f"c-{number}", Identity.parse("bigfleet://admin"))
        await host.serve(":7790", [self.coordinators[number].bound()])

    @asynccontextmanager
    async def running(self, link: CoordinatorLink) -> AsyncIterator[CoordinatorLink]:
        task = asyncio.create_task(link.run())
        try:
            yield link
        finally:
            assert not task.done(), "the link never ends by itself"
            task.cancel()
            await asyncio.wait([task])

    async def seconds(self, count: float) -> None:
        await self.process.clock.sleep(count)

    def value(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(f"bigfleet_shard_coordinator_{name}", labels)

    def logged(self, event: str) -> int:
        return sum(call.args[0] == event for call in self.log.calls)


def order(instruction_id: str, payload: Payload | None, term: int = 7) -> Instruction:
    return Instruction(term, 1, instruction_id, payload)


def answered(*instructions: Instruction, term: int = 7) -> ReportAnswer:
    return ReportAnswer(term, acknowledged=True, instructions=instructions)


def virtually(scenario: Callable[[], Awaitable[None]]) -> None:
    async def run() -> None:
        await scenario()

    run_virtual(run())


def test_the_first_report_goes_at_once_and_the_next_every_ten_seconds_numbered_from_one() -> None:
    async def scenario() -> None:
        world = World()
        await world.serve()
        async with world.running(world.link()):
            await world.seconds(25)
        assert world.coordinator.arrivals_s == pytest.approx([0, 10, 20], abs=0.01)
        assert [report.cycle for report in world.coordinator.reports] == [1, 2, 3]
        assert {report.shard_id for report in world.coordinator.reports} == {"shard-0"}
        assert {report.shard_epoch for report in world.coordinator.reports} == {3}

    virtually(scenario)


def test_reports_show_the_last_cycle_and_none_before_the_first() -> None:
    async def scenario() -> None:
        world = World()
        await world.serve()
        async with world.running(world.link()):
            await world.seconds(5)
            world.shard.complete(Situation(0.0, (machine("m-1"), machine("m-2"))))
            await world.seconds(10)
        first, second = world.coordinator.reports
        assert first.summary is None
        assert second.summary is not None
        assert second.summary.total_machines == 2
        assert second.summary.provider_address == "provider.example:9000"

    virtually(scenario)


@pytest.mark.rule("coordinator#coordinator-absent", "shard#coordinator-down")
@pytest.mark.parametrize("away_s", [25, 3600 * 6])
def test_coordinator_absent_down_partitioned_or_failing_over_reports_warn_and_acks_are_kept_for_later(
    away_s: float,
) -> None:
    """Absent, down, partitioned, failing over; ack lost."""

    async def scenario() -> None:
        world = World()
        await world.serve()
        world.coordinator.answers(answered(order("i-1", AssignDomain(RACK))))
        async with world.running(world.link()) as link:
            await world.seconds(1)
            world.network.crash("c-0")
            await world.seconds(away_s)
            assert link.status.failures > 0
            assert link.status.last_error
            assert world.logged("coordinator_report_failed") == link.status.failures
            await world.serve()
            await world.seconds(40)  # a channel that failed for long tries again within half a minute
            assert link.status.failures == 0
        acked = [ack.instruction_id for report in world.coordinator.reports for ack in report.acks]
        assert acked == ["i-1"]

    virtually(scenario)


@pytest.mark.rule("shard#coordinator-absent")
def test_coordinator_never_there_the_link_goes_on_and_nothing_else_is_asked_of_it() -> None:
    """Absent. `coordinator#static-stability`."""

    async def scenario() -> None:
        world = World()
        async with world.running(world.link()) as link:
            await world.seconds(3600)
            assert link.status.failures == link.status.reports >= 300
            assert link.status.restarts == 0
        assert world.value("reports_total", outcome="failed") >= 300  # type: ignore[operator]

    virtually(scenario)


@pytest.mark.rule("shard#coordinator-follower")
def test_follower_answers_the_hint_is_taken_at_once_then_the_other_addresses() -> None:
    """Follower answers; ours loses no interval by it (`coordinator#self-registration`)."""

    async def scenario() -> None:
        world = World(replicas=3)
        for number in range(3):
            await world.serve(number)
        world.coordinators[0].follows("c-2:7790")
        world.coordinators[1].follows()
        async with world.running(world.link()) as link:
            await world.seconds(1)
            assert link.status.failures == 0
        assert [len(item.reports) for item in world.coordinators] == [1, 0, 1]

    virtually(scenario)


@pytest.mark.rule("shard#coordinator-only-followers")
def test_every_replica_follows_it_is_an_error_until_the_next_interval() -> None:
    """Follower answers."""

    async def scenario() -> None:
        world = World(replicas=3)
        for number, replica in enumerate(world.coordinators):
            await world.serve(number)
            replica.follows()
        async with world.running(world.link()) as link:
            await world.seconds(1)
            assert [len(item.reports) for item in world.coordinators] == [1, 1, 1]
            assert "no leader found" in link.status.last_error
            world.coordinators[1].usually(answered())
            await world.seconds(10)
            assert link.status.failures == 0

    virtually(scenario)


@pytest.mark.rule(
    "coordinator#late-instruction", "shard#terms", "shard#instructions", "shard#coordinator-stale-leader"
)
def test_stale_leader_its_answer_is_dropped_whole_and_an_equal_term_passes() -> None:
    """Stale leader. (`shard#terms`, `shard#instructions`): stale answer drops all, equal passes."""

    async def scenario() -> None:
        world = World()
        await world.serve()
        old = order("old", AssignDomain(RACK), term=6)
        world.coordinator.answers(
            answered(), answered(old, term=6), answered(order("new", AssignDomain(RACK)))
        )
        async with world.running(world.link()) as link:
            await world.seconds(15)
            assert world.mark.value == 7
            assert link.domains.listed() == ()
            assert world.logged("coordinator_term_stale") == 1
            await world.seconds(10)
            assert link.domains.listed() == (RACK,)
        assert world.value("reports_total", outcome="stale") == 1
        assert world.value("term") == 7

    virtually(scenario)


def test_stale_answer_leaves_acks_that_it_was_handed_delivered() -> None:
    async def scenario() -> None:
        world = World()
        await world.serve()
        world.coordinator.answers(answered(order("i-1", AssignDomain(RACK))), answered(term=2))
        async with world.running(world.link()):
            await world.seconds(25)
        assert [len(report.acks) for report in world.coordinator.reports] == [0, 1, 0]

    virtually(scenario)


@pytest.mark.rule("shard#terms", "shard#instructions", "shard#instruction-repeated")
def test_same_instruction_again_it_is_executed_once_and_acked_again() -> None:
    """Same instruction again. (`shard#terms`, `shard#instructions`): duplicate acked once more."""

    async def scenario() -> None:
        world = World()
        await world.serve()
        again = order("i-1", AssignDomain(RACK))
        world.coordinator.answers(answered(again), answered(again))
        async with world.running(world.link()) as link:
            await world.seconds(5)
            link.domains.unassign(RACK)
            await world.seconds(20)
            assert link.domains.listed() == ()
        acks = [report.acks for report in world.coordinator.reports]
        assert [[(ack.outcome, ack.reason) for ack in each] for each in acks] == [
            [],
            [(Outcome.ACCEPTED, "")],
            [(Outcome.ACCEPTED, "duplicate-redelivery")],
        ]
        counted = {"kind": "assign_domain"}
        assert world.value("instructions_total", outcome="accepted", **counted) == 1
        assert world.value("instructions_total", outcome="repeated", **counted) == 1

    virtually(scenario)


@pytest.mark.rule("shard#terms", "shard#instructions", "shard#ack-lost")
def test_acks_survive_a_failed_report_in_front_of_newer_ones() -> None:
    """(`shard#terms`, `shard#instructions`): acks survive a failed report. Ack lost."""

    async def scenario() -> None:
        world = World()
        await world.serve()
        refused = RpcRefusedError(
            Code.UNAVAILABLE, "could not be replicated", (("bigfleet-raft-state", "serving"),)
        )
        world.coordinator.answers(answered(order("i-1", AssignDomain(RACK))), refused, refused)
        async with world.running(world.link()):
            await world.seconds(35)
        sent = [[ack.instruction_id for ack in report.acks] for report in world.coordinator.reports]
        assert sent == [[], ["i-1"], ["i-1"], ["i-1"]]

    virtually(scenario)


def test_an_answer_that_acknowledges_nothing_keeps_the_acks() -> None:
    async def scenario() -> None:
        world = World()
        await world.serve()
        world.coordinator.answers(
            answered(order("i-1", AssignDomain(RACK))), ReportAnswer(7, acknowledged=False)
        )
        async with world.running(world.link()):
            await world.seconds(25)
        assert [len(report.acks) for report in world.coordinator.reports] == [0, 1, 1]

    virtually(scenario)


@pytest.mark.rule("shard#coordinator-identity-refused")
def test_identity_refused_is_logged_at_each_interval_and_hurts_nobody() -> None:
    """Identity refused."""

    async def scenario() -> None:
        world = World(secured=True)
        await world.serve()
        world.coordinator.usually(RpcRefusedError(Code.PERMISSION_DENIED, "for bigfleet://shard/other"))
        async with world.running(world.link()) as link:
            await world.seconds(25)
            assert link.status.failures == 3
            assert "PERMISSION_DENIED" in link.status.last_error
        assert world.logged("coordinator_report_failed") == 3

    virtually(scenario)


@pytest.mark.rule("shard#registry-lost")
def test_registry_lost_the_shard_every_report_carries_what_registers_it() -> None:
    """Registry lost the shard."""

    async def scenario() -> None:
        world = World()
        await world.serve()
        async with world.running(world.link()):
            await world.seconds(15)
        assert {(report.shard_id, report.address) for report in world.coordinator.reports} == {
            ("shard-0", "shard-0.example:7780")
        }

    virtually(scenario)


@pytest.mark.rule("shard#coordinator-hangs")
def test_a_call_ends_after_five_seconds_and_never_are_two_under_way() -> None:
    async def scenario() -> None:
        world = World()
        await world.serve()
        world.coordinator.hangs = True
        async with world.running(world.link(interval_s=2.0)) as link:
            await world.seconds(4.9)
            assert link.status.failures == 0
            await world.seconds(0.2)
            assert link.status.failures == 1
            await world.seconds(20)
        assert world.coordinator.calls_at_once == 1
        gaps = [
            b - a
            for a, b in zip(world.coordinator.arrivals_s, world.coordinator.arrivals_s[1:], strict=False)
        ]
        assert min(gaps) >= CALL_DEADLINE_S

    virtually(scenario)


@pytest.mark.rule("coordinator#term-mark")
def test_the_term_is_durable_before_anything_of_it_is_obeyed_and_survives_a_restart() -> None:
    async def scenario() -> None:
        image = DiskImage()
        world = World(image=image)
        await world.serve()
        world.coordinator.answers(answered(term=12))
        async with world.running(world.link()):
            await world.seconds(1)
        later = World(image=image)
        later.link()
        assert later.mark.value == 12
        assert later.value("term") == 12

    virtually(scenario)


@pytest.mark.rule("shard#term-not-stored")
def test_a_term_that_cannot_be_stored_is_not_obeyed_and_asked_for_again() -> None:
    async def scenario() -> None:
        world = World()
        await world.serve()
        world.coordinator.usually(answered(order("i-1", AssignDomain(RACK))))
        link = world.link()
        world.process.disk.image.read_only = True
        async with world.running(link):
            await world.seconds(5)
            assert (world.mark.value, link.domains.listed()) == (0, ())
            assert world.logged("coordinator_term_not_stored") == 1
            world.process.disk.image.read_only = False
            await world.seconds(10)
            assert (world.mark.value, link.domains.listed()) == (7, (RACK,))

    virtually(scenario)


def test_a_term_file_that_cannot_be_read_refuses_the_start() -> None:
    async def scenario() -> None:
        world = World()
        world.link()
        atomic_write(world.process.disk, DATA / NAME, b"seven")
        with pytest.raises(TermFileError):
            world.link()

    virtually(scenario)


def test_the_mark_is_raised_for_operators_too_and_stored_only_when_it_rises() -> None:
    async def scenario() -> None:
        world = World()
        await world.serve()
        world.coordinator.usually(answered())
        async with world.running(world.link()):
            await world.seconds(5)
            before = world.process.disk.operations
            await world.seconds(50)
            assert world.mark.value == 7
            assert world.process.disk.operations == before

    virtually(scenario)


@pytest.mark.rule("shard#move-requested")
def test_moves_between_shards_are_refused_invalid_with_a_reason_that_reaches_the_coordinator() -> None:
    """Rules: `coordinator#one-shard-per-provider`, `coordinator#no-accepted-no-ops`."""

    async def scenario() -> None:
        world = World()
        await world.serve()
        world.coordinator.answers(answered(order("i-1", TransferOwnership(("m-1",)))))
        async with world.running(world.link()):
            await world.seconds(15)
        (ack,) = world.coordinator.reports[1].acks
        assert ack.outcome is Outcome.REJECTED_INVALID
        assert "shares its provider with no other" in ack.reason
        assert world.logged("instruction_refused") == 1

    virtually(scenario)


class Defective(StaticShard):
    """Breaks the link with something that nobody foresaw, a few times."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self.left = times

    def last_cycle(self) -> CycleView | None:
        if self.left:
            self.left -= 1
            raise ZeroDivisionError
        return super().last_cycle()


@pytest.mark.rule("shard#client-defect")
def test_a_link_that_dies_of_a_defect_is_started_anew_and_counted() -> None:
    """Rules: `shard#part-ends`."""

    async def scenario() -> None:
        world = World()
        await world.serve()
        async with world.running(world.link(views=Defective(2))) as link:
            await world.seconds(45)
            assert link.status.restarts == 2
            assert link.status.failures == 0
        assert world.value("client_restarts_total") == 2
        assert world.logged("coordinator_client_died") == 2
        assert len(world.coordinator.reports) >= 2

    virtually(scenario)


def test_a_link_that_dies_keeps_its_acks_and_its_term() -> None:
    async def scenario() -> None:
        world = World()
        await world.serve()
        world.coordinator.answers(answered(order("i-1", AssignDomain(RACK))))
        views = Defective(0)
        async with world.running(world.link(views=views)):
            await world.seconds(5)
            views.left = 1
            await world.seconds(30)
        assert [ack.instruction_id for report in world.coordinator.reports for ack in report.acks] == ["i-1"]
        assert world.mark.value == 7

    virtually(scenario)
