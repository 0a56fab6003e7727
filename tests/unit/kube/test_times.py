"""Times are written and read as the API server has them."""

from hypothesis import given
from hypothesis import strategies as st

from bigfleet.kube.times import microseconds_text, seconds_text, wall_ns_of

MOMENTS = st.integers(min_value=0, max_value=4_000_000_000_000_000_000)


def test_a_time_of_whole_seconds() -> None:
    assert seconds_text(1_893_456_000_999_999_999) == "2030-01-01T00:00:00Z"


def test_a_time_of_microseconds() -> None:
    assert microseconds_text(1_893_456_000_000_001_999) == "2030-01-01T00:00:00.000001Z"


@given(MOMENTS)
def test_what_is_written_is_read_back(wall_ns: int) -> None:
    assert wall_ns_of(seconds_text(wall_ns)) == wall_ns // 10**9 * 10**9
    assert wall_ns_of(microseconds_text(wall_ns)) == wall_ns // 1000 * 1000


def test_another_zone_is_understood() -> None:
    assert wall_ns_of("2030-01-01T01:00:00+01:00") == 1_893_456_000 * 10**9


def test_what_is_no_time_is_none() -> None:
    assert wall_ns_of("") is None
    assert wall_ns_of("soon") is None
    assert wall_ns_of("2030-01-01T00:00:00") is None  # without a zone the time is unknown
