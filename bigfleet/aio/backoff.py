"""Waiting longer after each failure, and the loop that never gives up on a peer.

Why: everything in the fleet that dials something dials it again; without growing, scattered waits a restart becomes a storm.
Must never: swallow a cancellation, retry an unexpected error, or repeat a mutating call: it is for connections.
Rules: `operator#reconnect-delays`; ADR-0196.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, NoReturn

from bigfleet.aio.clock import Clock
from bigfleet.aio.rng import RandomStream
from bigfleet.model.errors import BigFleetError, InvalidFieldError


@dataclass(frozen=True, slots=True)
class BackoffPolicy:
    """How long to wait: the first time, at most, and by how large a share of it at random on top."""

    first_s: float = 0.5
    ceiling_s: float = 30.0
    factor: float = 2.0
    jitter: float = 0.2
    healthy_after_s: float = 60.0
    """For loops that reset by the time without trouble; `keep_connected` asks the session instead."""

    def __post_init__(self) -> None:
        if not 0 < self.first_s <= self.ceiling_s:
            raise InvalidFieldError(
                "first_s", self.first_s, f"more than 0, at most ceiling_s ({self.ceiling_s})"
            )
        if self.factor < 1:
            raise InvalidFieldError("factor", self.factor, "1 or more")
        if not 0 <= self.jitter <= 1:
            raise InvalidFieldError("jitter", self.jitter, "0 to 1")
        if self.healthy_after_s < 0:
            raise InvalidFieldError("healthy_after_s", self.healthy_after_s, "0 or more")


RECONNECT: Final = BackoffPolicy(factor=1.5)
"""For sessions with a shard: dials follow closely while it restarts, 4.1 s after its end the fourth, then ever more rarely."""


class Backoff:
    """The waits of one peer, each longer than the one before."""

    def __init__(self, stream: RandomStream, policy: BackoffPolicy | None = None) -> None:
        self.policy = policy or BackoffPolicy()
        self._stream = stream
        self._next_s = self.policy.first_s

    def next_s(self) -> float:
        """Return how long to wait now; the wait after it is longer, up to the ceiling plus jitter."""
        wait_s = self._next_s
        self._next_s = min(wait_s * self.policy.factor, self.policy.ceiling_s)
        # On top, never below: the first wait is a promise to a peer that has just fallen over.
        return wait_s * (1 + self.policy.jitter * self._stream.random())

    def reset(self) -> None:
        """Begin again with the first wait."""
        self._next_s = self.policy.first_s

    def lengthen(self) -> None:
        """Wait the longest from now on: what is wrong will not heal by asking soon."""
        self._next_s = self.policy.ceiling_s


class Attempt:
    """One session as seen by the loop that runs it."""

    def __init__(self) -> None:
        self.was_established = False

    def established(self) -> None:
        """Report that the peer serves this session; only such a session resets the wait."""
        self.was_established = True

    def taken_over(self) -> None:
        """Report that another client took the session over; two that take turns must wait ever longer."""
        self.was_established = False


Session = Callable[[Attempt], Awaitable[None]]
Ended = Callable[[Exception | None, float], None]


async def keep_connected(
    session: Session,
    *,
    clock: Clock,
    backoff: Backoff,
    on_ended: Ended,
    retry: tuple[type[Exception], ...] = (BigFleetError, OSError),
) -> NoReturn:
    """Run sessions one after another until cancelled; report each end with its error, or None, and the wait that follows.

    A session that returns has been closed by the peer, which is no reason to stop. An error outside `retry` is a defect
    and ends the loop.
    """
    while True:
        attempt = Attempt()
        failure: Exception | None = None
        try:
            await session(attempt)
        except retry as error:
            failure = error
        if attempt.was_established:
            backoff.reset()
        wait_s = backoff.next_s()
        on_ended(failure, wait_s)
        await clock.sleep(wait_s)
