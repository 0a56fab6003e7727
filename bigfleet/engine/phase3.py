"""Phase 3 gives back what no need claimed: Configured machines to the pool, idle bought ones to the provider.

Must never: touch a machine claimed in this cycle, or reclaim from a cluster that has not reported (ADR-0036).
Rules: `engine#phase-3`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from bigfleet.engine.fleet import Fleet
from bigfleet.engine.key_values import Numbers
from bigfleet.model.action import Action, ActionKind
from bigfleet.model.costs import RECLAIM_GRACE_S
from bigfleet.model.decision import LazySequence
from bigfleet.model.inventory.snapshot import Texts
from bigfleet.model.machine import CapacityType, MachineState
from bigfleet.model.situation import IdleHolds


def reclaims(
    fleet: Fleet, excess: Mapping[str, Numbers], reported: frozenset[str] | None
) -> Sequence[Action]:
    """Machines that no need of their cluster holds, by cluster in keep order."""
    clusters = [cluster for cluster in sorted(excess) if reported is None or cluster in reported]
    count = sum(excess[cluster].size for cluster in clusters)
    return LazySequence(partial(_reclaims, fleet.snapshot.ids, excess, clusters), count)


def _reclaims(ids: Texts, excess: Mapping[str, Numbers], clusters: Iterable[str]) -> list[Action]:
    return [
        Action(
            ActionKind.RECLAIM,
            machine_id or "",
            cluster=cluster,
            grace_s=RECLAIM_GRACE_S,
            preemptor_priority=0,
        )
        for cluster in clusters
        for machine_id in ids.many(excess[cluster])
    ]


@dataclass(frozen=True, slots=True)
class Releases:
    """Machines that have idled for too long, and when the next one will have."""

    actions: Sequence[Action]
    next_due: float


def releases(fleet: Fleet, taken: NDArray[np.bool_] | None, holds: IdleHolds, now: float) -> Releases:
    """Idle machines that no need took and whose hold is over, by id."""
    idle = np.flatnonzero(fleet.state == MachineState.IDLE)
    if taken is not None:
        idle = idle[~taken[idle]]
    hold_of = np.array([holds.of(capacity_type) for capacity_type in CapacityType], dtype=float)
    hold = hold_of[fleet.kinds.capacity_type[fleet.kind[idle]]]
    since = fleet.snapshot.columns["idle_since"][idle]
    held = (hold > 0) & ~np.isnan(since)
    idle, hold, since = idle[held], hold[held], since[held]
    over = now - since >= hold
    rows = fleet.by_id(idle[over])
    actions = LazySequence(partial(_deletes, fleet.snapshot.ids, rows), rows.size)
    return Releases(actions, next_due(since[~over], hold[~over]))


def _deletes(ids: Texts, rows: Numbers) -> list[Action]:
    return [Action(ActionKind.DELETE, machine_id or "", grace_s=0) for machine_id in ids.many(rows)]


def next_due(since: NDArray[np.float64], hold: NDArray[np.float64]) -> float:
    """A moment before which no further hold ends.

    What the comparison of `now` with the stamp says at that moment is what counts, so this is earlier by what rounding
    may amount to, and by no more: for the seconds since 1970 that is less than a microsecond.
    """
    rounding = 4 * np.spacing(np.maximum(np.abs(since), hold))
    return float(np.min(since + hold - rounding, initial=np.inf))
