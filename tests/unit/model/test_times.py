"""RFC 3339 to the nanosecond."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bigfleet.model.errors import InvalidFieldError
from bigfleet.model.times import ns_of_iso8601, ns_of_rfc3339, rfc3339_of, rfc3339_of_ns, rfc3339_of_s


@pytest.mark.parametrize(
    ("nanoseconds", "text"),
    [
        (0, "1970-01-01T00:00:00Z"),
        (1, "1970-01-01T00:00:00.000000001Z"),
        (951_782_400_500_000_000, "2000-02-29T00:00:00.5Z"),
        (1_794_938_400_000_000_000, "2026-11-17T18:00:00Z"),
    ],
)
def test_a_time_is_written_and_read(nanoseconds: int, text: str) -> None:
    assert rfc3339_of_ns(nanoseconds) == text
    assert ns_of_rfc3339(text, "t") == nanoseconds


@given(st.integers(0, 253_402_300_799 * 10**9))
def test_every_time_reads_back_and_agrees_with_the_calendar(nanoseconds: int) -> None:
    text = rfc3339_of_ns(nanoseconds)
    assert ns_of_rfc3339(text, "t") == nanoseconds
    assert text[:19] == datetime.fromtimestamp(nanoseconds // 10**9, UTC).isoformat()[:19]


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        ("0001-01-01T00:00:00Z", 0),
        ("0000-01-01T00:00:00Z", 0),
        ("1969-12-31T23:00:00-01:30", 1800 * 10**9),
        ("2026-02-31T00:00:00Z", 1_772_496_000_000_000_000),  # as the third of March
        ("9999-12-31T23:59:60Z", 253_402_300_800_000_000_000),
        ("2026-11-17T20:00:00+02:00", 1_794_938_400_000_000_000),
        ("2026-11-17T12:30:00-05:30", 1_794_938_400_000_000_000),
        ("2026-11-17t18:00:00.0000000001z", 1_794_938_400_000_000_000),
    ],
)
def test_other_spellings_are_read(text: str, nanoseconds: int) -> None:
    assert ns_of_rfc3339(text, "t") == nanoseconds


@pytest.mark.parametrize(
    "text", ["", "yesterday", "2026-11-17", "2026-13-01T00:00:00Z", "2026-11-17T24:00:00Z"]
)
def test_what_is_no_time_is_refused_by_field(text: str) -> None:
    with pytest.raises(InvalidFieldError, match=r"^RegisteredAt: "):
        ns_of_rfc3339(text, "RegisteredAt")


def test_a_time_of_whole_seconds_as_kubernetes_objects_have_it() -> None:
    assert rfc3339_of_ns(1_893_456_000_999_999_999, 0) == "2030-01-01T00:00:00Z"


def test_a_time_of_microseconds_as_leases_have_it() -> None:
    assert rfc3339_of_ns(1_893_456_000_000_001_999, 6) == "2030-01-01T00:00:00.000001Z"


@given(st.integers(0, 4 * 10**18))
def test_a_shortened_time_is_read_back(wall_ns: int) -> None:
    assert ns_of_iso8601(rfc3339_of_ns(wall_ns, 0)) == wall_ns // 10**9 * 10**9
    assert ns_of_iso8601(rfc3339_of_ns(wall_ns, 6)) == wall_ns // 1000 * 1000


def test_iso8601_allows_another_zone() -> None:
    assert ns_of_iso8601("2030-01-01T01:00:00+01:00") == 1_893_456_000 * 10**9


def test_text_without_a_time_or_a_zone_is_none() -> None:
    assert ns_of_iso8601("") is None
    assert ns_of_iso8601("soon") is None
    assert ns_of_iso8601("2030-01-01T00:00:00") is None


def test_times_of_other_types_are_written_in_utc() -> None:
    moment = datetime(2030, 1, 1, 1, 0, 0, 5000, tzinfo=timezone(timedelta(hours=1)))
    assert rfc3339_of(moment) == "2030-01-01T00:00:00.005000Z"
    assert rfc3339_of(moment, timespec="microseconds") == "2030-01-01T00:00:00.005000Z"
    assert rfc3339_of_s(1_893_456_000.999) == "2030-01-01T00:00:00Z"
