"""Backs off from acquiring machines for a profile of a cluster whose bootstrap blobs fail.

Why: one bad template would otherwise take machine after machine out of the free pool, or buy new ones that cannot join.
Must never: hold a cluster's other profiles, or a profile whose blob was merely late.
Rules: `shard#blob-back-off`; ADR-0071.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from bigfleet.model.errors import cut
from bigfleet.shard.core.views import BootstrapBackoff

FIRST_S = 5.0
LONGEST_S = 300.0
REMEMBERED = 10_000
"""Back-offs kept at most; the one that ends first goes. Profiles come and go, and each may fail."""
_ERROR_CHARACTERS = 1_000


@dataclass(slots=True)
class _Entry:
    error: str
    wait_s: float
    until_s: float
    trying: bool = False
    """Whether an attempt was admitted since the last error."""


class BootstrapBackoffs:
    """Back-offs by cluster and fingerprint."""

    def __init__(self) -> None:
        self._entries: dict[tuple[str, str], _Entry] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def failed(self, cluster: str, fingerprint: str, error: str, now: float) -> None:
        """The operator answered with an error: wait, twice as long as the last time.

        Errors of attempts that began before the wait did count once.
        """
        error = cut(error, _ERROR_CHARACTERS)
        entry = self._entries.get((cluster, fingerprint))
        if entry is None:
            if len(self._entries) >= REMEMBERED:
                del self._entries[min(self._entries, key=lambda key: (self._entries[key].until_s, key))]
            self._entries[cluster, fingerprint] = _Entry(error, FIRST_S, now + FIRST_S)
            return
        entry.error = error
        if entry.trying:
            entry.wait_s, entry.trying = min(entry.wait_s * 2, LONGEST_S), False
            entry.until_s = now + entry.wait_s

    def worked(self, cluster: str, fingerprint: str) -> None:
        """A good blob arrived: the back-off ends."""
        self._entries.pop((cluster, fingerprint), None)

    def admits(self, cluster: str, fingerprint: str, now: float) -> bool:
        """Whether an acquisition may be tried now; after each wait exactly one attempt is admitted."""
        entry = self._entries.get((cluster, fingerprint))
        if entry is None:
            return True
        if now < entry.until_s:
            return False
        entry.until_s, entry.trying = now + entry.wait_s, True
        return True

    def views(self) -> Mapping[tuple[str, str], BootstrapBackoff]:
        """The back-offs as readers see them."""
        return {key: BootstrapBackoff(entry.error, entry.until_s) for key, entry in self._entries.items()}
