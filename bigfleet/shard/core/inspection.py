"""The needs of a cycle as inspection shows them: which rows, in which order, with which ages.

Why: the verdicts stand in the engine's order, in which folded needs come last; readers are promised another one. And of
tens of thousands of needs a reader looks at a page, so a row is made when somebody looks at it.
Called by: `bigfleet.shard.need_frames`, off the event loop.
Must never: look at machines, or at anything a later cycle changes.
Rules: wire 6.1 (row order), shard 19 (joins), dashboard 9 (what an answer may cost).
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

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


@dataclass(frozen=True, slots=True)
class NeedsFound:
    """The needs that pass a filter, by their places among the rows of the cycle, and what can be counted of them."""

    rows: Sequence[int]
    short: int
    parked: int
    before_first_short: int
    by_reason: Mapping[str, int] = field(default_factory=dict)


class _Ordered:
    """What holds for as long as nothing is decided anew: the needs, their order, and which of them are short."""

    def __init__(self, decision: Decision) -> None:
        self.decision = decision
        verdicts = decision.verdicts
        self.needs: Sequence[Need] = needs_of(verdicts)
        self.places: list[int] = sorted(range(len(self.needs)), key=self._key)
        self.left: Mapping[int, Unresolved] = {item.need: item for item in decision.unresolved}
        self.short: list[int] = self._rows(short_places(verdicts))
        self.parked: list[int] = self._rows(parked_places(verdicts))

    def _key(self, place: int) -> tuple[int, int, str, str, str]:
        need = self.needs[place]
        return (-need.profile.priority, need.arrival_ns, need.cluster, need.profile.fingerprint, need.group)

    def _rows(self, places: Sequence[int]) -> list[int]:
        wanted = frozenset(places)
        return [row for row, place in enumerate(self.places) if place in wanted] if wanted else []


class NeedRows:
    """All rows of a cycle: by priority descending, arrival, cluster, fingerprint, group; each made when looked at."""

    def __init__(self, view: CycleView, before: "NeedRows | None" = None) -> None:
        """`before` are the rows of an earlier cycle; if nothing was decided anew since, their order still holds."""
        self.view: CycleView = view
        kept: _Ordered | None = None if before is None else before._ordered
        self._ordered: _Ordered = (
            kept if kept is not None and kept.decision is view.decision else _Ordered(view.decision)
        )

    def __len__(self) -> int:
        return len(self._ordered.places)

    def __iter__(self) -> Iterator[NeedRow]:
        return map(self.__getitem__, range(len(self)))

    def __getitem__(self, row: int) -> NeedRow:
        view, place = self.view, self._ordered.places[row]
        verdict, unresolved = view.decision.verdicts[place], self._ordered.left.get(place)
        need = verdict.need
        fingerprint = need.profile.fingerprint
        age = 0 if unresolved is None else view.unmet_ages.get(fingerprint, 0)
        gang = GangRef(need.cluster, need.group, fingerprint)
        return NeedRow(verdict, unresolved, age, view.parked_ages.get(gang, 0) if verdict.parked else 0)

    @property
    def short(self) -> Sequence[int]:
        """The rows of needs that are not covered, in order; no verdict is made for that."""
        return self._ordered.short

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
        short = [row for row in self.short if every or row in passing]
        parked = sum(1 for row in self._ordered.parked if every or row in passing)
        before = bisect_left(rows, short[0]) if short else len(rows)
        reasons = Counter(self._verdict(row).reason.value for row in short)
        return NeedsFound(rows, len(short), parked, before, dict(sorted(reasons.items())))

    def _of_status(self, query: NeedQuery) -> Sequence[int]:
        # Whoever asks for a reason asks for needs that are short.
        if query.status is NeedStatus.SHORT or (query.reasons and query.status is NeedStatus.ANY):
            return self.short
        if query.status is NeedStatus.PARKED:
            return self._ordered.parked
        if query.status is NeedStatus.SATISFIED:
            short = frozenset(self.short)
            return [row for row in range(len(self)) if row not in short]
        return range(len(self))

    def _need(self, row: int) -> Need:
        return self._ordered.needs[self._ordered.places[row]]

    def _verdict(self, row: int) -> Verdict:
        return self.view.decision.verdicts[self._ordered.places[row]]


def _holds(need: Need, text: str) -> bool:
    return text in need.profile.fingerprint or text in need.group


def _reason(text: str) -> Reason:
    for reason in _REASONS:
        if reason.value == text:
            return reason
    raise InvalidFieldError("reasons", text[:80], f"one of {', '.join(_REASONS)}")
