"""A token bucket for all calls to one API server, with priorities.

Why: evictions must not wait behind ten thousand acknowledgements, and no operator may flood its cluster.
Must never: admit a call without a token, lose the token of a cancelled waiter, or reorder calls of equal urgency.
Rules: `operator#process`, `operator#rate-limiter`.
"""

import asyncio
import enum
import heapq
from typing import Final

from bigfleet.aio.clock import Clock, Timer, monotonic_s
from bigfleet.model.errors import InvalidFieldError

DEFAULT_QPS: Final = 50.0
DEFAULT_BURST: Final = 100


class Urgency(enum.IntEnum):
    """Which waiting call goes first."""

    NOW = 0  # evictions, cordons, the lease
    NORMAL = 1  # object writes, lists, watches
    BULK = 2  # acknowledgements, events


class RateLimiter:
    """Admits `qps` calls per second, and bursts."""

    def __init__(self, clock: Clock, *, qps: float = DEFAULT_QPS, burst: int = DEFAULT_BURST) -> None:
        if qps <= 0:
            raise InvalidFieldError("qps", qps, "more than 0")
        if burst < 1:
            raise InvalidFieldError("burst", burst, "1 or more")
        self._clock, self._qps, self._burst = clock, qps, float(burst)
        self._tokens, self._filled_s = float(burst), monotonic_s(clock)
        self._waiting: list[tuple[Urgency, int, asyncio.Future[None]]] = []
        self._number = 0
        self._live = 0
        self._timer: Timer | None = None

    @property
    def waiting(self) -> int:
        """How many calls wait for a token."""
        return self._live

    async def acquire(self, urgency: Urgency = Urgency.NORMAL) -> None:
        """Return once a token was taken for this caller."""
        self._fill()
        if not self._live and self._tokens >= 1:
            self._tokens -= 1
            return
        granted = asyncio.get_running_loop().create_future()
        self._number += 1
        self._live += 1
        heapq.heappush(self._waiting, (urgency, self._number, granted))
        self._arm()
        try:
            await granted
        except asyncio.CancelledError:
            if granted.cancelled():
                self._live -= 1
            else:
                # Granted and cancelled in the same turn: the token goes to the next waiter.
                self._tokens += 1
                self._grant()
            raise

    def _fill(self) -> None:
        now_s = monotonic_s(self._clock)
        self._tokens = min(self._burst, self._tokens + (now_s - self._filled_s) * self._qps)
        self._filled_s = now_s

    def _grant(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._fill()
        while self._waiting and self._tokens >= 1:
            _, _, granted = heapq.heappop(self._waiting)
            if not granted.done():
                self._tokens -= 1
                self._live -= 1
                granted.set_result(None)
        self._arm()

    def _arm(self) -> None:
        if self._timer is None and self._live:
            missing = max(1 - self._tokens, 0.0)
            # Never zero: rounding could leave a token slightly short and spin.
            self._timer = self._clock.call_later(max(missing / self._qps, 1e-6), self._grant)
