"""The needs of a cycle as rows: filtered, in the order of the contract, with their ages.

Why: verdicts are in the engine's order, with folded needs last, while the contract promises readers another one. Of tens
of thousands of needs a reader sees a page, so a row is made on access.
Must never: look at machines, or at anything that a later cycle changes.
Rules: `wire#need-row-order`, `shard#inspection`, `dashboard#budgets`.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from weakref import ref

from bigfleet.engine.verdicts import needs_of, parked_places, short_places
from bigfleet.model.coverage import CoverageSplit
from bigfleet.model.decision import Decision, Reason, Unresolved, Verdict
from bigfleet.model.errors import InvalidFieldError
from bigfleet.model.need import Need
from bigfleet.model.situation import GangRef
from bigfleet.shard.core.coverage import NOT_ACCEPTED, Coverage, held_off_reason
from bigfleet.shard.core.views import CycleView, HoldOff

_REASONS = (
    *(reason.value for reason in Reason if reason is not Reason.SATISFIED),
    *(held_off_reason(reason) for reason in (*HoldOff, NOT_ACCEPTED)),
)


@dataclass(frozen=True, slots=True)
class NeedRow:
    """One need with its ages from the ledgers."""

    verdict: Verdict
    unresolved: Unresolved | None
    unmet_age: int
    parked_age: int
    coverage: CoverageSplit | None = None
    """None where nothing is known beyond the decision."""


class NeedStatus(Enum):
    """The status that a filter asks for."""

    ANY = "any"
    SHORT = "short"
    SATISFIED = "satisfied"
    PARKED = "parked"


@dataclass(frozen=True, slots=True)
class NeedQuery:
    """A filter of needs; empty fields do not filter."""

    clusters: tuple[str, ...] = ()
    status: NeedStatus = NeedStatus.ANY
    reasons: tuple[str, ...] = ()
    text: str = ""
    """Part of the fingerprint or of the gang's name."""
    grouped: bool = False
    """Whether to put needs of one profile together, at the place of the first."""


@dataclass(frozen=True, slots=True)
class NeedsFound:
    """The rows that pass a filter, and their counts."""

    rows: Sequence[int]
    short: int
    parked: int
    before_first_short: int
    by_reason: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NeedGroup:
    """The needs of one profile among those that pass a filter."""

    fingerprint: str
    first: int
    """How many passing needs come before it."""
    needs: int
    short: int
    before_first_short: int
    """How many passing needs come before its first short one; `first + needs` when none is short."""


class _Order:
    """The needs in row order; valid as long as the demand is the same."""

    def __init__(self, needs: Sequence[Need]) -> None:
        self.needs = needs
        keys = [_key(need) for need in needs]
        self.places: list[int] = sorted(range(len(needs)), key=keys.__getitem__)
        self.row_of: list[int] = [0] * len(needs)
        """The row of each place in the list of needs."""
        for row, place in enumerate(self.places):
            self.row_of[place] = row

    @cached_property
    def profile_rows(self) -> list[int]:
        """For every row the first row of the same profile; a profile has one priority, so groups keep precedence."""
        first: dict[str, int] = {}
        return [
            first.setdefault(self.needs[place].profile.fingerprint, row)
            for row, place in enumerate(self.places)
        ]

    def holds_for(self, needs: Sequence[Need]) -> bool:
        """Whether these are the same needs; usually they are the same objects."""
        return len(needs) == len(self.needs) and all(
            one is other or one == other for one, other in zip(needs, self.needs, strict=True)
        )


class Ordered:
    """The row order of one decision, and which rows are short; reused while the decision is the same.

    It does not keep the decision alive: freeing one takes a tenth of a second, which a reader should not pay for.
    """

    def __init__(self, decision: Decision, before: "Ordered | None" = None) -> None:
        self._decision = ref(decision)
        verdicts = decision.verdicts
        needs = needs_of(verdicts)
        kept = None if before is None else before.order
        self.order: _Order = kept if kept is not None and kept.holds_for(needs) else _Order(needs)
        self.left: Mapping[int, Unresolved] = {item.need: item for item in decision.unresolved}
        row_of, places = self.order.row_of, self.order.places
        self.short: list[int] = sorted(row_of[place] for place in short_places(verdicts))
        self.parked: list[int] = sorted(row_of[place] for place in parked_places(verdicts))
        self.reasons: Mapping[int, str] = {row: verdicts[places[row]].reason.value for row in self.short}
        """The reasons of the short rows."""

    def is_of(self, decision: Decision) -> bool:
        """Whether it was made from this decision."""
        return self._decision() is decision


def _key(need: Need) -> tuple[int, int, str, str, str]:
    profile = need.profile
    return (-profile.priority, need.arrival_ns, need.cluster, profile.fingerprint, need.group)


class NeedRows:
    """All rows of a cycle: by priority descending, arrival, cluster, fingerprint, group; each made on access."""

    def __init__(
        self, view: CycleView, before: Ordered | None = None, coverage: Coverage | None = None
    ) -> None:
        """`before` is of an earlier cycle, and reused if the decision is the same; `coverage` is of this cycle."""
        self.view: CycleView = view
        self.ordered: Ordered = (
            before if before is not None and before.is_of(view.decision) else Ordered(view.decision, before)
        )
        self._coverage = coverage
        self.short: Sequence[int] = self.ordered.short
        """The short rows in order: those that the engine left short, and those whose machines do not come."""
        self._reasons: Mapping[int, str] = self.ordered.reasons
        if coverage is not None and coverage.held_short:
            row_of = self.ordered.order.row_of
            held = {row_of[place]: held_off_reason(why) for place, why in coverage.held_short.items()}
            self._reasons = {**self._reasons, **held}
            self.short = sorted(self._reasons)

    def __len__(self) -> int:
        return len(self.ordered.order.places)

    def __iter__(self) -> Iterator[NeedRow]:
        return map(self.__getitem__, range(len(self)))

    def __getitem__(self, row: int) -> NeedRow:
        view, place = self.view, self.ordered.order.places[row]
        verdict, unresolved = view.decision.verdicts[place], self.ordered.left.get(place)
        need = verdict.need
        fingerprint = need.profile.fingerprint
        age = 0 if unresolved is None else view.unmet_ages.get(fingerprint, 0)
        gang = GangRef(need.cluster, need.group, fingerprint)
        parked_age = view.parked_ages.get(gang, 0) if verdict.parked else 0
        split = None if self._coverage is None else self._coverage.of(place)
        return NeedRow(verdict, unresolved, age, parked_age, split)

    def find(self, query: NeedQuery) -> NeedsFound:
        """The rows that pass a filter; an unknown reason is refused by name."""
        rows = self._of_status(query)
        if query.reasons:
            wanted = frozenset(map(_reason, query.reasons))
            rows = [row for row in rows if self._reasons.get(row) in wanted]
        if query.clusters:
            clusters = frozenset(query.clusters)
            rows = [row for row in rows if self._need(row).cluster in clusters]
        if query.text:
            rows = [row for row in rows if _holds(self._need(row), query.text)]
        every = len(rows) == len(self)
        passing: frozenset[int] = frozenset() if every else frozenset(rows)
        short, parked = self.short, self.ordered.parked
        if not every:
            short = [row for row in short if row in passing]
            parked = [row for row in parked if row in passing]
        if query.grouped:
            rows = sorted(rows, key=self.ordered.order.profile_rows.__getitem__)
            missing = frozenset(short)
            before = next((place for place, row in enumerate(rows) if row in missing), len(rows))
        else:
            before = bisect_left(rows, short[0]) if short else len(rows)
        by_reason = dict(sorted(Counter(self._reasons[row] for row in short).items()))
        return NeedsFound(rows, len(short), len(parked), before, by_reason)

    def groups(self, found: NeedsFound, first: int, last: int) -> list[NeedGroup]:
        """The groups with a need on the page, each with all of its needs; `found` must be grouped."""
        rows, profile_rows = found.rows, self.ordered.order.profile_rows
        short = frozenset(self.short)
        while 0 < first < len(rows) and profile_rows[rows[first - 1]] == profile_rows[rows[first]]:
            first -= 1
        groups: list[NeedGroup] = []
        while first < last:
            begin = first
            profile = profile_rows[rows[begin]]
            while first < len(rows) and profile_rows[rows[first]] == profile:
                first += 1
            missing = [place for place in range(begin, first) if rows[place] in short]
            groups.append(
                NeedGroup(
                    self._need(rows[begin]).profile.fingerprint,
                    begin,
                    first - begin,
                    len(missing),
                    missing[0] if missing else first,
                )
            )
        return groups

    def _of_status(self, query: NeedQuery) -> Sequence[int]:
        # Only short needs have a reason.
        if query.status is NeedStatus.SHORT or (query.reasons and query.status is NeedStatus.ANY):
            return self.short
        if query.status is NeedStatus.PARKED:
            return self.ordered.parked
        if query.status is NeedStatus.SATISFIED:
            short = frozenset(self.short)
            return [row for row in range(len(self)) if row not in short]
        return range(len(self))

    def _need(self, row: int) -> Need:
        return self.ordered.order.needs[self.ordered.order.places[row]]


def _holds(need: Need, text: str) -> bool:
    return text in need.profile.fingerprint or text in need.group


def _reason(text: str) -> str:
    if text not in _REASONS:
        raise InvalidFieldError("reasons", text[:80], f"one of {', '.join(_REASONS)}")
    return text
