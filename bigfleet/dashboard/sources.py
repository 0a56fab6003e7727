"""Errors of the dashboard's sources: one is not configured, does not answer, or refuses.

Must never: show a reader more of a failure than its message; messages hold no blobs, tokens or certificates.
Rules: `dashboard#sources`, `dashboard#compatible-routes`.
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
    """It answers but does not offer this call: a shard of the original has no insight service."""
    REFUSED = 400
    """The source refuses the request as wrong."""


class SourceError(BigFleetError):
    """A source could not answer."""

    def __init__(self, trouble: SourceProblem, text: str, flag: str = "") -> None:
        super().__init__(f"{text}; pass {flag}" if flag else text)
        self.trouble, self.text, self.flag = trouble, text, flag

    @property
    def status(self) -> int:
        """The HTTP status for this failure."""
        return _STATUSES.get(self.trouble, self.trouble.value)


_STATUSES = {SourceProblem.NO_LEADER: 503, SourceProblem.NOT_OFFERED: 502}


def not_wired(what: str, flag: str) -> SourceError:
    """Return the error of a source that is not configured; it names the missing flag."""
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
    """Return the error for a failed call, in words for a reader."""
    trouble = _TROUBLES.get(error.code, SourceProblem.FAILED)
    return SourceError(
        trouble, f"{who} {_WORDS.get(error.code, f'answered {error.code.name}: {error.detail}')}"
    )


def here(now: float, age_s: float, stamp_ns: int) -> float:
    """When something happened, by this host's clock: so long ago as the peer says, whatever the peer's clock says.

    A peer of an older release gives no age; then its clock is believed.
    """
    return now - age_s if age_s else stamp_ns / 1e9
