"""RFC 3339 to the nanosecond."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bigfleet.model.errors import InvalidFieldError
from bigfleet.model.times import ns_of_rfc3339, rfc3339_of_ns


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
