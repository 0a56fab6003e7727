"""Free memory goes back to the system (`shard#free-memory`)."""

import asyncio
import sys

import pytest

from bigfleet.app.free_memory import EVERY_S, WORTH_BYTES, SystemHeap, give_back_free_memory
from bigfleet.testing.loop import run_virtual
from bigfleet.testing.process import virtual_process


class ScriptedHeap:
    """A heap whose free bytes are what a test says."""

    def __init__(self) -> None:
        self.free, self.resident, self.trims = 0, 0, 0

    def free_bytes(self) -> int:
        return self.free

    def resident_bytes(self) -> int:
        return self.resident

    def trim(self) -> None:
        self.trims += 1
        self.resident = 0


@pytest.mark.rule("shard#free-memory")
def test_memory_is_given_back_once_for_each_time_that_much_becomes_free() -> None:
    async def story() -> None:
        clock, heap = virtual_process().clock, ScriptedHeap()
        task = asyncio.ensure_future(give_back_free_memory(clock, heap))
        seen = []
        for free in (0, WORTH_BYTES - 1, WORTH_BYTES, WORTH_BYTES, 0, WORTH_BYTES):
            heap.free = free
            await clock.sleep(EVERY_S)
            await asyncio.sleep(0)
            seen.append(heap.trims)
        task.cancel()
        assert seen[-1] == 2
        assert seen[1] == 0

    run_virtual(story())


@pytest.mark.rule("shard#free-memory")
def test_free_memory_that_was_used_and_freed_again_between_two_looks_is_given_back() -> None:
    async def story() -> None:
        clock, heap = virtual_process().clock, ScriptedHeap()
        heap.free = 2 * WORTH_BYTES

        async def looks(times: int = 20) -> None:  # many, as each look runs in a real thread
            for _ in range(times):
                await clock.sleep(EVERY_S)
                await asyncio.to_thread(lambda: None)

        task = asyncio.ensure_future(give_back_free_memory(clock, heap))
        await looks()
        heap.resident = WORTH_BYTES - 1
        await looks()
        assert heap.trims == 0
        for trims in (1, 2):
            heap.resident = WORTH_BYTES
            await looks()
            assert (heap.trims, heap.resident) == (trims, 0)
        heap.free, heap.resident = 0, 10 * WORTH_BYTES  # grown, and all of it is in use
        await looks()
        assert heap.trims == 2
        task.cancel()

    run_virtual(story())


def test_the_heap_of_this_process_can_be_asked_and_trimmed() -> None:
    heap = SystemHeap()
    assert heap.free_bytes() >= 0
    assert heap.resident_bytes() > 1 << 20 or sys.platform != "linux"
    heap.trim()
