"""Instructions on the answers to reports.

Rules: `coordinator#calls`, `coordinator#instructions`, `coordinator#provider-conflict`, `coordinator#restore`,
`coordinator#relearn`, `coordinator#won-term`, `coordinator#instruction-barrier`, `coordinator#shortfalls-replaced`,
`coordinator#report-order`, `coordinator#instruction-queue`, `coordinator#domain-delivery`,
`coordinator#no-accepted-no-ops`, `coordinator#failover-with-instructions`, `coordinator#empty-shortfalls`,
`coordinator#two-shards-one-provider`.
"""

from collections.abc import Awaitable, Callable

import pytest

from bigfleet.aio.net import Code, RpcError
from bigfleet.coordinator.log import CommandOutcomeUnknownError
from bigfleet.testing.loop import run_virtual
from bigfleet.v1alpha1 import coordinator_pb2 as pb
from tests.support.coordinator.local_log import LocalLog
from tests.unit.coordinator.harness import World, Worlds

ACCEPTED = pb.InstructAck.OUTCOME_ACCEPTED
OUTCOMES = [outcome for outcome in pb.InstructAck.Outcome.values() if outcome]


class Shard:
    """A shard with the behaviour of its client: carries out instructions, acks with the next report."""

    def __init__(self, world: World, name: str = "s-1") -> None:
        self.world, self.name = world, name
        self.epoch, self.cycle = 1, 0
        self.term = 0
        self.domains: set[str] = set()
        self.acks: list[pb.InstructAck] = []

    async def report(self, outcome: pb.InstructAck.Outcome.ValueType = ACCEPTED) -> list[str]:
        """Report once and act; return the kinds of the instructions that came."""
        self.cycle += 1
        acks, self.acks = self.acks, []
        answer = await self.world.report(self.name, self.cycle, shard_epoch=self.epoch, instruction_acks=acks)
        if answer.coordinator_term > self.term:
            self.term = answer.coordinator_term
            self.domains.clear()
        assert [item.sequence_number for item in answer.instructions] == sorted(
            item.sequence_number for item in answer.instructions
        )
        assert {item.coordinator_term for item in answer.instructions} <= {self.term}
        for item in answer.instructions:
            if outcome == ACCEPTED and item.HasField("assign_domain"):
                self.domains.add(item.assign_domain.topology_value)
            elif outcome == ACCEPTED:
                self.domains.discard(item.unassign_domain.topology_value)
            self.acks.append(pb.InstructAck(instruction_id=item.instruction_id, outcome=outcome))
        await self.world.process.clock.sleep(10)
        return [str(item.WhichOneof("payload")) for item in answer.instructions]

    def restart(self) -> None:
        self.epoch, self.cycle = self.epoch + 1, 0
        self.domains.clear()
        self.acks.clear()


@pytest.mark.rule("coordinator#domain-delivery")
def test_assigned_and_unassigned_domains_reach_the_shard_within_two_reports(world: Worlds) -> None:
    async def run() -> None:
        async with world() as here:
            shard = Shard(here)
            assert await shard.report() == []
            await here.assign("rack", "r1", "s-1")
            assert await shard.report() == ["assign_domain"]
            assert await shard.report() == []
            assert shard.domains == {"r1"}
            await here.unassign("rack", "r1")
            assert await shard.report() == ["unassign_domain"]
            assert await shard.report() == []
            assert shard.domains == set()

    run_virtual(run())


@pytest.mark.rule("coordinator#domain-delivery")
@pytest.mark.parametrize("when", ["before the change", "after the change", "after it was sent"])
@pytest.mark.parametrize("what", ["failover", "restart"])
def test_they_reach_it_across_a_failover_and_a_restart_of_the_shard(
    world: Worlds, what: str, when: str
) -> None:
    async def run() -> None:
        async with world() as here:
            shard = Shard(here)

            def disturb(now: str) -> None:
                if now == when:
                    here.log.gain() if what == "failover" else shard.restart()

            await shard.report()
            for change, wanted in (
                (lambda: here.assign("rack", "r1", "s-1"), {"r1"}),
                (lambda: here.unassign("rack", "r1"), set[str]()),
            ):
                await _changed(shard, change, disturb)
                assert shard.domains == wanted, (what, when)

    async def _changed(
        shard: Shard, change: Callable[[], Awaitable[None]], disturb: Callable[[str], None]
    ) -> None:
        disturb("before the change")
        await change()
        disturb("after the change")
        await shard.report()
        disturb("after it was sent")
        await shard.report()
        await shard.report()

    run_virtual(run())


@pytest.mark.parametrize("outcome", OUTCOMES, ids=pb.InstructAck.Outcome.Name)
def test_every_outcome_clears_an_instruction_and_is_counted(
    world: Worlds, outcome: pb.InstructAck.Outcome.ValueType
) -> None:
    async def run() -> None:
        async with world() as here:
            shard = Shard(here)
            await shard.report()
            await here.assign("rack", "r1", "s-1")
            await shard.report(outcome)
            first = shard.acks[0].instruction_id
            assert len(first) == 16
            await shard.report()
            # A refused one is derived again, as another instruction; a done one is not.
            later = [ack.instruction_id for ack in shard.acks]
            assert first not in later
            name = pb.InstructAck.Outcome.Name(outcome).removeprefix("OUTCOME_").lower()
            assert here.sample("instructions_acked_total", kind="assign_domain", outcome=name) == 1

    run_virtual(run())


def test_at_most_a_hundred_go_with_one_answer_and_they_are_sent_again_until_acked(world: Worlds) -> None:
    async def run() -> None:
        async with world() as here:
            await here.report("s-1", 1)
            for number in range(150):
                await here.assign("rack", f"r{number:03}", "s-1")
            first = await here.report("s-1", 2)
            again = await here.report("s-1", 3)
            assert len(first.instructions) == 100
            assert list(again.instructions) == list(first.instructions)
            assert here.sample("pending_instructions", shard="s-1") == 150

    run_virtual(run())


@pytest.mark.rule("coordinator#instruction-barrier")
def test_instructions_are_attached_only_after_a_barrier_that_began_after_the_report_arrived(
    world: Worlds,
) -> None:
    async def run() -> None:
        async with world() as here:
            began: list[str] = []
            barrier = here.log.barrier

            async def watched(*, timeout_s: float = 5.0) -> None:
                began.append("barrier")
                await barrier(timeout_s=timeout_s)

            here.log.barrier = watched  # type: ignore[method-assign]
            await here.report("s-1", 1)
            assert began == []  # nothing to attach, nothing to prove
            await here.assign("rack", "r1", "s-1")
            answer = await here.report("s-1", 2)
            assert (began, len(answer.instructions)) == (["barrier"], 1)
            here.log.fail_next(CommandOutcomeUnknownError("no majority"))
            with pytest.raises(RpcError) as refused:
                await here.report("s-1", 3)
            assert refused.value.code is Code.UNAVAILABLE

    run_virtual(run())


class _DeposedDuringBarrier:
    """Takes the leadership away while a barrier is waited for, and gives it back under a new term."""

    def __init__(self, log: LocalLog) -> None:
        self._log, self._barrier = log, log.barrier

    async def __call__(self, *, timeout_s: float = 5.0) -> None:
        await self._barrier(timeout_s=timeout_s)
        self._log.gain()


@pytest.mark.rule("coordinator#won-term")
def test_a_leader_deposed_between_check_and_answer_never_stamps_its_successors_term(world: Worlds) -> None:
    async def run() -> None:
        async with world() as here:
            await here.report("s-1", 1)
            await here.assign("rack", "r1", "s-1")
            kept = here.log.barrier
            here.log.barrier = _DeposedDuringBarrier(here.log)  # type: ignore[method-assign]
            with pytest.raises(RpcError) as refused:
                await here.report("s-1", 2)
            assert refused.value.code is Code.FAILED_PRECONDITION
            here.log.barrier = kept  # type: ignore[method-assign]
            answer = await here.report("s-1", 3)
            assert answer.coordinator_term == 2
            assert {item.coordinator_term for item in answer.instructions} == {2}

    run_virtual(run())


@pytest.mark.rule("coordinator#failover-with-instructions")
def test_pending_instructions_are_gone_after_a_failover_and_derived_again_under_the_new_term(
    world: Worlds,
) -> None:
    async def run() -> None:
        async with world() as here:
            await here.report("s-1", 1)
            await here.assign("rack", "r1", "s-1")
            (old,) = (await here.report("s-1", 2)).instructions
            here.log.lose()
            assert here.sample("pending_instructions", shard="s-1") is None
            here.log.gain()
            (new,) = (await here.report("s-1", 3)).instructions
            assert (old.coordinator_term, new.coordinator_term) == (1, 2)
            assert (new.sequence_number, new.instruction_id != old.instruction_id) == (1, True)
            # A late ack of the old one means nothing to the new leader.
            stale = [pb.InstructAck(instruction_id=old.instruction_id, outcome=ACCEPTED)]
            answer = await here.report("s-1", 4, instruction_acks=stale)
            assert [item.instruction_id for item in answer.instructions] == [new.instruction_id]

    run_virtual(run())


@pytest.mark.rule("coordinator#shortfalls-replaced", "coordinator#report-order")
def test_an_older_report_still_heartbeats_and_delivers_its_acks(world: Worlds) -> None:
    async def run() -> None:
        async with world() as here:
            await here.report("s-1", 1)
            await here.assign("rack", "r1", "s-1")
            (item,) = (await here.report("s-1", 9)).instructions
            await here.process.clock.sleep(10)
            acks = [pb.InstructAck(instruction_id=item.instruction_id, outcome=ACCEPTED)]
            answer = await here.report("s-1", 8, instruction_acks=acks, shortfalls=[pb.Shortfall(priority=3)])
            assert not answer.instructions
            assert await here.reports() == []
            (entry,) = await here.shards()
            assert entry.last_heartbeat_unix_ns == here.process.clock.wall_ns()

    run_virtual(run())


@pytest.mark.rule("coordinator#shortfalls-replaced", "coordinator#report-order")
def test_an_empty_list_clears_old_shortfalls(world: Worlds) -> None:
    async def run() -> None:
        async with world() as here:
            await here.report("s-1", 1, shortfalls=[pb.Shortfall(priority=3)])
            await here.report("s-1", 2, summary=pb.ShardSummary(total_machines=1))
            (seen,) = await here.reports()
            assert not seen.shortfalls

    run_virtual(run())


@pytest.mark.rule("coordinator#no-accepted-no-ops")
def test_no_instruction_of_the_three_moving_kinds_is_ever_sent(world: Worlds) -> None:
    async def run() -> None:
        async with world() as here:
            hungry = pb.Shortfall(priority=9, age_cycles=99)
            rich = pb.ShardSummary(provider_address="p:1", free_machines=500, idle_machines=500)
            seen: set[str] = set()
            await here.report("poor", 1)
            await here.assign("rack", "r1", "poor")
            for cycle in range(2, 100):
                for answer in (
                    await here.report("poor", cycle, shortfalls=[hungry]),
                    await here.report("rich", cycle, summary=rich),
                ):
                    seen |= {str(item.WhichOneof("payload")) for item in answer.instructions}
                await here.process.clock.sleep(10)
            assert seen == {"assign_domain"}

    run_virtual(run())


@pytest.mark.rule("coordinator#provider-conflict", "coordinator#two-shards-one-provider")
def test_two_shards_on_one_provider_raise_the_conflict_gauge_and_are_told_every_minute(world: Worlds) -> None:
    async def run() -> None:
        async with world() as here:
            same = pb.ShardSummary(provider_address="p:1", total_machines=1)
            for second in range(0, 130, 10):
                await here.report("s-1", second + 1, summary=same)
                await here.report("s-2", second + 1, summary=same)
                leader = here.replica.leadership.current
                assert leader is not None
                await here.replica.maintenance.run_leader_tasks(leader)
                await here.process.clock.sleep(10)
            assert here.sample("provider_conflict", provider="p:1") == 2
            assert here.events().count("provider_conflict") == 3  # at 0, 60 and 120 s
            await here.process.clock.sleep(31)
            assert here.sample("provider_conflict", provider="p:1") is None

    run_virtual(run())


def test_while_relearning_after_a_restore_no_domain_instruction_leaves_and_it_ends_once_all_were_heard(
    world: Worlds,
) -> None:
    async def run() -> None:
        async with world() as here:
            await here.report("s-1", 1)
            await here.report("s-2", 1)
            await here.assign("rack", "r1", "s-1")
            here.state_machine.load({**here.state_machine.dump(), "relearn": True})
            here.log.gain()
            leader = here.replica.leadership.current
            assert leader is not None
            for second in range(0, 700, 10):
                answer = await here.report("s-1", second + 2)
                if second == 650:
                    await here.report("s-2", 2)
                await here.replica.maintenance.run_leader_tasks(leader)
                assert bool(answer.instructions) == (second > 650), second
                await here.shards()
                assert (here.said("bigfleet-blocked-by") == "relearn") == (second < 650)
                await here.process.clock.sleep(10)

    run_virtual(run())
