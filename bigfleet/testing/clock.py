"""The clock of one virtual host: offset, drift, jumps, and timers that are late while the processor is busy.

Why: tests must find code that trusts the wall clock or assumes that all clocks run at the same rate.
Must never: let the monotonic time go back or jump; it only drifts.
Rules: `testing#virtual-clock`.
"""

from collections.abc import Callable

from bigfleet.aio.clock import Timer, nanoseconds
from bigfleet.model.errors import InvalidFieldError
from bigfleet.testing.host import VirtualHost
from bigfleet.testing.loop import VirtualTimeLoop, virtual_loop, wake

_MILLION = 1_000_000

# 2030-01-01T00:00:00Z: later than any time that a test might take from the real clock by mistake.
DEFAULT_WALL_START_NS = 1_893_456_000 * 1_000_000_000


class VirtualClock:
    """A clock that runs `drift_ppm` too fast (negative: too slow) and is `offset_s` ahead."""

    def __init__(
        self,
        loop: VirtualTimeLoop | None = None,
        *,
        wall_start_ns: int = DEFAULT_WALL_START_NS,
        offset_s: float = 0.0,
        drift_ppm: int = 0,
        host: VirtualHost | None = None,
    ) -> None:
        """Start at the present time of the loop, by default the running one. All hosts share `wall_start_ns`."""
        self._loop = loop or virtual_loop()
        self._host = host
        # Wall time counts from loop time 0, so that hosts that start later agree on it.
        self._wall_ns = wall_start_ns + self._loop.now_ns + nanoseconds(offset_s)
        self._monotonic_ns = 0
        self._since_ns = self._loop.now_ns
        self._rate = _rate(drift_ppm)

    def monotonic_ns(self) -> int:
        return self._monotonic_ns + self._elapsed_ns()

    def wall_ns(self) -> int:
        return self._wall_ns + self._elapsed_ns()

    async def sleep(self, seconds: float) -> None:
        woken = self._loop.create_future()
        timer = self.call_later(max(seconds, 0.0), lambda: wake(woken))
        try:
            await woken
        finally:
            timer.cancel()

    def call_later(self, seconds: float, callback: Callable[[], object]) -> Timer:
        # Rounded up: on this host's monotonic clock a timer may be late, never early.
        delay_ns = -(-nanoseconds(seconds) * _MILLION // self._rate)
        return _HostTimer(self._loop, self._loop.now_ns + delay_ns, self._host, callback)

    def jump_wall(self, seconds: float) -> None:
        """Set the wall clock forward or back; the monotonic clock and timers do not change."""
        self._wall_ns += nanoseconds(seconds)

    def set_drift(self, drift_ppm: int) -> None:
        """Change the rate from now on; timers already set do not change."""
        elapsed_ns = self._elapsed_ns()
        self._monotonic_ns += elapsed_ns
        self._wall_ns += elapsed_ns
        self._since_ns = self._loop.now_ns
        self._rate = _rate(drift_ppm)

    def _elapsed_ns(self) -> int:
        return (self._loop.now_ns - self._since_ns) * self._rate // _MILLION


def _rate(drift_ppm: int) -> int:
    if not -_MILLION < drift_ppm < _MILLION:
        raise InvalidFieldError("drift_ppm", drift_ppm, "between -1,000,000 and 1,000,000, both excluded")
    return _MILLION + drift_ppm


class _HostTimer:
    """A timer of one host: it fires late while the host's processor is busy."""

    def __init__(
        self, loop: VirtualTimeLoop, due_ns: int, host: VirtualHost | None, callback: Callable[[], object]
    ) -> None:
        self._loop, self._host, self._callback = loop, host, callback
        self._handle = loop.call_at_ns(due_ns, self._fire)

    def cancel(self) -> None:
        self._handle.cancel()

    def _fire(self) -> None:
        if self._host is not None and self._host.busy_until_ns > self._loop.now_ns:
            self._handle = self._loop.call_at_ns(self._host.busy_until_ns, self._fire)
        else:
            self._callback()
