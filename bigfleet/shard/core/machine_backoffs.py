"""Holds machines off whose last action failed.

Why: a machine that cannot be made, configured, drained or deleted would otherwise be tried in every cycle, or keep a need
from the next best machine.
Must never: grow without bound, or hold off a machine whose action was merely not started.
Rules: `shard#machine-back-off`; ADR-0211. The numbers are constants.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from bigfleet.model.inventory import InventorySnapshot, Rows
from bigfleet.model.machine import MachineState
from bigfleet.shard.core.views import MachineBackoff

FIRST_S: Final = 5.0
LONGEST_S: Final = 300.0
KEPT_S: Final = 300.0
"""For how long after its wait an entry is kept, so that the next failure doubles the wait."""
MOST: Final = 10_000
"""Entries; beyond them the one that ends first is dropped."""
_OBTAINABLE = (MachineState.IDLE, MachineState.SPECULATIVE)


@dataclass(slots=True)
class _Entry:
    error: str
    wait_s: float
    until_s: float


class MachineBackoffs:
    """Back-offs by machine id; times are of the clock of the decisions."""

    def __init__(self) -> None:
        self._entries: dict[str, _Entry] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def failed(self, machine_id: str, error: str, now: float) -> None:
        """An action of the machine failed: wait, twice as long as the last time."""
        entry = self._entries.get(machine_id)
        if entry is not None:
            entry.wait_s = min(2 * entry.wait_s, LONGEST_S)
            entry.until_s, entry.error = now + entry.wait_s, error
            return
        if len(self._entries) >= MOST:
            del self._entries[min(self._entries, key=lambda known: (self._entries[known].until_s, known))]
        self._entries[machine_id] = _Entry(error, FIRST_S, now + FIRST_S)

    def worked(self, machine_id: str) -> None:
        """An action of the machine succeeded: the back-off ends."""
        self._entries.pop(machine_id, None)

    def holds(self, machine_id: str, now: float) -> bool:
        """Whether no action of the machine may start now."""
        entry = self._entries.get(machine_id)
        return entry is not None and now < entry.until_s

    def rows_left_out(self, snapshot: InventorySnapshot, now: float) -> Rows:
        """Rows of Idle and Speculative machines that the next decision must not see, ascending; forgets old entries."""
        if not self._entries:
            return np.empty(0, dtype=np.intp)
        self._entries = {
            machine_id: entry for machine_id, entry in self._entries.items() if now < entry.until_s + KEPT_S
        }
        state = snapshot.columns["state"]
        rows = [
            row
            for machine_id in self._entries
            if self.holds(machine_id, now)
            and (row := snapshot.row_of(machine_id)) is not None
            and state[row] in _OBTAINABLE
        ]
        return np.array(sorted(rows), dtype=np.intp)

    def views(self, now: float) -> Mapping[str, MachineBackoff]:
        """The machines that wait, as readers see them."""
        return {
            machine_id: MachineBackoff(entry.error, entry.until_s)
            for machine_id, entry in sorted(self._entries.items())
            if now < entry.until_s
        }
