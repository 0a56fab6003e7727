"""How the needs that are short fared in the last cycles.

Why: tens of thousands of needs can be short for hundreds of cycles. What is kept per need is when its verdict changed, so a
need costs the same however long it is short, and the same objects stay from cycle to cycle.
Must never: remember a need that is not asked for any more, or grow without bound while needs are.
Rules: `dashboard#explain-history`, `shard#memory`.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from bigfleet.model.demand import ClusterNeeds, Demand
from bigfleet.model.machine import NeedRef
from bigfleet.model.need import Need

HISTORY: Final = 100
"""The cycles that a history covers."""
NEEDS_KEPT: Final = 200_000
"""Needs with a history, at about two hundred bytes each."""
CHANGES_KEPT: Final = 32
"""Changes of one need's verdict."""
SATISFIED: Final = "SATISFIED"

_Key = tuple[str, str]
"""Fingerprint and group of a need, in the order of `NeedRef`."""
_Change = tuple[int, str]
"""The first cycle with a verdict, and that verdict."""
_Changes = tuple[_Change, ...]


@dataclass(frozen=True, slots=True)
class PastVerdict:
    """The verdict on a need in one cycle: SATISFIED, or the reason why it was short."""

    cycle: int
    reason: str


class ShortHistory:
    """The needs of each cluster that were short lately. One thread adds, any may read."""

    def __init__(self) -> None:
        self._cycles: deque[int] = deque(maxlen=HISTORY)
        self._kept: dict[str, dict[_Key, _Changes]] = {}
        self._parts: dict[str, ClusterNeeds] = {}

    def __len__(self) -> int:
        return sum(map(len, self._kept.values()))

    def add(self, cycle: int, demand: Demand, short: Iterable[tuple[Need, str]]) -> None:
        """Add the verdicts of a cycle; of two reasons for one need the first counts."""
        self._cycles.append(cycle)
        reasons: dict[str, dict[_Key, str]] = {}
        for need, reason in short:
            of_cluster = reasons.setdefault(need.cluster, {})
            of_cluster.setdefault((need.profile.fingerprint, need.group), reason)
        self._follow(cycle, demand, reasons)
        self._begin(cycle, reasons)
        self._parts = {name: demand.by_cluster[name] for name in self._kept if name in demand.by_cluster}

    def _follow(self, cycle: int, demand: Demand, reasons: Mapping[str, Mapping[_Key, str]]) -> None:
        """Add this cycle to the needs that have a history, and forget those that are withdrawn or long satisfied."""
        step = _Step(cycle, self._cycles[0])
        for name, kept in list(self._kept.items()):
            part = demand.by_cluster.get(name)
            if part is not self._parts.get(name):
                asked = _keys_of(part)
                kept = {key: changes for key, changes in kept.items() if key in asked}  # noqa: PLW2901  narrowed
            now = reasons.get(name, {})
            after = {key: step.added(changes, now.get(key, SATISFIED)) for key, changes in kept.items()}
            after = {key: changes for key, changes in after.items() if changes}
            if after:
                self._kept[name] = after
            else:
                del self._kept[name]

    def _begin(self, cycle: int, reasons: Mapping[str, Mapping[_Key, str]]) -> None:
        room = NEEDS_KEPT - len(self)
        begun: dict[str, _Changes] = {}  # one object for all that begin alike
        for name, now in reasons.items():
            kept = self._kept.get(name, {})
            came = [key for key in now if key not in kept][: max(0, room)]
            room -= len(came)
            if came:
                new = {key: begun.setdefault(now[key], ((cycle, now[key]),)) for key in came}
                self._kept[name] = kept | new

    def of(self, need: NeedRef) -> tuple[PastVerdict, ...]:
        """The verdicts on a need, oldest cycle first, beginning with the first cycle in which it was short."""
        changes = self._kept.get(need.cluster, {}).get((need.fingerprint, need.group), ())
        past = []
        for cycle in tuple(self._cycles):
            reason = next((reason for first, reason in reversed(changes) if first <= cycle), None)
            if reason is not None:
                past.append(PastVerdict(cycle, reason))
        return tuple(past)


class _Step:
    """Adds one cycle to histories; needs that changed alike share what comes out."""

    def __init__(self, cycle: int, oldest: int) -> None:
        self._cycle, self._oldest = cycle, oldest
        self._made: dict[tuple[_Changes, str], _Changes] = {}
        self._change: dict[str, _Change] = {}

    def added(self, changes: _Changes, reason: str) -> _Changes:
        """The history with this cycle in it, without what is too old; empty if the need was satisfied all the time."""
        if changes[-1][1] == reason and (len(changes) == 1 or changes[1][0] > self._oldest):
            return changes
        made = self._made.get((changes, reason))
        if made is None:
            made = self._made[changes, reason] = self._add(changes, reason)
        return made

    def _add(self, changes: _Changes, reason: str) -> _Changes:
        if changes[-1][1] != reason:
            changes = (*changes, self._change.setdefault(reason, (self._cycle, reason)))[-CHANGES_KEPT:]
        while len(changes) > 1 and changes[1][0] <= self._oldest:
            changes = changes[1:]
        return changes[1:] if changes[0][1] == SATISFIED else changes


def _keys_of(part: ClusterNeeds | None) -> frozenset[_Key]:
    """What a cluster asks for: its rows, and the needs that its gangs become if they fold."""
    if part is None:
        return frozenset()
    needs = (*part.rows, *(alike.folded for alike in part.gang_classes))
    return frozenset((need.profile.fingerprint, need.group) for need in needs)
