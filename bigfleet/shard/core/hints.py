"""Capacity hints: how many machines each cluster could get for each profile it asks for.

Why: operators show hints to people; a hint promises and reserves nothing.
Must never: repeat a cluster's last hint, or send hints more often than the interval allows.
Rules: `shard#hints`. A change inside the interval is not queued; a later cycle looks again.
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
"""Changed hints that it sends at once after a quiet period."""


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
        prices = [cheapest for _, _, cheapest in found if cheapest is not None]
        return _hint(sum(row[0] for row in found), sum(row[1] for row in found), min(prices, default=0.0))

    def _of_all(self) -> Hint:
        return _hint(self.idle, self.speculative, 0.0)


def _hint(idle: int, speculative: int, cost: float) -> Hint:
    confidence = Confidence.HIGH if idle else Confidence.MEDIUM if speculative else Confidence.NONE
    return Hint(idle + speculative, confidence, cost)


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
                continue
            sent = self._clusters.get(cluster)
            if sent is None or sent.part is not part:
                profiles = {need.profile.fingerprint: need.profile for need in part.rows}
                last = {} if sent is None else sent.last
                sent = self._clusters[cluster] = _Sent(part, tuple(profiles.values()), last)
            elif sent.supply is supply or self._budget < 1:
                if sent.supply is not supply:
                    spent_at = spent_at or cluster
                continue
            yield from self._of_cluster(cluster, sent, supply, now)
        self._next = spent_at

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
