"""Capacity hints: how many machines each cluster could get for each profile it asks for.

Why: operators show hints to people; a hint promises and reserves nothing.
Must never: repeat a cluster's last hint, send hints more often than the interval allows, or remember a hint for a profile
that is not asked for any more.
Rules: `shard#hints`. A change inside the interval is not queued; a later cycle looks again.
"""

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from bigfleet.model.demand import ClusterNeeds
from bigfleet.model.frozen_map import NO_TEXTS, FrozenMap
from bigfleet.model.inventory import InventorySnapshot
from bigfleet.model.machine import MachineState
from bigfleet.model.profile import Profile
from bigfleet.model.quantity import parse_amount

PER_SECOND = 200
"""Changed hints that a shard sends per second on average."""
BURST = 2000
"""Changed hints that it sends at once after a quiet period."""

PROFILES = 10_000
"""Profiles of a cluster that get hints, the first of its roll-up: people read none of the others."""


class Confidence(IntEnum):
    """How likely it is that there is capacity; the numbers are those of the wire."""

    NONE = 1
    MEDIUM = 3
    HIGH = 4


@dataclass(frozen=True, slots=True)
class Hint:
    """The capacity for one profile."""

    count: int
    confidence: Confidence
    cost_per_hour: float
    resources: FrozenMap[str] = NO_TEXTS
    """What each of the counted machines offers at least; empty if none is counted."""


@dataclass(frozen=True, slots=True)
class _FreeType:
    """The free machines of one instance type."""

    idle: int
    speculative: int
    cheapest: float | None
    sizes: frozenset[FrozenMap[str]]


_NO_MACHINES = _FreeType(0, 0, None, frozenset())


class FreeSupply:
    """Idle and Speculative machines of one snapshot by instance type, and the cheapest Idle one of each."""

    def __init__(self, snapshot: InventorySnapshot) -> None:
        columns, shapes = snapshot.columns, snapshot.shapes
        count = len(shapes)
        state, shape = columns["state"], columns["shape"]
        idle = np.bincount(shape[state == MachineState.IDLE], minlength=count)
        speculative = np.bincount(shape[state == MachineState.SPECULATIVE], minlength=count)
        self.idle, self.speculative = int(idle.sum()), int(speculative.sum())
        self._by_type: dict[str, _FreeType] = {}
        for number in np.flatnonzero(idle + speculative).tolist():
            kind = shapes[number]
            had = self._by_type.get(kind.instance_type, _NO_MACHINES)
            cheapest, size = had.cheapest, kind.allocatable or kind.resources
            if idle[number]:
                price = kind.price_per_hour
                cheapest = price if cheapest is None else min(cheapest, price)
            self._by_type[kind.instance_type] = _FreeType(
                had.idle + int(idle[number]),
                had.speculative + int(speculative[number]),
                cheapest,
                had.sizes if size in had.sizes else had.sizes | {size},
            )
        self._hints: dict[tuple[str, ...], Hint] = {}

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, FreeSupply):
            return NotImplemented
        return self._by_type == other._by_type

    __hash__ = None  # type: ignore[assignment]  # compared, never kept in a set

    def hint(self, profile: Profile) -> Hint:
        """The hint for a profile; of its requirements only the instance type counts."""
        pinned = profile.pinned_types
        sent = self._hints.get(pinned)
        if sent is None:
            sent = self._hints[pinned] = self._of_types(pinned) if pinned else self._of_all()
        return sent

    def _of_types(self, types: tuple[str, ...]) -> Hint:
        found = [self._by_type[name] for name in types if name in self._by_type]
        prices = [row.cheapest for row in found if row.cheapest is not None]
        return _hint(found, min(prices, default=0.0))

    def _of_all(self) -> Hint:
        return _hint(list(self._by_type.values()), 0.0)


def _hint(found: Sequence[_FreeType], cost: float) -> Hint:
    idle, speculative = sum(row.idle for row in found), sum(row.speculative for row in found)
    confidence = Confidence.HIGH if idle else Confidence.MEDIUM if speculative else Confidence.NONE
    return Hint(
        idle + speculative, confidence, cost, _at_least([size for row in found for size in row.sizes])
    )


def _at_least(sizes: Sequence[FrozenMap[str]]) -> FrozenMap[str]:
    """Return the smallest amount of each resource that all sizes name, worded as the provider worded it."""
    if not sizes:
        return NO_TEXTS
    named = sorted(set.intersection(*(set(size) for size in sizes)))
    return FrozenMap(
        {name: min((parse_amount(size[name], name), size[name]) for size in sizes)[1] for name in named}
    )


@dataclass(slots=True)
class _Sent:
    """The last hints of one cluster, and the demand and supply they were made from."""

    part: ClusterNeeds
    profiles: tuple[Profile, ...]
    last: dict[str, tuple[Hint, float]]
    supply: FreeSupply | None = None
    """The supply whose hints were all sent; None while a hint waits for its interval."""


class HintLedger:
    """The hints sent to each cluster; forgotten when its session ends."""

    def __init__(self, interval_s: float) -> None:
        self._interval_s = interval_s
        self._clusters: dict[str, _Sent] = {}
        self._supply: FreeSupply | None = None
        self._budget, self._asked_at = float(BURST), 0.0
        self._next = ""  # the cluster that comes first next time

    def forget(self, cluster: str) -> None:
        """The cluster's operator disconnected; the next one gets every hint."""
        self._clusters.pop(cluster, None)

    def due(
        self,
        supply: FreeSupply,
        demand: Mapping[str, ClusterNeeds],
        sessions: Sequence[str],
        now: float,
    ) -> Iterator[tuple[str, Profile, Hint]]:
        """The hints to send now; a yielded hint counts as sent. `sessions` are in text order.

        Changes have a budget and clusters take turns, since one machine may change the hints of thousands of clusters
        (ADR-0112). The first hint for a profile needs no budget.
        """
        if self._supply is not None and self._supply == supply:
            supply = self._supply  # one object for equal supplies, so that clusters compare by identity
        self._supply = supply
        self._budget = min(BURST, self._budget + PER_SECOND * max(0.0, now - self._asked_at))
        self._asked_at = now
        first = bisect_left(sessions, self._next)
        spent_at = ""
        for cluster in (*sessions[first:], *sessions[:first]):
            part = demand.get(cluster)
            if part is None:
                self._clusters.pop(cluster, None)
                continue
            sent = self._clusters.get(cluster)
            if sent is None or sent.part is not part:
                profiles = _hinted(part)
                before = {} if sent is None else sent.last
                last = {name: before[name] for name in profiles if name in before}
                sent = self._clusters[cluster] = _Sent(part, tuple(profiles.values()), last)
            elif sent.supply is supply or self._budget < 1:
                if sent.supply is not supply:
                    spent_at = spent_at or cluster
                continue
            yield from self._of_cluster(cluster, sent, supply, now)
        self._next = spent_at

    def remembered(self, cluster: str) -> int:
        """How many hints to a cluster are remembered."""
        sent = self._clusters.get(cluster)
        return 0 if sent is None else len(sent.last)

    def _of_cluster(
        self, cluster: str, sent: _Sent, supply: FreeSupply, now: float
    ) -> Iterator[tuple[str, Profile, Hint]]:
        waiting = False
        for profile in sent.profiles:
            hint, before = supply.hint(profile), sent.last.get(profile.fingerprint)
            if before is not None:
                if before[0] == hint:
                    continue
                if now - before[1] < self._interval_s or self._budget < 1:
                    waiting = True
                    continue
                self._budget -= 1
            sent.last[profile.fingerprint] = (hint, now)
            yield cluster, profile, hint
        sent.supply = None if waiting else supply


def _hinted(part: ClusterNeeds) -> dict[str, Profile]:
    """The profiles of a cluster that get hints, by fingerprint."""
    profiles: dict[str, Profile] = {}
    for need in part.rows:
        profiles[need.profile.fingerprint] = need.profile
        if len(profiles) == PROFILES:
            break
    return profiles
