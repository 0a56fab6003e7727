"""A page of needs from all rows of a shard that pages nothing itself (`dashboard#original-fleet`, ADR-0160)."""

from typing import Any

import pytest

from bigfleet.dashboard.core.need_list import NeedListQuery, listed


def row(cluster: str, reason: str = "SATISFIED", **given: Any) -> dict[str, Any]:  # Any: fields of a row
    return {
        "clusterId": cluster,
        "satisfied": reason == "SATISFIED",
        "unmetReason": reason,
        "acquisitionParked": False,
        "profileFingerprint": f"prio={cluster}",
        "group": "",
    } | given


ROWS = [
    row("a"),
    row("b", "NO_MATCHING_SUPPLY"),
    row("a", "TOPOLOGY_UNSATISFIABLE", acquisitionParked=True, group="llm-7"),
    row("c"),
]


@pytest.mark.parametrize(
    ("query", "places", "short", "before"),
    [
        (NeedListQuery(), [0, 1, 2, 3], 2, 1),
        (NeedListQuery(cluster="a"), [0, 2], 1, 1),
        (NeedListQuery(status="short"), [1, 2], 2, 0),
        (NeedListQuery(status="satisfied"), [0, 3], 0, 2),
        (NeedListQuery(status="parked"), [2], 1, 0),
        (NeedListQuery(reason="NO_MATCHING_SUPPLY"), [1], 1, 0),
        (NeedListQuery(text="llm"), [2], 1, 0),
        (NeedListQuery(text="prio=c"), [3], 0, 1),
        (NeedListQuery(text="nobody"), [], 0, 0),
    ],
)
def test_a_filter_counts_only_what_passes(
    query: NeedListQuery, places: list[int], short: int, before: int
) -> None:
    found = listed(ROWS, query, 7, 9)
    assert found.rows == [ROWS[place] for place in places]
    assert (found.cycle, found.computed_at_ns, found.needs, found.total) == (7, 9, 4, len(places))
    assert (found.short, found.before_first_short) == (short, before)


def test_a_page_is_cut_and_the_counts_are_of_the_whole() -> None:
    found = listed(ROWS, NeedListQuery(first=1, size=2), 7, 9)
    assert found.rows == ROWS[1:3]
    assert (found.total, found.short, found.before_first_short) == (4, 2, 1)
    assert listed(ROWS, NeedListQuery(first=8, size=2), 7, 9).rows == []
