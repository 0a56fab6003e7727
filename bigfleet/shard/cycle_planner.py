"""The computation of a cycle, run in a worker thread: the decision, the hints, the counts for gauges.

Why: at half a million machines it would block the event loop for too long, and it needs only immutable values.
Must never: touch anything that the event loop changes meanwhile.
Rules: `shard#cycle-order`, `shard#never-waits`.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from bigfleet.aio.clock import Clock, monotonic_s
from bigfleet.engine.planner import Planner
from bigfleet.model.buckets import PenaltyBucket, bucket_of, label_of
from bigfleet.model.decision import Decision
from bigfleet.model.demand import Demand
from bigfleet.model.inventory import InventorySnapshot
from bigfleet.model.machine import CapacityType, MachineState
from bigfleet.model.profile import Profile
from bigfleet.model.situation import GangRef, IdleHolds
from bigfleet.shard.core.hints import FreeSupply, Hint, HintLedger

UNSPECIFIED_TYPE = "CapacityType(0)"
"""The label that existing dashboards use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CycleInput:
    """Everything that one cycle decides on."""

    snapshot: InventorySnapshot
    """The machines to decide on."""
    inventory: InventorySnapshot
    """All machines; the same object if none is left out."""
    demand: Demand
    parked: frozenset[GangRef]
    reported: frozenset[str]
    holds: IdleHolds
    now: float
    sessions: tuple[str, ...]
    left: frozenset[str]
    """Clusters whose session ended since the last cycle; they get every hint again."""


@dataclass(slots=True)
class CyclePlan:
    """What one cycle decided."""

    decision: Decision
    hints: list[tuple[str, Profile, Hint]]
    inventory: dict[tuple[str, str, str], int]
    """Machine counts by the labels of the inventory gauge."""
    phases_s: dict[str, float] = field(default_factory=dict)


class CyclePlanner:
    """Plans one cycle after another, and keeps what can be reused between them."""

    def __init__(self, clock: Clock, hint_interval_s: float) -> None:
        self._clock = clock
        self._planner = Planner(phase_ended=self._ended)
        self._hints = HintLedger(hint_interval_s)
        self._began_s = 0.0
        self._phases_s: dict[str, float] = {}
        self._counted: tuple[InventorySnapshot, dict[tuple[str, str, str], int]] | None = None

    def plan(self, given: CycleInput) -> CyclePlan:
        """Decide, and collect the hints to send."""
        self._phases_s = {}
        self._began_s = monotonic_s(self._clock)
        decision = self._planner.decide(
            given.snapshot,
            given.demand,
            parked=given.parked,
            reported_clusters=given.reported,
            holds=given.holds,
            now=given.now,
        )
        for cluster in sorted(given.left):
            self._hints.forget(cluster)
        supply = FreeSupply(given.snapshot)
        hints = list(self._hints.due(supply, given.demand.by_cluster, given.sessions, given.now))
        return CyclePlan(decision, hints, self._inventory(given.inventory), self._phases_s)

    def _ended(self, phase: str) -> None:
        now_s = monotonic_s(self._clock)
        self._phases_s[phase] = now_s - self._began_s
        self._began_s = now_s

    def _inventory(self, snapshot: InventorySnapshot) -> dict[tuple[str, str, str], int]:
        if self._counted is None or self._counted[0] is not snapshot:
            self._counted = (snapshot, inventory_counts(snapshot))
        return self._counted[1]


def inventory_counts(snapshot: InventorySnapshot) -> dict[tuple[str, str, str], int]:
    """Machine counts by state, capacity type and bucket of the assigned interruption penalty."""
    columns, rows = snapshot.columns, snapshot.id_order
    types = _table(len(snapshot.shapes), lambda number: int(snapshot.shapes[number].capacity_type))
    penalties = [
        snapshot.assignments[number].interruption_penalty for number in range(len(snapshot.assignments))
    ]
    buckets = _table(len(penalties), lambda number: int(bucket_of(penalties[number])))
    kinds, sizes = len(CapacityType), int(buckets.max(initial=0)) + 1
    state = columns["state"][rows].astype(np.int64)
    combined = (state * kinds + types[columns["shape"][rows]]) * sizes + buckets[columns["assignment"][rows]]
    counts = np.bincount(combined)
    found: dict[tuple[str, str, str], int] = {}
    for number in np.flatnonzero(counts).tolist():
        rest, bucket = divmod(number, sizes)
        state_number, type_number = divmod(rest, kinds)
        kind = CapacityType(type_number)
        name = UNSPECIFIED_TYPE if kind is CapacityType.UNSPECIFIED else kind.label
        key = (MachineState(state_number).label, name, label_of(PenaltyBucket(bucket)))
        found[key] = found.get(key, 0) + int(counts[number])
    return found


def _table(size: int, value: Callable[[int], int]) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
    return np.fromiter((value(number) for number in range(size)), dtype=np.int64, count=size)


def configured_by_cluster(snapshot: InventorySnapshot) -> Callable[[str], int]:
    """A function that returns how many Configured machines a cluster has; the count is made on the first call."""
    counts: list[int] = []

    def configured(cluster: str) -> int:
        if not counts:
            columns = snapshot.columns
            rows = columns["cluster"][columns["state"] == MachineState.CONFIGURED]
            counts.extend(np.bincount(rows, minlength=1).tolist())
        number = snapshot.clusters.number(cluster)
        return 0 if number is None or number >= len(counts) else counts[number]

    return configured
