"""A call that ended without an answer leaves a doubt about its object; any answer about it settles the doubt."""

import asyncio

import pytest

from bigfleet.kube.errors import ConflictError, KubeError, NotFoundError, ServerError, UnreachableError
from bigfleet.operator.doubts import Doubts


@pytest.mark.parametrize(
    ("error", "doubtful"),
    [
        (UnreachableError("PATCH x", "cut"), True),
        (ServerError("PATCH x", "timeout", status=504), True),
        (asyncio.CancelledError(), True),
        (ConflictError("PATCH x", "moved on", status=409), False),
        (NotFoundError("PATCH x", "gone", status=404), False),
    ],
    ids=lambda value: type(value).__name__,
)
def test_only_a_call_without_a_clear_answer_leaves_a_doubt(error: BaseException, doubtful: bool) -> None:
    doubts = Doubts()
    with pytest.raises((KubeError, asyncio.CancelledError)), doubts.about("un-m"):
        raise error
    assert ("un-m" in doubts) is doubtful
    assert "un-n" not in doubts


def test_a_refusal_does_not_settle_a_doubt_and_an_answer_does() -> None:
    doubts = Doubts()
    with pytest.raises(UnreachableError), doubts.about("un-m"):
        raise UnreachableError("PATCH x", "cut")
    with pytest.raises(ConflictError), doubts.about("un-m"):
        raise ConflictError("PATCH x", "moved on", status=409)
    assert "un-m" in doubts
    with doubts.about("un-m"):
        pass
    assert "un-m" not in doubts
