"""What every clock promises, the system's and the virtual one alike, and the helpers built on it."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from bigfleet.aio.clock import Clock, SteadyWall, SystemClock, monotonic_s, nanoseconds, timeout
from bigfleet.testing.clock import VirtualClock
from bigfleet.testing.loop import run_virtual

Check = Callable[[Clock], Awaitable[None]]


def on_system(check: Check) -> None:
    asyncio.run(_with(SystemClock, check))


def on_virtual(check: Check) -> None:
    run_virtual(_with(VirtualClock, check))


async def _with(make: Callable[[], Clock], check: Check) -> None:
    await check(make())


@pytest.fixture(params=[on_system, on_virtual], ids=["system", "virtual"])
def on_each(request: pytest.FixtureRequest) -> Callable[[Check], None]:
    run: Callable[[Check], None] = request.param
    return run


def test_a_sleep_lasts_at_least_as_long_as_asked(on_each: Callable[[Check], None]) -> None:
    async def check(clock: Clock) -> None:
        before = clock.monotonic_ns()
        await clock.sleep(0.002)
        # The system's loop may wake one tick of its float clock early; a microsecond is a thousand of those.
        assert clock.monotonic_ns() - before >= 2_000_000 - 1_000

    on_each(check)


def test_a_sleep_of_nothing_lets_the_others_run(on_each: Callable[[Check], None]) -> None:
    async def check(clock: Clock) -> None:
        ran: list[str] = []
        asyncio.get_running_loop().call_soon(ran.append, "other")
        await clock.sleep(0)
        await clock.sleep(-1)
        assert ran == ["other"]

    on_each(check)


def test_a_timer_calls_back_once_and_a_cancelled_one_never(on_each: Callable[[Check], None]) -> None:
    async def check(clock: Clock) -> None:
        called: list[str] = []
        second = asyncio.Event()
        dropped = clock.call_later(0.001, lambda: called.append("dropped"))
        kept = clock.call_later(0.002, lambda: called.append("kept"))
        clock.call_later(0.003, second.set)
        dropped.cancel()
        await second.wait()
        kept.cancel()
        dropped.cancel()
        assert called == ["kept"]

    on_each(check)


def test_wall_time_is_after_2020_and_moves_with_monotonic_time(on_each: Callable[[Check], None]) -> None:
    async def check(clock: Clock) -> None:
        wall, monotonic = clock.wall_ns(), clock.monotonic_ns()
        assert wall > nanoseconds(1_577_836_800)
        await clock.sleep(0.002)
        assert clock.wall_ns() > wall
        assert clock.monotonic_ns() > monotonic
        assert monotonic_s(clock) == pytest.approx(clock.monotonic_ns() / 1e9, abs=1.0)

    on_each(check)


def test_a_timeout_cancels_the_body_and_raises(on_each: Callable[[Check], None]) -> None:
    async def check(clock: Clock) -> None:
        cancelled: list[bool] = []

        async def wait_for_ever() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                cancelled.append(True)

        with pytest.raises(TimeoutError):
            async with timeout(clock, 0.002):
                await wait_for_ever()
        assert cancelled == [True]
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0

    on_each(check)


def test_a_timeout_lets_a_body_that_is_quick_enough_alone(on_each: Callable[[Check], None]) -> None:
    async def check(clock: Clock) -> None:
        async with timeout(clock, 60) as scope:
            await clock.sleep(0.001)
        assert not scope.expired()
        async with timeout(clock, None):
            await clock.sleep(0.001)

    on_each(check)


def test_a_timeout_of_nothing_ends_the_body_at_its_first_wait(on_each: Callable[[Check], None]) -> None:
    async def check(clock: Clock) -> None:
        reached: list[str] = []

        async def body() -> None:
            reached.append("before the wait")
            await clock.sleep(10)
            reached.append("after the wait")

        with pytest.raises(TimeoutError):
            async with timeout(clock, 0):
                await body()
        assert reached == ["before the wait"]

    on_each(check)


def test_a_timeout_passes_an_outer_cancellation_on(on_each: Callable[[Check], None]) -> None:
    async def check(clock: Clock) -> None:
        async def body() -> None:
            async with timeout(clock, 60):
                await asyncio.Event().wait()

        task = asyncio.create_task(body())
        await clock.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    on_each(check)


def test_a_timeout_that_was_not_needed_leaves_no_timer_behind(on_each: Callable[[Check], None]) -> None:
    async def check(clock: Clock) -> None:
        errors: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda _loop, context: errors.append(context))
        async with timeout(clock, 0.002):
            await clock.sleep(0)
        await clock.sleep(0.004)
        assert errors == []

    on_each(check)


def test_the_inner_of_two_timeouts_fires_alone() -> None:
    async def main() -> None:
        clock = VirtualClock()
        async with timeout(clock, 5) as outer:
            with pytest.raises(TimeoutError):
                async with timeout(clock, 2):
                    await clock.sleep(60)
            assert clock.monotonic_ns() == nanoseconds(2)
            await clock.sleep(2)
        assert not outer.expired()

    run_virtual(main())


def test_steady_wall_ignores_jumps_of_the_wall_clock() -> None:
    async def main() -> None:
        clock = VirtualClock()
        steady = SteadyWall(clock)
        start = clock.wall_ns()
        await clock.sleep(10)
        clock.jump_wall(-3600)
        assert steady.now_ns() == start + nanoseconds(10)
        await clock.sleep(5)
        clock.jump_wall(7200)
        assert steady.now_ns() == start + nanoseconds(15)
        assert steady.now_s() == (start + nanoseconds(15)) / 1e9
        assert clock.wall_ns() == start + nanoseconds(15 + 3600)

    run_virtual(main())


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(0.5, 500_000_000), (0.1, 100_000_000), (1e-9, 1), (-2.0, -2_000_000_000), (0.3, 300_000_000)],
)
def test_seconds_become_the_nearest_nanoseconds(seconds: float, expected: int) -> None:
    assert nanoseconds(seconds) == expected
