"""What each cluster is told could be had for what it asks for.

Why: operators show it to people; it promises and reserves nothing.
Must never: repeat what a cluster was told last, or tell it more often than the interval allows.
Rules: shard 18. A change inside the interval is not queued; a later cycle looks again.
"""

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from bigfleet.model.demand import ClusterNeeds
from bigfleet.model.inventory import InventorySnapshot
from bigfleet.model.machine import MachineState
from bigfleet.model.profile import Profile

PER_SECOND = 200
"""Changed hints that a shard sends per second on average."""
BURST = 2000
"""Changed hints that it sends at once after a while of saying nothing."""


class Confidence(IntEnum):
    """How sure it is that there is something; the numbers are the wire's."""

    NONE = 1
    MEDIUM = 3
    HIGH = 4


@dataclass(frozen=True, slots=True)
class Hint:
    """What could be had for one profile."""

    count: int
    confidence: Confidence
    cost_per_hour: float


class FreeSupply:
    """Idle and Speculative machines of one snapshot by instance type, and the cheapest Idle one of each."""

    def __init__(self, snapshot: InventorySnapshot) -> None:
        columns, shapes = snapshot.columns, snapshot.shapes
        count = len(shapes)
        state, shape = columns["state"], columns["shape"]
        idle = np.bincount(shape[state == MachineState.IDLE], minlength=count)
        speculative = np.bincount(shape[state == MachineState.SPECULATIVE], minlength=count)
        self.idle, self.speculative = int(idle.sum()), int(speculative.sum())
        self._by_type: dict[str, tuple[int, int, float | None]] = {}
        for number in np.flatnonzero(idle + speculative).tolist():
            kind = shapes[number]
            had_idle, had_speculative, cheapest = self._by_type.get(kind.instance_type, (0, 0, None))
            if idle[number]:
                price = kind.price_per_hour
                cheapest = price if cheapest is None else min(cheapest, price)
            self._by_type[kind.instance_type] = (
                had_idle + int(idle[number]),
                had_speculative + int(speculative[number]),
                cheapest,
            )
        self._told: dict[tuple[str, ...], Hint] = {}

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, FreeSupply):
            return NotImplemented
        return self._by_type == other._by_type

    __hash__ = None  # type: ignore[assignment]  # compared, never kept in a set

    def hint(self, profile: Profile) -> Hint:
        """What could be had for a profile; requirements other than on the type are not looked at."""
        pinned = profile.pinned_types
        told = self._told.get(pinned)
        if told is None:
            told = self._told[pinned] = self._of_types(pinned) if pinned else self._of_all()
        return told

    def _of_types(self, types: tuple[str, ...]) -> Hint:
        found = [self._by_type[name] for name in types if name in self._by_type]
        prices = [cheapest for _, _, cheapest in found if cheapest is not None]
        return _hint(sum(row[0] for row in found), sum(row[1] for row in found), min(prices, default=0.0))

    def _of_all(self) -> Hint:
        return _hint(self.idle, self.speculative, 0.0)


def _hint(idle: int, speculative: int, cost: float) -> Hint:
    confidence = Confidence.HIGH if idle else Confidence.MEDIUM if speculative else Confidence.NONE
    return Hint(idle + speculative, confidence, cost)


@dataclass(slots=True)
class _Told:
    """What one cluster was told, and on what grounds."""

    part: ClusterNeeds
    profiles: tuple[Profile, ...]
    last: dict[str, tuple[Hint, float]]
    supply: FreeSupply | None = None
    """The supply for which nothing was left to tell; None while something waits for its interval."""


class HintBook:
    """What was told to whom; forgotten per cluster when its session ends."""

    def __init__(self, interval_s: float) -> None:
        self._interval_s = interval_s
        self._clusters: dict[str, _Told] = {}
        self._supply: FreeSupply | None = None
        self._budget, self._asked_at = float(BURST), 0.0
        self._next = ""  # the cluster whose turn it is

    def forget(self, cluster: str) -> None:
        """The cluster's operator went; the next one is told everything anew."""
        self._clusters.pop(cluster, None)

    def due(
        self,
        supply: FreeSupply,
        demand: Mapping[str, ClusterNeeds],
        sessions: Sequence[str],
        now: float,
    ) -> Iterator[tuple[str, Profile, Hint]]:
        """Everything to be told now; what is yielded counts as told. `sessions` are in text order.

        Changes have a budget and clusters take turns, as one machine may change what thousands of clusters were told
        (ADR-0112). What a cluster hears for the first time is told at once.
        """
        if self._supply is not None and self._supply == supply:
            supply = self._supply  # the same object for the same supply, so that clusters compare by identity
        self._supply = supply
        self._budget = min(BURST, self._budget + PER_SECOND * max(0.0, now - self._asked_at))
        self._asked_at = now
        first = bisect_left(sessions, self._next)
        spent_at = ""
        for cluster in (*sessions[first:], *sessions[:first]):
            part = demand.get(cluster)
            if part is None:
                continue
            told = self._clusters.get(cluster)
            if told is None or told.part is not part:
                profiles = {need.profile.fingerprint: need.profile for need in part.rows}
                last = {} if told is None else told.last
                told = self._clusters[cluster] = _Told(part, tuple(profiles.values()), last)
            elif told.supply is supply or self._budget < 1:
                if told.supply is not supply:
                    spent_at = spent_at or cluster
                continue
            yield from self._of_cluster(cluster, told, supply, now)
        self._next = spent_at

    def _of_cluster(
        self, cluster: str, told: _Told, supply: FreeSupply, now: float
    ) -> Iterator[tuple[str, Profile, Hint]]:
        waiting = False
        for profile in told.profiles:
            hint, before = supply.hint(profile), told.last.get(profile.fingerprint)
            if before is not None:
                if before[0] == hint:
                    continue
                if now - before[1] < self._interval_s or self._budget < 1:
                    waiting = True
                    continue
                self._budget -= 1
            told.last[profile.fingerprint] = (hint, now)
            yield cluster, profile, hint
        told.supply = None if waiting else supply
