"""A situation: everything a decision depends on, as plain records.

Why: a decision that can be saved, replayed, explained and changed on paper needs its whole input in one value. A
running shard decides on an inventory snapshot instead, which says the same in columns.
"""

from dataclasses import dataclass, field

from bigfleet.model.machine import CapacityType, Machine
from bigfleet.model.need import Need


@dataclass(frozen=True, slots=True)
class IdleHolds:
    """How long a bought machine may idle before it is given back; 0 means that type is never released."""

    on_demand_s: float = 600.0
    spot_s: float = 60.0

    def of(self, capacity_type: CapacityType) -> float:
        """Seconds for a capacity type, 0 for those that are never released."""
        if capacity_type is CapacityType.ON_DEMAND:
            return self.on_demand_s
        return self.spot_s if capacity_type is CapacityType.SPOT else 0.0


@dataclass(frozen=True, slots=True, order=True)
class GangRef:
    """Which gang is parked."""

    cluster: str
    group: str
    fingerprint: str


@dataclass(frozen=True, slots=True)
class Situation:
    """Machines, demand in list order, and what the caller adds to them."""

    now: float
    machines: tuple[Machine, ...] = ()
    needs: tuple[Need, ...] = ()
    parked: frozenset[GangRef] = frozenset()
    reported_clusters: frozenset[str] | None = None  # None: every cluster has reported
    holds: IdleHolds = field(default_factory=IdleHolds)
