"""The virtual clock of a host: offset, drift, jumps and a busy processor."""

import asyncio

import pytest

from bigfleet.model.errors import InvalidFieldError
from bigfleet.testing.clock import DEFAULT_WALL_START_NS, VirtualClock
from bigfleet.testing.host import VirtualHost
from bigfleet.testing.loop import run_virtual, virtual_loop

SECOND = 1_000_000_000


def test_hosts_disagree_on_the_wall_time_by_their_offsets() -> None:
    async def main() -> None:
        right, ahead = VirtualClock(), VirtualClock(offset_s=30)
        await right.sleep(100)
        behind = VirtualClock(offset_s=-30)  # a host that starts later knows the true time all the same
        assert right.wall_ns() == DEFAULT_WALL_START_NS + 100 * SECOND
        assert ahead.wall_ns() - right.wall_ns() == 30 * SECOND
        assert behind.wall_ns() - right.wall_ns() == -30 * SECOND

    run_virtual(main())


def test_drift_makes_a_host_count_more_or_fewer_seconds() -> None:
    async def main() -> None:
        true, fast, slow = VirtualClock(), VirtualClock(drift_ppm=500), VirtualClock(drift_ppm=-500)
        await true.sleep(10_000)
        assert fast.monotonic_ns() == 10_005 * SECOND
        assert slow.monotonic_ns() == 9_995 * SECOND
        assert fast.wall_ns() - true.wall_ns() == 5 * SECOND

    run_virtual(main())


def test_a_fast_host_wakes_earlier_than_a_slow_one() -> None:
    async def main() -> list[str]:
        woken: list[str] = []

        async def nap(name: str, clock: VirtualClock) -> None:
            await clock.sleep(10_000)
            woken.append(name)

        slow, fast = VirtualClock(drift_ppm=-500), VirtualClock(drift_ppm=500)
        await asyncio.gather(nap("slow", slow), nap("true", VirtualClock()), nap("fast", fast))
        return woken

    assert run_virtual(main()) == ["fast", "true", "slow"]


@pytest.mark.parametrize("drift_ppm", [-999_999, -500, -7, 0, 3, 500, 333_333])
def test_no_sleep_is_short_by_the_hosts_own_clock(drift_ppm: int) -> None:
    async def main() -> None:
        clock = VirtualClock(drift_ppm=drift_ppm)
        for nanoseconds in (1, 7, 1_001, 333_333_333):
            before = clock.monotonic_ns()
            await clock.sleep(nanoseconds / SECOND)
            assert clock.monotonic_ns() - before >= nanoseconds

    run_virtual(main())


def test_a_jump_moves_the_wall_clock_only() -> None:
    async def main() -> None:
        clock = VirtualClock()
        called: list[int] = []
        clock.call_later(5, lambda: called.append(clock.monotonic_ns()))
        await clock.sleep(1)
        clock.jump_wall(-3600)
        assert clock.wall_ns() == DEFAULT_WALL_START_NS + (1 - 3600) * SECOND
        assert clock.monotonic_ns() == 1 * SECOND
        await clock.sleep(10)
        assert called == [5 * SECOND]

    run_virtual(main())


def test_a_change_of_drift_never_moves_the_clocks_back() -> None:
    async def main() -> None:
        clock = VirtualClock(drift_ppm=500)
        await clock.sleep(2_001)
        before = clock.monotonic_ns(), clock.wall_ns()
        clock.set_drift(-500)
        assert (clock.monotonic_ns(), clock.wall_ns()) == before
        start = virtual_loop().now_ns
        await clock.sleep(1_999)
        assert clock.monotonic_ns() - before[0] == 1_999 * SECOND
        assert virtual_loop().now_ns - start == 2_000 * SECOND

    run_virtual(main())


def test_a_drift_that_would_stop_or_reverse_time_is_refused() -> None:
    async def main() -> None:
        with pytest.raises(InvalidFieldError, match="drift_ppm"):
            VirtualClock(drift_ppm=-1_000_000)

    run_virtual(main())


def test_a_timer_that_is_late_because_the_host_is_busy_can_still_be_cancelled() -> None:
    async def main() -> list[str]:
        ran: list[str] = []
        host = VirtualHost()
        clock = VirtualClock(host=host)
        host.stall(10)
        timer = clock.call_later(1, lambda: ran.append("late"))
        clock.call_later(1, lambda: ran.append("kept"))
        await VirtualClock().sleep(5)
        timer.cancel()
        await clock.sleep(20)
        return ran

    assert run_virtual(main()) == ["kept"]


def test_a_cancelled_sleep_leaves_no_timer_behind() -> None:
    async def main() -> int:
        nap = asyncio.create_task(VirtualClock().sleep(3_600))
        await asyncio.sleep(1)
        nap.cancel()
        with pytest.raises(asyncio.CancelledError):
            await nap
        await asyncio.sleep(1)
        return virtual_loop().now_ns

    assert run_virtual(main()) == 2 * SECOND
