"""Why a CapacityRequest is left out of the demand.

Why: one bad request must not spoil the roll-up, and its owner must read on the object itself what to change.
Must never: quote more of a stranger's text than a person reads.
Rules: `operator#schema-limits`, `operator#reported-condition`, `operator#left-out-requests`.
"""

from dataclasses import dataclass
from typing import Final

from bigfleet.kube.event_reasons import NOT_REPORTED, ROLLUP_REFUSED
from bigfleet.model.errors import InvalidFieldError

_SHOWN: Final = 80


class RefusedRequestError(InvalidFieldError):
    """One field of a request keeps it out of the roll-up."""

    def __init__(self, reason: str, field: str, found: object, allowed: str) -> None:
        super().__init__(field, _short(found), allowed)
        self.reason = reason

    def refusal(self) -> "RequestRefusal":
        """Return the refusal as a value."""
        return RequestRefusal(self.reason, str(self))


@dataclass(frozen=True, slots=True)
class RequestRefusal:
    """The label for the metric and the sentence for the owner of the request."""

    reason: str
    message: str

    @property
    def condition_reason(self) -> str:
        """The reason in the condition and in the event."""
        return NOT_REPORTED[self.reason]


@dataclass(frozen=True, slots=True)
class RollupRefusal(RequestRefusal):
    """The shard refused the whole roll-up, so no request of it is part of the demand that counts."""

    reason: str = "rollup"
    message: str = ""

    @property
    def condition_reason(self) -> str:
        """The reason in the condition and in the event."""
        return ROLLUP_REFUSED


def _short(found: object) -> object:
    if isinstance(found, str):
        return found if len(found) <= _SHOWN else f"{found[:_SHOWN]}…"
    if found is None or isinstance(found, bool | int | float):
        return found
    return f"a {type(found).__name__}"
