"""The figures of a cycle: machines and cost by state and capacity type, and by cluster.

Must never: look at machines one by one; everything is counted per shape, assignment and cluster.
Rules: `dashboard#answer-short`, `dashboard#answer-stock`, `dashboard#insight-service`.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bigfleet.model.inventory import InventorySnapshot
from bigfleet.model.machine import TRANSITIONS, CapacityType, MachineState
from bigfleet.shard.core.views import CycleView

_IN_USE = (MachineState.CONFIGURING, MachineState.CONFIGURED, MachineState.DRAINING)


@dataclass(frozen=True, slots=True)
class MachineFigure:
    """The machines of one state and capacity type."""

    state: str
    capacity_type: str
    count: int
    price_per_hour: float
    exposure_per_hour: float
    """The expected cost of losing them; machines with an infinite penalty are counted in `pinned_at_risk`."""
    pinned_at_risk: int


def machine_figures(snapshot: InventorySnapshot) -> tuple[MachineFigure, ...]:
    """All combinations that occur, in the order of the lifecycle."""
    rows = snapshot.id_order
    columns = snapshot.columns
    numbers = range(len(snapshot.shapes))
    kinds = np.fromiter((int(snapshot.shapes[n].capacity_type) for n in numbers), np.int64, len(numbers))
    prices = np.fromiter((snapshot.shapes[n].price_per_hour for n in numbers), np.float64, len(numbers))
    risks = np.fromiter(
        (snapshot.shapes[n].interruption_probability for n in numbers), np.float64, len(numbers)
    )
    stamps = range(len(snapshot.assignments))
    penalties = np.fromiter(
        (snapshot.assignments[n].interruption_penalty for n in stamps), np.float64, len(stamps)
    )
    state, shape, stamp = columns["state"][rows], columns["shape"][rows], columns["assignment"][rows]
    pinned = np.isinf(penalties)
    risk, in_use = risks[shape], np.isin(state, _IN_USE)
    exposed = np.where(in_use, risk * np.where(pinned, 0.0, penalties)[stamp], 0.0)
    at_risk = in_use & pinned[stamp] & (risk > 0)
    return tuple(_figures(state, kinds[shape], prices[shape], exposed, at_risk))


def _figures(
    states: NDArray[np.uint8],
    kinds: NDArray[np.int64],
    prices: NDArray[np.float64],
    exposed: NDArray[np.float64],
    at_risk: NDArray[np.bool_],
) -> Iterator[MachineFigure]:
    width = max(int(kind) for kind in CapacityType) + 1
    cell = states.astype(np.int64) * width + kinds
    size = len(MachineState) * width
    counts = np.bincount(cell, minlength=size)
    sums = [np.bincount(cell, weights, size) for weights in (prices, exposed, at_risk)]
    for state in TRANSITIONS:
        for kind in CapacityType:
            at = int(state) * width + int(kind)
            if counts[at]:
                price, exposure, pinned = (float(each[at]) for each in sums)
                yield MachineFigure(
                    state.label,
                    kind.label,
                    int(counts[at]),
                    _cents(price),
                    _cents(exposure),
                    int(pinned),
                )


def _cents(dollars: float) -> float:
    """Rounded, since the last digits depend on the order of the sum."""
    return round(dollars, 6) if math.isfinite(dollars) else dollars


@dataclass(frozen=True, slots=True)
class ClusterFigure:
    """The figures of one cluster."""

    cluster: str
    connected: bool
    reported: bool
    rollup_ns: int
    """When its operator made the roll-up; 0 if it has no rows."""
    rows: int
    machines: int
    price_per_hour: float = 0.0
    """What its machines cost."""


def cluster_figures(view: CycleView) -> tuple[ClusterFigure, ...]:
    """Every cluster with a session, demand or machines, by name."""
    snapshot = view.every_machine
    rows, numbers = snapshot.id_order, range(len(snapshot.shapes))
    owner, shape = snapshot.columns["cluster"][rows], snapshot.columns["shape"][rows]
    prices = np.fromiter((snapshot.shapes[n].price_per_hour for n in numbers), np.float64, len(numbers))
    bound, paid = np.bincount(owner, minlength=1), np.bincount(owner, prices[shape], minlength=1)
    machines = {
        snapshot.clusters[number]: int(bound[number]) for number in np.flatnonzero(bound).tolist() if number
    }
    dollars = {
        snapshot.clusters[number]: _cents(float(paid[number])) for number in np.flatnonzero(paid).tolist()
    }
    demand = {name: part.rows for name, part in view.demand.by_cluster.items()}
    names = sorted({*view.sessions, *machines, *demand})
    return tuple(
        ClusterFigure(
            cluster=name,
            connected=name in view.sessions,
            reported=name in view.reported_clusters,
            rollup_ns=max((need.arrival_ns for need in demand.get(name, ())), default=0),
            rows=len(demand.get(name, ())),
            machines=machines.get(name, 0),
            price_per_hour=dollars.get(name, 0.0),
        )
        for name in names
    )
