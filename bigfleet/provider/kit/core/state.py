"""The durable state of a provider in memory: records, fence marks and revisions, changed only by `apply`.

Why: memory holds exactly what is on disk. The kit decides on this state, writes the changes, and applies them only then,
so no reader sees what a crash could undo.
Must never: decide, wait, or apply changes in another order than that in which they were written.
Rules: `providers#operation-ids`, `providers#revision-moves`, `providers#restart`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bigfleet.model.machine import MachineState, Shape
from bigfleet.provider.contract import EDGES, OperationKind
from bigfleet.provider.kit.core.change_log import ChangeLog, read_cursor
from bigfleet.provider.kit.core.changes import (
    NO_OPERATIONS,
    DropMachine,
    FenceMark,
    GraceEnd,
    LowerMarks,
    Operations,
    PutMachine,
    ShardEpoch,
    SmallChange,
    StateChange,
)
from bigfleet.provider.kit.core.fence import Fence
from bigfleet.provider.kit.core.table import RecordTable, TableCodec
from bigfleet.provider.kit.core.values import MachineRecord

KINDS = tuple(OperationKind)


@dataclass(frozen=True, slots=True)
class MachineEntry:
    """One machine as decisions see it: the record, and what the wire does not show."""

    machine: MachineRecord
    offer: Shape
    operations: Operations = NO_OPERATIONS
    gone_at_s: int = 0

    def operation(self, kind: OperationKind) -> int:
        """Return the number of the last operation of a kind, 0 for none."""
        return self.operations[KINDS.index(kind)]


class ProviderState:
    """The state of one provider; its incarnation makes operation ids unique across stores."""

    def __init__(self, codec: TableCodec, incarnation: str = "", fence: Fence | None = None) -> None:
        self._codec = codec
        self.incarnation = incarnation
        self.table = RecordTable(codec)
        self.fence = fence or Fence()
        self.head = 0
        self._reserved = 0
        self._log = ChangeLog()
        self._grace_ends: dict[str, GraceEnd] = {}  # of machines that are draining
        self._next_row = 0  # where the next capped listing begins

    # For decisions.

    def entry(self, machine_id: str) -> MachineEntry | None:
        """Return one machine, None when the id is unknown."""
        row = self.table.row(machine_id)
        if row is None:
            return None
        table = self.table
        return MachineEntry(table.machine(row), table.offer(row), table.operations(row), table.gone_at_s(row))

    def next_revision(self) -> int:
        """Return an unused revision; if it is never written, the sequence has a gap."""
        self._reserved += 1
        return self._reserved

    def put(
        self,
        machine: MachineRecord,
        offer: Shape,
        operations: Operations = NO_OPERATIONS,
        *,
        gone_at_s: int = 0,
        starts: OperationKind | None = None,
    ) -> PutMachine:
        """Return the change that sets the machine to this record, with a new revision.

        The revision is also the number of the operation that the change starts: it is unique and as durable as the change.
        """
        revision = self.next_revision()
        if starts is not None:
            numbered = list(operations)
            numbered[KINDS.index(starts)] = revision
            create, configure, drain, delete = numbered
            operations = (create, configure, drain, delete)
        return PutMachine(
            id=machine.id,
            state=machine.state,
            own=self._codec.own(machine),
            shape=machine.shape,
            offer=offer,
            operations=operations,
            revision=revision,
            gone_at_s=gone_at_s,
        )

    def operation_id(self, number: int) -> str:
        """Return an operation's id: the incarnation, then the revision at which the operation began."""
        return f"{self.incarnation}-{number}"

    # For the writer.

    def apply(self, changes: Sequence[StateChange]) -> None:
        """Apply changes that are durable."""
        for change in changes:
            self._apply(change)
        self._log.compact(len(self.table), self.table.revisions)

    def load(self, change: StateChange) -> None:
        """Apply a change read at start, or a seed, without logging it for listings."""
        if isinstance(change, PutMachine):
            known = self.table.row(change.id)
            # A snapshot is written while changes go on, so it may be newer than the journal beside it.
            if known is None or change.revision >= self.table.revisions[known]:
                self._put(change)
            self._note(change.revision)
        else:
            self._apply_small(change)

    def opened(self, head: int) -> None:
        """Start serving: every record gets the head as its revision, so an older cursor yields everything."""
        self._note(head)
        self.table.settle_revisions(self.head)
        self._log = ChangeLog(floor=self.head)

    # For readers.

    def select(self, states: Sequence[MachineState], since: bytes, at_most: int) -> NDArray[np.intp]:
        """Return the rows of a listing: changed after the cursor, in these states, at most so many.

        A cursor that cannot be read yields everything. Each capped listing begins where the one before it ended.
        """
        cursor = read_cursor(since, self.head) if since else None
        if cursor is None or cursor < self._log.floor:
            rows = self.table.rows(states)
        else:
            rows = self.table.rows_of(self._log.since(cursor, self.table.revisions), states)
        return self._capped(rows, at_most) if 0 < at_most < rows.size else rows

    def _capped(self, rows: NDArray[np.intp], at_most: int) -> NDArray[np.intp]:
        # By row and not by place in the answer: which machines match may change from one call to the next.
        ordered = np.sort(rows)
        first = int(np.searchsorted(ordered, self._next_row))
        taken: NDArray[np.intp] = np.take(ordered, np.arange(first, first + at_most), mode="wrap")
        self._next_row = int(taken[-1]) + 1
        return taken

    def revision(self) -> bytes:
        """Return the head as a cursor."""
        return b"%d" % self.head

    def transitional(self) -> list[str]:
        """Return the ids of machines with an operation in progress."""
        rows = self.table.rows([edge.during for edge in EDGES.values()])
        return [self.table.id(row) for row in rows.tolist()]

    def grace_left_s(self, machine_id: str, operation: int, now_s: int) -> int:
        """Return how long the grace period of a drain still lasts; 0 if it has ended or there is none."""
        end = self._grace_ends.get(machine_id)
        return max(end.at_s - now_s, 0) if end is not None and end.operation == operation else 0

    def everything(self) -> Iterator[StateChange]:
        """Yield changes that build this state from an empty one; others may be applied in between."""
        yield from self.table.puts()
        pairs = [(machine_id, self.table.row(machine_id)) for machine_id in list(self.table.ids())]
        yield from self.fence.marks((machine_id, row) for machine_id, row in pairs if row is not None)
        yield from self.fence.epochs()
        yield from list(self._grace_ends.values())

    def _apply(self, change: StateChange) -> None:
        if isinstance(change, PutMachine):
            row = self._put(change)
            self._note(change.revision)
            self._log.add(change.revision, row)
        else:
            self._apply_small(change)

    def _put(self, put: PutMachine) -> int:
        if put.state is not MachineState.DRAINING:
            self._grace_ends.pop(put.id, None)
        return self.table.put(put)

    def _apply_small(self, change: SmallChange) -> None:
        if isinstance(change, FenceMark):
            self.fence.set(change, self.table.row(change.machine_id))
        elif isinstance(change, ShardEpoch):
            self.fence.set_epoch(change)
        elif isinstance(change, LowerMarks):
            self.fence.lower(change)
        elif isinstance(change, GraceEnd):
            self._set_grace_end(change)
        else:
            self._drop(change)

    def _set_grace_end(self, end: GraceEnd) -> None:
        row, known = self.table.row(end.machine_id), self._grace_ends.get(end.machine_id)
        is_draining = row is not None and self.table.state(row) is MachineState.DRAINING
        if is_draining and (known is None or end.operation >= known.operation):
            self._grace_ends[end.machine_id] = end

    def _drop(self, drop: DropMachine) -> None:
        row = self.table.drop(drop.id)
        if row is not None:
            self.fence.forget_row(row, drop.id)

    def _note(self, revision: int) -> None:
        self.head = max(self.head, revision)
        self._reserved = max(self._reserved, self.head)
