"""Adds contributions up to rows of demand: sums and per-resource maxima, in one order.

Why: with shared rows and amounts a roll-up counts pairs and multiplies once per pair, whatever the number of pods.
Must never: send part of the demand, or let the order of requests show in the bytes.
Rules: `operator#rollup-cadence`, `operator#contribution`, `operator#aggregation`, `operator#left-out-requests`,
`wire#need-identity`; ADR-0027, ADR-0039.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from bigfleet.model.profile import Profile
from bigfleet.model.quantity_text import canonical_text
from bigfleet.operator.core.contribution import Contribution, DemandRow, RequestAmounts


@dataclass(frozen=True, slots=True)
class RollupRow:
    """One row of the roll-up; amounts are canonical texts."""

    profile: Profile
    group: str
    total: dict[str, str]
    unit: dict[str, str]


class RollupBuilder:
    """Collects the contributions of one roll-up."""

    def __init__(self) -> None:
        self._counts: dict[DemandRow, dict[RequestAmounts, int]] = {}
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
        """Yield the rows by falling priority; equal demand gives equal rows in equal order."""
        for row in sorted(self._counts, key=_order):
            yield _added_up(row, self._counts[row])


def _order(row: DemandRow) -> tuple[int, str, str]:
    return -row.profile.priority, row.profile.fingerprint, row.group


def _added_up(row: DemandRow, counts: dict[RequestAmounts, int]) -> RollupRow:
    totals: dict[str, int] = {}
    units: dict[str, int] = {}
    decimal: set[str] = set()  # resources with an amount that was not written in binary units
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
