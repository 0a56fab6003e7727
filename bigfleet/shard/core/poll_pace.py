"""When to look again at machines in transition.

Why: a machine that became Idle should be used within a second, and a provider that is slow or fails must not be asked the more.
Must never: wait longer than the interval for a provider that answers quickly, or use more than a quarter of the time of a slow one.
Rules: `shard#transition-polls`; ADR-0276. The numbers are constants.
"""

from typing import Final

JITTER: Final = 0.1
"""Largest part of an interval that is left out at random, so that shards of one provider do not ask in step."""
_REST: Final = 3  # times what a poll took, so that polls take at most a quarter of the time


class PollPace:
    """How long to wait between two polls."""

    def __init__(self, interval_s: float, longest_s: float) -> None:
        """The wait grows to `longest_s` while polls fail."""
        self._interval_s, self._longest_s = interval_s, max(interval_s, longest_s)
        self._failures = 0

    def wait_s(self, took_s: float, jitter: float) -> float:
        """How long to wait after a poll that took so long; `jitter` is from 0 to 1."""
        apart_s: float = min(self._interval_s * 2**self._failures, self._longest_s)
        return max(apart_s * (1 - JITTER * jitter) - took_s, _REST * took_s)

    def worked(self) -> None:
        """A poll was answered."""
        self._failures = 0

    def failed(self) -> None:
        """A poll got no answer, or none in time."""
        if self._interval_s * 2**self._failures < self._longest_s:
            self._failures += 1
