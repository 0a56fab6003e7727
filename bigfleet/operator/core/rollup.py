"""The demand of a cluster, kept up to date request by request: sums and per-resource maxima, in one order.

Why: adding up 50,000 requests for each roll-up takes longer than a change may wait. Here a change costs the same whatever the
number of requests: each row keeps a count per distinct amount vector, because a maximum cannot be subtracted, and only rows
that changed are added up again.
Must never: hold part of the demand of a request, or let the order of requests or of their changes show in the rows.
Rules: `operator#rollup-cadence`, `operator#kept-demand`, `operator#contribution`, `operator#aggregation`, `operator#surplus`,
`operator#left-out-requests`, `wire#need-identity`; ADR-0027, ADR-0039, ADR-0205, ADR-0264.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from heapq import nsmallest
from itertools import islice
from operator import attrgetter, itemgetter
from typing import NamedTuple

from bigfleet.kube.event_reasons import NOT_REPORTED
from bigfleet.kube.resources import ObjectKey
from bigfleet.model.profile import Profile
from bigfleet.model.quantity_text import canonical_text
from bigfleet.model.resources import ZERO, Resources
from bigfleet.operator.core.contribution import Contribution, DemandRow, RequestAmounts, RowOrder
from bigfleet.operator.core.request_status import RequestView


@dataclass(frozen=True, slots=True)
class RollupRow:
    """One row of the roll-up; amounts are canonical texts."""

    profile: Profile
    group: str
    total: dict[str, str]
    unit: dict[str, str]


class SurplusKey(NamedTuple):
    """The pods that a surplus is for: their row, and what the largest of them requests."""

    profile: Profile
    group: str
    unit: Resources
    max_units: int = 0


Surplus = Mapping[SurplusKey, Resources]
"""What is asked for on top of the sum, as pods that are covered by it fit on no node (`operator#surplus`)."""
NO_SURPLUS: Surplus = {}


class Requested(NamedTuple):
    """What the requests of a row ask for, without what is on top of it."""

    total: Resources
    unit: Resources


@dataclass(frozen=True, slots=True)
class _Extra:
    """The surplus of one row."""

    row: DemandRow
    total: Resources
    unit: Resources


class KeptDemand:
    """What all requests add up to, and which of them wait for a status."""

    def __init__(self) -> None:
        self.pending: dict[ObjectKey, RequestView] = {}
        """Requests to acknowledge once a roll-up with them was sent."""
        self.unmarked: dict[ObjectKey, RequestView] = {}
        """Requests that are left out and do not say so yet."""
        self.skipped: dict[str, int] = dict.fromkeys(NOT_REPORTED, 0)
        """How many requests are left out, by reason."""
        self.requested: dict[str, int] = {}
        """What all requests that are not left out add up to, by resource, in units of 10⁻⁹."""
        self._counted: dict[ObjectKey, RequestView] = {}
        self._counts: dict[DemandRow, dict[RequestAmounts, int]] = {}
        self._changed: dict[DemandRow, None] = {}
        self._extras: dict[RowOrder, _Extra] = {}
        self._order: dict[DemandRow, None] = {}
        self._rows_differ = False  # from those in `_order`
        self._touched: dict[DemandRow, None] | None = None

    def __len__(self) -> int:
        """How many rows there are."""
        return len(self._counts) + sum(extra.row.for_fragments for extra in self._extras.values())

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
        return [(row, self.added_up(row)) for row in rows]

    def added_up(self, row: DemandRow) -> RollupRow | None:
        """Return what a row asks for now; None for a row that is gone."""
        extra = self._extras.get(row.order)
        counts = self._counts.get(row)
        if counts is not None:
            return _added_up(row, counts, extra.total if extra is not None else ZERO)
        if extra is None or extra.row is not row:
            return None
        return RollupRow(row.profile, row.group, _texts(extra.total), _texts(extra.unit))

    def take_touched(self) -> list[tuple[DemandRow, Requested | None]]:
        """Return the rows whose requests changed since the last call, None for a row that is gone; all rows at the first."""
        touched = self._counts if self._touched is None else self._touched
        found = [(row, _requested(self._counts[row]) if row in self._counts else None) for row in touched]
        self._touched = {}
        return found

    def put_surplus(self, surplus: Surplus) -> bool:
        """Replace the whole surplus; return whether the demand that is sent changed.

        For a gang it is part of the gang's own row, since its machines share one domain; if the gang is gone, it counts for nothing.
        For all else it is a row for fragments; keys that differ in the unit alone are one row, as requests are.
        """
        before, self._extras = self._extras, _extras_of(surplus, self._extras)
        differing = {
            order for order in (*before, *self._extras) if before.get(order) != self._extras.get(order)
        }
        changed = False
        for order in sorted(differing):
            old, new = before.get(order), self._extras.get(order)
            kept = new or old
            if kept is not None and kept.row.for_fragments:
                self._changed[kept.row] = None
                self._rows_differ |= old is None or new is None
                changed = True
        gangs = [row for row in self._counts if row.order in differing]
        self._changed.update(dict.fromkeys(gangs))
        return changed or bool(gangs)

    def order(self) -> Mapping[DemandRow, None]:
        """Return the rows by falling priority; equal demand gives an equal order. The same object while no row came or went."""
        if self._rows_differ:
            # Nearly sorted already, which is the cheap case of this sort.
            fragments = {extra.row: None for extra in self._extras.values() if extra.row.for_fragments}
            rows = [row for row in self._order if row in self._counts or row in fragments]
            rows += [row for row in (*self._counts, *fragments) if row not in self._order]
            rows.sort(key=attrgetter("order"))
            self._order, self._rows_differ = dict.fromkeys(rows), False
        return self._order

    def requests_of(self, row: DemandRow | None, most: int) -> list[tuple[ObjectKey, RequestView]]:
        """Return so many requests of a row, or of all, by key; of a row for fragments those that it is on top of."""
        wanted = None if row is None else _place_of(row)
        found = (
            (key, view)
            for key, view in self._counted.items()
            if isinstance(view.found, Contribution) and wanted in (None, _place_of(view.found.row, like=row))
        )
        return nsmallest(most, found, key=itemgetter(0))

    def _count(self, view: RequestView, by: int) -> bool:
        """Add or remove a request; return whether that changes the demand."""
        found = view.found
        if not isinstance(found, Contribution):
            self.skipped[found.reason] += by
            return False
        for name, nano, _ in found.amounts.entries:
            self.requested[name] = self.requested.get(name, 0) + nano * by
        self._changed[found.row] = None
        if self._touched is not None:
            self._touched[found.row] = None
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


def _extras_of(surplus: Surplus, before: Mapping[RowOrder, _Extra]) -> dict[RowOrder, _Extra]:
    found: dict[RowOrder, _Extra] = {}
    for key, extra in surplus.items():
        if extra.is_zero:
            continue
        is_gang = key.profile.same_key is not None
        limit = (
            0 if key.unit.is_zero else key.max_units
        )  # a limit on units of nothing would refuse the whole roll-up
        row = DemandRow(key.profile, key.group, limit, for_fragments=not is_gang)
        other = found.get(row.order) or before.get(row.order)
        row = row if other is None else other.row  # one object for equal rows
        added = found.get(row.order, _Extra(row, ZERO, ZERO))
        found[row.order] = _Extra(row, added.total + extra, added.unit.maximum(key.unit))
    return found


def _place_of(row: DemandRow, *, like: DemandRow | None = None) -> tuple[str, str, int]:
    """Return what tells rows of requests apart; a row for fragments is on top of all limits."""
    limit = 0 if (like or row).for_fragments else row.max_units
    return (row.profile.fingerprint, row.group, limit)


def _requested(counts: Mapping[RequestAmounts, int]) -> Requested:
    totals: dict[str, int] = {}
    units: dict[str, int] = {}
    for amounts, count in counts.items():
        for name, nano, _ in amounts.entries:
            totals[name] = totals.get(name, 0) + nano * count
            units[name] = max(units.get(name, 0), nano)
    return Requested(Resources(totals), Resources(units))


def _texts(amounts: Resources) -> dict[str, str]:
    return {name: canonical_text(amount) for name, amount in amounts.items()}


def _added_up(row: DemandRow, counts: Mapping[RequestAmounts, int], extra: Resources) -> RollupRow:
    totals: dict[str, int] = {}
    units: dict[str, int] = {}
    decimal: set[str] = set()  # resources with an amount that was not written in binary units
    for amounts, count in counts.items():
        for name, nano, binary in amounts.entries:
            totals[name] = totals.get(name, 0) + nano * count
            units[name] = max(units.get(name, 0), nano)
            if not binary:
                decimal.add(name)
    for name, nano in extra.items():
        if name not in totals:
            decimal.add(name)
        totals[name] = totals.get(name, 0) + nano
    return RollupRow(
        row.profile,
        row.group,
        {name: canonical_text(totals[name], binary=name not in decimal) for name in sorted(totals)},
        {name: canonical_text(units[name], binary=name not in decimal) for name in sorted(units)},
    )
