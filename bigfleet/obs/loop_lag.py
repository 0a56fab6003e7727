"""Samples how late the event loop wakes a sleeper.

Why: one blocking call stalls sessions, heartbeats and probes alike, and nothing else shows it.
Must never: sleep less than a tick, or do work of its own.
Rules: `packaging#process-metrics`.
"""

from collections.abc import Callable

from bigfleet.aio.clock import NANOSECONDS, Clock

INTERVAL_S = 0.5


async def sample_loop_lag(
    clock: Clock, observe: Callable[[float], object], interval_s: float = INTERVAL_S
) -> None:
    """Observe the lag of each interval in seconds, until cancelled."""
    while True:
        asked = clock.monotonic_ns()
        await clock.sleep(interval_s)
        late = (clock.monotonic_ns() - asked) / NANOSECONDS - interval_s
        observe(max(0.0, late))
