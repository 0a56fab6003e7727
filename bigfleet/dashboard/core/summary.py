"""The fleet at a glance, from one picture: the answer of `/x/status` and the overview page.

Must never: add up numbers of some shards without saying that others are missing.
Rules: `dashboard#first-screen`.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from bigfleet.dashboard.core.health import FleetHealth, HealthReason, fleet_health, reasons, verdict
from bigfleet.dashboard.core.observed import (
    FleetPicture,
    MachineCount,
    ObservedCoverage,
    ObservedShortfall,
    added_up,
)

CLASSES: Final = ("critical", "service", "batch", "other")
HOSTED: Final = ("Idle", "Configuring", "Configured", "Draining", "Deleting")
STATES: Final = (
    "Speculative",
    "Creating",
    "Idle",
    "Configuring",
    "Configured",
    "Draining",
    "Deleting",
    "Failed",
)
_OLDEST: Final = 5


@dataclass(frozen=True, slots=True)
class OverviewSummary:
    """Everything on the overview page; None for unknown values."""

    health: FleetHealth
    verdict: str
    reasons: tuple[HealthReason, ...]
    shards: int
    silent_shards: int
    """Shards whose numbers are old or missing, so that the sums below are not current."""
    clusters: int | None
    by_state: dict[str, int] | None
    by_capacity_type: dict[str, int] | None
    cost_per_hour: float | None
    idle_cost_per_hour: float | None
    exposure_per_hour: float | None
    pinned_at_risk: int | None
    needs: int | None
    needs_short: int | None
    """Needs that are not covered."""
    coverage: ObservedCoverage | None
    short_by_class: dict[str, int] | None
    oldest: tuple[ObservedShortfall, ...]
    queue_depth: int | None
    in_flight: int | None
    last_cycle_age_s: float | None
    """Of the shard with the oldest last cycle."""
    withheld: dict[str, int] | None
    """Actions withheld since the shards started, by reason."""

    @property
    def machines(self) -> int | None:
        """How many machines are known."""
        return None if self.by_state is None else sum(self.by_state.values())


_WITHHELD: Final = (
    "reclaims_capped",
    "actions_deferred",
    "actions_dropped",
    "actions_suppressed",
    "actions_dryrun",
)


def summarise(picture: FleetPicture) -> OverviewSummary:
    """Return the summary of a picture."""
    found = reasons(picture)
    seen = [place.seen for place in picture.shards if place.seen is not None]
    detailed = [one for one in seen if one.insight]
    rows = [row for one in detailed for row in one.machines]
    shortfalls = [row for place in picture.shards for row in place.shortfalls]
    known = bool(detailed)
    cycles = [picture.at - place.cycle_at for place in picture.shards if place.cycle_at is not None]
    return OverviewSummary(
        health=fleet_health(found),
        verdict=verdict(found, picture),
        reasons=found,
        shards=len(picture.shards),
        silent_shards=sum(bool(place.error) or place.seen is None for place in picture.shards),
        clusters=len({cluster.cluster for one in detailed for cluster in one.clusters}) if known else None,
        by_state=_count(rows, lambda row: row.state) if known else None,
        by_capacity_type=_count(_hosted(rows), lambda row: row.capacity_type) if known else None,
        cost_per_hour=sum(row.price_per_hour for row in _hosted(rows)) if known else None,
        idle_cost_per_hour=sum(row.price_per_hour for row in rows if row.state == "Idle") if known else None,
        exposure_per_hour=sum(row.exposure_per_hour for row in _hosted(rows)) if known else None,
        pinned_at_risk=sum(row.pinned_at_risk for row in _hosted(rows)) if known else None,
        needs=sum(one.needs for one in seen) if seen else None,
        needs_short=sum(one.uncovered for one in seen) if seen else None,
        coverage=added_up(one.coverage for one in seen),
        short_by_class=_by_class(shortfalls) if known else None,
        oldest=tuple(
            sorted(shortfalls, key=lambda row: (-row.age_cycles, -row.priority, row.fingerprint))[:_OLDEST]
        ),
        queue_depth=sum(one.queue_depth for one in detailed) if known else None,
        in_flight=sum(one.in_flight for one in detailed) if known else None,
        last_cycle_age_s=max(cycles, default=None),
        withheld={name: sum(one.totals.get(name, 0) for one in detailed) for name in _WITHHELD}
        if known
        else None,
    )


def _hosted(rows: Iterable[MachineCount]) -> list[MachineCount]:
    """Rows of machines that exist and are paid for."""
    return [row for row in rows if row.state in HOSTED]


def _count(rows: Iterable[MachineCount], of: Callable[[MachineCount], str]) -> dict[str, int]:
    counts: Counter[str] = Counter()
    for row in rows:
        counts[of(row)] += row.count
    order = {name: place for place, name in enumerate(STATES)}
    return dict(sorted(counts.items(), key=lambda item: (order.get(item[0], len(order)), item[0])))


def _by_class(shortfalls: Iterable[ObservedShortfall]) -> dict[str, int]:
    counts = Counter(row.priority_class for row in shortfalls)
    return {name: counts[name] for name in CLASSES}
