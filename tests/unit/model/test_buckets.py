"""Exact amounts into penalty buckets."""

import pytest

from bigfleet.model.buckets import ALL_BUCKETS, bucket_of_nano, upper_bound
from bigfleet.model.quantity import NANO


@pytest.mark.parametrize("bucket", ALL_BUCKETS[2:-1])
def test_a_bound_is_in_its_bucket_and_a_billionth_more_is_in_the_next(bucket: int) -> None:
    bound = round(upper_bound(ALL_BUCKETS[bucket]) * NANO)
    assert bucket_of_nano(bound) == bucket
    assert bucket_of_nano(bound + 1) == bucket + 1


@pytest.mark.parametrize("nano", [0, -1, -(10**30)])
def test_what_is_not_positive_costs_nothing(nano: int) -> None:
    assert bucket_of_nano(nano) == 1
