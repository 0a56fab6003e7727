"""The few kinds of draw: bounds and shares."""

import random

import pytest

from bigfleet.workload.draws import Draws, Wheel, between


class Constant:
    """Draws one and the same number for ever."""

    def __init__(self, value: float) -> None:
        self.value = value

    def random(self) -> float:
        return self.value


LOWEST, HIGHEST = Constant(0.0), Constant(1 - 2**-53)


@pytest.mark.parametrize("span", [1, 3, 5, 300, 24_586, 2**40 + 1])
def test_the_extremes_of_a_stream_give_the_extremes_of_a_range(span: int) -> None:
    assert between(7, 6 + span, LOWEST) == 7
    assert between(7, 6 + span, HIGHEST) == 6 + span


def test_a_wheel_never_leaves_its_places() -> None:
    wheel = Wheel([55, 30, 12, 3])
    assert wheel.draw(LOWEST) == 0
    assert wheel.draw(HIGHEST) == 3
    assert wheel.draw(Constant(0.55)) == 1
    assert wheel.draw(Constant(0.5499)) == 0


def test_a_wheel_of_one_place_leaves_the_stream_where_it_is() -> None:
    draws = random.Random(1)
    before = draws.getstate()
    assert Wheel([7]).draw(draws) == 0
    assert draws.getstate() == before


def test_a_place_without_weight_is_never_drawn() -> None:
    draws: Draws = random.Random(3)
    wheel = Wheel([0, 1, 0, 1])
    assert {wheel.draw(draws) for _ in range(500)} == {1, 3}
