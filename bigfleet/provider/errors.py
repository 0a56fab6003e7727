"""Errors of the provider contract, each with its status code.

Must never: carry a bootstrap blob or a stack trace in its text; the text goes to the peer.
Rules: `providers#check-order`, `providers#status-codes`.

    BigFleetError
    └── ProviderError            the provider refused one call
        ├── BadArgumentError     an argument is invalid                          INVALID_ARGUMENT
        ├── NotOfferedError      the provider does not have the operation        UNIMPLEMENTED
        ├── FencedError          the token is not newer than one already seen    FAILED_PRECONDITION
        ├── NoSuchMachineError   the provider does not know the id               NOT_FOUND
        ├── OutOfPositionError   the machine is not in the state to start from   INTERNAL
        ├── StoreUnavailableError  the state cannot be written, nothing changed  UNAVAILABLE
        ├── ListTooLargeError    the listing does not fit into one message       RESOURCE_EXHAUSTED
        ├── BadAnswerError       client side: the reply is not valid
        ├── NeverSentError       client side: no connection, so the call was not sent
        └── OutcomeUnknownError  client side: no reply, so the outcome is unknown
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
    """An argument is invalid."""

    code = Code.INVALID_ARGUMENT


class NotOfferedError(ProviderError):
    """This provider does not have the operation, for example Delete on bare metal."""

    code = Code.UNIMPLEMENTED


class FencedError(ProviderError):
    """A token at least as new was seen for this shard and machine: the caller is an outdated process."""

    code = Code.FAILED_PRECONDITION


class NoSuchMachineError(ProviderError):
    """The provider knows no machine with this id; a call never creates one."""

    code = Code.NOT_FOUND


class OutOfPositionError(ProviderError):
    """The machine is not in the state from which the operation starts."""


class StoreUnavailableError(ProviderError):
    """The state could not be made durable, so nothing was accepted."""

    code = Code.UNAVAILABLE


class ListTooLargeError(ProviderError):
    """The listing is larger than one message may be; the text has both sizes."""

    code = Code.RESOURCE_EXHAUSTED

    def __init__(self, size: int, limit: int) -> None:
        super().__init__("List", "", f"the answer takes {size} bytes, the message limit is {limit} bytes")
        self.size, self.limit = size, limit

    @classmethod
    def from_detail(cls, detail: str) -> "ListTooLargeError":
        """Return the error with the text that the provider or the transport sent."""
        error = cls(0, 0)
        error.detail, error.args = detail, (f"List: {detail}",)
        return error


class BadAnswerError(ProviderError):
    """The provider accepted a call and replied with an invalid record."""

    def __init__(
        self, call: str, machine_id: str, detail: str, cause: InvalidFieldError | None = None
    ) -> None:
        super().__init__(call, machine_id, detail)
        self.cause = cause


class NeverSentError(ProviderError):
    """No connection was made, so the provider did not receive the call; the shard undoes what it began."""


class OutcomeUnknownError(ProviderError):
    """No reply came; the call may still take effect, so the state stays transitional (`shard#unanswered-calls`)."""
