"""The demand of a cluster, kept up to date request by request: sums and per-resource maxima, in one order.

Why: adding up 50,000 requests for each roll-up takes longer than a change may wait. Here a change costs the same whatever the
number of requests: each row keeps a count per distinct amount vector, because a maximum cannot be subtracted, and only rows
that changed are added up again.
Must never: hold part of the demand of a request, or let the order of requests or of their changes show in the rows.
Rules: `operator#rollup-cadence`, `operator#kept-demand`, `operator#contribution`, `operator#aggregation`,
`operator#left-out-requests`, `wire#need-identity`; ADR-0027, ADR-0039, ADR-0205.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from heapq import nsmallest
from itertools import islice
from operator import attrgetter, itemgetter

from bigfleet.kube.event_reasons import NOT_REPORTED
from bigfleet.kube.resources import ObjectKey
from bigfleet.model.profile import Profile
from bigfleet.model.quantity_text import canonical_text
from bigfleet.operator.core.contribution import Contribution, DemandRow, RequestAmounts
from bigfleet.operator.core.request_status import RequestView


@dataclass(frozen=True, slots=True)
class RollupRow:
    """One row of the roll-up; amounts are canonical texts."""

    profile: Profile
    group: str
    total: dict[str, str]
    unit: dict[str, str]


class KeptDemand:
    """What all requests add up to, and which of them wait for a status."""

    def __init__(self) -> None:
        self.pending: dict[ObjectKey, RequestView] = {}
        """Requests to acknowledge once a roll-up with them was sent."""
        self.unmarked: dict[ObjectKey, RequestView] = {}
        """Requests that are left out and do not say so yet."""
        self.skipped: dict[str, int] = dict.fromkeys(NOT_REPORTED, 0)
        """How many requests are left out, by reason."""
        self._counted: dict[ObjectKey, RequestView] = {}
        self._counts: dict[DemandRow, dict[RequestAmounts, int]] = {}
        self._changed: dict[DemandRow, None] = {}
        self._order: dict[DemandRow, None] = {}
        self._rows_differ = False  # from those in `_order`

    def __len__(self) -> int:
        """How many rows there are."""
        return len(self._counts)

    def put(self, key: ObjectKey, view: RequestView | None) -> bool:
        """Count a request as it is now, None if it is gone; return whether the demand that is sent changed.

        What was counted for the key before is remembered here, so repeated, late or merged events do no harm.
        """
        before = self._counted.get(key)
        if before is view:
            return False
        if view is None:
            del self._counted[key]
        else:
            self._counted[key] = view
        _keep(self.pending, key, view if view is not None and view.wants_acknowledgement else None)
        _keep(self.unmarked, key, view if view is not None and view.wants_refusal else None)
        if before is not None and view is not None and _adds_the_same(before, view):
            return before.uid != view.uid
        # The new one first, so that a row does not go and come back.
        added = view is not None and self._count(view, 1)
        removed = before is not None and self._count(before, -1)
        return added or removed

    def take_changed(self, most: int) -> list[tuple[DemandRow, RollupRow | None]]:
        """Return some rows that changed since they were last returned, added up; None for a row that is gone."""
        rows = list(islice(self._changed, most))
        for row in rows:
            del self._changed[row]
        return [(row, _added_up(row, self._counts[row]) if row in self._counts else None) for row in rows]

    def order(self) -> Mapping[DemandRow, None]:
        """Return the rows by falling priority; equal demand gives an equal order. The same object while no row came or went."""
        if self._rows_differ:
            # Nearly sorted already, which is the cheap case of this sort.
            rows = [row for row in self._order if row in self._counts]
            rows += [row for row in self._counts if row not in self._order]
            rows.sort(key=attrgetter("order"))
            self._order, self._rows_differ = dict.fromkeys(rows), False
        return self._order

    def requests_of(self, row: DemandRow | None, most: int) -> list[tuple[ObjectKey, RequestView]]:
        """Return so many requests of a row, or of all, by key."""
        found = (
            (key, view)
            for key, view in self._counted.items()
            if isinstance(view.found, Contribution) and (row is None or view.found.row is row)
        )
        return nsmallest(most, found, key=itemgetter(0))

    def _count(self, view: RequestView, by: int) -> bool:
        """Add or remove a request; return whether that changes the demand."""
        found = view.found
        if not isinstance(found, Contribution):
            self.skipped[found.reason] += by
            return False
        self._changed[found.row] = None
        counts = self._counts.get(found.row)
        if counts is None:
            counts = self._counts[found.row] = {}
            self._rows_differ = True
        left = counts.get(found.amounts, 0) + by
        if left:
            counts[found.amounts] = left
            return True
        del counts[found.amounts]
        if not counts:
            del self._counts[found.row]
            self._rows_differ = True
        return True


def _keep(kept: dict[ObjectKey, RequestView], key: ObjectKey, view: RequestView | None) -> None:
    if view is None:
        kept.pop(key, None)
    else:
        kept[key] = view


def _adds_the_same(before: RequestView, after: RequestView) -> bool:
    one, two = before.found, after.found
    if isinstance(one, Contribution) and isinstance(two, Contribution):
        return one.row is two.row and one.amounts is two.amounts
    return (
        not isinstance(one, Contribution) and not isinstance(two, Contribution) and one.reason == two.reason
    )


def _added_up(row: DemandRow, counts: Mapping[RequestAmounts, int]) -> RollupRow:
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
