"""A key is in the queue once, worked on by one worker, and comes again later after each failure."""

import asyncio

import pytest

from bigfleet.aio.clock import monotonic_s
from bigfleet.aio.rng import SeededRng
from bigfleet.kube.work_queue import WorkQueue
from bigfleet.testing.clock import VirtualClock
from bigfleet.testing.loop import run_virtual


class TryAgainError(Exception):
    """A failure that is worth another try."""


def new_queue(clock: VirtualClock) -> WorkQueue[str]:
    return WorkQueue(clock=clock, stream=SeededRng(1).stream("queue"))


def test_a_key_added_many_times_is_taken_once() -> None:
    async def main() -> None:
        queue = new_queue(VirtualClock())
        for key in ("a", "b", "a", "a"):
            queue.add(key)
        assert len(queue) == 2
        assert [await queue.take(), await queue.take()] == ["a", "b"]
        assert len(queue) == 0

    run_virtual(main())


def test_a_key_added_while_it_is_worked_on_comes_again_afterwards_and_not_before() -> None:
    async def main() -> None:
        queue = new_queue(VirtualClock())
        queue.add("a")
        key = await queue.take()
        queue.add("a")
        taking = asyncio.ensure_future(queue.take())
        await asyncio.sleep(1)
        assert not taking.done()
        queue.done(key)
        assert await taking == "a"

    run_virtual(main())


def test_failures_wait_longer_each_time_and_success_forgets_them() -> None:
    async def main() -> None:
        queue = new_queue(VirtualClock())
        waits = []
        for _ in range(12):
            queue.add("a")
            waits.append(queue.failed(await queue.take()))
        bases = [0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 51.2, 60]
        assert all(base <= wait <= base * 1.2 for base, wait in zip(bases, waits, strict=True))
        queue.add("a")
        queue.done(await queue.take())
        queue.add("a")
        assert queue.failed(await queue.take()) <= 0.06

    run_virtual(main())


def test_a_failed_key_comes_back_by_itself() -> None:
    async def main() -> None:
        clock = VirtualClock()
        queue = new_queue(clock)
        queue.add("a")
        wait_s = queue.failed(await queue.take())
        assert len(queue) == 1
        assert await queue.take() == "a"
        assert monotonic_s(clock) == pytest.approx(wait_s, abs=1e-6)

    run_virtual(main())


def test_an_addition_beats_a_waiting_time() -> None:
    async def main() -> None:
        clock = VirtualClock()
        queue = new_queue(clock)
        queue.add_after("a", 100)
        queue.add_after("a", 5)  # the first delay stays
        queue.add("a")
        assert await queue.take() == "a"
        assert monotonic_s(clock) == 0
        queue.done("a")
        assert len(queue) == 0

    run_virtual(main())


def test_workers_share_the_keys_and_never_one_key() -> None:
    async def main() -> None:
        clock = VirtualClock()
        queue = new_queue(clock)
        at_work: set[str] = set()
        most, seen = 0, dict.fromkeys("abcdef", 0)

        async def handle(key: str) -> None:
            nonlocal most
            assert key not in at_work
            at_work.add(key)
            most = max(most, len(at_work))
            await clock.sleep(1)
            at_work.remove(key)
            seen[key] += 1
            if seen[key] < 3:
                raise TryAgainError

        work = asyncio.ensure_future(queue.work(handle, retry=(TryAgainError,), workers=4))
        for key in seen:
            queue.add(key)
        await clock.sleep(0.5)
        queue.add("a")
        await clock.sleep(30)
        work.cancel()
        await asyncio.wait({work})
        assert most == 4
        # "a" was added once more while at work, so it had its third look without the second wait
        assert seen == dict.fromkeys("abcdef", 3)

    run_virtual(main())


def test_a_defect_ends_the_workers() -> None:
    async def main() -> None:
        queue = new_queue(VirtualClock())
        queue.add("a")

        async def handle(_key: str) -> None:
            raise ZeroDivisionError

        with pytest.raises(ExceptionGroup):
            await queue.work(handle, retry=(TryAgainError,), workers=2)

    run_virtual(main())


def test_a_queue_that_settles_hands_out_nothing_more_and_waits_for_what_is_being_worked_on() -> None:
    async def main() -> None:
        queue = new_queue(VirtualClock())
        for key in ("a", "b"):
            queue.add(key)
        assert await queue.take() == "a"
        settling = asyncio.ensure_future(queue.settle())
        taking = asyncio.ensure_future(queue.take())
        await asyncio.sleep(10)
        assert not settling.done()
        queue.failed("a")
        await settling
        await asyncio.sleep(100)
        assert not taking.done()
        assert len(queue) == 2
        taking.cancel()

    run_virtual(main())


def test_an_idle_queue_settles_at_once() -> None:
    async def main() -> None:
        await asyncio.wait_for(new_queue(VirtualClock()).settle(), 1)

    run_virtual(main())
