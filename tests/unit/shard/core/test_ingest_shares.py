"""What a cluster's frames cost, and how long it waits beyond its share (`shard#ingest-share`)."""

import pytest

from bigfleet.shard.core.ingest_shares import BURST_S, IngestShares

RULE = pytest.mark.rule("shard#ingest-share")


@RULE
def test_a_burst_costs_no_wait_and_what_is_beyond_it_is_paid_by_the_share() -> None:
    shares = IngestShares(0.25)
    shares.charge("a", BURST_S, 100.0)
    assert shares.wait_s("a", 100.0) == 0
    shares.charge("a", 0.5, 100.0)
    assert shares.wait_s("a", 100.0) == 2.0
    assert shares.wait_s("a", 101.0) == 1.0
    assert shares.wait_s("a", 102.0) == 0


@RULE
def test_over_long_a_cluster_gets_its_share_and_no_more() -> None:
    shares, now_s, used_s = IngestShares(0.2), 0.0, 0.0
    while now_s < 1000:
        now_s += shares.wait_s("greedy", now_s)
        shares.charge("greedy", 0.05, now_s)
        used_s += 0.05
    assert used_s == pytest.approx(0.2 * 1000 + BURST_S, rel=0.01)


@RULE
def test_the_debt_of_one_cluster_is_no_other_ones() -> None:
    shares = IngestShares(0.2)
    shares.charge("greedy", 100.0, 0.0)
    assert shares.wait_s("modest", 0.0) == 0


def test_clusters_that_left_are_forgotten_once_their_debt_is_paid() -> None:
    shares = IngestShares(1.0)
    for number in range(10_000):
        shares.charge(f"c-{number}", 0.001, float(number))
    assert len(shares) <= 1025
