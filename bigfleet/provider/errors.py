"""Errors of the provider contract, each with the status code it travels as.

Why: which code means what is contract (FAILED_PRECONDITION is "fenced" and nothing else), so it stands in one table.
Must never: carry a bootstrap blob, a token's secret or a stack of ours in its text; the text goes to the peer.
Rules: providers 1.3 and 1.8.

    BigFleetError
    └── ProviderError            one call for one machine, or for none, was refused
        ├── BadArgumentError     an argument holds what it may not hold          INVALID_ARGUMENT
        ├── NotOfferedError      the operation does not exist here               UNIMPLEMENTED
        ├── FencedError          the token is not newer than one already seen    FAILED_PRECONDITION
        ├── NoSuchMachineError   nobody here knows the id                        NOT_FOUND
        ├── OutOfPositionError   the machine is not where this edge begins       INTERNAL
        ├── StoreUnavailableError  the state cannot be written, nothing happened UNAVAILABLE
        ├── ListTooLargeError    the answer does not fit into one message        RESOURCE_EXHAUSTED
        ├── BadAnswerError       seen by a caller: the answer cannot be true
        ├── NeverSentError       seen by a caller: no connection, so nothing began
        └── OutcomeUnknownError  seen by a caller: no answer, so nobody can tell
"""

from typing import ClassVar

from bigfleet.aio.net import Code
from bigfleet.model.errors import BigFleetError, InvalidFieldError


class ProviderError(BigFleetError):
    """The provider refused one call."""

    code: ClassVar[Code] = Code.INTERNAL

    def __init__(self, call: str, machine_id: str, detail: str) -> None:
        super().__init__(f"{call} {machine_id}: {detail}" if machine_id else f"{call}: {detail}")
        self.call, self.machine_id, self.detail = call, machine_id, detail


class BadArgumentError(ProviderError):
    """An argument holds what it may not hold."""

    code = Code.INVALID_ARGUMENT


class NotOfferedError(ProviderError):
    """This provider does not have the operation at all, as Delete on bare metal."""

    code = Code.UNIMPLEMENTED


class FencedError(ProviderError):
    """A token at least as new was seen for this shard and machine: the caller is a process of yesterday."""

    code = Code.FAILED_PRECONDITION


class NoSuchMachineError(ProviderError):
    """The id names no machine; none is ever made by a call."""

    code = Code.NOT_FOUND


class OutOfPositionError(ProviderError):
    """The machine is not in the state in which this edge begins."""


class StoreUnavailableError(ProviderError):
    """The state could not be made durable, so nothing was accepted."""

    code = Code.UNAVAILABLE


class ListTooLargeError(ProviderError):
    """The answer is larger than one message may be; the text names both numbers."""

    code = Code.RESOURCE_EXHAUSTED

    def __init__(self, size: int, limit: int) -> None:
        super().__init__("List", "", f"the answer takes {size} bytes, the message limit is {limit} bytes")
        self.size, self.limit = size, limit

    @classmethod
    def told(cls, detail: str) -> "ListTooLargeError":
        """The same as its caller sees it: in the words of whoever refused, be it the provider or the transport."""
        error = cls(0, 0)
        error.detail, error.args = detail, (f"List: {detail}",)
        return error


class BadAnswerError(ProviderError):
    """The provider accepted a call and answered with a record that cannot be true."""

    def __init__(
        self, call: str, machine_id: str, detail: str, cause: InvalidFieldError | None = None
    ) -> None:
        super().__init__(call, machine_id, detail)
        self.cause = cause


class NeverSentError(ProviderError):
    """No connection was made, so the provider cannot have heard of the call; what was begun here is undone."""


class OutcomeUnknownError(ProviderError):
    """No answer came; the call may yet take effect, so the state stays transitional (decision S3)."""
