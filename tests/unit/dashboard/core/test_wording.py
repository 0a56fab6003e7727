"""Ages as people read them (`dashboard#ages`)."""

import pytest

from bigfleet.dashboard.core.wording import ago


@pytest.mark.rule("dashboard#ages")
@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "unknown"),
        (0.4, "0 s ago"),
        (-3.0, "0 s ago"),
        (17.0, "17 s ago"),
        (-3548.0, "unknown: clocks differ"),
    ],
)
def test_a_time_in_the_future_is_unknown_and_never_negative(seconds: float | None, text: str) -> None:
    assert ago(seconds) == text
