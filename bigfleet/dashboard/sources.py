"""Where the dashboard's knowledge comes from, and how it says that a source is missing or silent.

Must never: tell a reader more of a failure than its words; blobs, tokens and certificates stay out of them.
Rules: dashboard 3, 4.1 (503 not configured or no leader, 502 upstream failed).
"""

import enum

from bigfleet.aio.net import Code, RpcError
from bigfleet.model.errors import BigFleetError


class SourceProblem(enum.Enum):
    """What is wrong with a source."""

    NOT_WIRED = 503
    NO_LEADER = 504
    FAILED = 502
    NOT_FOUND = 404
    BUSY = 429
    NOT_OFFERED = 501
    """It answers, but not this: a shard of the original has no insight."""
    REFUSED = 400
    """What was asked is wrong, and the source says so."""


class SourceError(BigFleetError):
    """A source could not answer."""

    def __init__(self, trouble: SourceProblem, text: str, flag: str = "") -> None:
        super().__init__(f"{text}; pass {flag}" if flag else text)
        self.trouble, self.text, self.flag = trouble, text, flag

    @property
    def status(self) -> int:
        """The HTTP status of an answer that failed for this."""
        return _STATUSES.get(self.trouble, self.trouble.value)


_STATUSES = {SourceProblem.NO_LEADER: 503, SourceProblem.NOT_OFFERED: 502}


def not_wired(what: str, flag: str) -> SourceError:
    """Return the error of a source nobody configured, which names the flag that would."""
    return SourceError(SourceProblem.NOT_WIRED, f"{what} is not configured", flag)


_WORDS = {
    Code.PERMISSION_DENIED: "refused this dashboard's certificate; it needs the role readonly or admin",
    Code.UNAVAILABLE: "does not answer",
    Code.DEADLINE_EXCEEDED: "did not answer in time",
    Code.UNIMPLEMENTED: "does not offer this",
}
_TROUBLES = {
    Code.NOT_FOUND: SourceProblem.NOT_FOUND,
    Code.RESOURCE_EXHAUSTED: SourceProblem.BUSY,
    Code.UNIMPLEMENTED: SourceProblem.NOT_OFFERED,
    Code.INVALID_ARGUMENT: SourceProblem.REFUSED,
}


def failed(who: str, error: RpcError) -> SourceError:
    """Return what a failed call means for a reader."""
    trouble = _TROUBLES.get(error.code, SourceProblem.FAILED)
    return SourceError(
        trouble, f"{who} {_WORDS.get(error.code, f'answered {error.code.name}: {error.detail}')}"
    )
