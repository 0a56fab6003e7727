"""Derives the instructions that carry out the moves of the ledger, and the commands that follow from their acks.

Why: rows and views say what is left to do, so a new leader goes on where the last one stopped, whatever was lost between.
Must never: let a machine be adopted before its last possible owner has acknowledged the release, or let a clock decide who
owns a machine.
Rules: `coordinator#move-steps`, `coordinator#ledger`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from bigfleet.coordinator.core import commands
from bigfleet.coordinator.core.commands import Command
from bigfleet.coordinator.core.fields import MAX_MACHINES
from bigfleet.coordinator.core.instructions import InstructionQueue
from bigfleet.coordinator.core.partition import PartitionedDomains
from bigfleet.coordinator.core.soft_state import INTERVAL_S, SoftState
from bigfleet.coordinator.core.tables import MoveRow, MoveState, Tables
from bigfleet.model.instruction import Ack, Instruction, MovePhase, Outcome, TransferOwnership
from bigfleet.model.shard_report import OwnershipView

MAX_PER_REPORT: Final = 100
RETURN_AFTER_S: Final = 600.0
"""An adoption without ack for this long is given up: the machine goes home, by the same steps."""


@dataclass(frozen=True, slots=True)
class _Wanted:
    """One step that a shard is owed; machines with the same one share an instruction."""

    phase: MovePhase
    seq: int
    from_shard: str
    to_shard: str


@dataclass(slots=True)
class _Sent:
    """What is on its way to one shard, by machine."""

    queued: dict[str, str] = field(default_factory=dict)
    refused_at_s: dict[str, float] = field(default_factory=dict)
    adopting_since_s: dict[tuple[str, int], float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Marks:
    """The marks of one view."""

    view: OwnershipView
    adopted: Mapping[str, int]
    released: Mapping[str, int]


class MoveSteps:
    """Queues the steps of moves, and turns their acks into commands."""

    def __init__(self, queue: InstructionQueue, soft: SoftState, partition: PartitionedDomains) -> None:
        self._queue, self._soft, self._partition = queue, soft, partition
        self._sent: dict[str, _Sent] = {}
        self._marks: dict[str, _Marks] = {}

    def restarted(self, shard: str) -> None:
        """Forget what was queued for an earlier process."""
        for instruction_id in dict.fromkeys(self._sent.pop(shard, _Sent()).queued.values()):
            self._queue.withdraw(shard, instruction_id)

    def forget(self, shard: str) -> None:
        """Drop everything about a removed shard."""
        self._sent.pop(shard, None)
        self._marks.pop(shard, None)

    def acknowledged(
        self, shard: str, instruction: Instruction, ack: Ack, tables: Tables, now_s: float
    ) -> list[Command]:
        """Record an ack, and return the commands that follow from it."""
        move = instruction.payload
        if not isinstance(move, TransferOwnership):
            return []
        sent = self._sent.setdefault(shard, _Sent())
        for machine_id in move.machine_ids:
            if sent.queued.get(machine_id) == instruction.id:
                del sent.queued[machine_id]
            if ack.outcome is not Outcome.ACCEPTED:
                sent.refused_at_s[machine_id] = now_s
        provider = self._provider(shard)
        if not provider:
            return []
        rows = {
            machine_id: row
            for machine_id in move.machine_ids
            if (row := tables.move(provider, machine_id)) is not None and row.seq == move.move_seq
        }
        if move.phase is MovePhase.RELEASE and move.from_shard == shard:
            return _after_release(provider, rows, move, ack)
        if move.phase is MovePhase.ADOPT:
            return _after_adopt(provider, rows, move, ack)
        return []

    def derive(self, shard: str, tables: Tables, now_s: float) -> list[Command]:
        """Queue the steps due at this report, and return the commands that need no shard any more."""
        provider, view = self._provider(shard), self._view(shard)
        if not provider or view is None or tables.relearn:
            return []
        sent = self._sent.setdefault(shard, _Sent())
        sent.refused_at_s = {
            machine_id: at_s for machine_id, at_s in sent.refused_at_s.items() if now_s - at_s < INTERVAL_S
        }
        wanted: dict[_Wanted, list[str]] = {}
        forgotten: dict[int, list[str]] = {}
        busy = {*sent.queued, *sent.refused_at_s}
        for machine_id, row in tables.moves.get(provider, {}).items():
            step = self._step(shard, view, machine_id, row)
            if step is not None and machine_id not in busy:
                wanted.setdefault(step, []).append(machine_id)
            elif step is None and machine_id not in busy and self._is_home(shard, view, machine_id, row):
                forgotten.setdefault(row.seq, []).append(machine_id)
        for machine_id, seq in self._leftovers(provider, view, tables):
            if machine_id not in busy:
                step = _Wanted(MovePhase.CANCEL, seq, shard, shard)
                wanted.setdefault(step, []).append(machine_id)
        for step, machine_ids in islice(_batches(wanted), MAX_PER_REPORT):
            self._enqueue(shard, sent, step, machine_ids)
        found = [
            commands.move_step("move_forget", provider, some, seq)
            for seq, machine_ids in forgotten.items()
            for some in _slices(machine_ids)
        ]
        return found + self._overdue(shard, provider, sent, tables, now_s)

    def vanished(self, shard: str, machine_ids: Sequence[str], tables: Tables) -> list[Command]:
        """Return the commands that forget machines which their holder no longer finds at the provider."""
        provider = self._provider(shard)
        found: list[Command] = []
        for machine_id in machine_ids:
            row = tables.move(provider, machine_id)
            if row is not None and row.holder == shard and row.phase == MoveState.HELD:
                found.append(commands.move_step("move_forget", provider, [machine_id], row.seq))
        return found

    def _provider(self, shard: str) -> str:
        state = self._soft.of(shard)
        return "" if state is None or state.summary is None else state.summary.provider_address

    def _view(self, shard: str) -> _Marks | None:
        state = self._soft.of(shard)
        if state is None or state.view is None:
            return None
        known = self._marks.get(shard)
        if known is None or known.view is not state.view:
            known = self._marks[shard] = _Marks(
                state.view,
                {mark.machine_id: mark.move_seq for mark in state.view.adopted},
                {mark.machine_id: mark.move_seq for mark in state.view.released},
            )
        return known

    def _step(self, shard: str, view: _Marks, machine_id: str, row: MoveRow) -> _Wanted | None:
        """The step that a shard is owed for one row."""
        if row.phase == MoveState.RELEASING and row.from_shard == shard:
            return _Wanted(MovePhase.RELEASE, row.seq, shard, row.holder)
        if row.holder == shard:
            if row.phase == MoveState.RELEASING:
                return None
            if row.phase == MoveState.ADOPTING:
                return _Wanted(MovePhase.ADOPT, row.seq, row.from_shard, shard)
            at_home = row.home == shard and self._holds(shard, row)
            if at_home and machine_id not in view.released:
                leftover = machine_id in view.adopted
                return _Wanted(MovePhase.CANCEL, row.seq, shard, shard) if leftover else None
            if machine_id not in view.adopted:
                return _Wanted(MovePhase.ADOPT, row.seq, row.from_shard, shard)
            return None
        # The machine is another's: whoever could take it for its own by its domain must know.
        concerned = row.home == shard or self._shows(shard, row)
        if concerned and view.released.get(machine_id, -1) < row.seq:
            return _Wanted(MovePhase.RELEASE, row.seq, row.from_shard, row.holder)
        return None

    def _is_home(self, shard: str, view: _Marks, machine_id: str, row: MoveRow) -> bool:
        """Whether the row says nothing that the domain does not say."""
        return (
            row.holder == shard == row.home
            and row.phase == MoveState.HELD
            and machine_id not in view.adopted
            and machine_id not in view.released
            and self._holds(shard, row)
        )

    def _holds(self, shard: str, row: MoveRow) -> bool:
        held = self._partition.held(shard)
        return held is not None and (row.key, row.value) in held.held - held.leaving

    def _shows(self, shard: str, row: MoveRow) -> bool:
        held = self._partition.held(shard)
        return held is not None and (row.key, row.value) in held.held

    def _leftovers(self, provider: str, view: _Marks, tables: Tables) -> Iterator[tuple[str, int]]:
        """Released marks without a row, once every shard has said that it does not hold the machine."""
        loose = [machine_id for machine_id in view.released if tables.move(provider, machine_id) is None]
        if not loose or tables.ghosts or not all(self._soft.has_settled(other) for other in tables.shards):
            return
        views = [found for other in tables.shards if (found := self._view(other)) is not None]
        for machine_id in loose:
            if not any(machine_id in other.adopted for other in views):
                yield machine_id, view.released[machine_id]

    def _overdue(self, shard: str, provider: str, sent: _Sent, tables: Tables, now_s: float) -> list[Command]:
        """Commands that send adoptions home which have not been acknowledged for too long."""
        since: dict[tuple[str, int], float] = {}
        found: list[Command] = []
        for machine_id, row in tables.moves.get(provider, {}).items():
            if row.holder == shard and row.phase == MoveState.ADOPTING:
                key = machine_id, row.seq
                since[key] = sent.adopting_since_s.get(key, now_s)
                if now_s - since[key] >= RETURN_AFTER_S and row.home not in ("", shard):
                    found.append(commands.move_step("move_return", provider, [machine_id], row.seq))
        sent.adopting_since_s = since
        return found

    def _enqueue(self, shard: str, sent: _Sent, step: _Wanted, machine_ids: Sequence[str]) -> None:
        payload = TransferOwnership(
            machine_ids=tuple(machine_ids),
            phase=step.phase,
            move_seq=step.seq,
            from_shard=step.from_shard,
            to_shard=step.to_shard,
        )
        instruction = self._queue.enqueue(shard, payload)
        if instruction is not None:
            for machine_id in machine_ids:
                sent.queued[machine_id] = instruction.id


def _after_release(
    provider: str, rows: Mapping[str, MoveRow], move: TransferOwnership, ack: Ack
) -> list[Command]:
    if ack.outcome is not Outcome.ACCEPTED:
        return []
    open_ids = [machine_id for machine_id, row in rows.items() if row.phase == MoveState.RELEASING]
    gone = [machine_id for machine_id in open_ids if machine_id in ack.machine_ids]
    kept = [machine_id for machine_id in open_ids if machine_id not in ack.machine_ids]
    found = []
    if gone:
        found.append(commands.move_step("move_released", provider, gone, move.move_seq))
    if kept:
        found.append(commands.move_step("move_cancel", provider, kept, move.move_seq))
    return found


def _after_adopt(
    provider: str, rows: Mapping[str, MoveRow], move: TransferOwnership, ack: Ack
) -> list[Command]:
    open_rows = {machine_id: row for machine_id, row in rows.items() if row.phase == MoveState.ADOPTING}
    if ack.outcome is Outcome.ACCEPTED:
        done = [machine_id for machine_id in open_rows if machine_id in ack.machine_ids]
        return [commands.move_step("move_settled", provider, done, move.move_seq)] if done else []
    back = [machine_id for machine_id, row in open_rows.items() if row.home not in ("", row.holder)]
    return [commands.move_step("move_return", provider, back, move.move_seq)] if back else []


def _batches(wanted: Mapping[_Wanted, Sequence[str]]) -> Iterator[tuple[_Wanted, Sequence[str]]]:
    for step, machine_ids in wanted.items():
        for some in _slices(machine_ids):
            yield step, some


def _slices(machine_ids: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(machine_ids), MAX_MACHINES):
        yield machine_ids[start : start + MAX_MACHINES]
