"""When the provider counts as unreachable, and when it is probed (`shard#provider-standing`)."""

import pytest

from bigfleet.shard.core.provider_standing import LONGEST_PROBE_S, ProviderStanding

RULE = pytest.mark.rule("shard#provider-standing")


def failed_three_times() -> ProviderStanding:
    standing = ProviderStanding()
    assert [standing.failed("UNAVAILABLE", at_s, 0.0) for at_s in (10.0, 10.1, 10.6)] == [False, False, True]
    return standing


@RULE
def test_a_new_provider_is_trusted_and_not_probed() -> None:
    standing = ProviderStanding()
    assert (standing.reachable, standing.doubtful, standing.next_probe_s) == (True, False, None)


@RULE
def test_one_failure_makes_it_doubtful_and_is_probed_at_once_then_half_a_second_later() -> None:
    standing = ProviderStanding()
    standing.failed("UNAVAILABLE", 10.0, 0.5)
    assert (standing.reachable, standing.doubtful, standing.next_probe_s) == (True, True, 10.0)
    standing.failed("UNAVAILABLE", 10.2, 0.5)
    assert (standing.reachable, standing.doubtful, standing.next_probe_s) == (True, True, 10.7)


@RULE
def test_three_failures_in_a_row_make_it_unreachable_and_an_answer_between_them_does_not() -> None:
    standing = failed_three_times()
    assert (standing.reachable, standing.unreachable_since_s) == (False, 10.6)
    standing = ProviderStanding()
    for _ in range(5):
        standing.failed("UNAVAILABLE", 1.0, 0.0)
        standing.failed("UNAVAILABLE", 1.0, 0.0)
        standing.answered()
    assert standing.reachable


@RULE
def test_probes_are_one_second_apart_doubling_to_fifteen() -> None:
    standing = failed_three_times()
    waits, now_s = [], 10.6
    for _ in range(7):
        assert standing.next_probe_s is not None
        waits.append(round(standing.next_probe_s - now_s, 6))
        now_s = standing.next_probe_s
        standing.probing(now_s, 0.0)
        standing.failed("UNAVAILABLE", now_s, 0.0)
    assert waits == [1, 2, 4, 8, 15, 15, 15]


@RULE
def test_jitter_lengthens_a_wait_by_a_fifth_at_most() -> None:
    standing = ProviderStanding()
    for _ in range(3):
        standing.failed("UNAVAILABLE", 10.0, 1.0)
    assert standing.next_probe_s == 11.2
    for now_s in range(100, 1000, 100):
        standing.probing(float(now_s), 1.0)
    assert standing.next_probe_s == 900 + LONGEST_PROBE_S * 1.2


@RULE
def test_one_answer_ends_an_outage_and_asks_for_a_listing() -> None:
    standing = failed_three_times()
    assert standing.answered()
    assert (standing.reachable, standing.failures, standing.next_probe_s) == (True, 0, None)
    assert not standing.answered()


@RULE
def test_a_single_lost_answer_asks_for_no_listing_and_a_lost_connection_does() -> None:
    standing = ProviderStanding()
    standing.failed("DEADLINE_EXCEEDED", 10.0, 0.0)
    assert not standing.answered()
    standing.lost("connection lost", 20.0, 0.0)
    assert standing.failures == 1
    assert standing.answered()


@RULE
def test_a_connection_brings_the_probe_forward_but_not_twice_within_a_second() -> None:
    standing = failed_three_times()
    standing.connected(10.7)
    assert standing.next_probe_s == 10.7
    standing.probing(10.7, 0.0)
    standing.failed("UNAVAILABLE", 10.8, 0.0)
    standing.connected(10.9)
    assert standing.next_probe_s == 11.7
    trusted = ProviderStanding()
    trusted.connected(5.0)
    assert trusted.next_probe_s is None


@RULE
def test_connections_lost_during_an_outage_are_not_counted() -> None:
    standing = failed_three_times()
    standing.lost("refused", 12.0, 0.0)
    assert standing.failures == 3
