import pytest

from bigfleet.aio.net import Code, IdentityRefusedError, RpcError, RpcRefusedError
from bigfleet.model.errors import (
    BigFleetError,
    DuplicateMachineError,
    IllegalTransitionError,
    InvalidFieldError,
    InvariantError,
    UnknownMachineError,
)
from bigfleet.transport.status import STATUSES, status_of


class _FencedError(BigFleetError):
    pass


class _OddFencedError(_FencedError):
    pass


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (BigFleetError("x"), Code.INTERNAL),
        (InvalidFieldError("f", 1, "2"), Code.INVALID_ARGUMENT),
        (InvariantError("f", 1, "2"), Code.INTERNAL),
        (IllegalTransitionError("m", "Idle", "Draining", "Configuring"), Code.INTERNAL),
        (UnknownMachineError("m"), Code.NOT_FOUND),
        (DuplicateMachineError("m"), Code.ALREADY_EXISTS),
        (RpcRefusedError(Code.ABORTED, "x"), Code.ABORTED),
        (IdentityRefusedError("x"), Code.PERMISSION_DENIED),
    ],
)
def test_each_foreseen_error_has_its_code(error: BigFleetError, code: Code) -> None:
    status = status_of(error, STATUSES)
    assert status is not None
    assert status.code is code


def test_the_nearest_ancestor_in_the_table_counts() -> None:
    table = {**STATUSES, _FencedError: Code.FAILED_PRECONDITION}
    status = status_of(_OddFencedError("stale"), table)
    assert status is not None
    assert (status.code, status.detail) == (Code.FAILED_PRECONDITION, "stale")


@pytest.mark.parametrize(
    "error", [ValueError("x"), KeyError("x"), RpcError(Code.FAILED_PRECONDITION, "elsewhere")]
)
def test_what_nobody_foresaw_has_no_status(error: Exception) -> None:
    assert status_of(error, STATUSES) is None


def test_no_error_means_fenced_or_not_leader_by_default() -> None:
    assert Code.FAILED_PRECONDITION not in STATUSES.values()
