"""The one table from errors to status codes.

Why: which code a peer sees is contract (`wire#codes`), so it is decided in one place, and the
text of an unexpected error must not reach a peer.
Must never: give FAILED_PRECONDITION by default, as that code means "fenced" or "not leader".
"""

from collections.abc import Mapping
from typing import Final

from bigfleet.aio.net import Code, RpcError, RpcRefusedError
from bigfleet.model.errors import (
    BigFleetError,
    DuplicateMachineError,
    IllegalTransitionError,
    InvalidFieldError,
    InvariantError,
    UnknownMachineError,
)

GENERIC_DETAIL: Final = "internal error; the server's log has the details"

STATUSES: Final[Mapping[type[BigFleetError], Code]] = {
    BigFleetError: Code.INTERNAL,
    InvalidFieldError: Code.INVALID_ARGUMENT,
    InvariantError: Code.INTERNAL,  # a record of ours broke its own rule; the caller cannot correct it
    IllegalTransitionError: Code.INTERNAL,  # "never FAILED_PRECONDITION", `wire#codes`
    UnknownMachineError: Code.NOT_FOUND,
    DuplicateMachineError: Code.ALREADY_EXISTS,
}
"""The nearest class in an error's line of descent counts; a process adds rows through `ServeOptions.statuses`."""


def status_of(error: BaseException, statuses: Mapping[type[BigFleetError], Code]) -> RpcError | None:
    """Return the status a peer is owed for a foreseen error; None for an unexpected one."""
    if isinstance(error, RpcRefusedError):
        return RpcError(error.code, error.detail, error.trailing)
    if isinstance(error, RpcError):
        return None  # an answer of another process, which the handler must not pass on
    for kind in type(error).__mro__:
        if (code := statuses.get(kind)) is not None:
            return RpcError(code, str(error))
    return None
