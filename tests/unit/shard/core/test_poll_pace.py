"""How long the shard waits between two looks at machines in transition."""

import pytest

from bigfleet.shard.core.poll_pace import JITTER, PollPace


@pytest.mark.rule("shard#transition-polls")
def test_polls_start_an_interval_apart_or_a_little_less() -> None:
    pace = PollPace(1.0, 10.0)
    assert pace.wait_s(0.0, 0.0) == 1.0
    assert pace.wait_s(0.0, 1.0) == pytest.approx(1 - JITTER)
    assert pace.wait_s(0.2, 0.0) == pytest.approx(0.8)


@pytest.mark.rule("shard#transition-polls")
@pytest.mark.parametrize("took_s", [0.3, 1.0, 7.0])
def test_after_a_slow_poll_comes_a_rest_of_three_times_its_length(took_s: float) -> None:
    assert PollPace(1.0, 10.0).wait_s(took_s, 1.0) == pytest.approx(3 * took_s)


@pytest.mark.rule("shard#transition-polls")
def test_failures_double_the_interval_up_to_that_of_ticks_and_an_answer_ends_that() -> None:
    pace = PollPace(1.0, 10.0)
    waits = []
    for _ in range(6):
        pace.failed()
        waits.append(pace.wait_s(0.0, 0.0))
    assert waits == [2.0, 4.0, 8.0, 10.0, 10.0, 10.0]
    for _ in range(5000):
        pace.failed()  # no number grows without end
    pace.worked()
    assert pace.wait_s(0.0, 0.0) == 1.0


def test_an_interval_above_that_of_ticks_is_kept() -> None:
    pace = PollPace(5.0, 0.5)
    pace.failed()
    assert pace.wait_s(0.0, 0.0) == 5.0
