"""Words beside the colours of a shard's page (`dashboard#page-contents`, `dashboard#look`)."""

import pytest

from bigfleet.dashboard.pages.shards import conflict_share, cycle_time


@pytest.mark.parametrize(
    ("lost", "shown"),
    [
        (0, "<span>0.0 %</span>"),
        (14, "<span>14.0 %</span>"),
        (15, '<span class="warn">15.0 % many</span>'),
        (30, '<span class="bad">30.0 % far too many</span>'),
    ],
)
def test_a_share_of_conflicts_is_judged_as_the_original_does(lost: int, shown: str) -> None:
    assert conflict_share(lost, 100) == shown


def test_a_cycle_is_long_after_a_second_and_slow_after_five() -> None:
    assert [
        word in cycle_time(seconds) for seconds, word in ((0.9, "good"), (1.1, "long"), (5.1, "slow"))
    ] == [
        True,
        True,
        True,
    ]
    assert "unknown" in cycle_time(None)
