import pytest

from bigfleet.aio.clock import NANOSECONDS, SystemClock
from bigfleet.aio.seldom import Seldom


class SetClock(SystemClock):
    """A clock that shows what it is set to."""

    now_s = 0.0

    def monotonic_ns(self) -> int:
        return round(self.now_s * NANOSECONDS)


@pytest.mark.rule("packaging#connection-limits")
def test_the_first_of_a_kind_is_due_and_then_one_per_interval_with_the_count_between() -> None:
    clock = SetClock()
    seldom = Seldom(clock, every_s=60)
    assert [seldom.due("full"), seldom.due("full"), seldom.due("address"), seldom.due("full")] == [
        0,
        None,
        0,
        None,
    ]
    clock.now_s = 59.9
    assert seldom.due("full") is None
    clock.now_s = 60.0
    assert seldom.due("full") == 3
    assert seldom.due("address") == 0
