"""The needs of a cycle as inspection shows them: which rows, in which order, with which ages.

Why: the verdicts stand in the engine's order, in which folded needs come last; readers are promised another one. And of
tens of thousands of needs a reader looks at a page, so a row is made when somebody looks at it.
Must never: look at machines, or at anything a later cycle changes.
Rules: wire 6.1 (row order), shard 19 (joins), dashboard 9 (what an answer may cost).
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from weakref import ref

from bigfleet.engine.verdicts import needs_of, parked_places, short_places
from bigfleet.model.decision import Decision, Reason, Unresolved, Verdict
from bigfleet.model.errors import InvalidFieldError
from bigfleet.model.need import Need
from bigfleet.model.situation import GangRef
from bigfleet.shard.core.views import CycleView

_REASONS = tuple(reason for reason in Reason if reason is not Reason.SATISFIED)


@dataclass(frozen=True, slots=True)
class NeedRow:
    """One need with what the ledgers say about it."""

    verdict: Verdict
    unresolved: Unresolved | None
    unmet_age: int
    parked_age: int


class NeedStatus(Enum):
    """How a need fares, as a filter asks."""

    ANY = "any"
    SHORT = "short"
    SATISFIED = "satisfied"
    PARKED = "parked"


@dataclass(frozen=True, slots=True)
class NeedQuery:
    """Which needs; what is empty asks for nothing."""

    clusters: tuple[str, ...] = ()
    status: NeedStatus = NeedStatus.ANY
    reasons: tuple[str, ...] = ()
    text: str = ""
    """Held by the fingerprint or by the gang."""
    grouped: bool = False
    """Whether needs of one profile are to stand together, where the first of them stands."""


@dataclass(frozen=True, slots=True)
class NeedsFound:
    """The needs that pass a filter, by their places among the rows of the cycle, and what can be counted of them."""

    rows: Sequence[int]
    short: int
    parked: int
    before_first_short: int
    by_reason: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NeedGroup:
    """Needs of one profile that stand together among those that pass a filter."""

    fingerprint: str
    first: int
    """How many that pass stand before it."""
    needs: int
    short: int
    before_first_short: int
    """How many that pass stand before the first of it that is short; `first + needs` when none is."""


class _Order:
    """The needs in the order of their rows. It holds for as long as the demand does."""

    def __init__(self, needs: Sequence[Need]) -> None:
        self.needs = needs
        keys = [_key(need) for need in needs]
        self.places: list[int] = sorted(range(len(needs)), key=keys.__getitem__)
        self.row_of: list[int] = [0] * len(needs)
        """For every place in the list of needs its row."""
        for row, place in enumerate(self.places):
            self.row_of[place] = row

    @cached_property
    def profile_rows(self) -> list[int]:
        """For every row the first row of the same profile; a profile has one priority, so precedence holds between groups."""
        first: dict[str, int] = {}
        return [
            first.setdefault(self.needs[place].profile.fingerprint, row)
            for row, place in enumerate(self.places)
        ]

    def holds_for(self, needs: Sequence[Need]) -> bool:
        """Whether these are the same needs; nearly always they are the same objects, too."""
        return len(needs) == len(self.needs) and all(
            one is other or one == other for one, other in zip(needs, self.needs, strict=True)
        )


class Ordered:
    """What holds for as long as nothing is decided anew: the needs, their order, and which of them are short.

    It is kept from one reader to the next and does not keep the decision: that is large, and to give it back takes a
    tenth of a second, which is the cycle's that replaces it and not the next reader's.
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
        self.reasons: Sequence[Reason] = [verdicts[places[row]].reason for row in self.short]
        """Why the needs that are short are so, in their order."""

    def is_of(self, decision: Decision) -> bool:
        """Whether it was this one that was ordered."""
        return self._decision() is decision


def _key(need: Need) -> tuple[int, int, str, str, str]:
    profile = need.profile
    return (-profile.priority, need.arrival_ns, need.cluster, profile.fingerprint, need.group)


class NeedRows:
    """All rows of a cycle: by priority descending, arrival, cluster, fingerprint, group; each made when looked at."""

    def __init__(self, view: CycleView, before: Ordered | None = None) -> None:
        """`before` is of an earlier cycle; if nothing was decided anew since, it still holds."""
        self.view: CycleView = view
        self.ordered: Ordered = (
            before if before is not None and before.is_of(view.decision) else Ordered(view.decision, before)
        )

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
        return NeedRow(verdict, unresolved, age, view.parked_ages.get(gang, 0) if verdict.parked else 0)

    @property
    def short(self) -> Sequence[int]:
        """The rows of needs that are not covered, in order; no verdict is made for that."""
        return self.ordered.short

    def find(self, query: NeedQuery) -> NeedsFound:
        """The rows that pass a filter; an unknown reason is refused by name."""
        rows = self._of_status(query)
        if query.reasons:
            wanted = frozenset(map(_reason, query.reasons))
            rows = [row for row in rows if self._verdict(row).reason in wanted]
        if query.clusters:
            clusters = frozenset(query.clusters)
            rows = [row for row in rows if self._need(row).cluster in clusters]
        if query.text:
            rows = [row for row in rows if _holds(self._need(row), query.text)]
        every = len(rows) == len(self)
        passing: frozenset[int] = frozenset() if every else frozenset(rows)
        short, reasons = self.short, self.ordered.reasons
        parked = self.ordered.parked
        if not every:
            reasons = [reason for row, reason in zip(short, reasons, strict=True) if row in passing]
            short = [row for row in short if row in passing]
            parked = [row for row in parked if row in passing]
        if query.grouped:
            rows = sorted(rows, key=self.ordered.order.profile_rows.__getitem__)
            missing = frozenset(short)
            before = next((place for place, row in enumerate(rows) if row in missing), len(rows))
        else:
            before = bisect_left(rows, short[0]) if short else len(rows)
        by_reason = {reason.value: count for reason, count in sorted(Counter(reasons).items())}
        return NeedsFound(rows, len(short), len(parked), before, by_reason)

    def groups(self, found: NeedsFound, first: int, last: int) -> list[NeedGroup]:
        """The groups of which a page shows a need, each with all of its needs; `found` must have been grouped."""
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
        # Whoever asks for a reason asks for needs that are short.
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

    def _verdict(self, row: int) -> Verdict:
        return self.view.decision.verdicts[self.ordered.order.places[row]]


def _holds(need: Need, text: str) -> bool:
    return text in need.profile.fingerprint or text in need.group


def _reason(text: str) -> Reason:
    for reason in _REASONS:
        if reason.value == text:
            return reason
    raise InvalidFieldError("reasons", text[:80], f"one of {', '.join(_REASONS)}")
