"""Errors of the hook provider.

BigFleetError
├── InventoryError      the inventory is invalid
└── HookOutputError     the output of a hook is invalid
"""

from collections.abc import Sequence

from bigfleet.model.errors import BigFleetError

_SHOWN = 20


class InventoryError(BigFleetError):
    """The inventory is invalid; `faults` has every reason, the text the first ones."""

    def __init__(self, faults: Sequence[str]) -> None:
        self.faults = tuple(faults)
        more = f"; and {len(faults) - _SHOWN} more" if len(faults) > _SHOWN else ""
        super().__init__("; ".join(self.faults[:_SHOWN]) + more)


class HookOutputError(BigFleetError):
    """The last line of a hook's output is JSON that the protocol does not allow."""
