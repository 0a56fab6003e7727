"""Whether the provider can be reached, and when to try again.

Why: a provider that is away must not cost a call per action and cycle, and people must learn of it within seconds. One
failure may be chance, so the shard becomes doubtful first: it probes, and everything else waits for the answer.
Must never: take a refusal for a failure; a provider that refuses has answered.
Rules: `shard#provider-standing`; ADR-0193. The numbers are constants.
"""

from typing import Final

UNREACHABLE_AT: Final = 3
"""Calls in a row without an answer, or lost connections, that make the provider unreachable."""
FIRST_PROBE_S: Final = 1.0
LONGEST_PROBE_S: Final = 15.0
JITTER: Final = 0.2
"""Largest part of a wait that is added to it at random."""
APART_S: Final = 1.0
"""Least time between two probes when connections come and go."""
_SECOND_LOOK_S: Final = 0.5  # between the two probes of a doubtful provider


class ProviderStanding:
    """What the calls so far say about the provider; times are of the monotonic clock."""

    def __init__(self) -> None:
        self.failures = 0
        """Calls in a row that failed on the way to or from the provider; a lost connection counts as one."""
        self.last_error = ""
        self.unreachable_since_s: float | None = None
        self.next_probe_s: float | None = None
        """When to probe next; None while nothing is wrong."""
        self._connection_lost = False
        self._wait_s = FIRST_PROBE_S
        self._last_probe_s = float("-inf")

    @property
    def reachable(self) -> bool:
        return self.unreachable_since_s is None

    @property
    def doubtful(self) -> bool:
        """Whether a call failed and no verdict was reached yet: calls wait for the probe."""
        return self.failures > 0 and self.reachable

    def failed(self, error: str, now_s: float, jitter: float) -> bool:
        """A call got no answer; return whether this made the provider unreachable. `jitter` is from 0 to 1."""
        self.failures += 1
        self.last_error = error
        if not self.reachable:
            return False
        if self.failures < UNREACHABLE_AT:
            self.next_probe_s = now_s + _SECOND_LOOK_S * (self.failures - 1)
            return False
        self.unreachable_since_s = now_s
        self._wait_s = FIRST_PROBE_S
        self._schedule(now_s, jitter)
        return True

    def lost(self, error: str, now_s: float, jitter: float) -> bool:
        """The connection was lost or could not be made; return whether this made the provider unreachable."""
        self._connection_lost = True
        return self.failed(error, now_s, jitter) if self.reachable else False

    def connected(self, now_s: float) -> None:
        """There is a connection again: probe at once, but not twice in quick succession."""
        if self.next_probe_s is not None:
            self.next_probe_s = min(self.next_probe_s, max(now_s, self._last_probe_s + APART_S))

    def probing(self, now_s: float, jitter: float) -> None:
        """A probe begins: the next one is due after twice the wait, if this one fails."""
        self._last_probe_s = now_s
        if not self.reachable:
            self._schedule(now_s, jitter)

    def answered(self) -> bool:
        """The provider answered a call; return whether its machines may have changed meanwhile, so that a listing is due."""
        missed = self._connection_lost or not self.reachable
        self.failures, self.unreachable_since_s, self.next_probe_s = 0, None, None
        self._connection_lost = False
        return missed

    def _schedule(self, now_s: float, jitter: float) -> None:
        self.next_probe_s = now_s + self._wait_s * (1 + JITTER * jitter)
        self._wait_s = min(2 * self._wait_s, LONGEST_PROBE_S)
