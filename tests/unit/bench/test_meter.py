"""How times are taken: what is counted, in which order, and by which unit."""

import pytest

from bigfleet.bench.meter import BenchCase, BenchMeter, Clocks, Timing, percentile


def test_the_unit_runs_before_and_after_and_nothing_else_comes_between_it_and_the_work() -> None:
    story: list[str] = []
    meter = BenchMeter(repetitions=2, unit=lambda: story.append("unit"))
    timing = meter.measure(
        BenchCase(
            lambda: story.append("work"),
            prepare=lambda: story.append("prepare"),
            check=lambda _: story.append("check"),
        )
    )
    assert story == ["prepare", "unit", "work", "unit", "check"] * 2
    assert len(timing.cpu_ms) == len(timing.wall_ms) == len(timing.unit_ms) == 2


def test_only_the_work_is_counted() -> None:
    now = [0.0]

    def spend(seconds: float) -> None:
        now[0] += seconds

    meter = BenchMeter(1, Clocks(lambda: now[0], lambda: 2 * now[0]), unit=lambda: spend(0.5))
    timing = meter.measure(BenchCase(lambda: spend(0.25), prepare=lambda: spend(7), check=lambda _: spend(9)))
    assert timing == Timing([250.0], [500.0], [500.0])


def test_a_repetition_is_divided_by_the_mean_of_the_units_around_it() -> None:
    now, costs = [0.0], iter([0.1, 0.3])

    def unit() -> None:
        now[0] += next(costs)

    def work() -> None:
        now[0] += 0.4

    timing = BenchMeter(1, Clocks(lambda: now[0], lambda: now[0]), unit).measure(BenchCase(work))
    assert timing.unit_ms == [pytest.approx(200.0)]
    assert timing.units == pytest.approx(2.0)


def test_the_figure_in_units_is_the_median_of_the_repetitions() -> None:
    assert Timing([10.0, 40.0, 12.0], [0.0] * 3, [10.0, 20.0, 10.0]).units == pytest.approx(1.2)


def test_a_check_sees_the_result_and_can_refuse_it() -> None:
    def refuse(result: int) -> None:
        assert result == 42
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        BenchMeter(1, unit=lambda: None).measure(BenchCase(lambda: 42, check=refuse))


def test_a_cold_case_is_measured_like_any_other(meter: BenchMeter) -> None:
    assert meter.measure(BenchCase(lambda: None, cold=True)).cpu_ms == [pytest.approx(1.0)]


@pytest.mark.parametrize(
    ("values", "percent", "found"),
    [
        pytest.param([3.0, 1.0, 2.0], 99, 3.0, id="the largest of a few"),
        pytest.param([float(value) for value in range(1, 201)], 99, 198.0, id="of two hundred"),
        pytest.param([5.0], 50, 5.0, id="of one"),
        pytest.param([4.0, 1.0, 3.0, 2.0], 50, 2.0, id="the lower middle"),
    ],
)
def test_a_percentile_is_a_value_that_was_seen(values: list[float], percent: int, found: float) -> None:
    assert percentile(values, percent) == found
