"""What failed calls and reports mean for the next decisions: which machines and offerings to leave alone for a while.

Why: a failure is seen in two places, in the answer to a call and in a later listing, and must have the same effect in both.
Must never: take a machine that merely serves no longer for one whose action failed.
Rules: `shard#machine-back-off`, `shard#offering-cool-off`; ADR-0210, ADR-0211.
"""

from typing import Final

import numpy as np

from bigfleet.model.inventory import InventorySnapshot, Rows
from bigfleet.model.machine import STABLE_STATES, Machine, MachineState
from bigfleet.provider.contract import STOCKOUT_PREFIX
from bigfleet.shard.core.machine_backoffs import MachineBackoffs
from bigfleet.shard.core.offering_cool_offs import OfferingCoolOffs

S = MachineState
_DONE: Final = frozenset(
    {
        (S.CREATING, S.IDLE),
        (S.CONFIGURING, S.CONFIGURED),
        (S.DRAINING, S.IDLE),
        (S.DELETING, S.SPECULATIVE),
    }
)
"""Changes of state that complete an action."""
_REFUSED_FOR_CAPACITY: Final = "create: RESOURCE_EXHAUSTED"


def is_out_of_stock(error: str) -> bool:
    """Whether the error of a failed Create says that the provider has no capacity."""
    return error.startswith((STOCKOUT_PREFIX, f"create: {STOCKOUT_PREFIX}", _REFUSED_FOR_CAPACITY))


class Setbacks:
    """Machines that back off, and offerings that are out of stock."""

    def __init__(self) -> None:
        self.machines, self.offerings = MachineBackoffs(), OfferingCoolOffs()

    def changed(self, before: Machine, after: Machine, now: float) -> bool:
        """A record was written; return whether its offering turned out to be out of stock, so that a cycle should follow."""
        if (before.state, after.state) in _DONE:
            self.machines.worked(after.id)
            return False
        if after.state is not S.FAILED or before.state in STABLE_STATES:
            return False
        if before.state is S.CREATING and is_out_of_stock(after.last_error):
            self.offerings.failed(before.shape, after.id, after.last_error, now)
            return True
        self.machines.failed(after.id, after.last_error, now)
        return False

    def rows_left_out(self, snapshot: InventorySnapshot, now: float) -> Rows:
        """The rows that the next decision must not see, ascending."""
        rows = self.machines.rows_left_out(snapshot, now)
        slots = self.offerings.rows_left_out(snapshot, now)
        if not rows.size:
            return slots
        return np.union1d(rows, slots) if slots.size else rows
