"""Health of the fleet: one word, and every reason for it.

Must never: report a fleet as good when nothing is known about it.
Rules: `dashboard#first-screen`; the reports' age of 20 s is the original's.

The words, worst last: good; degraded, when something does not work as it should; acting blind, when a shard decides on
old data; stopped, when a shard executes nothing.
"""

import enum
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from bigfleet.dashboard.core.observed import CoordinatorPlace, FleetPicture, ObservedShard, ShardPlace
from bigfleet.dashboard.core.wording import age, plural

STALE_S: Final = 20.0


class FleetHealth(enum.IntEnum):
    """Health of the fleet, by severity."""

    GOOD = 0
    DEGRADED = 1
    BLIND = 2
    STOPPED = 3

    @property
    def word(self) -> str:
        """The word on pages and in the API."""
        return ("good", "degraded", "acting blind", "stopped")[self]


@dataclass(frozen=True, slots=True)
class HealthReason:
    """A problem: its effect on the fleet's health, a text, and the page with details."""

    health: FleetHealth
    kind: str
    text: str
    path: str
    """Under the dashboard's base."""


def reasons(picture: FleetPicture) -> tuple[HealthReason, ...]:
    """Return all problems, worst first, then in the order of the page."""
    found = [
        *_coordinator(picture),
        *(reason for place in picture.shards for reason in _shard(place, picture.at)),
    ]
    if not picture.shards:
        found.append(_nothing_known(picture))
    return tuple(sorted(found, key=lambda reason: -reason.health))


def fleet_health(found: tuple[HealthReason, ...]) -> FleetHealth:
    """Return the health that the worst reason gives."""
    return max((reason.health for reason in found), default=FleetHealth.GOOD)


def _nothing_known(picture: FleetPicture) -> HealthReason:
    if not picture.shards_wired:
        return HealthReason(
            FleetHealth.DEGRADED, "no_source", "no shard and no coordinator is wired", "about"
        )
    return HealthReason(FleetHealth.DEGRADED, "no_shard", "no shard is known yet", "topology")


def _coordinator(picture: FleetPicture) -> Iterator[HealthReason]:
    place = picture.coordinator
    if place is None:
        return
    if place.error:
        yield HealthReason(
            FleetHealth.DEGRADED, "no_coordinator", f"no serving coordinator: {place.error}", "topology"
        )
        return
    yield from _late_reports(place, picture.at)


def _late_reports(place: CoordinatorPlace, now: float) -> Iterator[HealthReason]:
    if place.seen is None:
        return
    for report in place.seen.reports:
        late = now - report.received_at
        if late > STALE_S:
            text = f"the last report of shard {report.shard_id} is {age(late)} old"
            yield HealthReason(FleetHealth.DEGRADED, "late_report", text, f"shards/{report.shard_id}")


def _shard(place: ShardPlace, now: float) -> Iterator[HealthReason]:
    path, name = f"shards/{place.shard_id}", place.shard_id
    if place.error:
        since = "" if place.answered_at is None else f" for {age(now - place.answered_at)}"
        yield HealthReason(
            FleetHealth.DEGRADED, "shard_lost", f"shard {name} has not answered{since}: {place.error}", path
        )
    if place.seen is None:
        return
    yield from _actuation(place.seen, name, path)
    yield from _knowledge(place.seen, name, path, now)
    yield from _sessions(place.seen, name)


def _actuation(seen: ObservedShard, name: str, path: str) -> Iterator[HealthReason]:
    if seen.self_paused:
        yield HealthReason(
            FleetHealth.STOPPED, "fenced", f"shard {name} is fenced and has stopped itself", path
        )
    if seen.actuation_paused:
        yield HealthReason(
            FleetHealth.STOPPED, "paused", f"shard {name} was started with the kill switch on", path
        )
    if seen.dry_run:
        yield HealthReason(
            FleetHealth.STOPPED, "dry_run", f"shard {name} runs dry: it decides and carries out nothing", path
        )
    if not seen.ready and not seen.self_paused:
        why = "; ".join(seen.notes) or "it does not say why"
        yield HealthReason(FleetHealth.DEGRADED, "not_ready", f"shard {name} is not ready: {why}", path)
    if seen.totals.get("audit_lost"):
        yield HealthReason(FleetHealth.DEGRADED, "audit", f"shard {name} has lost audit records", path)


def _knowledge(seen: ObservedShard, name: str, path: str, now: float) -> Iterator[HealthReason]:
    late = now - seen.last_reconcile
    if seen.last_reconcile and late > 3 * max(seen.cycle_interval_s, STALE_S / 3) and seen.ready:
        text = f"shard {name} last heard its provider {age(late)} ago"
        yield HealthReason(FleetHealth.BLIND, "reconcile", text, path)
    quiet = now - seen.computed_at
    if seen.cycle and quiet > 3 * max(seen.cycle_interval_s, STALE_S / 3):
        yield HealthReason(FleetHealth.BLIND, "stalled", f"shard {name} last decided {age(quiet)} ago", path)
    if rejected := seen.totals.get("machines_rejected", 0):
        text = f"shard {name} has refused {plural(rejected, 'record')} of its provider"
        yield HealthReason(FleetHealth.DEGRADED, "rejected", text, path)


def _sessions(seen: ObservedShard, name: str) -> Iterator[HealthReason]:
    for cluster in seen.clusters:
        path = f"clusters/{cluster.cluster}"
        if not cluster.connected and (cluster.rows or cluster.machines):
            text = f"the operator of cluster {cluster.cluster} has no session with shard {name}"
            yield HealthReason(FleetHealth.DEGRADED, "session", text, path)
        if cluster.held_rollups:
            held = plural(cluster.held_rollups, "roll-up")
            text = f"{held} of cluster {cluster.cluster} held back: demand looks lost"
            yield HealthReason(FleetHealth.DEGRADED, "quarantine", text, path)
