"""Cost of the fleet over the last hour, in total and per machine, by capacity type.

Why: no metric has prices. The dashboard sees them when it polls the shards, and keeps an hour of them.
Must never: grow beyond an hour, or record the last answer of a silent shard as a measurement.
Rules: `dashboard#page-contents`.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from bigfleet.dashboard.core.observed import FleetPicture
from bigfleet.dashboard.core.summary import HOSTED

EVERY_S: Final = 10.0
POINTS: Final = 360


@dataclass(frozen=True, slots=True)
class _Point:
    at: float
    machines: Mapping[str, int]
    dollars: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class PriceLines:
    """Over time and by capacity type: dollars per hour of all hosts, and the mean of one machine."""

    times: Sequence[float]
    total: Mapping[str, Sequence[float | None]]
    mean: Mapping[str, Sequence[float | None]]


class CostTrend:
    """An hour of prices, at least ten seconds apart."""

    def __init__(self) -> None:
        self._points: deque[_Point] = deque(maxlen=POINTS)

    def note(self, picture: FleetPicture) -> None:
        """Record a picture if every shard answered and the last record is old enough."""
        answered = [place.seen for place in picture.shards if place.seen is not None and not place.error]
        if not answered or len(answered) < len(picture.shards) or not all(seen.insight for seen in answered):
            return
        if self._points and picture.at - self._points[-1].at < EVERY_S:
            return
        machines: dict[str, int] = {}
        dollars: dict[str, float] = {}
        for row in (row for seen in answered for row in seen.machines if row.state in HOSTED):
            machines[row.capacity_type] = machines.get(row.capacity_type, 0) + row.count
            dollars[row.capacity_type] = dollars.get(row.capacity_type, 0.0) + row.price_per_hour
        self._points.append(_Point(picture.at, machines, dollars))

    def lines(self) -> PriceLines:
        """Return the lines; at a time without machines of a type, its cost is 0 and its price None."""
        kinds = sorted({kind for point in self._points for kind in point.machines})
        return PriceLines(
            [point.at for point in self._points],
            {kind: [point.dollars.get(kind, 0.0) for point in self._points] for kind in kinds},
            {kind: [_mean(point, kind) for point in self._points] for kind in kinds},
        )


def _mean(point: _Point, kind: str) -> float | None:
    machines = point.machines.get(kind, 0)
    return point.dollars[kind] / machines if machines else None
