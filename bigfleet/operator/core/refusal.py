"""Why a CapacityRequest is left out of the demand.

Why: one bad request must not spoil the roll-up, and its owner must read on the object itself what to change.
Must never: quote more of a foreign text than a person reads.
Rules: operator 2.4 and 4.7.
"""

from dataclasses import dataclass
from typing import Final

from bigfleet.model.errors import InvalidFieldError

CONDITION_REASONS: Final = {
    "operator": "InvalidOperator",
    "requirement": "InvalidRequirement",
    "quantity": "InvalidQuantity",
    "spread": "InvalidSpread",
    "selector": "InvalidSelector",
}
"""What metrics call a reason, and what the condition on the request calls it."""

_SHOWN: Final = 80


class RefusedRequestError(InvalidFieldError):
    """One field of a request makes it unfit for a roll-up."""

    def __init__(self, reason: str, field: str, found: object, allowed: str) -> None:
        super().__init__(field, _short(found), allowed)
        self.reason = reason

    def refusal(self) -> "Refusal":
        """Return what is kept of it."""
        return Refusal(self.reason, str(self))


@dataclass(frozen=True, slots=True)
class Refusal:
    """The word for the metric, and the sentence for the owner."""

    reason: str
    message: str

    @property
    def condition_reason(self) -> str:
        """The reason as the condition has it."""
        return CONDITION_REASONS[self.reason]


def _short(found: object) -> object:
    if isinstance(found, str):
        return found if len(found) <= _SHOWN else f"{found[:_SHOWN]}…"
    if found is None or isinstance(found, bool | int | float):
        return found
    return f"a {type(found).__name__}"
