"""The shard's inventory: every machine it knows, in columns, checked on every write.

Why: 500,000 machines must fit into memory and be walked by arithmetic, so no Python object per machine is kept;
records are views made on demand (ADR-0093).
Must never: hold a record that breaks an invariant, let an ordinary write skip an edge, or change a snapshot.
Rules: `engine#inventory`; adopt and undo are `shard#inventory-writes`.
"""

import math
from array import array
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar
from weakref import ref

import numpy as np
from numpy.typing import NDArray

from bigfleet.model.errors import DuplicateMachineError, UnknownMachineError
from bigfleet.model.frozen_map import FrozenMap
from bigfleet.model.inventory.arena import NO_TEXT, Arena
from bigfleet.model.inventory.columns import Column, Columns
from bigfleet.model.inventory.id_index import NOT_FOUND, IdIndex
from bigfleet.model.inventory.interner import Interner
from bigfleet.model.inventory.rows import InventorySize, NewRows
from bigfleet.model.inventory.snapshot import InventorySnapshot, Rows, Sparse, Texts, sorted_by_id
from bigfleet.model.inventory.wide_labels import WideLabels
from bigfleet.model.machine import (
    UNASSIGNED,
    Assignment,
    Machine,
    MachineState,
    NeedRef,
    Shape,
    check,
    check_transition,
)

T = TypeVar("T", bound=Hashable)
V = TypeVar("V")

_FILLS: dict[str, np.generic] = {
    "state": np.uint8(0),  # 0 marks a free row
    "cluster": np.int32(0),
    "shape": np.int32(0),
    "assignment": np.int32(0),
    "provider": np.int32(0),
    "idle_since": np.float64(np.nan),
    # Of the provider's record that this row was last read from; 0 once it was written here.
    "source_hash": np.int64(0),
    "id_offset": np.uint32(0),
    "id_length": np.uint16(0),
    "host_offset": np.uint32(0),
    "host_length": np.uint16(NO_TEXT),
}


_NUMBERED = ("state", "cluster", "shape", "assignment", "provider")
"""The columns that `_numbers` fills, in its order."""


class Inventory:
    """Machines by id; the one owner of their columns."""

    def __init__(self) -> None:
        self._columns = Columns(_FILLS)
        self._rows = 0  # rows ever used; those beyond are room to grow
        self._free: list[int] = []
        self._ids, self._host_refs = Arena(), Arena()
        self._index = IdIndex(self._id_of, self._hold_ids)
        self.shapes: Interner[Shape] = Interner(Shape())
        self.assignments: Interner[Assignment] = Interner(UNASSIGNED)
        self.clusters: Interner[str] = Interner("")
        self.providers: Interner[str] = Interner("")
        self.wide = WideLabels(self._columns)
        self._parts: dict[FrozenMap[str], FrozenMap[str]] = {}
        self._last_errors: dict[int, str] = {}
        self._draining_for: dict[int, NeedRef] = {}
        self._drain_graces: dict[int, float] = {}
        self._id_order: NDArray[np.int32] | None = None
        self._last_snapshot: Callable[[], InventorySnapshot | None] = lambda: None
        self._writes_seen = 0
        self.generation = 0
        """Rises when numbers of shared values, or the set of wide keys, change their meaning."""
        self.population = 0
        """Rises when a machine comes or goes."""

    # Reading

    def __len__(self) -> int:
        return self._rows - len(self._free)

    def __contains__(self, machine_id: str) -> bool:
        return self._index.find(machine_id) != NOT_FOUND

    def get(self, machine_id: str) -> Machine:
        """The record of one machine, made now."""
        return self.records(np.array([self._row(machine_id)]))[0]

    def records(self, rows: Rows) -> list[Machine]:
        """The records of some rows, made now."""
        sparse = Sparse(self._last_errors, self._draining_for, self._drain_graces)
        view = self._view(self._columns.arrays(), sparse, _NO_ROWS)
        return [view.machine(row) for row in rows.tolist()]

    def state_of(self, machine_id: str) -> MachineState | None:
        """The state of one machine, None when it is not known; cheaper than its record."""
        row = self._index.find(machine_id)
        return None if row == NOT_FOUND else self._state(row)

    def bound_to(self, cluster: str) -> list[str]:
        """The ids of all machines bound to a cluster, in whatever state, by row."""
        number = self.clusters.number(cluster)
        if not number:
            return []
        return self.ids_of(np.flatnonzero(self._columns["cluster"][: self._rows] == number))

    def in_states(self, states: Collection[MachineState]) -> Rows:
        """The rows of all machines in one of some states; quick, since it compares bytes."""
        column = self._columns["state"][: self._rows]
        found = np.zeros(column.size, dtype=np.bool_)
        for state in states:
            found |= column == state
        return np.flatnonzero(found)

    def missing_from(self, seen: Rows) -> list[str]:
        """The ids of all machines but those of some rows, by row."""
        absent = self._columns["state"][: self._rows] != 0
        absent[seen] = False
        return self.ids_of(np.flatnonzero(absent))

    def ids_of(self, rows: Rows) -> list[str]:
        """The ids of the machines of some rows."""
        columns = self._columns
        ids = Texts(self._ids.buffer, columns["id_offset"], columns["id_length"])
        return [machine_id or "" for machine_id in ids.many(rows)]

    def rows_of(self, machine_ids: list[str]) -> Rows:
        """The row of each machine, -1 where there is none."""
        return self._index.find_many(machine_ids)

    def reads_as(self, rows: Rows, source_hashes: NDArray[np.int64]) -> NDArray[np.bool_]:
        """For each row, -1 being none, whether it still is what a provider's record of this hash said."""
        if not self._rows:
            return np.zeros(rows.size, dtype=np.bool_)
        noted: NDArray[np.int64] = self._columns["source_hash"][np.maximum(rows, 0)]
        same: NDArray[np.bool_] = (rows >= 0) & (noted == source_hashes) & (noted != 0)
        return same

    def says(
        self, rows: Rows, states: Sequence[int], numbers: NDArray[np.int32], host_refs: Sequence[bytes]
    ) -> NDArray[np.bool_]:
        """For each row whether it was read from a provider's record and already says just this, wide labels aside."""
        columns = self._columns
        same: NDArray[np.bool_] = (columns["source_hash"][rows] != 0) & (
            columns["state"][rows] == np.asarray(states)
        )
        for name, wanted in zip(("shape", "assignment", "cluster", "provider"), numbers, strict=True):
            same &= columns[name][rows] == wanted
        same &= ~np.isin(rows, list(self._last_errors))
        lengths = columns["host_length"][rows].astype(np.int64)
        lengths[lengths == NO_TEXT] = 0
        return same & self._host_refs.equal(columns["host_offset"][rows].astype(np.int64), lengths, host_refs)

    def note_sources(self, rows: Rows, source_hashes: NDArray[np.int64]) -> None:
        """Remember that the provider's records of these hashes say what these rows say."""
        self._columns.writable("source_hash")[rows] = source_hashes

    def count_by_state(self) -> dict[MachineState, int]:
        """How many machines are in each state."""
        counts = np.bincount(self._columns["state"][: self._rows], minlength=len(MachineState))
        return {state: int(counts[state]) for state in MachineState if state is not MachineState.UNSPECIFIED}

    def snapshot(self) -> InventorySnapshot:
        """One consistent view of everything, safe from later writes; the same one until something is written."""
        last = self._last_snapshot()
        if last is not None and self._columns.writes == self._writes_seen:
            return last
        sparse = Sparse(dict(self._last_errors), dict(self._draining_for), dict(self._drain_graces))
        view = self._view(self._columns.shared(), sparse, self.id_order())
        # Weakly, as an unused view would only keep columns in memory.
        self._last_snapshot, self._writes_seen = ref(view), self._columns.writes
        return view

    def _view(self, arrays: Mapping[str, Column], sparse: Sparse, id_order: Rows) -> InventorySnapshot:
        columns = self._columns
        return InventorySnapshot(
            columns=arrays,
            ids=Texts(self._ids.buffer, columns["id_offset"], columns["id_length"]),
            host_refs=Texts(self._host_refs.buffer, columns["host_offset"], columns["host_length"]),
            wide=self.wide.texts(),
            shapes=self.shapes,
            assignments=self.assignments,
            clusters=self.clusters,
            providers=self.providers,
            sparse=sparse,
            id_order=id_order,
        )

    def id_order(self) -> Rows:
        """Rows of all machines by id; kept until a machine comes or goes."""
        if self._id_order is None:
            rows = np.flatnonzero(self._columns["state"][: self._rows])
            offsets, lengths = self._columns["id_offset"], self._columns["id_length"]
            self._id_order = sorted_by_id(self._ids, offsets, lengths, rows).astype(np.int32)
        return self._id_order.astype(np.intp)

    def size(self) -> InventorySize:
        """Where the bytes are."""
        order = 0 if self._id_order is None else self._id_order.nbytes
        return InventorySize(
            records=self._columns.nbytes,
            texts=self._ids.nbytes + self._host_refs.nbytes + self.wide.nbytes,
            index=self._index.nbytes + order,
            machines=len(self),
        )

    # Writing

    def insert(self, machine: Machine, now: float | None) -> None:
        """Take in a machine that is not known yet; `now` stamps an Idle one that brings no stamp."""
        check(machine)
        if machine.id in self:
            raise DuplicateMachineError(machine.id)
        text = machine.id.encode()
        row = self._free.pop() if self._free else self._rows
        if row == self._rows:
            self._columns.reserve(self._rows + 1)
            self._rows += 1
        self._columns.writable("id_offset")[row] = self._ids.extend(text)
        self._columns.writable("id_length")[row] = len(text)
        self._write(row, machine)
        idle_since = machine.idle_since if machine.idle_since is not None else now
        self._stamp_idle(row, idle_since if machine.state is MachineState.IDLE else None)
        self._index.add(machine.id, row)
        self._note_population()
        self._settle(self.wide.take_turned())

    def apply(self, machine: Machine, now: float) -> None:
        """Replace a known record by an ordinary write, which must follow one of the thirteen edges."""
        row = self._row(machine.id)
        check_transition(machine.id, self._state(row), machine.state)
        self._replace(row, machine, now)

    def adopt(self, machine: Machine, now: float, source_hash: int = 0) -> None:
        """Replace a known record by what the provider insists on, whatever the edge.

        `source_hash` is that of the provider's record if this is exactly what it says.
        Rules: `shard#reported-failure`, `shard#disputed-states`.
        """
        row = self._row(machine.id)
        self._replace(row, machine, now)
        self._columns.writable("source_hash")[row] = source_hash

    def adopt_many(self, changes: Sequence[tuple[Machine, int]], now: float) -> None:
        """Adopt many records, each with the hash of what the provider said; all of them or, on a refusal, none."""
        rows = self._index.find_many([machine.id for machine, _ in changes])
        for (machine, _), row in zip(changes, rows.tolist(), strict=True):
            check(machine)
            if row == NOT_FOUND:
                raise UnknownMachineError(machine.id)
        machines = [machine for machine, _ in changes]
        for machine, row in zip(machines, rows.tolist(), strict=True):
            self._write_texts_of(row, machine)
        was_idle = self._columns["state"][rows] == MachineState.IDLE
        numbers = np.array([self._numbers(machine) for machine in machines], dtype=np.int64).reshape(-1, 5).T
        for name, values in zip(_NUMBERED, numbers, strict=True):
            self._columns.writable(name)[rows] = values
        self._columns.writable("source_hash")[rows] = [source_hash for _, source_hash in changes]
        is_idle = numbers[0] == MachineState.IDLE
        stamps = self._columns.writable("idle_since")
        stamps[rows[~is_idle]] = np.nan
        stamps[rows[is_idle & ~was_idle]] = now
        self._settle(self.wide.take_turned())

    def undo(self, machine: Machine, now: float) -> None:
        """Put a known record back as it was before a call that was never sent (`shard#inventory-writes`)."""
        self._replace(self._row(machine.id), machine, now)

    def remove(self, machine_id: str) -> None:
        """Forget a machine."""
        row = self._row(machine_id)
        self._index.discard(machine_id)
        self._columns.reset(row)
        for entries in (self._last_errors, self._draining_for, self._drain_graces):
            entries.pop(row, None)
        self._free.append(row)
        self._note_population()

    def insert_rows(self, rows: NewRows, now: float | None) -> None:
        """Take in many machines at once; the reader has checked every record and that each id is new."""
        if (rows.generation, rows.population) != (self.generation, self.population):
            raise ValueError("the inventory has changed since these rows were read; read them again")
        count = len(rows)
        if not count:
            return
        turned = self.wide.take_turned()
        first, self._rows = self._rows, self._rows + count
        self._columns.reserve(self._rows)
        new = slice(first, self._rows)
        self._write_texts("id", self._ids, new, rows.ids, rows.id_lengths)
        self._write_texts("host", self._host_refs, new, rows.host_refs, rows.host_lengths)
        host_lengths = self._columns.writable("host_length")[new]
        host_lengths[host_lengths == 0] = NO_TEXT
        for name, values in (
            ("state", rows.states),
            ("cluster", rows.clusters),
            ("shape", rows.shapes),
            ("assignment", rows.assignments),
            ("provider", rows.providers),
            ("source_hash", rows.source_hashes),
        ):
            column = self._columns.writable(name)
            column[new] = np.frombuffer(values, dtype=column.dtype)
        idle = self._columns["state"][new] == MachineState.IDLE
        self._columns.writable("idle_since")[new] = np.where(idle, np.nan if now is None else now, np.nan)
        self.wide.write_many(first, rows.wide)
        self._settle(turned)
        self._last_errors.update((first + place, text) for place, text in rows.errors.items())
        hashes = np.frombuffer(rows.id_hashes, dtype=np.int64)
        self._index.add_many(hashes, np.arange(first, self._rows, dtype=np.int32))
        self._note_population()
        rows.placement.first_row = first

    def intern_shape(self, shape: Shape) -> int:
        """The number of a shape whose labels hold no wide key; a key that turns wide raises the generation later."""
        number = self.shapes.number(shape)
        if number is None:
            parts = (self._shared_part(part) for part in (shape.resources, shape.allocatable, shape.labels))
            resources, allocatable, labels = parts
            number = self.shapes.intern(
                replace(shape, resources=resources, allocatable=allocatable, labels=labels)
            )
            self.wide.observe(labels)
        return number

    def _shared_part(self, part: FrozenMap[str]) -> FrozenMap[str]:
        """One object for equal maps: shapes differ in a label or two and share the rest."""
        return self._parts.setdefault(part, part)

    @property
    def shared_values(self) -> int:
        """How many shapes, assignments, clusters and providers are kept, in use or not."""
        return len(self.shapes) + len(self.assignments) + len(self.clusters) + len(self.providers)

    def collect(self) -> None:
        """Drop shapes, assignments, clusters and providers that no machine uses any more; snapshots keep theirs."""
        self.shapes = self._kept("shape", self.shapes)
        self.assignments = self._kept("assignment", self.assignments)
        self.clusters = self._kept("cluster", self.clusters)
        self.providers = self._kept("provider", self.providers)
        self.wide.forget_seen()
        for number in range(len(self.shapes)):
            shape = self.shapes[number]
            for part in (shape.resources, shape.allocatable, shape.labels):
                self._parts.setdefault(part, part)
            self.wide.observe(shape.labels)
        self.generation += 1

    def compact(self) -> None:
        """Drop what `collect` drops, and texts that no machine uses any more."""
        self.collect()
        used = slice(0, self._rows)
        for name, arena in (("id", self._ids), ("host", self._host_refs)):
            offsets = self._columns.writable(f"{name}_offset")
            offsets[used] = arena.compacted(offsets[used], self._columns[f"{name}_length"][used])
        self.wide.compact(self._rows)

    def _kept(self, name: str, interner: Interner[T]) -> Interner[T]:
        numbers = self._columns.writable(name)[: self._rows]
        fresh, renumber = interner.kept(np.bincount(numbers, minlength=len(interner)) > 0)
        numbers[:] = renumber[numbers]
        self._parts.clear()  # what is still in use lives on in the shapes
        return fresh

    # How a record becomes a row

    def _row(self, machine_id: str) -> int:
        row = self._index.find(machine_id)
        if row == NOT_FOUND:
            raise UnknownMachineError(machine_id)
        return row

    def _id_of(self, row: int) -> str:
        columns = self._columns
        return self._ids.text(int(columns["id_offset"][row]), int(columns["id_length"][row])).decode()

    def _hold_ids(self, rows: Rows, ids: Sequence[str]) -> NDArray[np.bool_]:
        offsets = self._columns["id_offset"][rows].astype(np.int64)
        lengths = self._columns["id_length"][rows].astype(np.int64)
        return self._ids.equal(offsets, lengths, [machine_id.encode() for machine_id in ids])

    def _state(self, row: int) -> MachineState:
        return MachineState(int(self._columns["state"][row]))

    def _replace(self, row: int, machine: Machine, now: float) -> None:
        check(machine)
        before = self._state(row)
        self._write(row, machine)
        if machine.state is not MachineState.IDLE:
            self._stamp_idle(row, None)
        elif before is not MachineState.IDLE:
            self._stamp_idle(row, now)
        self._settle(self.wide.take_turned())

    def _write(self, row: int, machine: Machine) -> None:
        self._write_texts_of(row, machine)
        columns = self._columns
        for name, number in zip(_NUMBERED, self._numbers(machine), strict=True):
            columns.writable(name)[row] = number
        columns.writable("source_hash")[row] = 0

    def _numbers(self, machine: Machine) -> tuple[int, int, int, int, int]:
        labels = machine.shape.labels
        for key in self.wide.columns:
            if key in labels:
                labels = labels.without(key)
        return (
            machine.state,
            self.clusters.intern(machine.cluster),
            self.intern_shape(machine.shape.with_labels(labels)),
            self.assignments.intern(machine.assigned),
            self.providers.intern(machine.host.provider),
        )

    def _write_texts_of(self, row: int, machine: Machine) -> None:
        self.wide.write(row, machine.shape.labels)
        self._write_host(row, machine.host.ref.encode())
        _put(self._last_errors, row, machine.last_error)
        _put(self._draining_for, row, machine.draining_for)
        _put(self._drain_graces, row, machine.drain_grace_remaining_s)

    def _write_host(self, row: int, ref: bytes) -> None:
        columns = self._columns
        length = int(columns["host_length"][row])
        if ref == (
            b"" if length == NO_TEXT else self._host_refs.text(int(columns["host_offset"][row]), length)
        ):
            return  # most writes leave the host alone, and an arena never forgets
        columns.writable("host_length")[row] = len(ref) if ref else NO_TEXT
        if ref:
            columns.writable("host_offset")[row] = self._host_refs.extend(ref)

    def _write_texts(
        self, name: str, arena: Arena, rows: slice, joined: bytearray, sizes: "array[int]"
    ) -> None:
        lengths = np.asarray(sizes, dtype=np.int64)
        self._columns.writable(f"{name}_offset")[rows] = np.cumsum(lengths) - lengths + arena.extend(joined)
        self._columns.writable(f"{name}_length")[rows] = lengths

    def _note_population(self) -> None:
        self._id_order = None
        self.population += 1

    def _stamp_idle(self, row: int, idle_since: float | None) -> None:
        self._columns.writable("idle_since")[row] = math.nan if idle_since is None else idle_since

    def _settle(self, turned: list[str]) -> None:
        """Move the labels of keys that turned wide out of the shapes, most of which are then unused."""
        for key in turned:
            self._move_out(key)
        if turned:
            self.shapes = self._kept("shape", self.shapes)
            self.generation += 1

    def _move_out(self, key: str) -> None:
        shapes = [(number, self.shapes[number]) for number in range(len(self.shapes))]
        values = {number: value for number, shape in shapes if (value := shape.labels.get(key)) is not None}
        if not values:
            return
        used = self._columns["shape"][: self._rows]
        self.wide.move_out(key, used, values)
        renumber = np.arange(len(self.shapes), dtype=np.int32)
        for number in values:
            shape = self.shapes[number]
            renumber[number] = self.intern_shape(shape.with_labels(shape.labels.without(key)))
        self._columns.writable("shape")[: self._rows] = renumber[used]


_NO_ROWS: Rows = np.empty(0, dtype=np.intp)


def _put(entries: dict[int, V], row: int, value: V | None) -> None:
    if value:
        entries[row] = value
    else:
        entries.pop(row, None)
