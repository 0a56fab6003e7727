"""Rates, sums and quantiles of what was scraped (`dashboard#sources`, `dashboard#metrics-contract`)."""

import pytest

from bigfleet.dashboard.core.series import POINTS, MetricSample, SeriesStore, bucket_quantile

INF = float("inf")


def recorded(
    name: str, values: list[float], *, every_s: float = 10.0, pod: str = "s0", **labels: str
) -> SeriesStore:
    store = SeriesStore()
    for place, value in enumerate(values):
        store.record(pod, place * every_s, [MetricSample(name, labels, value)])
    return store


def test_a_rate_is_the_rise_over_the_time_in_which_it_was_seen() -> None:
    store = recorded("c", [0, 10, 20, 30])
    assert store.rates("c", ("pod",), 30, 300) == {("s0",): 1.0}


def test_a_counter_that_was_reset_counts_from_zero() -> None:
    store = recorded("c", [100, 110, 5, 15])
    assert store.rates("c", (), 30, 300) == {(): (10 + 5 + 10) / 30}


def test_a_counter_seen_once_has_no_rate_rather_than_none_at_all() -> None:
    assert recorded("c", [7]).rates("c", (), 0, 300) == {}


def test_sums_add_up_by_the_labels_asked_for_and_leave_the_rest() -> None:
    store = SeriesStore()
    for pod, state, number in (("a", "Idle", 1.0), ("a", "Failed", 2.0), ("b", "Idle", 4.0)):
        store.record(pod, 0, [MetricSample("m", {"state": state}, number)])
    assert store.sums("m", ("state",), 0) == {("Failed",): 2.0, ("Idle",): 5.0}
    assert store.sums("m", (), 0, pod="a") == {(): 3.0}


def test_a_value_too_old_to_be_believed_is_unknown() -> None:
    store = recorded("m", [3])
    assert store.sums("m", (), 60) == {(): 3.0}
    assert store.sums("m", (), 61) == {}


def test_series_beyond_the_bound_are_refused_and_counted() -> None:
    store = SeriesStore(max_series=2)
    store.record("p", 0, [MetricSample("m", {"n": str(number)}, 1.0) for number in range(5)])
    assert len(store.sums("m", ("n",), 0)) == 2
    assert store.refused == 3
    store.forget(1)
    store.record("p", 2, [MetricSample("m", {"n": "new"}, 1.0)])
    assert store.sums("m", ("n",), 2) == {("new",): 1.0}


def test_an_hour_is_kept_and_no_more() -> None:
    store = recorded("c", [float(n) for n in range(POINTS + 50)])
    assert store.rates("c", (), (POINTS + 49) * 10.0, 10**9) == {(): pytest.approx(0.1)}
    assert store.rates("c", (), 100.0, 10**9) == {}


@pytest.mark.parametrize(
    ("buckets", "quantile", "expected"),
    [
        pytest.param([(1.0, 0.0), (2.0, 10.0), (INF, 10.0)], 0.5, 1.5, id="in the middle of its bucket"),
        pytest.param([(1.0, 10.0), (2.0, 10.0), (INF, 10.0)], 0.99, 0.99, id="in the first bucket from zero"),
        pytest.param([(1.0, 5.0), (INF, 10.0)], 0.99, 1.0, id="beyond the last bound is that bound"),
        pytest.param([(1.0, 0.0), (INF, 0.0)], 0.5, None, id="nothing observed has no quantile"),
        pytest.param([], 0.5, None, id="no buckets"),
    ],
)
def test_quantile_of_buckets(
    buckets: list[tuple[float, float]], quantile: float, expected: float | None
) -> None:
    assert bucket_quantile(buckets, quantile) == (None if expected is None else pytest.approx(expected))


def test_quantiles_look_only_at_what_happened_within_the_window() -> None:
    store = SeriesStore()
    for at, fast, slow in ((0, 0, 0), (10, 100, 100), (20, 100, 200)):
        for bound, number in (("1.0", fast), ("4.0", slow), ("+Inf", slow)):
            store.record("s0", at, [MetricSample("h_bucket", {"le": bound}, float(number))])
    assert store.quantiles("h", ("pod",), 20, 10, 0.5) == {("s0",): pytest.approx(2.5)}
