"""Contributions into rows of demand: sums and per-dimension maxima, in one order.

Why: the roll-up is the cluster's whole demand at each tick. With shared rows and amounts it is a count of pairs, then one
multiplication for each, whatever the number of pods.
Must never: send a part of the demand, or let the order of requests show in the bytes.
Rules: operator 4.1 to 4.3 and 4.7, wire 2.2, ADR-0027, ADR-0039 (always the total, never the unmet part).
"""

from collections.abc import Iterator
from dataclasses import dataclass

from bigfleet.model.profile import Profile
from bigfleet.model.quantity_text import canonical_text
from bigfleet.operator.core.contribution import Amounts, Contribution, Row


@dataclass(frozen=True, slots=True)
class RollupRow:
    """One row as it is sent; amounts are canonical texts."""

    profile: Profile
    group: str
    total: dict[str, str]
    unit: dict[str, str]


class RollupBuilder:
    """Collects the contributions of one roll-up."""

    def __init__(self) -> None:
        self._counts: dict[Row, dict[Amounts, int]] = {}
        self.requests = 0

    def add(self, contribution: Contribution) -> None:
        """Count one request."""
        self.requests += 1
        counts = self._counts.setdefault(contribution.row, {})
        counts[contribution.amounts] = counts.get(contribution.amounts, 0) + 1

    def __len__(self) -> int:
        """How many rows there are."""
        return len(self._counts)

    def rows(self) -> Iterator[RollupRow]:
        """Give the rows, most urgent first; equal demand gives equal rows in equal order."""
        for row in sorted(self._counts, key=_order):
            yield _added_up(row, self._counts[row])


def _order(row: Row) -> tuple[int, str, str]:
    return -row.profile.priority, row.profile.fingerprint, row.group


def _added_up(row: Row, counts: dict[Amounts, int]) -> RollupRow:
    totals: dict[str, int] = {}
    units: dict[str, int] = {}
    decimal: set[str] = set()  # dimensions with a summand that was not written in binary units
    for amounts, count in counts.items():
        for name, nano, binary in amounts.entries:
            totals[name] = totals.get(name, 0) + nano * count
            units[name] = max(units.get(name, 0), nano)
            if not binary:
                decimal.add(name)
    return RollupRow(
        row.profile,
        row.group,
        {name: canonical_text(totals[name], binary=name not in decimal) for name in sorted(totals)},
        {name: canonical_text(units[name], binary=name not in decimal) for name in sorted(units)},
    )
