"""Leaves offerings alone that are out of stock, and tries each of them again from time to time.

Why: a stock-out lasts for minutes. Until it ends, calls for the offering fail, and a decision that still counts on it would
not order the next best one.
Must never: make more than one attempt per wait, or leave out a machine that is not Speculative.
Rules: `shard#offering-cool-off`; ADR-0210. The numbers are constants.

An entry goes through three steps. It *waits*: all slots of the offering are left out. Then it *offers* one slot, the one
with the smallest id, for the next decision to take. Once that slot is ordered it is the *trial*: if it fails for the same
reason, the wait doubles; if it becomes a machine, the entry ends. An offered slot that no decision takes for as long as the
last wait lasted ends the entry too, since the stock-out is old news then.
"""

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bigfleet.model.inventory import InventorySnapshot, Rows
from bigfleet.model.machine import CapacityType, MachineState, Shape
from bigfleet.shard.core.views import OfferingCoolOff

FIRST_S: Final = 30.0
LONGEST_S: Final = 600.0
_MADE = frozenset({MachineState.IDLE, MachineState.CONFIGURING, MachineState.CONFIGURED})


class Offering(NamedTuple):
    """What a provider has in stock or not."""

    instance_type: str
    zone: str
    capacity_type: CapacityType


def offering_of(shape: Shape) -> Offering:
    """The offering of a machine."""
    return Offering(shape.instance_type, shape.zone, shape.capacity_type)


@dataclass(slots=True)
class _Entry:
    error: str
    wait_s: float
    until_s: float
    failures: int = 1
    slot: str = ""
    """The machine that is offered or on trial; empty while the entry waits."""
    on_trial: bool = False
    left_out: int = 0


class OfferingCoolOffs:
    """The offerings that are out of stock; times are of the clock of the decisions."""

    def __init__(self) -> None:
        self._entries: dict[Offering, _Entry] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def failed(self, shape: Shape, machine_id: str, error: str, now: float) -> None:
        """The provider had no capacity for a machine.

        Only the failure of the trial makes the wait longer: other calls were sent before the first failure was known.
        """
        offering = offering_of(shape)
        entry = self._entries.get(offering)
        if entry is None:
            self._entries[offering] = _Entry(error, FIRST_S, now + FIRST_S)
            return
        entry.error = error
        if machine_id == entry.slot:
            entry.wait_s = min(2 * entry.wait_s, LONGEST_S)
            entry.until_s, entry.failures = now + entry.wait_s, entry.failures + 1
            entry.slot, entry.on_trial = "", False

    def holds(self, shape: Shape, machine_id: str) -> bool:
        """Whether a Create that is queued must not be sent: its offering is out of stock and the machine is no trial."""
        entry = self._entries.get(offering_of(shape))
        return entry is not None and machine_id != entry.slot

    def rows_left_out(self, snapshot: InventorySnapshot, now: float) -> Rows:
        """The rows that the next decision must not see, ascending; also moves each entry on by what the snapshot shows."""
        if not self._entries:
            return np.empty(0, dtype=np.intp)
        slots = self._slots(snapshot)
        left_out: list[Rows] = []
        for offering, entry in sorted(self._entries.items()):
            rows = slots.get(offering, np.empty(0, dtype=np.intp))
            if self._has_ended(entry, snapshot, now):
                del self._entries[offering]
                continue
            offered = self._offer(entry, snapshot, rows, now)
            hidden = rows if offered is None else rows[rows != offered]
            entry.left_out = int(hidden.size)
            left_out.append(hidden)
        if not left_out:
            return np.empty(0, dtype=np.intp)
        return np.sort(np.concatenate(left_out))

    def views(self) -> tuple[OfferingCoolOff, ...]:
        """The offerings as readers see them; one that is merely offered again is no longer out of stock."""
        return tuple(
            OfferingCoolOff(*offering, entry.error, entry.failures, entry.until_s, entry.left_out)
            for offering, entry in sorted(self._entries.items())
            if not entry.slot or entry.on_trial
        )

    def _has_ended(self, entry: _Entry, snapshot: InventorySnapshot, now: float) -> bool:
        """Note what became of the offered slot; return whether the offering counts as in stock again."""
        if not entry.slot:
            return False
        row = snapshot.row_of(entry.slot)
        state = None if row is None else MachineState(int(snapshot.columns["state"][row]))
        if state in _MADE:
            return True
        if state is MachineState.CREATING:
            entry.on_trial = True
        elif state is MachineState.SPECULATIVE:
            entry.on_trial = False
            return now >= entry.until_s + entry.wait_s
        else:  # it failed for another reason, or is gone: another slot is offered
            entry.slot, entry.on_trial = "", False
        return False

    @staticmethod
    def _offer(entry: _Entry, snapshot: InventorySnapshot, rows: Rows, now: float) -> int | None:
        """The row of the offered slot, chosen here once the wait has ended; None when there is none."""
        if entry.on_trial or now < entry.until_s:
            return None
        if not entry.slot and rows.size:
            entry.slot = snapshot.machine_id(int(rows[0]))
        return snapshot.row_of(entry.slot) if entry.slot else None

    def _slots(self, snapshot: InventorySnapshot) -> dict[Offering, Rows]:
        """The Speculative rows of each offering in cool-off, by id."""
        numbers: dict[Offering, int] = {
            offering: place for place, offering in enumerate(self._entries, start=1)
        }
        shapes = snapshot.shapes
        of_shape: NDArray[np.int64] = np.fromiter(
            (numbers.get(offering_of(shapes[number]), 0) for number in range(len(shapes))),
            dtype=np.int64,
            count=len(shapes),
        )
        rows = snapshot.in_state(MachineState.SPECULATIVE)
        found = of_shape[snapshot.columns["shape"][rows]]
        return {offering: rows[found == number] for offering, number in numbers.items()}
