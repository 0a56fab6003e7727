"""The shortfall ledger: unmet demand, and for how many cycles it has been unmet.

Why: the coordinator, alerts and people act on demand that stays unmet, not on what a single cycle missed.
Must never: age a fingerprint twice in a cycle, or remember one that was met.
Rules: `shard#shortfalls`, `shard#metrics`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from bigfleet.model.need import Need
from bigfleet.model.resources import Resources
from bigfleet.shard.core.views import AgedShortfall

REPORTED = 100
"""How many shortfalls a report lists."""

AGE_CLASSES = ((300, "300+"), (60, "60-299"), (10, "10-59"), (1, "1-9"))
PRIORITY_CLASSES = ((1_000_000, "critical"), (1_000, "service"), (100, "batch"))


@dataclass(frozen=True, slots=True)
class Unmet:
    """The missing part of one need."""

    need: Need
    deficit: Resources


class ShortfallLedger:
    """Shortfalls by fingerprint, over all clusters and groups."""

    def __init__(self) -> None:
        self._entries: dict[str, AgedShortfall] = {}
        self._counted: dict[str, int] = {}  # cycles that count, by fingerprint

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def ages(self) -> Mapping[str, int]:
        """Age in cycles by fingerprint."""
        return {fingerprint: entry.age_cycles for fingerprint, entry in self._entries.items()}

    def decided(self, unmet: Iterable[Unmet], *, ages: bool = True) -> None:
        """Record what a cycle left unmet.

        Without `ages` the cycle followed another so closely that it does not count (`shard#ledger-ages`).
        """
        sums: dict[str, tuple[Need, Resources, Resources]] = {}
        for item in unmet:
            fingerprint = item.need.profile.fingerprint
            known = sums.get(fingerprint)
            if known is None:  # most are the only ones of their profile, and need no amounts of their own
                sums[fingerprint] = (item.need, item.deficit, item.need.unit)
            else:
                first, deficit, unit = known
                sums[fingerprint] = (first, deficit + item.deficit, unit.maximum(item.need.unit))
        self._counted = {fingerprint: self._counted.get(fingerprint, 0) + ages for fingerprint in sums}
        self._entries = {
            fingerprint: AgedShortfall(need.profile, deficit, max(1, self._counted[fingerprint]), unit)
            for fingerprint, (need, deficit, unit) in sums.items()
        }

    def in_order(self) -> tuple[AgedShortfall, ...]:
        """All entries in report order: priority and age descending, then fingerprint."""
        return tuple(
            sorted(
                self._entries.values(),
                key=lambda entry: (-entry.profile.priority, -entry.age_cycles, entry.profile.fingerprint),
            )
        )


def age_class(age_cycles: int) -> str:
    """The alert class of an age."""
    return next(label for least, label in AGE_CLASSES if age_cycles >= least)


def priority_class(priority: int) -> str:
    """The alert class of a priority."""
    return next((label for least, label in PRIORITY_CLASSES if priority >= least), "other")
