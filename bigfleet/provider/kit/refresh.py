"""Keeps the records in step with what the backend describes.

Why: one bad answer of a backend must not cost a machine, and a refresh that finds no difference must change nothing.
Must never: change state, host, binding, type or zone of a machine, or remove one that is bound or transitional.
Rules: `providers#refresh`, `providers#validation`, `providers#tombstones`.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from functools import partial

from bigfleet.aio.clock import Clock
from bigfleet.model.errors import BigFleetError
from bigfleet.provider.kit.backend import Backend
from bigfleet.provider.kit.core.changes import StateChange
from bigfleet.provider.kit.core.state import ProviderState
from bigfleet.provider.kit.core.transitions import (
    admit,
    forget,
    make_tombstone,
    may_make_tombstone,
    update_offer,
)
from bigfleet.provider.kit.core.validation import RecordFault, RecordValidator
from bigfleet.provider.kit.core.values import DescribedMachine, Timestamp
from bigfleet.provider.kit.limits import Limits
from bigfleet.provider.kit.state_writer import StateWriter

_SHOWN_FAULTS = 50
_YIELD_EVERY = 1024  # machines; a million of them must not delay calls
_BATCH = 256


class InvalidInventoryError(BigFleetError):
    """The backend describes invalid machines; `faults` has all of them, the text the first ones."""

    def __init__(self, faults: Sequence[RecordFault]) -> None:
        self.faults = tuple(faults)
        shown = "; ".join(map(str, self.faults[:_SHOWN_FAULTS]))
        more = f"; and {len(faults) - _SHOWN_FAULTS} more" if len(faults) > _SHOWN_FAULTS else ""
        super().__init__(f"{len(faults)} faults in what the backend describes: {shown}{more}")


@dataclass(frozen=True, slots=True)
class Refreshed:
    """What one refresh found."""

    added: int = 0
    changed: int = 0
    tombstones: int = 0
    invalid: int = 0


class Refresher:
    """Compares described machines with the records; the caller serializes refreshes."""

    def __init__(
        self,
        backend: Backend,
        writer: StateWriter,
        *,
        limits: Limits,
        clock: Clock,
        now: Callable[[], Timestamp],
        on_invalid: Callable[[Sequence[RecordFault]], None],
    ) -> None:
        self._backend, self._writer, self._limits = backend, writer, limits
        self._clock, self._now, self._on_invalid = clock, now, on_invalid
        self._missing: dict[str, int] = {}

    async def seed(self, state: ProviderState) -> None:
        """Fill an empty state before it is served; any fault is fatal."""
        faults: list[RecordFault] = []
        async for slot, found in self._described():
            faults += found
            if not faults:
                state.load(admit(state, slot))
        if faults:
            raise InvalidInventoryError(faults)

    async def refresh(self, *, fatal: bool = False) -> Refreshed:
        """Refresh once. An answer that breaks off raises the backend's error and changes nothing."""
        seen: set[str] = set()
        waiting: list[DescribedMachine] = []
        faults: list[RecordFault] = []
        added = changed = invalid = 0
        async for slot, found in self._described():
            seen.add(slot.id)
            if found:
                faults += found if fatal else ()
                invalid += 1
                if not fatal:
                    self._on_invalid(found)
            elif self._differs(slot):
                waiting.append(slot)
        if faults:
            raise InvalidInventoryError(faults)
        for start in range(0, len(waiting), _BATCH):
            together = waiting[start : start + _BATCH]
            known = sum(self._writer.state.table.row(slot.id) is not None for slot in together)
            changed, added = changed + known, added + len(together) - known
            await self._writer.commit_many([slot.id for slot in together], partial(self._take, together))
        tombstones = await self._mark_missing(seen)
        return Refreshed(added, changed, tombstones, invalid)

    async def forget_tombstones(self) -> int:
        """Drop the tombstones whose retention has ended; return how many."""
        state, now_s = self._writer.state, self._now().seconds
        ids = [state.table.id(row) for row in state.table.tombstones()]
        dropped = 0
        for machine_id in ids:

            def decide(machine_id: str = machine_id) -> tuple[bool, Sequence[StateChange]]:
                entry = state.entry(machine_id)
                retention_s = round(self._limits.tombstone_retention)
                drop = forget(entry, now_s, retention_s) if entry is not None else None
                return drop is not None, () if drop is None else (drop,)

            dropped += await self._writer.decide(machine_id, decide)
        return dropped

    async def _described(self) -> AsyncIterator[tuple[DescribedMachine, Sequence[RecordFault]]]:
        validator = RecordValidator()
        met: set[str] = set()
        count = 0
        async for slot in self._backend.describe():
            count += 1
            if count % _YIELD_EVERY == 0:
                await self._clock.sleep(0)
            faults = validator.faults(slot)
            if slot.id in met:
                faults = (*faults, RecordFault(slot.id, "duplicate", "id: described twice in one answer"))
            met.add(slot.id)
            yield slot, faults

    def _differs(self, slot: DescribedMachine) -> bool:
        table = self._writer.state.table
        row = table.row(slot.id)
        return row is None or slot.shape != table.offer(row)

    def _take(self, slots: Sequence[DescribedMachine]) -> Sequence[StateChange]:
        state = self._writer.state
        changes: list[StateChange] = []
        for slot in slots:
            entry = state.entry(slot.id)
            change = admit(state, slot) if entry is None else update_offer(state, entry, slot.shape)
            if change is not None:
                changes.append(change)
        return changes

    async def _mark_missing(self, seen: set[str]) -> int:
        state = self._writer.state
        missing = {
            machine_id: self._missing.get(machine_id, 0) + 1
            for machine_id in state.table.ids()
            if machine_id not in seen
        }
        self._missing = missing
        due = [machine_id for machine_id, count in missing.items() if count >= self._limits.missing_answers]
        tombstones = 0
        for machine_id in due:

            def decide(machine_id: str = machine_id) -> tuple[bool, Sequence[StateChange]]:
                entry = state.entry(machine_id)
                if entry is None or not may_make_tombstone(entry.machine.state):
                    return False, ()
                put = make_tombstone(state, entry, "the substrate no longer has it", self._now())
                return put is not None, () if put is None else (put,)

            tombstones += await self._writer.decide(machine_id, decide)
        return tombstones
