"""Derives events from the difference between one picture of the fleet and the next.

Why: the dashboard receives no events from the fleet. It polls states and compares them.
Must never: report the first picture as a change, or keep more than its bound.
Rules: `dashboard#events`, `dashboard#sources`.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from bigfleet.dashboard.core.observed import CoordinatorPlace, FleetPicture, ObservedShard, ShardPlace
from bigfleet.dashboard.core.wording import plural

KEPT: Final = 1_000
_STORM: Final = 10
"""Losing this many spot machines between two pictures is a storm."""


@dataclass(frozen=True, slots=True)
class FleetEvent:
    """One change; its number lets a reader continue where it stopped."""

    number: int
    at: float
    kind: str
    text: str
    path: str


class FleetEvents:
    """The newest events."""

    def __init__(self) -> None:
        self._kept: deque[FleetEvent] = deque(maxlen=KEPT)
        self._number = 0

    def newest(self, limit: int = KEPT, since: int = 0) -> list[FleetEvent]:
        """Return events after a number, newest first."""
        return [event for event in reversed(self._kept) if event.number > since][:limit]

    def note(self, before: FleetPicture, after: FleetPicture) -> int:
        """Compare two pictures, keep the events, return how many there are."""
        changes = list(_changes(before, after))
        for kind, text, path in changes:
            self._number += 1
            self._kept.append(FleetEvent(self._number, after.at, kind, text, path))
        return len(changes)


def _changes(before: FleetPicture, after: FleetPicture) -> Iterator[tuple[str, str, str]]:
    if before.coordinator and after.coordinator:
        yield from _coordinator(before.coordinator, after.coordinator)
    for place in after.shards:
        earlier = before.shard(place.shard_id)
        if earlier is not None:
            yield from _shard(earlier, place)
        elif before.shards:
            yield (
                "shard_new",
                f"shard {place.shard_id} appeared at {place.address}",
                f"shards/{place.shard_id}",
            )


def _coordinator(before: CoordinatorPlace, after: CoordinatorPlace) -> Iterator[tuple[str, str, str]]:
    if after.error and not before.error:
        yield "coordinator_lost", f"the coordinator stopped answering: {after.error}", "topology"
    if before.error and not after.error and before.answered_at is not None:
        yield "coordinator_back", "the coordinator answers again", "topology"
    old, new = _leader(before), _leader(after)
    if old and new and old != new:
        yield "failover", f"{new} leads the coordinator, {old} did before", "topology"


def _leader(place: CoordinatorPlace) -> str:
    replicas = place.seen.replicas if place.seen else ()
    return next((replica.address for replica in replicas if replica.state == "serving"), "")


def _shard(before: ShardPlace, after: ShardPlace) -> Iterator[tuple[str, str, str]]:
    path, name = f"shards/{after.shard_id}", after.shard_id
    if after.error and not before.error:
        yield "shard_lost", f"shard {name} stopped answering: {after.error}", path
    if before.error and not after.error and before.answered_at is not None:
        yield "shard_back", f"shard {name} answers again", path
    if before.seen is None or after.seen is None:
        return
    if after.seen.epoch > before.seen.epoch:
        yield "restart", f"shard {name} was restarted (epoch {after.seen.epoch})", path
    yield from _switches(before.seen, after.seen, name, path)
    yield from _provider(before.seen, after.seen, name, path)
    yield from _clusters(before.seen, after.seen, name)
    yield from _machines(before.seen, after.seen, name)


def _switches(
    before: ObservedShard, after: ObservedShard, name: str, path: str
) -> Iterator[tuple[str, str, str]]:
    switches = (
        ("kill_switch", before.actuation_paused, after.actuation_paused, "kill switch"),
        ("dry_run", before.dry_run, after.dry_run, "dry run"),
        ("fenced", before.self_paused, after.self_paused, "pause after being fenced"),
    )
    for kind, was, is_now, words in switches:
        if was != is_now:
            yield kind, f"shard {name}: {words} {'on' if is_now else 'off'}", path


def _provider(
    before: ObservedShard, after: ObservedShard, name: str, path: str
) -> Iterator[tuple[str, str, str]]:
    if before.provider is not None and after.provider is not None:
        if before.provider.reachable and not after.provider.reachable:
            why = f": {after.provider.last_error}" if after.provider.last_error else ""
            yield "provider_lost", f"the provider of {name} became unreachable{why}", path
        if after.provider.reachable and not before.provider.reachable:
            yield "provider_back", f"the provider of {name} answers again", path
        if before.provider.doubted_for_s is None and after.provider.doubted_for_s is not None:
            lacking = plural(after.provider.doubted_missing, "machine")
            yield "listing_doubted", f"the provider of {name} lists {lacking} less; that is doubted", path
    old = {row.offering for row in before.cool_offs}
    new = {row.offering for row in after.cool_offs}
    where = f"machines?shard={name}"
    for offering in sorted(new - old):
        yield "stock_out", f"{offering} is out of stock at {name}", where
    for offering in sorted(old - new):
        yield "restocked", f"{offering} is ordered again at {name}", where


def _clusters(before: ObservedShard, after: ObservedShard, name: str) -> Iterator[tuple[str, str, str]]:
    earlier = {cluster.cluster: cluster for cluster in before.clusters}
    for cluster in after.clusters:
        old, path = earlier.get(cluster.cluster), f"clusters/{cluster.cluster}"
        if old is None:
            yield "cluster_new", f"cluster {cluster.cluster} appeared at shard {name}", path
            continue
        if old.connected != cluster.connected:
            word = "connected" if cluster.connected else "lost its session"
            yield "session", f"the operator of {cluster.cluster} {word}", path
        if cluster.held_rollups > old.held_rollups:
            yield "quarantine", f"a roll-up of {cluster.cluster} was held back", path


def _machines(before: ObservedShard, after: ObservedShard, name: str) -> Iterator[tuple[str, str, str]]:
    def failed(seen: ObservedShard, spot: bool) -> int:
        return sum(
            row.count
            for row in seen.machines
            if row.state == "Failed" and (row.capacity_type == "Spot") == spot
        )

    path = f"machines?shard={name}&state=Failed"
    if (lost := failed(after, True) - failed(before, True)) > 0:
        kind = "spot_storm" if lost >= _STORM else "spot_lost"
        yield kind, f"{plural(lost, 'spot machine')} failed at shard {name}", path
    if (lost := failed(after, False) - failed(before, False)) > 0:
        yield "failed", f"{plural(lost, 'machine')} failed at shard {name}", path
    if before.shortfalls == 0 < after.shortfalls:
        yield (
            "short",
            f"{plural(max(after.uncovered, 1), 'need')} of {name} short",
            f"needs?shard={name}&status=short",
        )
    if before.shortfalls > 0 == after.shortfalls:
        yield "covered", f"no need of {name} is short any more", f"needs?shard={name}"
