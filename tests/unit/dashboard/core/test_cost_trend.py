"""An hour of prices from the looks of the dashboard (`dashboard#page-contents`, Cost)."""

from bigfleet.dashboard.core.cost_trend import POINTS, CostTrend
from bigfleet.dashboard.core.observed import FleetPicture, MachineCount, ObservedShard, ShardPlace


def picture(at: float, *rows: tuple[str, str, int, float], error: str = "") -> FleetPicture:
    counts = tuple(MachineCount(state, kind, count, dollars, 0.0, 0) for state, kind, count, dollars in rows)
    seen = ObservedShard("s", 1, at, 1, machines=counts)
    return FleetPicture(at, (ShardPlace("s", "a:1", at, at, error, seen),))


def test_dollars_and_the_mean_price_are_kept_by_capacity_type() -> None:
    trend = CostTrend()
    trend.note(
        picture(
            0.0, ("Configured", "Spot", 4, 0.4), ("Idle", "Spot", 1, 0.1), ("Speculative", "Spot", 9, 9.0)
        )
    )
    trend.note(picture(5.0, ("Configured", "Spot", 9, 9.9)))  # too soon
    trend.note(picture(10.0, ("Configured", "OnDemand", 2, 3.0)))
    lines = trend.lines()
    assert lines.times == [0.0, 10.0]
    assert lines.total == {"OnDemand": [0.0, 3.0], "Spot": [0.5, 0.0]}
    assert lines.mean == {"OnDemand": [None, 1.5], "Spot": [0.1, None]}


def test_a_silent_shard_leaves_a_gap_and_an_hour_is_all() -> None:
    trend = CostTrend()
    trend.note(picture(0.0, ("Configured", "Spot", 1, 1.0), error="does not answer"))
    assert trend.lines().times == []
    for step in range(POINTS + 5):
        trend.note(picture(10.0 * step, ("Configured", "Spot", 1, 1.0)))
    assert len(trend.lines().times) == POINTS
    assert trend.lines().times[0] == 50.0
