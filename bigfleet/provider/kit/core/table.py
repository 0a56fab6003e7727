"""The machine records in columns, with their encoded bytes.

Why: a million machines as Python objects would take gigabytes and seconds; here a machine is a row of numbers, one bytes
object, and a reference to a shape.
Must never: build a `MachineRecord` unless asked for one; listings are made from bytes alone.
Rules: `providers#listing-size`, `providers#encoded-records`, `providers#fake-scale`.
"""

from collections.abc import Iterable, Iterator
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from bigfleet.model.machine import MachineState, Shape
from bigfleet.provider.contract import STATES
from bigfleet.provider.kit.core.changes import NO_OPERATIONS, Operations, PutMachine
from bigfleet.provider.kit.core.shapes import ShapeTable
from bigfleet.provider.kit.core.values import MachineRecord

_FREE = 0  # the state of a row that holds no machine; no record ever has it
_FIRST_ROWS = 1024
_BLOCK_ROWS = 1024


class TableCodec(Protocol):
    """Encodes records; the core knows only that encoded parts can be concatenated."""

    def own(self, machine: MachineRecord) -> bytes:
        """Encode all of a record but its shape."""

    def shape(self, shape: Shape) -> bytes:
        """Encode a shape as part of a record."""

    def machine(self, own: bytes, shape: Shape) -> MachineRecord:
        """Read a record back."""

    def listed(self, own: bytes, shape_bytes: int) -> bytes:
        """Return what precedes the shape's bytes in a listing: frame and own part."""

    def unlisted(self, listed: bytes) -> bytes:
        """Return the own part from what `listed` returned."""


class RecordTable:
    """All records; a row's number means its machine until the machine is dropped."""

    def __init__(self, codec: TableCodec) -> None:
        self._codec = codec
        self._shapes = ShapeTable(codec.shape)
        self._rows: dict[str, int] = {}
        self._ids: list[str] = []
        self._listed: list[bytes] = []
        self._free: list[int] = []
        self._states: NDArray[np.uint8] = np.zeros(_FIRST_ROWS, dtype=np.uint8)
        self._shown: NDArray[np.int32] = np.zeros(_FIRST_ROWS, dtype=np.int32)
        self._offers: NDArray[np.int32] = np.zeros(_FIRST_ROWS, dtype=np.int32)
        self._operations: NDArray[np.int64] = np.zeros((_FIRST_ROWS, 4), dtype=np.int64)
        self._gone_at_s: NDArray[np.int64] = np.zeros(_FIRST_ROWS, dtype=np.int64)
        self.revisions: NDArray[np.int64] = np.zeros(_FIRST_ROWS, dtype=np.int64)
        self.counts: dict[MachineState, int] = dict.fromkeys(STATES, 0)

    def __len__(self) -> int:
        return len(self._rows)

    def row(self, machine_id: str) -> int | None:
        """Return the machine's row, None when the id is unknown."""
        return self._rows.get(machine_id)

    def id(self, row: int) -> str:
        return self._ids[row]

    def ids(self) -> Iterable[str]:
        """Return every id in the order of arrival; invalid after a change."""
        return self._rows

    def state(self, row: int) -> MachineState:
        return MachineState(int(self._states[row]))

    def shape(self, row: int) -> Shape:
        """Return the shape that listings show."""
        return self._shapes[int(self._shown[row])]

    def offer(self, row: int) -> Shape:
        """Return the shape that the backend last described."""
        return self._shapes[int(self._offers[row])]

    def operations(self, row: int) -> Operations:
        create, configure, drain, delete = self._operations[row].tolist()
        return create, configure, drain, delete

    def gone_at_s(self, row: int) -> int:
        return int(self._gone_at_s[row])

    def machine(self, row: int) -> MachineRecord:
        return self._codec.machine(self._codec.unlisted(self._listed[row]), self.shape(row))

    def own(self, row: int) -> bytes:
        """Return the encoded part of the record that no other machine shares."""
        return self._codec.unlisted(self._listed[row])

    def put(self, put: PutMachine) -> int:
        """Set a record, known or new, and return its row."""
        row = self._rows.get(put.id)
        if put.offer is put.shape:  # nearly always, and a shape takes long to hash
            shown = offer = self._shapes.take(put.shape, 2)
        else:
            shown, offer = self._shapes.take(put.shape), self._shapes.take(put.offer)
        if row is None:
            row = self._new_row(put.id)
            if put.operations is not NO_OPERATIONS:
                self._operations[row] = put.operations
        else:
            self._shapes.drop(int(self._shown[row]))
            self._shapes.drop(int(self._offers[row]))
            self.counts[self.state(row)] -= 1
            self._operations[row] = put.operations
        self._listed[row] = self._codec.listed(put.own, len(self._shapes.pieces[shown]))
        self._states[row], self._shown[row], self._offers[row] = put.state, shown, offer
        if put.gone_at_s or self._gone_at_s[row]:
            self._gone_at_s[row] = put.gone_at_s
        self.revisions[row] = put.revision
        self.counts[put.state] += 1
        return row

    def drop(self, machine_id: str) -> int | None:
        """Forget a machine and return the row it had; None when it was not there."""
        row = self._rows.pop(machine_id, None)
        if row is None:
            return None
        self.counts[self.state(row)] -= 1
        self._shapes.drop(int(self._shown[row]))
        self._shapes.drop(int(self._offers[row]))
        self._states[row], self._gone_at_s[row], self.revisions[row] = _FREE, 0, 0
        self._operations[row] = NO_OPERATIONS
        self._ids[row], self._listed[row] = "", b""
        self._free.append(row)
        return row

    def settle_revisions(self, revision: int) -> None:
        """Give every record the same revision, as after a restart."""
        self.revisions[self._states != _FREE] = revision

    def rows(self, states: Iterable[MachineState] = ()) -> NDArray[np.intp]:
        """Return the rows in any of these states, all rows for none, in the order of rows."""
        used = self._states[: len(self._ids)]
        wanted = tuple(int(state) for state in states)
        found: NDArray[np.intp] = np.flatnonzero(np.isin(used, wanted) if wanted else used != _FREE)
        return found

    def rows_of(self, chosen: NDArray[np.intp], states: Iterable[MachineState]) -> NDArray[np.intp]:
        """Return those of the chosen rows that are in one of the states; all for none."""
        wanted = tuple(int(state) for state in states)
        kept: NDArray[np.intp] = chosen[np.isin(self._states[chosen], wanted)] if wanted else chosen
        return kept

    def tombstones(self) -> list[int]:
        found: list[int] = np.flatnonzero(self._gone_at_s[: len(self._ids)]).tolist()
        return found

    def pieces(self, rows: NDArray[np.intp]) -> list[bytes]:
        """Return the bytes of these records in a listing, own part and shape in turn, to be joined."""
        numbers: list[int] = rows.tolist()
        shapes: list[int] = self._shown[rows].tolist()
        pieces = [b""] * (2 * len(numbers))
        pieces[0::2] = map(self._listed.__getitem__, numbers)
        pieces[1::2] = map(self._shapes.pieces.__getitem__, shapes)
        return pieces

    def record_bytes(self, row: int) -> tuple[bytes, bytes]:
        """Return own part and shape of one record; joined they are its message."""
        return self.own(row), self._shapes.pieces[int(self._shown[row])]

    def puts(self) -> Iterator[PutMachine]:
        """Yield every record as the change that sets it; a concurrent change shows before or after itself."""
        start = 0
        while start < len(self._ids):
            # A block at a time, as columns are slow to read cell by cell; within it nothing can change.
            yield from self._block(start, min(start + _BLOCK_ROWS, len(self._ids)))
            start += _BLOCK_ROWS

    def _block(self, start: int, end: int) -> list[PutMachine]:
        cells = zip(
            range(start, end),
            self._states[start:end].tolist(),
            self._shown[start:end].tolist(),
            self._offers[start:end].tolist(),
            self._operations[start:end].tolist(),
            self.revisions[start:end].tolist(),
            self._gone_at_s[start:end].tolist(),
            strict=True,
        )
        return [
            PutMachine(
                self._ids[row],
                MachineState(state),
                self.own(row),
                self._shapes[shown],
                self._shapes[offer],
                (numbers[0], numbers[1], numbers[2], numbers[3]),
                revision,
                gone_at_s,
            )
            for row, state, shown, offer, numbers, revision, gone_at_s in cells
            if state != _FREE
        ]

    def _new_row(self, machine_id: str) -> int:
        if self._free:
            row = self._free.pop()
            self._ids[row] = machine_id
        else:
            row = len(self._ids)
            self._ids.append(machine_id)
            self._listed.append(b"")
            if row >= self._states.size:
                self._grow()
        self._rows[machine_id] = row
        return row

    def _grow(self) -> None:
        # By half: at a million rows a doubling would hold as much again for nothing.
        more = self._states.size // 2
        self._states = np.concatenate([self._states, np.zeros(more, dtype=np.uint8)])
        self._shown = np.concatenate([self._shown, np.zeros(more, dtype=np.int32)])
        self._offers = np.concatenate([self._offers, np.zeros(more, dtype=np.int32)])
        self._operations = np.concatenate([self._operations, np.zeros((more, 4), dtype=np.int64)])
        self._gone_at_s = np.concatenate([self._gone_at_s, np.zeros(more, dtype=np.int64)])
        self.revisions = np.concatenate([self.revisions, np.zeros(more, dtype=np.int64)])
