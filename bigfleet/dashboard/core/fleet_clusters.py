"""Clusters over all shards, as the overview lists them: those that miss most first.

Must never: add up the coverage of a cluster when one of its shards does not report it.
Rules: `dashboard#first-screen`, `dashboard#need-parts`.
"""

from dataclasses import dataclass

from bigfleet.dashboard.core.observed import FleetPicture, ObservedCluster, ObservedCoverage, added_up


@dataclass(frozen=True, slots=True)
class FleetCluster:
    """A cluster over all shards."""

    name: str
    shards: tuple[str, ...]
    connected: bool
    """Whether every shard that serves it has a session of its operator."""
    machines: int
    dollars: float | None
    coverage: ObservedCoverage | None


def clusters_of(picture: FleetPicture) -> list[FleetCluster]:
    """Return every cluster: those that miss something first, then the largest."""
    rows: dict[str, list[tuple[str, ObservedCluster]]] = {}
    for place in picture.shards:
        for row in place.seen.clusters if place.seen is not None else ():
            rows.setdefault(row.cluster, []).append((place.shard_id, row))
    return sorted((_cluster(name, found) for name, found in rows.items()), key=_order)


def _cluster(name: str, found: list[tuple[str, ObservedCluster]]) -> FleetCluster:
    prices = [row.price_per_hour for _, row in found]
    return FleetCluster(
        name,
        tuple(shard for shard, _ in found),
        all(row.connected for _, row in found),
        sum(row.machines for _, row in found),
        None if None in prices else sum(price for price in prices if price is not None),
        added_up(row.coverage for _, row in found),
    )


def _order(row: FleetCluster) -> tuple[bool, int, int, str]:
    parts = row.coverage
    short = parts is not None and not parts.missing.is_zero
    return (not short, -(parts.wanted if parts is not None else 0), -row.machines, row.name)
