"""Group commit: what shares a batch, what a barrier proves, and which error means what."""

import asyncio
import json
from collections.abc import Awaitable, Callable

import pytest

from bigfleet.coordinator.batches import IN_FLIGHT, Batches, BatchResult, OnBatchResult
from bigfleet.coordinator.log import (
    CommandOutcomeUnknownError,
    FrozenError,
    LogError,
    NotLeaderError,
    TooLargeError,
    UnavailableError,
)
from bigfleet.testing.clock import VirtualClock
from bigfleet.testing.loop import VirtualTimeLoop
from tests.support.coordinator.pairs import Pairs, put


class World:
    """Batches in front of a replica that answers on request."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.sizes: list[int] = []
        self.batches = Batches(self.clock, self.sizes.append)
        self.sent: list[tuple[str, OnBatchResult]] = []
        self.state_machine = Pairs()
        self.state_machine.load({"epoch": 3, "pairs": {}})

    def begin(self, epoch: int = 3) -> None:
        self.batches.begin(epoch, lambda batch, on_end: self.sent.append((batch, on_end)))

    def commit(self, number: int = 0) -> list[dict[str, object]]:
        batch, on_end = self.sent[number]
        on_end(BatchResult.APPLIED, self.state_machine.apply(batch))
        items: list[dict[str, object]] = json.loads(batch)["items"]
        return items

    async def turn(self) -> None:
        for _ in range(3):
            await asyncio.sleep(0)


def run(scenario: Callable[[World], Awaitable[None]]) -> None:
    async def in_a_world() -> None:
        await scenario(World())

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(in_a_world())


def test_commands_of_one_moment_share_a_batch_and_latecomers_the_next() -> None:
    async def scenario(world: World) -> None:
        world.begin()
        first = [asyncio.ensure_future(world.batches.propose(put(f"a{n}", n), 5)) for n in range(3)]
        await world.turn()
        late = asyncio.ensure_future(world.batches.propose(put("b", 1), 5))
        await world.turn()
        last = [asyncio.ensure_future(world.batches.propose(put(f"c{n}", n), 5)) for n in range(2)]
        await world.turn()
        assert len(world.sent) == IN_FLIGHT
        assert len(world.commit(0)) == 3
        assert await asyncio.gather(*first) == [{"ok": True}] * 3
        await world.turn()
        assert len(world.sent) == 3
        world.commit(1)
        world.commit(2)
        await asyncio.gather(late, *last)
        assert world.sizes == [3, 1, 2]

    run(scenario)


@pytest.mark.rule("coordinator#batches")
def test_a_batch_of_256_commands_returns_256_results_in_order() -> None:
    async def scenario(world: World) -> None:
        world.begin()
        commands = [put(f"k{n}", n) if n % 3 else {"kind": "nonsense"} for n in range(300)]
        tasks = [asyncio.ensure_future(world.batches.propose(command, 5)) for command in commands]
        await world.turn()
        assert len(world.commit(0)) == 256
        assert len(world.commit(1)) == 44
        results = [result["ok"] for result in await asyncio.gather(*tasks)]
        assert results == [bool(n % 3) for n in range(300)]

    run(scenario)


@pytest.mark.rule("coordinator#batches")
def test_large_commands_are_spread_over_batches_and_too_large_ones_refused() -> None:
    async def scenario(world: World) -> None:
        world.begin()
        with pytest.raises(TooLargeError):
            await world.batches.propose(put("k", "x" * 300 * 1024), 5)
        tasks = [
            asyncio.ensure_future(world.batches.propose(put(f"k{n}", "x" * 200_000), 5)) for n in range(2)
        ]
        await world.turn()
        assert len(world.sent) == 2
        assert all(len(batch.encode()) <= 256 * 1024 for batch, _ in world.sent)
        world.commit(0)
        world.commit(1)
        await asyncio.gather(*tasks)

    run(scenario)


@pytest.mark.rule("coordinator#instruction-barrier")
def test_a_barrier_rides_in_a_batch_made_after_it_was_asked_for_and_readers_share_it() -> None:
    async def scenario(world: World) -> None:
        world.begin()
        write = asyncio.ensure_future(world.batches.propose(put("a", 1), 5))
        await world.turn()
        readers = [asyncio.ensure_future(world.batches.barrier(5)) for _ in range(10)]
        await world.turn()
        world.commit(0)
        await world.turn()
        assert write.done()
        assert not any(reader.done() for reader in readers)
        assert world.commit(1) == [{"kind": "barrier"}]
        await asyncio.gather(*readers)

    run(scenario)


@pytest.mark.rule("coordinator#stale-epoch")
def test_a_batch_of_an_old_epoch_did_not_happen() -> None:
    async def scenario(world: World) -> None:
        world.begin(epoch=2)
        task = asyncio.ensure_future(world.batches.propose(put("a", 1), 5))
        reader = asyncio.ensure_future(world.batches.barrier(5))
        await world.turn()
        world.commit(0)
        for refused in (task, reader):
            with pytest.raises(NotLeaderError):
                await refused
        assert world.state_machine.pairs == {}

    run(scenario)


@pytest.mark.parametrize(
    ("end", "error"),
    [
        (BatchResult.NOT_APPLIED, NotLeaderError),
        (BatchResult.BUSY, UnavailableError),
        (BatchResult.UNKNOWN, CommandOutcomeUnknownError),
    ],
)
def test_each_end_of_a_batch_has_its_error(end: BatchResult, error: type[LogError]) -> None:
    async def scenario(world: World) -> None:
        world.begin()
        task = asyncio.ensure_future(world.batches.propose(put("a", 1), 5))
        await world.turn()
        world.sent[0][1](end, "")
        with pytest.raises(error):
            await task

    run(scenario)


@pytest.mark.rule("coordinator#caller-timeout")
def test_a_timeout_is_an_unknown_outcome_once_the_command_has_left() -> None:
    async def scenario(world: World) -> None:
        world.begin()
        tasks = [asyncio.ensure_future(world.batches.propose(put(f"k{n}", n), 2)) for n in range(1)]
        await world.turn()
        tasks += [asyncio.ensure_future(world.batches.propose(put("b", 1), 2))]
        await world.turn()
        waiting = asyncio.ensure_future(world.batches.propose(put("never", 1), 2))
        for task in tasks:
            with pytest.raises(CommandOutcomeUnknownError, match="may still commit"):
                await task
        with pytest.raises(UnavailableError, match="nothing was replicated"):
            await waiting
        world.commit(0)
        world.commit(1)
        await world.turn()
        assert set(world.state_machine.pairs) == {"k0", "b"}  # who gave up before leaving was never proposed

    run(scenario)


def test_losing_leadership_tells_what_waits_from_what_is_on_its_way() -> None:
    async def scenario(world: World) -> None:
        world.begin()
        on_its_way = []
        for n in range(IN_FLIGHT):
            on_its_way.append(asyncio.ensure_future(world.batches.propose(put(f"k{n}", n), 5)))
            await world.turn()
        waiting = asyncio.ensure_future(world.batches.propose(put("late", 1), 5))
        await world.turn()
        world.batches.end("there:1")
        for task in on_its_way:
            with pytest.raises(CommandOutcomeUnknownError):
                await task
        with pytest.raises(NotLeaderError) as refused:
            await waiting
        assert refused.value.hint == "there:1"
        with pytest.raises(NotLeaderError):
            await world.batches.barrier(5)
        world.commit(0)  # too late for anybody to hear

    run(scenario)


def test_frozen_proposals_are_refused_and_idle_waits_for_the_rest() -> None:
    async def scenario(world: World) -> None:
        world.begin()
        task = asyncio.ensure_future(world.batches.propose(put("a", 1), 5))
        await world.turn()
        world.batches.freeze()
        with pytest.raises(FrozenError):
            await world.batches.propose(put("b", 1), 5)
        idle = asyncio.ensure_future(world.batches.idle())
        await world.turn()
        assert not idle.done()
        world.commit(0)
        await idle
        await task
        world.batches.unfreeze()
        again = asyncio.ensure_future(world.batches.propose(put("b", 1), 5))
        await world.turn()
        world.commit(1)
        await again

    run(scenario)
