"""Garbage collection at chosen moments: short every second, whole once an hour."""

import asyncio
import gc
import weakref
from collections.abc import Iterator

import pytest

from bigfleet.app.garbage import EVERY_S, FULL_EVERY, freeze_live_objects
from bigfleet.testing.loop import run_virtual
from bigfleet.testing.process import virtual_process


class Node:
    """Something that can be part of a cycle."""

    other: "Node"


@pytest.fixture(autouse=True)
def as_it_was() -> Iterator[None]:
    yield
    gc.unfreeze()


def test_what_lives_is_set_aside_and_a_cycle_that_died_there_goes_within_the_hour() -> None:
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


def test_python_never_looks_at_all_of_them_by_itself_meanwhile() -> None:
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
