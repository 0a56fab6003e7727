"""Holds a roll-up that looks like a lost cache rather than a drop in demand.

Why: a roll-up replaces all demand of its cluster, so an empty cache would read as "release everything".
Must never: change a roll-up, compare clusters, or hold the first one after a restart.
Rules: `shard#rollup-guard`. Why these numbers: ADR-0046.
"""

from dataclasses import dataclass

CONFIRMED_AT = 3
_ROWS_AT_LEAST = 10
_KEPT_ONE_IN = 10  # fewer than a tenth of the rows


def is_drop(rows: int, accepted: int) -> bool:
    """Whether a roll-up has so few of the rows last accepted that it looks like a lost cache."""
    return rows * _KEPT_ONE_IN < accepted


@dataclass(slots=True)
class _Baseline:
    accepted: int = 0
    held: int = 0


class RollupGuard:
    """Counts, by cluster, the rows last accepted and the roll-ups held in a row."""

    def __init__(self, *, enabled: bool = True) -> None:
        self._enabled = enabled
        self._clusters: dict[str, _Baseline] = {}

    def accepts(self, cluster: str, rows: int) -> bool:
        """Whether to apply a roll-up with this many rows."""
        known = self._clusters.setdefault(cluster, _Baseline())
        if self._enabled and known.accepted >= _ROWS_AT_LEAST and is_drop(rows, known.accepted):
            known.held += 1
            if known.held < CONFIRMED_AT:
                return False
        known.accepted, known.held = rows, 0
        return True

    def accepted_rows(self, cluster: str) -> int:
        """The number of rows of the roll-up last accepted."""
        known = self._clusters.get(cluster)
        return 0 if known is None else known.accepted

    def held(self, cluster: str) -> int:
        """The number of roll-ups held in a row; 0 once one is accepted."""
        known = self._clusters.get(cluster)
        return 0 if known is None else known.held
