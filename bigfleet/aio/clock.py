"""The clock seam: what time it is, and waiting for it to pass.

Why: everything that waits or stamps takes its `Clock` through the constructor, so that a test or a run on virtual time can give it
a host of its own with drift and jumps, and no test ever sleeps.
The system form is made in the programs only; the virtual form is `bigfleet.testing.clock`.
Must never: be asked for the wall time in order to measure how long something took; that is what the monotonic time is for.
Rules: `testing#constructor-seams`, `testing#virtual-clock`, `shard#steady-time`.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Protocol

NANOSECONDS = 1_000_000_000


def nanoseconds(seconds: float) -> int:
    """Return the whole nanoseconds nearest to a duration in seconds."""
    return round(seconds * NANOSECONDS)


class Timer(Protocol):
    """A callback that is due once."""

    def cancel(self) -> None:
        """Drop the callback; harmless when it has run or was cancelled before."""


class Clock(Protocol):
    """One host's idea of time."""

    def monotonic_ns(self) -> int:
        """Return nanoseconds since an arbitrary start; never goes back, never jumps."""

    def wall_ns(self) -> int:
        """Return nanoseconds since 1970 as this host believes; may jump both ways."""

    async def sleep(self, seconds: float) -> None:
        """Wait for at least that long by the monotonic clock; zero or less lets the others run once."""

    def call_later(self, seconds: float, callback: Callable[[], object]) -> Timer:
        """Call back once on the running loop, not before that much monotonic time has passed."""


class SystemClock:
    """The clock of the machine this process runs on."""

    def monotonic_ns(self) -> int:
        return time.monotonic_ns()

    def wall_ns(self) -> int:
        return time.time_ns()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def call_later(self, seconds: float, callback: Callable[[], object]) -> Timer:
        return asyncio.get_running_loop().call_later(seconds, callback)


class SteadyWall:
    """Wall time at the start plus monotonic time elapsed since: `now` and idle stamps of `shard#steady-time`.

    A jump of the host's wall clock therefore never makes a machine look idle for an hour, nor un-idle.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._wall_at_start_ns = clock.wall_ns()
        self._monotonic_at_start_ns = clock.monotonic_ns()

    def now_ns(self) -> int:
        """Return nanoseconds since 1970, never less than at the call before."""
        return self._wall_at_start_ns + self._clock.monotonic_ns() - self._monotonic_at_start_ns

    def now_s(self) -> float:
        """Return `now_ns` in seconds."""
        return self.now_ns() / NANOSECONDS


def monotonic_s(clock: Clock) -> float:
    """Return the monotonic time of a clock in seconds; for durations, where nanoseconds would be clutter."""
    return clock.monotonic_ns() / NANOSECONDS


@asynccontextmanager
async def timeout(clock: Clock, seconds: float | None) -> AsyncIterator[asyncio.Timeout]:
    """Cancel the body and raise TimeoutError when it takes longer than that by this clock; None never does.

    The cancellation itself is asyncio's, so nesting and outer cancellation behave as with `asyncio.timeout`.
    """
    async with asyncio.timeout(None) as scope:
        if seconds is None:
            yield scope
            return

        def expire() -> None:
            if not scope.expired():  # the body may have been ended early by its holder
                scope.reschedule(float("-inf"))

        timer = clock.call_later(seconds, expire)
        try:
            yield scope
        finally:
            timer.cancel()
