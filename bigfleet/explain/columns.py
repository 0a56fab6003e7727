"""The columns of a cycle in the form explanations read: a number per machine, in the order of ids.

Why: half a million machines are classified by arithmetic on columns, and an explanation names the first ids of a class.
Must never: compute a column before it is read, or be kept for long; one column takes a few megabytes.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bigfleet.engine.kinds import Kinds
from bigfleet.engine.stamps import Stamps
from bigfleet.engine.verdicts import Verdicts
from bigfleet.model.inventory import InventorySnapshot, Rows
from bigfleet.model.machine import Machine, MachineState

Places = NDArray[np.intp]
"""Machines, by their place in the order of ids."""
Flags = NDArray[np.bool_]
Codes = NDArray[np.integer[Any]]


class MachineColumns:
    """What is known of every machine, by its place in the order of ids."""

    def __init__(self, snapshot: InventorySnapshot, verdicts: Verdicts) -> None:
        self.snapshot, self._verdicts = snapshot, verdicts
        self.kinds: Kinds = verdicts.kinds
        self.stamps: Stamps = verdicts.stamps

    def __len__(self) -> int:
        return len(self.snapshot)

    def _column(self, name: str) -> NDArray[Any]:
        column: NDArray[Any] = self.snapshot.columns[name][self.snapshot.id_order]
        return column

    @cached_property
    def state(self) -> NDArray[np.uint8]:
        """As `MachineState` numbers them."""
        return self._column("state")

    @cached_property
    def cluster(self) -> NDArray[np.int32]:
        """Numbers of the snapshot's clusters."""
        return self._column("cluster")

    @cached_property
    def kind(self) -> NDArray[np.int32]:
        """Numbers of kinds: all that demand can ask about."""
        kind: NDArray[np.int32] = self._verdicts.kind_of_row[self.snapshot.id_order]
        return kind

    @cached_property
    def holder(self) -> NDArray[np.int32]:
        """The place of the need that holds the machine, -1 where none does."""
        every = self._verdicts.holders(self.snapshot.columns["state"].size)
        holder: NDArray[np.int32] = every[self.snapshot.id_order]
        return holder

    @cached_property
    def _place_of_row(self) -> Places:
        order = self.snapshot.id_order
        places = np.zeros(self.snapshot.columns["state"].size, dtype=np.intp)
        places[order] = np.arange(order.size)
        return places

    def leaving_for(self, need: int) -> Places:
        """The machines that are preempted for a need."""
        rows = self._verdicts.victims.get(need)
        return _NO_PLACES if rows is None else np.sort(self._place_of_row[rows])

    def preemptor(self) -> NDArray[np.int32]:
        """The place of the need for which the machine is preempted, -1 where it is not."""
        preemptor = np.full(len(self), -1, dtype=np.int32)
        for need, rows in self._verdicts.victims.items():
            preemptor[self._place_of_row[rows]] = need
        return preemptor

    def at(self, row: int) -> int:
        """The place of the machine in a row."""
        return int(self._place_of_row[row])

    def rows(self, places: Places) -> Rows:
        """Machines as rows of the inventory."""
        rows: Rows = self.snapshot.id_order[places]
        return rows

    def stamp(self, places: Places) -> Codes:
        """Numbers of the stamps of some machines."""
        stamp: Codes = self.snapshot.columns["assignment"][self.rows(places)]
        return stamp

    def shape(self, places: Places) -> Codes:
        """Numbers of the shapes of some machines."""
        shape: Codes = self.snapshot.columns["shape"][self.rows(places)]
        return shape

    def cluster_names(self) -> list[str]:
        """The clusters that machines serve, by their numbers."""
        clusters = self.snapshot.clusters
        return [clusters[number] for number in range(len(clusters))]

    def in_state(self, state: MachineState) -> Places:
        """The machines in a state."""
        return np.flatnonzero(self.state == state)

    def graces_s(self, places: Places) -> NDArray[np.float64] | None:
        """Seconds of drain grace that some machines have left; None when no machine has any."""
        known = self.snapshot.drain_graces
        if not known:
            return None
        by_row = np.zeros(self.snapshot.columns["state"].size)
        by_row[list(known)] = list(known.values())
        graces: NDArray[np.float64] = by_row[self.rows(places)]
        return graces

    def ids(self, places: Places) -> list[str]:
        """The ids of some machines."""
        return [text or "" for text in self.snapshot.ids.many(self.rows(places))]

    def records(self, places: Places) -> list[Machine]:
        """The records of some machines."""
        return self.snapshot.records(self.rows(places))

    def first_ids(self, places: Places, classes: Codes, count: int, most: int) -> list[tuple[str, ...]]:
        """For each of `count` classes the first machines in it, `most` at most; `places` ascend."""
        order = np.argsort(classes.astype(np.int16 if count < 2**15 else np.int64), kind="stable")
        ends = np.cumsum(np.bincount(classes, minlength=count))
        starts = np.concatenate([[0], ends[:-1]])
        sizes = np.minimum(ends - starts, most)
        within = np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        ids = iter(self.ids(places[order[np.repeat(starts, sizes) + within]]))
        return [tuple([next(ids) for _ in range(size)]) for size in sizes.tolist()]


def first_by(keys: Sequence[NDArray[Any]], most: int) -> Places:
    """The places of the smallest entries in order: by the first key, by the next, then as they come."""
    tied = np.arange(keys[0].size)
    found: list[Places] = []
    for key in keys:
        if tied.size <= most:
            break
        values = key[tied]
        limit = np.partition(values, most - 1)[most - 1]
        found.append(tied[values < limit])
        tied, most = tied[values == limit], most - found[-1].size
    places = np.sort(np.concatenate([*found, tied[:most]]))
    return places[np.lexsort([key[places] for key in reversed(keys)])]


def numbered(texts: Sequence[str]) -> tuple[Codes, list[str]]:
    """A number for each text, equal texts having one, and the texts by number."""
    number_of: dict[str, int] = {}
    numbers = [number_of.setdefault(text, len(number_of)) for text in texts]
    return np.array(numbers, dtype=np.intp), list(number_of)


def flags_of(states: Mapping[MachineState, object] | Sequence[MachineState]) -> Flags:
    """For each state number whether it is one of these states."""
    flags = np.zeros(len(MachineState), dtype=np.bool_)
    flags[[int(state) for state in states]] = True
    return flags


_NO_PLACES: Places = np.empty(0, dtype=np.intp)
