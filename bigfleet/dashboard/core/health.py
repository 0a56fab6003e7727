"""Health of the fleet: one word, every reason for it, and a verdict in one line.

Why: the first line of the dashboard must never say that all is well beside a short need or a dead provider, so everything
that is wrong anywhere is a reason here.
Must never: report a fleet as good when nothing is known about it, or compute an age from the clocks of two hosts.
Rules: `dashboard#first-screen`, `dashboard#trouble-in-one-look`; the reports' age of 20 s is the original's. ADR-0222.

The words, worst last: good; degraded, when something does not work as it should; blind, when a shard decides on old data;
stopped, when a shard executes nothing.
"""

import enum
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from bigfleet.dashboard.core.observed import (
    CoordinatorPlace,
    FleetPicture,
    ObservedCoverage,
    ObservedShard,
    ShardPlace,
)
from bigfleet.dashboard.core.wording import age, capitalised, count, plural
from bigfleet.explain.amounts import readable

STALE_S: Final = 20.0
_IN_VERDICT: Final = 3
"""Reasons in the verdict; the rest is counted."""


class FleetHealth(enum.IntEnum):
    """Health of the fleet, by severity."""

    GOOD = 0
    DEGRADED = 1
    BLIND = 2
    STOPPED = 3

    @property
    def word(self) -> str:
        """The word on pages and in the API."""
        return ("good", "degraded", "blind", "stopped")[self]


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


def verdict(found: tuple[HealthReason, ...], picture: FleetPicture) -> str:
    """Return one line: everything that is wrong, worst first, or that all needs are covered."""
    if found:
        texts = [reason.text for reason in found[:_IN_VERDICT]]
        more = len(found) - len(texts)
        return capitalised("; ".join(texts) + (f"; and {more} more" if more else ""))
    seen = [place.seen for place in picture.shards if place.seen is not None]
    if not all(one.cycle for one in seen):
        return "Nothing is wrong; a shard has not decided yet."
    needs, uncovered = sum(one.needs for one in seen), sum(one.uncovered for one in seen)
    if not needs:
        return "Nothing is wrong; no cluster asks for anything."
    if uncovered:  # machines were decided on and the provider has not accepted them yet, which takes a moment
        return (
            f"{count(needs - uncovered)} of {plural(needs, 'need')} covered; {count(uncovered)} being served."
        )
    return "The one need is covered." if needs == 1 else f"All {count(needs)} needs are covered."


def _shard(place: ShardPlace, now: float) -> Iterator[HealthReason]:
    path, name = f"shards/{place.shard_id}", place.shard_id
    if place.error:
        since = "" if place.answered_at is None else f" for {age(now - place.answered_at)}"
        yield HealthReason(
            FleetHealth.DEGRADED, "shard_lost", f"shard {name} has not answered{since}: {place.error}", path
        )
    if place.seen is None:
        return
    found = [
        *_actuation(place.seen, name, path),
        *_provider(place.seen, name, path, now),
        *_knowledge(place, place.seen, path, now),
        *_sessions(place.seen, name),
        *_shortfalls(place.seen, name),
        *_cool_offs(place.seen, name),
    ]
    yield from found
    yield from _other_problems(place.seen, path, {reason.kind for reason in found})


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


def _provider(seen: ObservedShard, name: str, path: str, now: float) -> Iterator[HealthReason]:
    provider, limit = seen.provider, _patience(seen)
    named = f"provider {seen.provider_address} of {name}" if seen.provider_address else f"provider of {name}"
    if provider is None:  # an older shard gives a time of its own clock and no duration
        late = now - seen.last_reconcile
        if seen.last_reconcile and late > limit and seen.ready:
            text = f"shard {name} last heard its provider {age(late)} ago"
            yield HealthReason(FleetHealth.BLIND, "reconcile", text, path)
        return
    if not provider.reachable:
        why = f": {provider.last_error}" if provider.last_error else ""
        text = f"{named} unreachable for {age(provider.unreachable_for_s)}{why}"
        yield HealthReason(FleetHealth.BLIND, "provider_unreachable", text, path)
    elif provider.listing_age_s is not None and provider.listing_age_s > limit:
        text = f"{named} answers, but the last listing is {age(provider.listing_age_s)} old"
        yield HealthReason(FleetHealth.BLIND, "reconcile", text, path)
    if provider.doubted_for_s is not None:
        lacking = plural(provider.doubted_missing, "machine")
        text = f"listings of the {named} lack {lacking} and are doubted for {age(provider.doubted_for_s)}"
        yield HealthReason(FleetHealth.BLIND, "listing_doubted", text, path)


def _knowledge(place: ShardPlace, seen: ObservedShard, path: str, now: float) -> Iterator[HealthReason]:
    quiet = 0.0 if place.cycle_at is None else now - place.cycle_at
    if quiet > _patience(seen):
        text = f"shard {place.shard_id} last decided {age(quiet)} ago"
        yield HealthReason(FleetHealth.BLIND, "stalled", text, path)
    if rejected := seen.totals.get("machines_rejected", 0):
        text = f"shard {place.shard_id} has refused {plural(rejected, 'record')} of its provider"
        yield HealthReason(FleetHealth.DEGRADED, "rejected", text, path)


def _patience(seen: ObservedShard) -> float:
    """How old data may be before a shard that decides on them is blind."""
    return 3 * max(seen.cycle_interval_s, STALE_S / 3)


def _shortfalls(seen: ObservedShard, name: str) -> Iterator[HealthReason]:
    said = any(problem.kind == "shortfalls" for problem in seen.problems)
    short = max(seen.uncovered, 1 if said else 0)
    if not (seen.shortfalls or said or (not seen.insight and seen.needs_short)):
        return
    needs = f"{plural(max(short, 1), 'need')} of {name}"
    verb = "misses" if short <= 1 else "miss"
    text = f"{needs} {verb} {missing_text(seen.coverage)}"
    yield HealthReason(FleetHealth.DEGRADED, "shortfalls", text, f"needs?shard={name}&status=short")


def missing_text(coverage: ObservedCoverage | None) -> str:
    """Return what needs miss: the machines that are wanted, and the amounts."""
    amounts = readable(coverage.missing.texts()) if coverage is not None else ""
    wanted = plural(coverage.wanted, "machine") if coverage is not None and coverage.wanted else ""
    return f"{wanted} ({amounts})" if wanted and amounts else wanted or amounts or "machines"


def _cool_offs(seen: ObservedShard, name: str) -> Iterator[HealthReason]:
    if not seen.cool_offs:
        return
    first = min(seen.cool_offs, key=lambda row: (row.next_attempt_in_s, row.offering))
    more = f" and {len(seen.cool_offs) - 1} more" if len(seen.cool_offs) > 1 else ""
    again = f"in {age(first.next_attempt_in_s)}" if first.next_attempt_in_s > 0 else "now"
    text = f"{first.offering}{more} out of stock at {name}, tried again {again}"
    yield HealthReason(FleetHealth.DEGRADED, "offering_cool_off", text, f"machines?shard={name}")


_OWN_KIND: Final = {"self_paused": "fenced", "rollup_quarantine": "quarantine", "audit_lost": "audit"}
"""Problems of a shard that have another name here, where older shards are judged by the same facts."""


def _other_problems(seen: ObservedShard, path: str, found: set[str]) -> Iterator[HealthReason]:
    """What a shard says is wrong and no rule here has found, such as a kind that a newer shard knows."""
    for problem in seen.problems:
        if _OWN_KIND.get(problem.kind, problem.kind) not in found:
            text = f"shard {seen.shard_id}: {problem.text}"
            yield HealthReason(FleetHealth.DEGRADED, problem.kind, text, path)


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
