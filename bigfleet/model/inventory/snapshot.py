"""One consistent, immutable view of the inventory, on which the engine decides.

Why: all phases of a cycle must see the same machines, and nothing they see may change under them.
Must never: keep a Python object per machine; a record is made on request.
Rules: `engine#inventory`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import isnan

import numpy as np
from numpy.typing import NDArray

from bigfleet.model.inventory.arena import NO_TEXT, Arena
from bigfleet.model.inventory.columns import Column
from bigfleet.model.inventory.interner import Interner
from bigfleet.model.machine import (
    NO_HOST,
    Assignment,
    HostRef,
    Machine,
    MachineState,
    NeedRef,
    Shape,
)

Rows = NDArray[np.intp]
_STATES = {int(state): state for state in MachineState}
_RECORDS_AT_A_TIME = 1000

_WORTH_A_BYTE = 256
"""This many bytes are decoded in one call in the time that one more separate text takes."""


@dataclass(frozen=True, slots=True)
class Texts:
    """A column of texts: their buffer, and the offset and length of each row's text."""

    buffer: NDArray[np.uint8]
    offsets: Column
    lengths: Column

    def get(self, row: int) -> str | None:
        """The row's text, None when it has none."""
        length = int(self.lengths[row])
        if length == NO_TEXT:
            return None
        offset = int(self.offsets[row])
        return self.buffer[offset : offset + length].tobytes().decode()

    def many(self, rows: Rows) -> list[str | None]:
        """The texts of many rows."""
        starts, lengths = self.offsets[rows].tolist(), self.lengths[rows].tolist()
        if self.buffer.size < len(starts) * _WORTH_A_BYTE and (every := self.buffer.tobytes()).isascii():
            text = every.decode("ascii")  # a byte a character, so what is decoded once can be cut to pieces
            return [
                None if size == NO_TEXT else text[at : at + size]
                for at, size in zip(starts, lengths, strict=True)
            ]
        data = self.buffer.data  # slicing it is quicker than slicing an array
        return [
            None if size == NO_TEXT else str(data[at : at + size], "utf-8")
            for at, size in zip(starts, lengths, strict=True)
        ]

    def containing(self, rows: Rows, part: str) -> NDArray[np.bool_]:
        """For each of some rows whether its text contains a part, which is not empty; a row without text does not."""
        wanted = part.encode()
        # The offsets of the part in the buffer, byte by byte; in UTF-8 equal bytes are equal texts.
        places = np.flatnonzero(self.buffer[: max(0, self.buffer.size - len(wanted) + 1)] == wanted[0])
        for further, byte in enumerate(wanted[1:], 1):
            places = places[self.buffer[places + further] == byte]
        starts, lengths = self.offsets[rows].astype(np.int64), self.lengths[rows]
        ends = starts + np.where(lengths == NO_TEXT, 0, lengths)
        next_place = np.append(places, self.buffer.size)[np.searchsorted(places, starts)]
        # A part that begins in one text and ends in the next one is in neither.
        found: NDArray[np.bool_] = next_place + len(wanted) <= ends
        return found


@dataclass(frozen=True, slots=True)
class Sparse:
    """What only a few machines have, by row."""

    last_errors: Mapping[int, str]
    draining_for: Mapping[int, NeedRef]
    drain_graces: Mapping[int, float]


class InventorySnapshot:
    """All machines at one moment."""

    def __init__(
        self,
        *,
        columns: Mapping[str, Column],
        ids: Texts,
        host_refs: Texts,
        wide: Mapping[str, Texts],
        shapes: Interner[Shape],
        assignments: Interner[Assignment],
        clusters: Interner[str],
        providers: Interner[str],
        sparse: Sparse,
        id_order: Rows,
    ) -> None:
        self.columns, self.shapes, self.assignments, self.clusters = columns, shapes, assignments, clusters
        self._ids, self._host_refs, self.wide, self._providers = ids, host_refs, wide, providers
        self._sparse, self.id_order = sparse, id_order

    def __len__(self) -> int:
        return int(self.id_order.size)

    def machine_id(self, row: int) -> str:
        """The id of one row."""
        return self._ids.get(row) or ""

    @property
    def ids(self) -> Texts:
        """The ids alone; keeping them does not keep this view."""
        return self._ids

    def draining_for(self, row: int) -> NeedRef | None:
        """The need for which a Draining machine was preempted, if that is why it drains."""
        return self._sparse.draining_for.get(row)

    @property
    def drains(self) -> Mapping[int, NeedRef]:
        """The needs for which machines were preempted, by row; other machines drain for no need."""
        return self._sparse.draining_for

    @property
    def drain_graces(self) -> Mapping[int, float]:
        """Seconds of drain grace that machines have left, by row; the others have none."""
        return self._sparse.drain_graces

    def machine(self, row: int) -> Machine:
        """The record of one row."""
        columns, sparse = self.columns, self._sparse
        provider, ref = self._providers[int(columns["provider"][row])], self._host_refs.get(row)
        idle_since = float(columns["idle_since"][row])
        return Machine(
            id=self.machine_id(row),
            state=MachineState(int(columns["state"][row])),
            shape=self._shape(row),
            host=HostRef(provider, ref or "") if provider or ref else NO_HOST,
            cluster=self.clusters[int(columns["cluster"][row])],
            assigned=self.assignments[int(columns["assignment"][row])],
            last_error=sparse.last_errors.get(row, ""),
            idle_since=None if np.isnan(idle_since) else idle_since,
            draining_for=sparse.draining_for.get(row),
            drain_grace_remaining_s=sparse.drain_graces.get(row, 0.0),
        )

    def _shape(self, row: int) -> Shape:
        shape = self.shapes[int(self.columns["shape"][row])]
        own = {key: value for key, texts in self.wide.items() if (value := texts.get(row)) is not None}
        return shape.with_labels(shape.labels.merged(own)) if own else shape

    def row_of(self, machine_id: str) -> int | None:
        """The row of one machine, by binary search; None when it is not there."""
        order = self.id_order
        low, high = 0, order.size
        wanted = machine_id.encode()
        while low < high:
            middle = (low + high) // 2
            if self.machine_id(int(order[middle])).encode() < wanted:
                low = middle + 1
            else:
                high = middle
        if low < order.size and self.machine_id(int(order[low])) == machine_id:
            return int(order[low])
        return None

    def records(self, rows: Rows) -> list[Machine]:
        """The records of some rows, in their order."""
        return list(self._records(rows))

    def machines(self) -> Iterator[Machine]:
        """Every record by id; for documents and tests, not for the hot path."""
        for start in range(0, self.id_order.size, _RECORDS_AT_A_TIME):
            yield from self._records(self.id_order[start : start + _RECORDS_AT_A_TIME])

    def _records(self, rows: Rows) -> Iterator[Machine]:
        """The records of many rows; column by column, which is several times quicker than row by row."""
        columns, sparse = self.columns, self._sparse
        numbers = (
            columns[name][rows].tolist() for name in ("state", "shape", "provider", "cluster", "assignment")
        )
        texts = (self._ids.many(rows), self._host_refs.many(rows), columns["idle_since"][rows].tolist())
        own_labels = bool(self.wide)
        for row, state, shape, by, cluster, stamp, machine_id, ref, idle_since in zip(
            rows.tolist(), *numbers, *texts, strict=True
        ):
            provider = self._providers[by]
            yield Machine(
                machine_id or "",
                _STATES[state],
                self._shape(row) if own_labels else self.shapes[shape],
                HostRef(provider, ref or "") if provider or ref else NO_HOST,
                self.clusters[cluster],
                self.assignments[stamp],
                sparse.last_errors.get(row, ""),
                None if isnan(idle_since) else idle_since,
                sparse.draining_for.get(row),
                sparse.drain_graces.get(row, 0.0),
            )

    def with_rows(
        self, columns: Mapping[str, Column], id_order: Rows, wide: Mapping[str, Texts]
    ) -> "InventorySnapshot":
        """The same values with other columns and other machines; see `bigfleet.model.inventory.masked`."""
        return InventorySnapshot(
            columns=columns,
            ids=self._ids,
            host_refs=self._host_refs,
            wide=wide,
            shapes=self.shapes,
            assignments=self.assignments,
            clusters=self.clusters,
            providers=self._providers,
            sparse=self._sparse,
            id_order=id_order,
        )

    def in_state(self, state: MachineState) -> Rows:
        """Rows in a state by id."""
        rows: Rows = self.id_order[self.columns["state"][self.id_order] == state]
        return rows


def sorted_by_id(arena: Arena, offsets: Column, lengths: Column, rows: Rows) -> Rows:
    """Rows in the order of their ids' bytes, which for UTF-8 is the order of code points."""
    lengths, offsets = lengths[rows].astype(np.int64), offsets[rows].astype(np.int64)
    width = int(lengths.max(initial=1))
    if width > 64:  # a matrix of long ids would be mostly padding
        texts = [arena.text(int(at), int(size)) for at, size in zip(offsets, lengths, strict=True)]
        return rows[np.array(sorted(range(len(texts)), key=texts.__getitem__), dtype=np.intp)]
    padded = np.zeros((rows.size, width), dtype=np.uint8)
    # Column by column: one gather of everything would need eight bytes per byte.
    for column in range(width):
        has = np.flatnonzero(lengths > column)
        padded[has, column] = arena.buffer[offsets[has] + column]
    keys = padded.view(f"S{width}").ravel()
    # NumPy takes trailing zero bytes for padding; the length distinguishes such ids.
    return rows[np.lexsort((lengths, keys))]
