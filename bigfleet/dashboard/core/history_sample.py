"""One sample of the history: what is kept of the fleet at one moment, in a form of bounded size.

Why: a page that shows a week needs numbers that fit on a disk, so what a sample may hold is decided here and nowhere else.
Must never: hold a number for what is not known (a family that is missing is unknown; a name missing in a family is 0), record the
last answer of a silent shard as a measurement, or grow beyond its bounds whatever clusters and offerings are called.
Rules: `dashboard#history`, `dashboard#history-bounds`.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from bigfleet.dashboard.core.observed import FleetPicture, ObservedCluster, ObservedShard
from bigfleet.dashboard.core.summary import HOSTED
from bigfleet.model.resources import Resources

Figures = Mapping[str, float]
"""Numbers by name, such as machines by state."""


@dataclass(frozen=True, slots=True)
class HistoryFamily:
    """Numbers that one chart shows together."""

    title: str
    unit: str
    worst: bool = False
    """Whether a longer step keeps the largest value, so that a short trouble stays visible; else it keeps the mean."""
    of_cluster: bool = False
    """Whether it is kept for every cluster too."""


FAMILIES: Final[Mapping[str, HistoryFamily]] = {
    "states": HistoryFamily("Machines by state", "machines"),
    "capacity": HistoryFamily("Hosts by capacity type", "machines"),
    "types": HistoryFamily("Machines by instance type", "machines"),
    "zones": HistoryFamily("Machines by zone", "machines"),
    "coverage": HistoryFamily("Machines of needs", "machines", of_cluster=True),
    "missing": HistoryFamily("Missing capacity", "", worst=True, of_cluster=True),
    "needs": HistoryFamily("Needs", "needs", worst=True),
    "cost": HistoryFamily("Dollars per hour by capacity type", "$/h"),
    "price": HistoryFamily("Mean price of a machine by capacity type", "$/h"),
    "cluster-cost": HistoryFamily("Dollars per hour by cluster", "$/h", of_cluster=True),
    "actions": HistoryFamily("Actions per minute", "per minute"),
    "outcomes": HistoryFamily("Outcomes of actions per minute", "per minute"),
    "cycles": HistoryFamily("Duration of a cycle", "s", worst=True),
}
OTHER: Final = "other"
_NAMES: Final = 50
"""Names of one family; the smaller rest is added up as "other"."""
_NAME_LENGTH: Final = 64
_CLUSTERS: Final = 200
_CLUSTER_BYTES: Final = 14_000
_FLEET_BYTES: Final = 6_000
"""With the two limits the rows that are kept at all steps stay under 200 MB."""
_PARTS: Final = ("running", "joining", "on order", "wanted")


@dataclass(frozen=True, slots=True)
class ClusterFigures:
    """What is kept of one cluster."""

    machines: float = 0.0
    dollars: float | None = None
    parts: tuple[float, float, float, float] | None = None
    """Running, joining, on order, wanted; None where no shard reports them."""
    missing: Figures = field(default_factory=dict)

    def family(self, name: str) -> Figures | None:
        """Return the numbers of a family; None when they are not known."""
        if name == "coverage":
            return None if self.parts is None else dict(zip(_PARTS, self.parts, strict=True))
        if name == "missing":
            return None if self.parts is None else self.missing
        return None if self.dollars is None else {"all machines": self.dollars}


@dataclass(frozen=True, slots=True)
class HistorySample:
    """Numbers of one moment, or of one step that ends a longer time."""

    at: int
    """The beginning of its step, in seconds since 1970."""
    fleet: Mapping[str, Figures]
    clusters: Mapping[str, ClusterFigures] = field(default_factory=dict)
    samples: int = 1
    """From how many it was made."""


def sample_of(picture: FleetPicture, at: int, measured: Mapping[str, Figures]) -> HistorySample | None:
    """Return what is kept of a picture; `measured` are the families that come from metrics. None when nothing is known."""
    answered = [
        place.seen
        for place in picture.shards
        if place.seen is not None and not place.error and place.seen.cycle
    ]
    if not answered:
        return None
    fleet: dict[str, Figures] = {name: figures for name, figures in measured.items() if name in FAMILIES}
    clusters = _clusters(picture, answered)
    if len(answered) == len(picture.shards):
        fleet |= _fleet(answered)
        # Here too, so that a chart of all clusters over months reads 20 numbers of each sample and not all of its clusters.
        priced = {name: row.dollars for name, row in clusters.items() if row.dollars is not None}
        if priced:
            fleet["cluster-cost"] = priced
    fleet |= _reported(picture)
    return HistorySample(at, fleet, clusters)


def _fleet(seen: list[ObservedShard]) -> dict[str, Figures]:
    """What all shards together say; only called when every one of them has answered."""
    found: dict[str, Figures] = {
        "needs": {"short": sum(one.uncovered for one in seen), "all": sum(one.needs for one in seen)}
    }
    if all(one.insight for one in seen):
        rows = [row for one in seen for row in one.machines]
        states: dict[str, float] = {}
        hosts: dict[str, float] = {}
        dollars: dict[str, float] = {}
        for row in rows:
            states[row.state] = states.get(row.state, 0) + row.count
            if row.state in HOSTED:
                hosts[row.capacity_type] = hosts.get(row.capacity_type, 0) + row.count
                dollars[row.capacity_type] = dollars.get(row.capacity_type, 0.0) + row.price_per_hour
        price = {kind: dollars[kind] / number for kind, number in hosts.items() if number}
        found |= {"states": states, "capacity": hosts, "cost": dollars, "price": price}
    parts = [one.coverage for one in seen if one.coverage is not None]
    if len(parts) == len(seen):
        total = sum(parts[1:], start=parts[0])
        numbers = (total.running, total.joining, total.on_order, total.wanted)
        found["coverage"] = dict(zip(_PARTS, numbers, strict=True))
        found["missing"] = _amounts(total.missing)
    return found


def _reported(picture: FleetPicture) -> dict[str, Figures]:
    """Machines by type and zone, which shards report to the coordinator alone."""
    place = picture.coordinator
    if place is None or place.error or place.seen is None or not place.seen.reports:
        return {}
    if {row.shard_id for row in place.seen.reports} < {row.shard_id for row in place.seen.registered}:
        return {}  # after a failover some reports are still missing
    types: dict[str, float] = {}
    zones: dict[str, float] = {}
    for report in place.seen.reports:
        for name, number in report.per_instance_type.items():
            types[name] = types.get(name, 0) + number
        for name, number in report.per_zone.items():
            zones[name] = zones.get(name, 0) + number
    return {"types": types, "zones": zones}


def _clusters(picture: FleetPicture, answered: list[ObservedShard]) -> dict[str, ClusterFigures]:
    """Clusters of the shards that answered, without those that a silent shard serves too."""
    silent = {
        row.cluster
        for place in picture.shards
        if place.error and place.seen is not None
        for row in place.seen.clusters
    }
    rows: dict[str, list[ObservedCluster]] = {}
    for one in answered:
        for row in one.clusters:
            if row.cluster not in silent:
                rows.setdefault(row.cluster, []).append(row)
    return {name: _cluster(found) for name, found in rows.items()}


def _cluster(rows: list[ObservedCluster]) -> ClusterFigures:
    prices = [row.price_per_hour for row in rows if row.price_per_hour is not None]
    parts = [row.coverage for row in rows if row.coverage is not None]
    machines, dollars = sum(row.machines for row in rows), sum(prices)
    if len(parts) < len(rows):
        return ClusterFigures(machines, dollars if len(prices) == len(rows) else None)
    total = sum(parts[1:], start=parts[0])
    return ClusterFigures(
        machines,
        dollars if len(prices) == len(rows) else None,
        (total.running, total.joining, total.on_order, total.wanted),
        _amounts(total.missing),
    )


def _amounts(missing: Resources) -> Figures:
    return {name: amount / 1e9 for name, amount in missing.items()}


def fleet_text(sample: HistorySample) -> str:
    """Return the fleet's numbers as text of bounded length."""
    names = _NAMES
    while True:
        kept = {
            family: bounded(figures, names)
            for family, figures in sorted(sample.fleet.items())
            if family in FAMILIES
        }
        text = _write(kept)
        if len(text) <= _FLEET_BYTES:
            return text
        names = names * 2 // 3


def cluster_text(sample: HistorySample) -> str:
    """Return the clusters' numbers as text of bounded length: the largest clusters first, as many as fit."""
    left, kept = _CLUSTER_BYTES, list[str]()
    order = sorted(sample.clusters, key=lambda name: (-sample.clusters[name].machines, name))
    for name in order[:_CLUSTERS]:
        row = sample.clusters[name]
        dollars = None if row.dollars is None else _short(row.dollars)
        parts = None if row.parts is None else [_short(part) for part in row.parts]
        values = [_short(row.machines), dollars, parts, bounded(row.missing, 8)]
        text = f"{_write(name[:_NAME_LENGTH])}:{_write(values)}"
        left -= len(text) + 1
        if left < 0:
            break
        kept.append(text)
    return f"{{{','.join(kept)}}}"


def sample_from(
    at: int, samples: int, fleet: str | None, clusters: str | None, only: str | None = None
) -> HistorySample:
    """Return the sample that was written as text; raises `ValueError` for another text.

    What is None was not asked for and is left out; with `only` it has this one cluster, if it knows it.
    """
    try:
        return HistorySample(
            at,
            {} if fleet is None else json.loads(fleet),
            {} if clusters is None else _clusters_from(clusters, only),
            samples,
        )
    except (TypeError, AttributeError) as error:
        raise ValueError(f"found no sample at {at}: {error}") from error


def _clusters_from(text: str, only: str | None) -> dict[str, ClusterFigures]:
    if only is None:
        return {name: _row(row) for name, row in json.loads(text).items()}
    # Reading all clusters to keep one would take half a second for 90 days of sixty clusters.
    name = only[:_NAME_LENGTH]
    sought = f"{_write(name)}:["
    place = text.find(sought)
    while place > 0 and text[place - 1] not in "{,":  # the end of another name that has a quote in it
        place = text.find(sought, place + 1)
    if place < 0:
        return {}
    row, _ = _DECODER.raw_decode(text, place + len(sought) - 1)
    return {only: _row(row)}


_DECODER: Final = json.JSONDecoder()


def _row(row: Any) -> ClusterFigures:  # Any: a JSON value
    machines, dollars, parts, missing = row
    return ClusterFigures(machines, dollars, None if parts is None else tuple(parts), missing)


def bounded(figures: Figures, most: int) -> dict[str, float]:
    """Return the largest numbers by name, the rest added up as "other", without zeros."""
    rows = sorted(((name, value) for name, value in figures.items() if value), key=_largest)
    kept: dict[str, float] = {}
    for place, (name, value) in enumerate(rows):
        short = name[:_NAME_LENGTH] if place < most else OTHER
        kept[short] = kept.get(short, 0) + value
    return {name: _short(value) for name, value in kept.items()}


def _largest(row: tuple[str, float]) -> tuple[float, str]:
    return (-row[1], row[0])


def _short(value: float) -> float:
    """The number with at most four decimals, whole where it is whole."""
    rounded = round(value, 4)
    return int(rounded) if rounded == int(rounded) else rounded


def _write(value: Any) -> str:  # Any: a JSON value
    return json.dumps(value, separators=(",", ":"), allow_nan=False)
