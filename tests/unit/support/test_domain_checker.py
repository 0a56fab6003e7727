"""Histories of domains: what one table allows passes, planted stale reads and lost writes are found."""

import pytest

from tests.support.coordinator.domain_history import RecordedCall, from_lines, to_line
from tests.support.domain_checker import check_history


def assign(began: int, ended: int | None, shard: str, *, owner: str = "", domain: str = "d") -> RecordedCall:
    return RecordedCall("assign", began, ended, domain, shard, owner)


def unassign(began: int, ended: int | None) -> RecordedCall:
    return RecordedCall("unassign", began, ended, "d")


def listing(began: int, ended: int, *rows: tuple[str, str]) -> RecordedCall:
    return RecordedCall("list", began, ended, rows=rows)


@pytest.mark.rule("coordinator#linearizable-reads")
@pytest.mark.parametrize(
    ("calls", "ok"),
    [
        pytest.param([assign(0, 1, "a"), listing(2, 3, ("d", "a"))], True, id="seen"),
        pytest.param([assign(0, 1, "a"), listing(2, 3)], False, id="a stale listing"),
        pytest.param([assign(0, 1, "a"), assign(2, 3, "b", owner="a")], True, id="refused by the holder"),
        pytest.param([assign(0, 1, "a"), assign(2, 3, "b")], False, id="given twice"),
        pytest.param([assign(0, 1, "a"), assign(2, 3, "a")], True, id="repeated"),
        pytest.param([assign(0, 1, "b", owner="a")], False, id="refused by nobody"),
        pytest.param([assign(0, 1, "a"), unassign(2, 3), assign(4, 5, "b")], True, id="moved"),
        pytest.param(
            [assign(0, 1, "a"), unassign(2, None), assign(4, 5, "b", owner="a"), assign(6, 7, "b")],
            True,
            id="an unknown unassign took effect late",
        ),
        pytest.param(
            [assign(0, None, "a"), listing(2, 3), listing(4, 5, ("d", "a"))],
            True,
            id="an unknown assign, late",
        ),
        pytest.param(
            [assign(0, None, "a"), listing(2, 3, ("d", "a")), listing(4, 5)],
            False,
            id="an unknown assign, undone",
        ),
        pytest.param(
            [assign(0, 1, "a"), assign(2, 3, "a", domain="e"), listing(4, 5, ("e", "a"))],
            False,
            id="a listing that misses one domain of two",
        ),
    ],
)
def test_history(calls: list[RecordedCall], ok: bool) -> None:
    assert all(verdict.ok for verdict in check_history(calls).values()) is ok


def test_lines_are_read_back_and_half_a_line_is_left_out() -> None:
    calls = [assign(0, 1, "a"), listing(2, 3, ("d", "a")), unassign(4, None)]
    text = "".join(to_line(call) + "\n" for call in calls) + '{"kind":"assign","be'
    assert list(from_lines(text.splitlines(keepends=True))) == calls
