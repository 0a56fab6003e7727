"""Errors of the hook provider.

BigFleetError
├── InventoryError      the inventory breaks rules; all of them are told
└── HookOutputError     a hook printed what it may not print
"""

from collections.abc import Sequence

from bigfleet.model.errors import BigFleetError

_TOLD = 20


class InventoryError(BigFleetError):
    """The inventory cannot be used; `faults` has every reason, the text the first ones."""

    def __init__(self, faults: Sequence[str]) -> None:
        self.faults = tuple(faults)
        more = f"; and {len(faults) - _TOLD} more" if len(faults) > _TOLD else ""
        super().__init__("; ".join(self.faults[:_TOLD]) + more)


class HookOutputError(BigFleetError):
    """The last line of a hook's output is JSON, but not what the protocol allows."""
