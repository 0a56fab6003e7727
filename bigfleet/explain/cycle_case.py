"""A case on the columns of a running shard: the same answers, without a record per machine.

Why: a shard with half a million machines is asked why one need fares as it does. Making every record, naming every machine of
every need and sorting all of it took half a minute, during which cycles and sessions had to share the interpreter with it.
Called by: the shard, for explanations of its last cycle.
Must never: give another answer than `Case` on the records of the same cycle; a property test holds that.
How: machines that are alike get one number by arithmetic on columns, and how finely they are told apart depends on who asks:
what is bound to other clusters is refused by cluster alone, and preemption does not ask where a victim works.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import overload

import numpy as np
from numpy.typing import NDArray

from bigfleet.document.snapshot import SnapshotDocument
from bigfleet.engine.verdicts import holder_rows
from bigfleet.explain.case import NOBODY, Case, Group, Mates
from bigfleet.explain.usable import in_flight
from bigfleet.model.decision import Decision
from bigfleet.model.inventory import InventorySnapshot, Rows
from bigfleet.model.machine import BOUND_STATES, Machine, MachineState
from bigfleet.model.profile import Profile
from bigfleet.model.situation import Situation

Codes = NDArray[np.int64]
_BOUND = sorted(map(int, BOUND_STATES))


class CycleCase(Case):
    """Everything an explanation may look at, read off one cycle of a shard."""

    def __init__(self, snapshot: InventorySnapshot, situation: Situation, decision: Decision) -> None:
        """`situation` holds all that the cycle decided on but the machines."""
        super().__init__(SnapshotDocument(situation, tuple(range(len(situation.needs)))), decision)
        self._snapshot = snapshot
        self._columns = snapshot.columns

    @cached_property
    def machines(self) -> Mapping[str, Machine]:
        """Every machine by id, made when somebody looks at it."""
        return _Machines(self._snapshot)

    @cached_property
    def in_flight(self) -> Mapping[str, int]:
        """Machines that drain for a need already, with its place."""
        snapshot = self._snapshot
        rows = snapshot.in_state(MachineState.DRAINING).tolist()
        draining = [snapshot.machine(row) for row in rows if snapshot.draining_for(row) is not None]
        return in_flight({machine.id: machine for machine in draining}, self.decision.verdicts)

    @cached_property
    def groups(self) -> Sequence[Group]:
        """All machines, told apart by all that an explanation can say, single labels of single machines included."""
        return self._grouped(self._snapshot.id_order, self._alike(self._snapshot.wide))

    def seen_by(self, place: int) -> Sequence[Group]:
        """All machines, told apart as far as one need can tell them apart."""
        rows, state = self._snapshot.id_order, self._columns["state"]
        number = self._snapshot.clusters.number(self.need(place).cluster)
        elsewhere = np.isin(state, _BOUND) & (self._columns["cluster"] != (-1 if number is None else number))
        # What leaves for this need is chosen, wherever it is bound.
        elsewhere &= (self._preemptors != place) & (self._drains != place)
        codes = self._alike(_named(self.need(place).profile))
        coarse = _joined(self._columns["state"], self._columns["cluster"])
        return [
            *self._grouped(rows[~elsewhere[rows]], codes),
            *self._grouped(rows[elsewhere[rows]], coarse),
        ]

    def victims_for(self, place: int) -> Sequence[Group]:
        """The Configured machines, told apart as far as preemption for one need does."""
        rows = self._snapshot.in_state(MachineState.CONFIGURED)
        mine = self.need(place).profile.precedence
        higher = np.fromiter(
            (need.profile.precedence >= mine for need in self.needs), dtype=np.bool_, count=len(self.needs)
        )
        holders = self._holders
        rank = np.where(holders < 0, 0, np.where(higher[holders], 2, 1)) if higher.size else holders
        rank = np.where(holders == place, 3, rank)
        codes = _joined(
            self._columns["shape"],
            self._columns["assignment"],
            self._graces,
            rank,
            self._preemptors,
            *self._wide(_named(self.need(place).profile)),
        )
        return self._grouped(rows, codes)

    def group_of(self, machine_id: str) -> Group:
        """The machine by itself: nobody asks who else is like it."""
        row = self._snapshot.row_of(machine_id)
        if row is None:
            raise KeyError(machine_id)
        return self._group(np.array([row], dtype=np.intp))

    def mates(self, machine: Machine) -> Mates:
        """Where a Configured machine stands in the keep order of its cluster."""
        rows = self._snapshot.of_cluster(machine.cluster, MachineState.CONFIGURED)
        position = 1 + int(np.flatnonzero(rows == self._snapshot.row_of(machine.id))[0])
        return Mates(position, rows.size, int(np.count_nonzero(self._holders[rows] >= 0)))

    # Columns of the decision

    @cached_property
    def _holders(self) -> Codes:
        return holder_rows(self.decision.verdicts, self._snapshot)

    @cached_property
    def _preemptors(self) -> Codes:
        return self._by_row(self.preemptor)

    @cached_property
    def _drains(self) -> Codes:
        return self._by_row(self.in_flight)

    def _by_row(self, places: Mapping[str, int]) -> Codes:
        column = np.full(self._columns["state"].size, NOBODY, dtype=np.int64)
        for machine_id, place in places.items():
            row = self._snapshot.row_of(machine_id)
            if row is not None:
                column[row] = place
        return column

    @cached_property
    def _graces(self) -> Codes:
        """A number for each drain grace that occurs."""
        column = np.zeros(self._columns["state"].size, dtype=np.int64)
        numbers: dict[float, int] = {0.0: 0}
        for row, grace_s in self._snapshot.drain_graces.items():
            column[row] = numbers.setdefault(grace_s, len(numbers))
        return column

    def _wide(self, keys: frozenset[str] | Mapping[str, object]) -> Iterator[Codes]:
        """For each of these labels that differs from machine to machine a number for every value."""
        for key, texts in sorted(self._snapshot.wide.items()):
            if key in keys:
                every = texts.many(np.arange(self._columns["state"].size))
                numbers: dict[str | None, int] = {}
                yield np.fromiter(
                    (numbers.setdefault(text, len(numbers)) for text in every),
                    dtype=np.int64,
                    count=len(every),
                )

    def _alike(self, keys: frozenset[str] | Mapping[str, object]) -> Codes:
        columns = self._columns
        return _joined(
            columns["shape"],
            columns["assignment"],
            columns["state"],
            columns["cluster"],
            self._graces,
            self._holders,
            self._preemptors,
            self._drains,
            *self._wide(keys),
        )

    # Groups

    def _grouped(self, rows: Rows, codes: Codes) -> list[Group]:
        """Rows that lie in the order of their ids, put together by their numbers."""
        if not rows.size:
            return []
        order = np.argsort(codes[rows], kind="stable")  # stable: inside a group they stay in the order of ids
        ordered = rows[order]
        found = codes[ordered]
        starts = np.flatnonzero(np.concatenate([[True], found[1:] != found[:-1]]))
        ends = [*starts[1:].tolist(), found.size]
        firsts = self._snapshot.records(ordered[starts])
        holders, preemptors = self._holders[ordered[starts]], self._preemptors[ordered[starts]]
        drains = self._drains[ordered[starts]]
        return [
            Group(first, holder, preemptor, drain, _Ids(self._snapshot, ordered[start:end]))
            for first, holder, preemptor, drain, start, end in zip(
                firsts,
                holders.tolist(),
                preemptors.tolist(),
                drains.tolist(),
                starts.tolist(),
                ends,
                strict=True,
            )
        ]

    def _group(self, rows: Rows) -> Group:
        row = int(rows[0])
        return Group(
            self._snapshot.machine(row),
            int(self._holders[row]),
            int(self._preemptors[row]),
            int(self._drains[row]),
            _Ids(self._snapshot, rows),
        )


def _named(profile: Profile) -> frozenset[str]:
    """The labels that a need looks at."""
    return frozenset(
        (
            *(item.key for item in profile.requirements),
            *(item.topology_key for item in profile.spreads),
        )
    )


def _joined(*columns: NDArray[np.integer]) -> Codes:
    """One number per row, equal where all columns are equal."""
    codes = np.zeros(columns[0].size, dtype=np.int64)
    spread = 1
    for column in columns:
        low = int(column.min(initial=0))
        width = int(column.max(initial=0)) - low + 1
        if width == 1:
            continue
        if spread * width > 2**62:
            _, codes = np.unique(codes, return_inverse=True)
            spread = int(codes.max(initial=0)) + 1
        codes = codes * width + (column.astype(np.int64) - low)
        spread *= width
    return codes


@dataclass(frozen=True, slots=True)
class _Ids(Sequence[str]):
    """The ids of some rows, told when somebody looks."""

    snapshot: InventorySnapshot
    rows: Rows

    def __len__(self) -> int:
        return int(self.rows.size)

    @overload
    def __getitem__(self, at: int) -> str: ...
    @overload
    def __getitem__(self, at: slice) -> list[str]: ...
    def __getitem__(self, at: int | slice) -> str | list[str]:
        if isinstance(at, slice):
            return [text or "" for text in self.snapshot.ids.many(self.rows[at])]
        return self.snapshot.machine_id(int(self.rows[at]))

    def __iter__(self) -> Iterator[str]:
        return iter(self[:])


class _Machines(Mapping[str, Machine]):
    """Every machine of a snapshot by id."""

    def __init__(self, snapshot: InventorySnapshot) -> None:
        self._snapshot = snapshot

    def __len__(self) -> int:
        return len(self._snapshot)

    def __iter__(self) -> Iterator[str]:
        return iter(_Ids(self._snapshot, self._snapshot.id_order))

    def __contains__(self, machine_id: object) -> bool:
        return isinstance(machine_id, str) and self._snapshot.row_of(machine_id) is not None

    def __getitem__(self, machine_id: str) -> Machine:
        row = self._snapshot.row_of(machine_id)
        if row is None:
            raise KeyError(machine_id)
        return self._snapshot.machine(row)
