"""Time in the history: steps, how long each is kept, how samples of a shorter step become one of a longer step, and ranges.

Why: a minute must look the same whether it was made at once or after a restart, so making it is a function of its samples.
Must never: give more points than an answer may have, invent a value between two samples that are far apart, or let a mean hide
a short trouble in a family that keeps the worst.
Rules: `dashboard#history`, `dashboard#history-ranges`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from bigfleet.dashboard.core.history_sample import (
    FAMILIES,
    OTHER,
    ClusterFigures,
    Figures,
    HistorySample,
)


@dataclass(frozen=True, slots=True)
class HistoryStep:
    """A distance between samples, and how long samples of that distance are kept."""

    name: str
    seconds: int
    kept_s: int

    @property
    def rows(self) -> int:
        """How many rows are kept at most."""
        return self.kept_s // self.seconds + 1

    def begin(self, at: float) -> int:
        """Return the beginning of the step that a time is in."""
        return int(at // self.seconds) * self.seconds


FINE: Final = HistoryStep("fine", 10, 6 * 3600)
MIDDLE: Final = HistoryStep("middle", 60, 48 * 3600)
COARSE: Final = HistoryStep("coarse", 3600, 90 * 86_400)
STEPS: Final = (FINE, MIDDLE, COARSE)
FINER: Final[Mapping[HistoryStep, HistoryStep]] = {MIDDLE: FINE, COARSE: MIDDLE}

RANGES: Final[Mapping[str, tuple[int, HistoryStep]]] = {
    "1h": (3600, FINE),
    "6h": (6 * 3600, MIDDLE),  # a chart has no room for more points; the finer ones are there for who asks
    "24h": (24 * 3600, MIDDLE),
    "7d": (7 * 86_400, COARSE),
    "30d": (30 * 86_400, COARSE),
    "90d": (90 * 86_400, COARSE),
}
"""Length and step of each range that a page offers; no range has more points than `MAX_POINTS`."""
DEFAULT_RANGE: Final = "1h"
MAX_POINTS: Final = 2_161
MAX_LINES: Final = 20
_PATIENCE: Final = 2
"""So many missing samples in a row are bridged with the last one: a look may be a few seconds late."""


def rolled_up(step: HistoryStep, samples: Iterable[HistorySample]) -> list[HistorySample]:
    """Return samples of a longer step, oldest first, from those of a shorter one."""
    by_begin: dict[int, list[HistorySample]] = {}
    for sample in samples:
        by_begin.setdefault(step.begin(sample.at), []).append(sample)
    return [_joined(at, rows) for at, rows in sorted(by_begin.items())]


def _joined(at: int, rows: Sequence[HistorySample]) -> HistorySample:
    fleet = {
        family: _figures(
            [(row.fleet[family], row.samples) for row in rows if family in row.fleet], FAMILIES[family].worst
        )
        for family in sorted({family for row in rows for family in row.fleet if family in FAMILIES})
    }
    names = sorted({name for row in rows for name in row.clusters})
    clusters = {
        name: _cluster([(row.clusters[name], row.samples) for row in rows if name in row.clusters])
        for name in names
    }
    return HistorySample(at, fleet, clusters, sum(row.samples for row in rows))


def _figures(rows: Sequence[tuple[Figures, int]], worst: bool) -> Figures:
    names = sorted({name for figures, _ in rows for name in figures})
    if worst:
        return {name: max(figures.get(name, 0.0) for figures, _ in rows) for name in names}
    whole = sum(weight for _, weight in rows)
    return {name: sum(figures.get(name, 0.0) * weight for figures, weight in rows) / whole for name in names}


def _cluster(rows: Sequence[tuple[ClusterFigures, int]]) -> ClusterFigures:
    whole = sum(weight for _, weight in rows)
    priced = [(row.dollars, weight) for row, weight in rows if row.dollars is not None]
    split = [(row.parts, weight) for row, weight in rows if row.parts is not None]
    parts = None
    if split:
        weights = sum(weight for _, weight in split)
        running, joining, on_order, wanted = (
            sum(part[place] * weight for part, weight in split) / weights for place in range(4)
        )
        parts = (running, joining, on_order, wanted)
    return ClusterFigures(
        sum(row.machines * weight for row, weight in rows) / whole,
        sum(dollars * weight for dollars, weight in priced) / sum(weight for _, weight in priced)
        if priced
        else None,
        parts,
        _figures([(row.missing, 1) for row, _ in rows], worst=True),
    )


@dataclass(frozen=True, slots=True)
class HistoryLines:
    """The numbers of one family over time; None where nothing is known."""

    family: str
    lines: Mapping[str, Sequence[float | None]]


def times_of(range_name: str, now: float, step: HistoryStep | None = None) -> tuple[HistoryStep, list[int]]:
    """Return the step of a range and the times of its points, oldest first; the last is the step that has begun.

    Another step than the usual one is used where it gives no more than `MAX_POINTS`.
    """
    length, usual = RANGES[range_name]
    if step is None or not fits(range_name, step):
        step = usual
    last = step.begin(now)
    return step, list(range(last - length + step.seconds, last + 1, step.seconds))


def fits(range_name: str, step: HistoryStep) -> bool:
    """Whether a range may be asked for in a step: samples of it are kept for so long, and the answer is not too large."""
    length = RANGES[range_name][0]
    return step.seconds < length <= step.kept_s and length // step.seconds <= MAX_POINTS


def lines_of(
    family: str,
    samples: Sequence[HistorySample],
    step: HistoryStep,
    times: Sequence[int],
    *,
    cluster: str | None = None,
    most: int = MAX_LINES,
) -> HistoryLines:
    """Return the lines of a family of the fleet or of one cluster: so many at most, the smaller ones as "other"."""
    found = {
        sample.at: figures for sample in samples if (figures := _of(sample, family, cluster)) is not None
    }
    if step is FINE:
        found = _bridged(found, times)
    sums: dict[str, float] = {}
    for at in times:
        for name, value in found.get(at, {}).items():
            sums[name] = sums.get(name, 0.0) + value
    order = sorted(sums, key=lambda name: (name == OTHER, -sums[name], name))
    kept, rest = (order, []) if len(order) <= most else (order[: most - 1], order[most - 1 :])
    lines: dict[str, list[float | None]] = {
        name: [None if (row := found.get(at)) is None else _rounded(row.get(name, 0.0)) for at in times]
        for name in kept
    }
    if rest:
        lines[OTHER] = [
            None if (row := found.get(at)) is None else _rounded(sum(row.get(name, 0.0) for name in rest))
            for at in times
        ]
    if not lines and found:  # known, and nothing but zeros
        lines[family] = [None if at not in found else 0.0 for at in times]
    return HistoryLines(family, lines)


def _of(sample: HistorySample, family: str, cluster: str | None) -> Figures | None:
    if cluster is not None:
        row = sample.clusters.get(cluster)
        return None if row is None else row.family(family)
    return sample.fleet.get(family)


def _bridged(found: Mapping[int, Figures], times: Sequence[int]) -> dict[int, Figures]:
    """The samples, with the last one repeated over a few missing steps between two."""
    filled = dict(found)
    gap: list[int] = []
    last: Figures | None = None
    for at in times:
        if at not in found:
            gap.append(at)
            continue
        if last is not None and len(gap) <= _PATIENCE:
            filled |= dict.fromkeys(gap, last)
        last, gap = found[at], []
    return filled


def _rounded(value: float) -> float:
    return round(value, 4)
