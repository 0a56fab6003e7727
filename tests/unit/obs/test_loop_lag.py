"""The sampler, on a clock that wakes late on purpose."""

import asyncio
from collections.abc import Callable

import pytest

from bigfleet.aio.clock import NANOSECONDS, Timer
from bigfleet.obs.loop_lag import sample_loop_lag


class LateClock:
    """Sleeps end as late as the script says; when it is used up, the sampler is cancelled."""

    def __init__(self, *late_s: float) -> None:
        self._late_s = list(late_s)
        self._now_ns = 0
        self.asked_s: list[float] = []

    def monotonic_ns(self) -> int:
        return self._now_ns

    def wall_ns(self) -> int:
        return self._now_ns

    async def sleep(self, seconds: float) -> None:
        if not self._late_s:
            raise asyncio.CancelledError
        self.asked_s.append(seconds)
        self._now_ns += round((seconds + self._late_s.pop(0)) * NANOSECONDS)

    def call_later(self, seconds: float, callback: Callable[[], object]) -> Timer:
        raise AssertionError("the sampler sleeps")


async def _sampled(clock: LateClock) -> list[float]:
    seen: list[float] = []
    with pytest.raises(asyncio.CancelledError):
        await sample_loop_lag(clock, seen.append)
    return seen


def test_each_interval_is_observed_with_how_late_it_ended() -> None:
    clock = LateClock(0.0, 0.25, 0.001)
    assert asyncio.run(_sampled(clock)) == pytest.approx([0.0, 0.25, 0.001])
    assert clock.asked_s == [0.5, 0.5, 0.5]


def test_a_sleep_that_ends_early_is_no_negative_lag() -> None:
    assert asyncio.run(_sampled(LateClock(-0.1))) == [0.0]
