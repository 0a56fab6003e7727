"""Compares the machines of a shard with what it owns: what it forgets, and which domains it still has machines in.

Why: a domain that a shard lets go belongs to the next shard only when nothing of the first one is left in it.
Must never: name a bound machine, or one that is on its way to or from somewhere.
Rules: `coordinator#leaving-domain`, `coordinator#partition-mode`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bigfleet.model.inventory import InventorySnapshot
from bigfleet.model.machine import MachineState
from bigfleet.model.ownership import Ownership
from bigfleet.shard.core.ownership_rulings import lets_go

_NO_VALUE = ""  # no label has it


@dataclass(frozen=True, slots=True)
class OwnershipSurvey:
    """What the machines of a shard say about its ownership."""

    let_go: tuple[str, ...]
    """Free machines to forget, by id."""
    held: frozenset[str]
    """Values of the partition key of all machines but adopted ones, those to forget included."""


def survey(snapshot: InventorySnapshot, ownership: Ownership) -> OwnershipSurvey:
    """Compare the machines of a snapshot with what the shard owns."""
    rows = snapshot.id_order
    values, numbers = _values(snapshot, rows, ownership.key)
    owned = np.array([ownership.settled and value in ownership.domains for value in values], dtype=np.bool_)
    let_go: list[str] = []
    own_domain: NDArray[np.bool_] = np.ones(rows.size, dtype=np.bool_)
    states = snapshot.columns["state"]
    special = _places_of(snapshot, rows, (*ownership.adopted, *ownership.released))
    for place in np.union1d(np.flatnonzero(~owned[numbers]), special).tolist():
        row = int(rows[place])
        machine_id, value = snapshot.machine_id(row), values[int(numbers[place])] or None
        if machine_id in ownership.adopted:
            own_domain[place] = False
        if lets_go(ownership, machine_id, value, MachineState(int(states[row]))):
            let_go.append(machine_id)
    held = {values[number] for number in np.unique(numbers[own_domain]).tolist()}
    return OwnershipSurvey(tuple(let_go), frozenset(held - {_NO_VALUE}))


def _values(
    snapshot: InventorySnapshot, rows: NDArray[np.intp], key: str
) -> tuple[Sequence[str], NDArray[np.intp]]:
    """The distinct values of a key, and the number of the value of each row."""
    shapes = snapshot.columns["shape"][rows].astype(np.intp)
    wide = snapshot.wide.get(key)
    if wide is not None:  # nearly every machine has a value of its own
        labels = [
            label or snapshot.shapes[shape].label(key) or _NO_VALUE
            for label, shape in zip(wide.many(rows), shapes.tolist(), strict=True)
        ]
        found, numbers = np.unique(np.array(labels, dtype=object), return_inverse=True)
        return [str(value) for value in found.tolist()], numbers.astype(np.intp)
    distinct, numbers = np.unique(shapes, return_inverse=True)
    by_shape = [snapshot.shapes[shape].label(key) or _NO_VALUE for shape in distinct.tolist()]
    values = sorted(set(by_shape))
    places = {value: place for place, value in enumerate(values)}
    return values, np.array([places[value] for value in by_shape], dtype=np.intp)[numbers]


def _places_of(
    snapshot: InventorySnapshot, rows: NDArray[np.intp], machine_ids: Sequence[str]
) -> NDArray[np.intp]:
    """The places of some machines in the order by id."""
    known = [row for row in map(snapshot.row_of, machine_ids) if row is not None]
    return np.flatnonzero(np.isin(rows, known)) if known else np.empty(0, dtype=np.intp)
