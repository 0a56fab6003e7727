"""Filters and sorts machines on the columns of a snapshot.

Why: a reader of half a million machines looks at a few hundred rows. Filters are evaluated once per shape, cluster or
assignment, of which there are few.
Must never: make a record of a machine that is not on the page.
Rules: `dashboard#own-routes`, `dashboard#insight-service`, `dashboard#budgets`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bigfleet.model.errors import InvalidFieldError
from bigfleet.model.inventory import InventorySnapshot, Rows
from bigfleet.model.machine import TRANSITIONS, CapacityType, MachineState

Flags = NDArray[np.bool_]

_STATES = {state.label: state for state in TRANSITIONS}
_CAPACITY_TYPES = {kind.label: kind for kind in CapacityType}
_LIFE = {state: place for place, state in enumerate(TRANSITIONS)}


class MachineSort(Enum):
    """The column that rows are sorted by; equal rows are sorted by id."""

    ID = "id"
    PRICE = "price"
    STATE = "state"
    CLUSTER = "cluster"
    INSTANCE_TYPE = "instance-type"
    ZONE = "zone"
    IDLE_SINCE = "idle-since"
    PRIORITY = "priority"


@dataclass(frozen=True, slots=True)
class MachineQuery:
    """A filter and a sort order; empty fields do not filter."""

    states: tuple[str, ...] = ()
    clusters: tuple[str, ...] = ()
    """Machines bound to, or ordered for, one of them; the empty name means unbound machines."""
    instance_types: tuple[str, ...] = ()
    zones: tuple[str, ...] = ()
    capacity_types: tuple[str, ...] = ()
    id_contains: str = ""
    order: MachineSort = MachineSort.ID
    descending: bool = False


def find(snapshot: InventorySnapshot, query: MachineQuery) -> Rows:
    """The rows that pass the filter, in order; an unknown state or capacity type is refused by name."""
    rows: Rows = snapshot.id_order
    columns = snapshot.columns
    if query.states:
        wanted = [_known(_STATES, label, "states") for label in query.states]
        rows = rows[np.isin(columns["state"][rows], wanted)]
    if query.instance_types or query.zones or query.capacity_types:
        rows = rows[_shape_flags(snapshot, query)[columns["shape"][rows]]]
    if query.clusters:
        rows = rows[_cluster_flags(snapshot, rows, query.clusters)]
    if query.id_contains:
        rows = rows[snapshot.ids.containing(rows, query.id_contains)]
    return _sorted(snapshot, rows, query)


def state_counts(snapshot: InventorySnapshot, rows: Rows) -> dict[str, int]:
    """How many of the rows are in each state; states that do not occur are left out."""
    counts = np.bincount(snapshot.columns["state"][rows], minlength=len(MachineState))
    return {state.label: int(counts[state]) for state in TRANSITIONS if counts[state]}


def _known(table: dict[str, Any], label: str, field: str) -> Any:  # Any: states and types share this
    found = table.get(label)
    if found is None:
        raise InvalidFieldError(field, label[:80], f"one of {', '.join(table)}")
    return found


def _flags(count: int, values: "Any") -> Flags:  # Any: an iterable of booleans
    return np.fromiter(values, dtype=np.bool_, count=count)


def _shape_flags(snapshot: InventorySnapshot, query: MachineQuery) -> Flags:
    types, zones = frozenset(query.instance_types), frozenset(query.zones)
    kinds = frozenset(_known(_CAPACITY_TYPES, label, "capacity_types") for label in query.capacity_types)
    shapes = [snapshot.shapes[number] for number in range(len(snapshot.shapes))]
    return _flags(
        len(shapes),
        (
            (not types or shape.instance_type in types)
            and (not zones or shape.zone in zones)
            and (not kinds or shape.capacity_type in kinds)
            for shape in shapes
        ),
    )


def _cluster_flags(snapshot: InventorySnapshot, rows: Rows, clusters: Sequence[str]) -> Flags:
    wanted = frozenset(clusters)
    names, stamps = snapshot.clusters, snapshot.assignments
    bound = _flags(len(names), (names[number] in wanted for number in range(len(names))))
    ordered = _flags(
        len(stamps), (bool(stamps[n].cluster) and stamps[n].cluster in wanted for n in range(len(stamps)))
    )
    of_no_cluster = _flags(len(stamps), (not stamps[number].cluster for number in range(len(stamps))))
    binding, stamp = snapshot.columns["cluster"][rows], snapshot.columns["assignment"][rows]
    unbound: Flags = binding == 0
    # A machine on order has no binding yet; it counts for its destination.
    flags: Flags = np.where(unbound, ordered[stamp] | (bound[0] & of_no_cluster[stamp]), bound[binding])
    return flags


def _sorted(snapshot: InventorySnapshot, rows: Rows, query: MachineQuery) -> Rows:
    if query.order is MachineSort.ID:
        return rows[::-1] if query.descending else rows
    keys = _KEYS[query.order](snapshot, rows)
    return rows[np.argsort(-keys if query.descending else keys, kind="stable")]


def _ranks(values: Sequence[Any]) -> NDArray[np.float64]:  # Any: texts or numbers, of one kind each
    """The rank of each value among the distinct values."""
    places = {value: place for place, value in enumerate(sorted(set(values)))}
    return np.fromiter((places[value] for value in values), dtype=np.float64, count=len(values))


def _by_shape(of: Callable[[Any], Any]) -> Callable[[InventorySnapshot, Rows], NDArray[np.float64]]:
    def keys(snapshot: InventorySnapshot, rows: Rows) -> NDArray[np.float64]:
        shapes = [of(snapshot.shapes[number]) for number in range(len(snapshot.shapes))]
        ranked: NDArray[np.float64] = _ranks(shapes)[snapshot.columns["shape"][rows]]
        return ranked

    return keys


def _states(snapshot: InventorySnapshot, rows: Rows) -> NDArray[np.float64]:
    life = np.zeros(len(MachineState), dtype=np.float64)
    for state, place in _LIFE.items():
        life[state] = place
    return life[snapshot.columns["state"][rows]]


def _clusters(snapshot: InventorySnapshot, rows: Rows) -> NDArray[np.float64]:
    names = snapshot.clusters
    ranked: NDArray[np.float64] = _ranks([names[n] for n in range(len(names))])[
        snapshot.columns["cluster"][rows]
    ]
    return ranked


def _idle_since(snapshot: InventorySnapshot, rows: Rows) -> NDArray[np.float64]:
    since: NDArray[np.float64] = snapshot.columns["idle_since"][rows]
    return since  # NaN for machines that are not idle; NumPy sorts them last in either direction


def _priorities(snapshot: InventorySnapshot, rows: Rows) -> NDArray[np.float64]:
    stamps = snapshot.assignments
    values = np.fromiter((stamps[n].priority for n in range(len(stamps))), np.float64, len(stamps))
    return values[snapshot.columns["assignment"][rows]]


_KEYS: dict[MachineSort, Callable[[InventorySnapshot, Rows], NDArray[np.float64]]] = {
    MachineSort.PRICE: _by_shape(lambda shape: shape.price_per_hour),
    MachineSort.STATE: _states,
    MachineSort.CLUSTER: _clusters,
    MachineSort.INSTANCE_TYPE: _by_shape(lambda shape: shape.instance_type),
    MachineSort.ZONE: _by_shape(lambda shape: shape.zone),
    MachineSort.IDLE_SINCE: _idle_since,
    MachineSort.PRIORITY: _priorities,
}
