"""When a shard last decided, by the clock of the dashboard's host (`dashboard#ages`)."""

import asyncio
from typing import cast

import pytest

from bigfleet.dashboard.core.observed import ObservedShard, ShardPlace
from bigfleet.dashboard.shard_reader import ShardReader, look
from bigfleet.dashboard.sources import SourceError, SourceProblem


class ScriptedReader:
    """Answers with the status that a test gives; None is no answer."""

    shard_id, address = "s0", "a:1"
    seen: ObservedShard | None = None

    async def status(self, _now: float) -> ObservedShard:
        if self.seen is None:
            raise SourceError(SourceProblem.FAILED, "shard s0 does not answer")
        return self.seen


def observe(*steps: tuple[float, ObservedShard | None]) -> list[float | None]:
    """The age of the last cycle after each look: at a time, with an answer."""

    async def play() -> list[float | None]:
        reader, place, ages = ScriptedReader(), cast("ShardPlace | None", None), list[float | None]()
        for now, seen in steps:
            reader.seen = seen
            place = await look(cast("ShardReader", reader), place, now)
            ages.append(None if place.cycle_at is None else now - place.cycle_at)
        return ages

    return asyncio.run(play())


def cycle(number: int, computed_at: float, epoch: int = 1) -> ObservedShard:
    return ObservedShard("s0", number, computed_at, epoch)


@pytest.mark.rule("dashboard#ages")
def test_the_age_counts_from_when_the_cycle_was_first_seen_whatever_the_shards_clock_says() -> None:
    fast = 1000.0 + 3600.0
    assert observe((1000, cycle(7, fast)), (1010, cycle(8, fast + 10)), (1040, cycle(8, fast + 10))) == [
        0,
        0,
        30,
    ]


@pytest.mark.rule("dashboard#ages")
def test_a_shard_that_stalled_before_the_first_look_is_seen_at_once() -> None:
    assert observe((1000, cycle(7, 940))) == [60]


@pytest.mark.rule("dashboard#ages")
def test_a_silent_shard_goes_on_ageing_and_a_restarted_one_begins_again() -> None:
    assert observe(
        (1000, cycle(7, 1000)), (1030, None), (1040, cycle(0, 0, epoch=2)), (1050, cycle(7, 1050, epoch=2))
    ) == [0, 30, None, 0]
