"""A write whose answer was lost is unconfirmed until an answer about its object arrives."""

import asyncio

import pytest

from bigfleet.kube.errors import ConflictError, KubeError, NotFoundError, ServerError, UnreachableError
from bigfleet.operator.unconfirmed_writes import UnconfirmedWrites


@pytest.mark.parametrize(
    ("error", "unconfirmed"),
    [
        (UnreachableError("PATCH x", "cut"), True),
        (ServerError("PATCH x", "timeout", status=504), True),
        (asyncio.CancelledError(), True),
        (ConflictError("PATCH x", "moved on", status=409), False),
        (NotFoundError("PATCH x", "gone", status=404), False),
    ],
    ids=lambda value: type(value).__name__,
)
def test_only_a_call_without_a_clear_answer_is_unconfirmed(error: BaseException, unconfirmed: bool) -> None:
    writes = UnconfirmedWrites()
    with pytest.raises((KubeError, asyncio.CancelledError)), writes.track("un-m"):
        raise error
    assert ("un-m" in writes) is unconfirmed
    assert "un-n" not in writes


def test_a_refusal_does_not_confirm_a_write_and_an_answer_does() -> None:
    writes = UnconfirmedWrites()
    with pytest.raises(UnreachableError), writes.track("un-m"):
        raise UnreachableError("PATCH x", "cut")
    with pytest.raises(ConflictError), writes.track("un-m"):
        raise ConflictError("PATCH x", "moved on", status=409)
    assert "un-m" in writes
    with writes.track("un-m"):
        pass
    assert "un-m" not in writes
