"""A page of needs: filtered, cut, with counts over the whole list.

Why: our shards filter and cut themselves. A shard of the original sends every row, so this module does the same for it.
Must never: count a row that does not pass the filter.
Rules: `dashboard#page-contents`, `dashboard#original-fleet`; ADR-0160.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

TableRow = Mapping[str, Any]  # a need in the form of `/needs`


@dataclass(frozen=True, slots=True)
class NeedListQuery:
    """Which needs to list; an empty field does not filter."""

    cluster: str = ""
    status: str = ""
    reason: str = ""
    text: str = ""
    first: int = 0
    """How many rows to skip."""
    size: int = 0
    """How many rows at most; 0 is all."""
    grouped: bool = False
    """Whether to list the needs of one profile together, at the position of the first."""


@dataclass(frozen=True, slots=True)
class NeedListGroup:
    """Needs of one profile, listed together; positions and counts refer to the whole list."""

    fingerprint: str
    first: int
    needs: int
    short: int
    before_first_short: int
    """Number of rows before the first of the group that is short; `first + needs` when none is."""


@dataclass(frozen=True, slots=True)
class NeedList:
    """Rows of one page in order of precedence, and counts over all pages."""

    cycle: int
    computed_at_ns: int
    needs: int
    """Needs of the shard, whether they pass the filter or not."""
    total: int
    """Needs that pass."""
    short: int
    before_first_short: int
    """How many that pass come before the first that is short: where supply ended."""
    rows: Sequence[TableRow]
    groups: Sequence[NeedListGroup] = ()
    """Groups with a row in `rows`, if the query wants groups."""


def listed(rows: Sequence[TableRow], query: NeedListQuery, cycle: int, computed_at_ns: int) -> NeedList:
    """Return the list that a query asks for from all rows of a shard."""
    found = [row for row in rows if _passes(row, query)]
    if query.grouped:
        first: dict[str, int] = {}
        for place, row in enumerate(found):
            first.setdefault(row["profileFingerprint"], place)
        found.sort(key=lambda row: first[row["profileFingerprint"]])
    short = [place for place, row in enumerate(found) if not row["satisfied"]]
    last = query.first + query.size if query.size else None
    return NeedList(
        cycle=cycle,
        computed_at_ns=computed_at_ns,
        needs=len(rows),
        total=len(found),
        short=len(short),
        before_first_short=short[0] if short else len(found),
        rows=found[query.first : last],
        groups=_groups(found, query.first, len(found) if last is None else last) if query.grouped else (),
    )


def _groups(found: Sequence[TableRow], first: int, last: int) -> list[NeedListGroup]:
    groups, place = list[NeedListGroup](), 0
    for fingerprint, members in groupby(found, key=lambda row: str(row["profileFingerprint"])):
        satisfied = [bool(row["satisfied"]) for row in members]
        begin, place = place, place + len(satisfied)
        if begin < last and place > first:
            before = begin + satisfied.index(False) if False in satisfied else place
            groups.append(NeedListGroup(fingerprint, begin, len(satisfied), satisfied.count(False), before))
    return groups


def _passes(row: TableRow, query: NeedListQuery) -> bool:
    if query.cluster and row["clusterId"] != query.cluster:
        return False
    if query.status == "short" and row["satisfied"]:
        return False
    if query.status == "satisfied" and not row["satisfied"]:
        return False
    if query.status == "parked" and not row["acquisitionParked"]:
        return False
    if query.reason and (row["satisfied"] or row["unmetReason"] != query.reason):
        return False
    return not query.text or query.text in row["profileFingerprint"] or query.text in row["group"]
