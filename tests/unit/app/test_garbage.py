"""Garbage collection at chosen times: partial every second, full once an hour."""

import asyncio
import gc
import weakref
from collections.abc import Iterator

import pytest

from bigfleet.app import garbage
from bigfleet.app.garbage import (
    BUSY_AT_MOST_S,
    EVERY_S,
    FULL_EVERY,
    YOUNG_AT_MOST,
    freeze_live_objects,
)
from bigfleet.testing.loop import run_virtual
from bigfleet.testing.process import virtual_process


class Node:
    """An object that can be part of a cycle."""

    other: "Node"


@pytest.fixture(autouse=True)
def as_it_was() -> Iterator[None]:
    yield
    gc.unfreeze()


def test_live_objects_are_frozen_and_dead_cycles_among_them_are_collected_within_the_hour() -> None:
    async def story() -> None:
        clock = virtual_process().clock
        task = asyncio.ensure_future(freeze_live_objects(clock))
        one, two = Node(), Node()
        one.other, two.other = two, one
        gone = weakref.ref(one)
        await clock.sleep(EVERY_S + 1)
        assert gc.get_freeze_count() > 1000
        del one, two
        gc.collect()
        assert gone() is not None  # set aside, so an ordinary collection does not see it
        await clock.sleep(EVERY_S * FULL_EVERY)
        assert gone() is None
        task.cancel()

    run_virtual(story())


def test_python_starts_no_full_collection_itself() -> None:
    whole: list[int] = []

    def note(phase: str, info: dict[str, int]) -> None:
        if phase == "start" and info["generation"] == 2:
            whole.append(len(kept))

    kept: list[list[int]] = []

    async def story() -> None:
        clock = virtual_process().clock
        before = gc.get_threshold()
        task = asyncio.ensure_future(freeze_live_objects(clock))
        await clock.sleep(EVERY_S / 2)
        gc.callbacks.append(note)
        try:
            for number in range(200_000):
                kept.append([number])  # noqa: PERF401  one by one, as sessions would
        finally:
            gc.callbacks.remove(note)
        assert whole == []
        task.cancel()
        await asyncio.wait([task])
        assert gc.get_threshold() == before

    run_virtual(story())


def _cycle() -> "weakref.ref[Node]":
    """Make garbage that only the collector finds, and return a way to see whether it is still there."""
    one, two = Node(), Node()
    one.other, two.other = two, one
    return weakref.ref(one)


@pytest.mark.rule("shard#collection")
def test_nothing_is_collected_during_a_decision_and_everything_after_it() -> None:
    async def story() -> None:
        clock, deciding = virtual_process().clock, True
        task = asyncio.ensure_future(freeze_live_objects(clock, lambda: deciding))
        await clock.sleep(EVERY_S / 2)
        gone = _cycle()
        kept = [[number] for number in range(50_000)]  # seventy thresholds of Python's own
        await clock.sleep(EVERY_S + BUSY_AT_MOST_S / 2)
        assert gone() is not None
        deciding = False
        await clock.sleep(EVERY_S / 2)
        assert gone() is None
        assert len(kept) == 50_000
        task.cancel()

    run_virtual(story())


@pytest.mark.rule("shard#collection")
def test_a_decision_that_does_not_end_delays_a_collection_for_a_while_only() -> None:
    async def story() -> None:
        clock = virtual_process().clock
        task = asyncio.ensure_future(freeze_live_objects(clock, lambda: True))
        left: list[weakref.ref[Node]] = []
        for _ in range(100):
            left.append(_cycle())
            await clock.sleep(EVERY_S)
        assert sum(gone() is not None for gone in left) <= EVERY_S + BUSY_AT_MOST_S + 1
        task.cancel()

    run_virtual(story())


@pytest.mark.rule("shard#collection")
def test_a_flood_of_garbage_between_two_rounds_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    most_allowed = YOUNG_AT_MOST // 10  # so that the test is quick
    monkeypatch.setattr(garbage, "YOUNG_AT_MOST", most_allowed)

    async def story() -> None:
        clock = virtual_process().clock
        task = asyncio.ensure_future(freeze_live_objects(clock, lambda: True))
        await clock.sleep(EVERY_S / 2)
        left = [_cycle() for _ in range(2 * most_allowed)]
        assert sum(gone() is not None for gone in left) <= most_allowed
        task.cancel()
        await asyncio.wait([task])

    run_virtual(story())
