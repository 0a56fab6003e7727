"""Profiles of clusters for which nothing is acquired for a while, because their bootstrap blobs fail.

Why: one bad template would otherwise take machine after machine out of the free pool, or buy new ones that cannot join.
Must never: hold a cluster's other profiles, or a profile whose blob was merely late.
Rules: decisions S4 and S29; ADR-0071.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from bigfleet.shard.core.views import BootstrapBackoff

FIRST_S = 5.0
LONGEST_S = 300.0


@dataclass(slots=True)
class _Entry:
    error: str
    wait_s: float
    until_s: float
    trying: bool = False
    """Whether an attempt was let through since the last error."""


class BootstrapBackoffs:
    """By cluster and fingerprint."""

    def __init__(self) -> None:
        self._entries: dict[tuple[str, str], _Entry] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def failed(self, cluster: str, fingerprint: str, error: str, now: float) -> None:
        """The operator answered with an error: wait, twice as long as the last time.

        Errors of attempts that began before the wait did count once.
        """
        entry = self._entries.get((cluster, fingerprint))
        if entry is None:
            self._entries[cluster, fingerprint] = _Entry(error, FIRST_S, now + FIRST_S)
            return
        entry.error = error
        if entry.trying:
            entry.wait_s, entry.trying = min(entry.wait_s * 2, LONGEST_S), False
            entry.until_s = now + entry.wait_s

    def worked(self, cluster: str, fingerprint: str) -> None:
        """A blob arrived and was good."""
        self._entries.pop((cluster, fingerprint), None)

    def admits(self, cluster: str, fingerprint: str, now: float) -> bool:
        """Whether an acquisition may be tried now; after a wait one attempt is let through and the rest wait again."""
        entry = self._entries.get((cluster, fingerprint))
        if entry is None:
            return True
        if now < entry.until_s:
            return False
        entry.until_s, entry.trying = now + entry.wait_s, True
        return True

    def views(self) -> Mapping[tuple[str, str], BootstrapBackoff]:
        """What readers see."""
        return {key: BootstrapBackoff(entry.error, entry.until_s) for key, entry in self._entries.items()}
