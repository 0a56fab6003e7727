"""An hour of scraped metrics in memory, with rates and quantiles.

Why: the dashboard must show rates and trends without a Prometheus.
Must never: grow beyond its bounds (it refuses and counts series over the limit), or treat a counter reset as a fall.
Rules: `dashboard#sources`, `dashboard#metrics-contract`.
"""

from bisect import bisect_left, bisect_right
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import inf, isnan
from typing import Final

POINTS: Final = 360
MAX_SERIES: Final = 5_000
MAX_SERIES_OF_POD: Final = 1_500
"""So that one process with invented labels does not take the places of all others."""

Labels = tuple[str, ...]
"""Values of the requested labels, in the requested order."""


@dataclass(frozen=True, slots=True)
class MetricSample:
    """One number of one scrape."""

    name: str
    labels: Mapping[str, str]
    value: float


@dataclass(slots=True)
class _Series:
    labels: Mapping[str, str]
    times: deque[float] = field(default_factory=lambda: deque(maxlen=POINTS))
    values: deque[float] = field(default_factory=lambda: deque(maxlen=POINTS))

    def rise(self, start: float, end: float) -> float | None:
        """How much a counter rose per second between two times; None when it was not seen twice in between."""
        times = list(self.times)
        first, last = bisect_left(times, start), bisect_right(times, end)
        if last - first < 2 or times[last - 1] <= times[first]:
            return None
        values = list(self.values)[first:last]
        # A fall means that the process restarted and counts from 0 again.
        risen = sum(after - before if after >= before else after for before, after in pairwise(values))
        return risen / (times[last - 1] - times[first])

    def at(self, moment: float, patience_s: float) -> float | None:
        """The last value up to a time, unless it is too old."""
        place = bisect_right(list(self.times), moment) - 1
        if place < 0 or moment - self.times[place] > patience_s:
            return None
        return self.values[place]


class SeriesStore:
    """Series by name and labels; the label `pod` names their source."""

    def __init__(
        self,
        *,
        max_series: int = MAX_SERIES,
        max_of_pod: int = MAX_SERIES_OF_POD,
        patience_s: float = 60.0,
    ) -> None:
        self._names: dict[str, dict[frozenset[tuple[str, str]], _Series]] = {}
        self._max, self._count, self._patience_s = max_series, 0, patience_s
        self._max_of_pod, self._of_pod = max_of_pod, Counter[str]()
        self.refused = 0

    def __len__(self) -> int:
        """How many series are kept."""
        return self._count

    def record(self, pod: str, at: float, samples: Iterable[MetricSample]) -> None:
        """Record one scrape."""
        for sample in samples:
            if isnan(sample.value):
                continue
            labels = {**sample.labels, "pod": pod}
            known = self._names.setdefault(sample.name, {})
            series = known.get(key := frozenset(labels.items()))
            if series is None:
                if self._count >= self._max or self._of_pod[pod] >= self._max_of_pod:
                    self.refused += 1
                    continue
                series = known[key] = _Series(labels)
                self._count += 1
                self._of_pod[pod] += 1
            series.times.append(at)
            series.values.append(sample.value)

    def forget(self, before: float) -> None:
        """Drop every series that was last seen before a time."""
        for name, known in list(self._names.items()):
            for key, series in list(known.items()):
                if series.times[-1] < before:
                    del known[key]
                    self._count -= 1
                    self._of_pod[series.labels["pod"]] -= 1
            if not known:
                del self._names[name]
        self._of_pod = +self._of_pod

    def sums(self, name: str, by: Sequence[str], at: float, **only: str) -> dict[Labels, float]:
        """Add up the latest values by some labels."""
        found: dict[Labels, float] = {}
        for labels, series in self._select(name, by, only):
            if (value := series.at(at, self._patience_s)) is not None:
                found[labels] = found.get(labels, 0.0) + value
        return dict(sorted(found.items()))

    def rates(
        self, name: str, by: Sequence[str], at: float, window_s: float, **only: str
    ) -> dict[Labels, float]:
        """Add up how fast counters rose by some labels."""
        found: dict[Labels, float] = {}
        for labels, series in self._select(name, by, only):
            if (rise := series.rise(at - window_s, at)) is not None:
                found[labels] = found.get(labels, 0.0) + rise
        return dict(sorted(found.items()))

    def quantiles(
        self, name: str, by: Sequence[str], at: float, window_s: float, quantile: float, **only: str
    ) -> dict[Labels, float]:
        """Estimate a quantile of a histogram over a window by some labels; labels without observations have none."""
        buckets = self.rates(f"{name}_bucket", (*by, "le"), at, window_s, **only)
        grouped: dict[Labels, list[tuple[float, float]]] = {}
        for labels, rise in buckets.items():
            grouped.setdefault(labels[:-1], []).append((_bound(labels[-1]), rise))
        estimates = {labels: bucket_quantile(sorted(rows), quantile) for labels, rows in grouped.items()}
        return {labels: value for labels, value in sorted(estimates.items()) if value is not None}

    def _select(
        self, name: str, by: Sequence[str], only: Mapping[str, str]
    ) -> Iterator[tuple[Labels, _Series]]:
        for series in self._names.get(name, {}).values():
            if all(series.labels.get(label) == wanted for label, wanted in only.items()):
                yield tuple(series.labels.get(label, "") for label in by), series


def bucket_quantile(buckets: Sequence[tuple[float, float]], quantile: float) -> float | None:
    """Estimate a quantile from cumulative buckets (upper bound, count), as Prometheus does; None if nothing was counted."""
    if not buckets or buckets[-1][1] <= 0:
        return None
    rank = quantile * buckets[-1][1]
    lower, below = 0.0, 0.0
    for bound, cumulative in buckets:
        if cumulative >= rank:
            if bound == inf:
                return lower
            return (
                bound
                if cumulative == below
                else lower + (bound - lower) * (rank - below) / (cumulative - below)
            )
        lower, below = bound, cumulative
    return lower


def _bound(text: str) -> float:
    return inf if text == "+Inf" else float(text)
