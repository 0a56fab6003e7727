"""The shard pages: a table of all shards, and one shard in detail.

Rules: `dashboard#page-contents`.
"""

from collections.abc import Mapping
from typing import Any, Final

from bigfleet.dashboard.charts import ChartLine, ChartPart, bar, line_chart
from bigfleet.dashboard.core.health import STALE_S
from bigfleet.dashboard.core.observed import FleetPicture, ObservedShard, ShardPlace
from bigfleet.dashboard.core.wording import age, ago, count, duration, plural, share
from bigfleet.dashboard.html import Html, el, join
from bigfleet.dashboard.metric_reader import Trend
from bigfleet.dashboard.pages.frame import Frame, card, empty, figures, live, main_part
from bigfleet.dashboard.pages.supply import (
    COVERAGE_COLUMNS,
    cool_off_table,
    coverage_bar,
    coverage_cells,
    listing_age,
    provider_state,
    shard_state,
)
from bigfleet.dashboard.pages.tables import TableColumn, TableRow, identity, pairs, table
from bigfleet.model.times import rfc3339_of_s

LIST_EVERY_S: Final = 15
ONE_EVERY_S: Final = 10
_COLUMNS: Final = (
    TableColumn("shard"),
    TableColumn("state"),
    TableColumn("cycle", numeric=True),
    TableColumn("last cycle"),
    TableColumn("p99", numeric=True),
    TableColumn("machines", numeric=True),
    TableColumn("needs", numeric=True),
    TableColumn("short", numeric=True),
    TableColumn("sessions", numeric=True),
    TableColumn("queue", numeric=True),
)


def shards(frame: Frame, picture: FleetPicture, p99: Mapping[str, float]) -> Html:
    """Return the main part of the list of shards."""
    if not picture.shards:
        body = empty(
            "No shard is known yet." if picture.shards_wired else "Source not configured.",
            "" if picture.shards_wired else "--shard-addr HOST:PORT or --coordinator-addr HOST:PORT",
        )
    else:
        rows = [_row(frame, place, picture.at, p99) for place in picture.shards]
        body = table(plural(len(rows), "shard"), _COLUMNS, rows)
    return main_part(frame, "Shards", live("shards", body), every=LIST_EVERY_S)


def _row(frame: Frame, place: ShardPlace, now: float, p99: Mapping[str, float]) -> TableRow:
    seen, where = place.seen, frame.to(f"shards/{place.shard_id}")
    name = el("a", identity(place.shard_id), href=where)
    if seen is None:
        return TableRow(
            (name, el("span", f"■ {place.error or 'not asked yet'}", class_="bad"), *["unknown"] * 8),
            key=place.shard_id,
        )
    return TableRow(
        (
            name,
            shard_state(place),
            count(seen.cycle),
            last_cycle(place, now),
            cycle_time(p99.get(place.shard_id)),
            count(sum(row.count for row in seen.machines)) if seen.insight else "unknown",
            count(seen.needs),
            count(seen.uncovered),
            count(sum(cluster.connected for cluster in seen.clusters)) if seen.insight else "unknown",
            count(seen.queue_depth) if seen.insight else "unknown",
        ),
        key=place.shard_id,
    )


def last_cycle(place: ShardPlace, now: float) -> str:
    """Return when the last cycle ended."""
    return "none yet" if place.cycle_at is None else ago(now - place.cycle_at)


def cycle_time(seconds: float | None) -> Html:
    """Return how long cycles take, with a word beside the colour."""
    if seconds is None:
        return el("span", "unknown", class_="dim")
    tone, word = ("bad", " slow") if seconds > 5 else ("warn", " long") if seconds > 1 else ("good", "")
    return el("span", f"{duration(seconds)}{word}", class_=tone)


def conflict_share(lost: float, proposals: float) -> Html:
    """Return the share of conflicting proposals, with a word beside the colour; the thresholds are the original's."""
    part = lost / proposals if proposals else 0.0
    tone, word = ("bad", " far too many") if part >= 0.3 else ("warn", " many") if part >= 0.15 else ("", "")
    return el("span", f"{share(lost, proposals)}{word}", class_=tone or None)


def shard(
    frame: Frame, place: ShardPlace, now: float, reported: Mapping[str, Any] | None, trends: Trend | None
) -> Html:
    """Return the main part of one shard; `reported` is the answer of `/shards/{pod}`, None without metrics."""
    old = place.answered_at is not None and now - place.answered_at > STALE_S
    content = (
        el("p", f"Stale: last heard {age(now - (place.answered_at or now))} ago.", class_="banner")
        if old
        else None,
        el("div", _cards(frame, place, now, reported, trends), class_="grid"),
    )
    return main_part(
        frame, f"Shard {place.shard_id}", live("shard", content), every=ONE_EVERY_S, aside=shard_state(place)
    )


def _cards(
    frame: Frame, place: ShardPlace, now: float, reported: Mapping[str, Any] | None, trends: Trend | None
) -> list[Html]:
    seen = place.seen
    if seen is None:
        return [card("No answer yet", empty(place.error or "The shard has not been asked yet."))]
    stock_outs = cool_off_table(seen)
    return [
        *([card("Out of stock", stock_outs, wide=True)] if stock_outs else []),
        _now(place, seen, now, reported),
        _provider(seen, now),
        _machines(frame, place.shard_id, seen),
        _about(place, seen),
        _trends(trends),
        _clusters(frame, seen, now),
    ]


def _provider(seen: ObservedShard, now: float) -> Html:
    provider = seen.provider
    error = provider.last_error if provider is not None and not provider.reachable else ""
    return card(
        "Provider",
        pairs(
            {
                "address": seen.provider_address or "a fake one inside the shard",
                "state": provider_state(seen),
                "last listed": listing_age(seen, now),
                **({"last error": error} if error else {}),
            }
        ),
    )


def _now(place: ShardPlace, seen: ObservedShard, now: float, reported: Mapping[str, Any] | None) -> Html:
    conflicts = None
    if reported is not None:
        lost, won = reported["occConflictPerSec"], reported["occCommittedPerSec"]
        conflicts = conflict_share(lost, lost + won)
    phases = (
        el(
            "p",
            "p99 by phase: ",
            ", ".join(
                f"{name} {duration(value)}" for name, value in reported["cycleP99ByPhaseSeconds"].items()
            )
            or "unknown",
            class_="dim",
        )
        if reported
        else empty("Times need metrics.", "--scrape URL")
    )
    return card(
        "Now",
        figures(
            ("cycle", count(seen.cycle)),
            ("last", last_cycle(place, now)),
            ("p99", cycle_time(reported["cycleP99Seconds"] or None if reported else None)),
            ("needs", count(seen.needs)),
            ("short", count(seen.uncovered)),
            ("queue", count(seen.queue_depth)),
            ("being done", count(seen.in_flight)),
            *((("conflicts", conflicts),) if conflicts else ()),
        ),
        phases,
        [el("p", f"■ {problem.text}", class_="bad") for problem in seen.problems],
        coverage_bar(seen.coverage),
    )


def _machines(frame: Frame, shard_id: str, seen: ObservedShard) -> Html:
    if not seen.insight:
        return card("Machines", empty("This shard does not report its machines."))
    by_state: dict[str, int] = {}
    by_type: dict[str, int] = {}
    for row in seen.machines:
        by_state[row.state] = by_state.get(row.state, 0) + row.count
        by_type[row.capacity_type] = by_type.get(row.capacity_type, 0) + row.count
    return card(
        "Machines",
        bar(
            "By state",
            [ChartPart(n, v, frame.to("machines", shard=shard_id, state=n)) for n, v in by_state.items()],
        ),
        bar(
            "By capacity type",
            [ChartPart(n, v, frame.to("machines", shard=shard_id, capacity=n)) for n, v in by_type.items()],
        ),
    )


def _clusters(frame: Frame, seen: ObservedShard, now: float) -> Html:
    columns = (
        TableColumn("cluster"),
        TableColumn("session"),
        TableColumn("roll-up"),
        TableColumn("rows", True),
        TableColumn("machines", True),
        *COVERAGE_COLUMNS[1:],
    )
    rows = [
        TableRow(
            (
                el("a", row.cluster, href=frame.to(f"clusters/{row.cluster}")),
                el("span", "● connected", class_="good")
                if row.connected
                else el("span", "■ no session", class_="bad"),
                ago(now - row.rollup_accepted) if row.rollup_accepted else "none yet",
                count(row.rows),
                count(row.machines),
                *coverage_cells(row.coverage)[1:],
            ),
            key=row.cluster,
        )
        for row in seen.clusters
    ]
    return card(
        "Clusters",
        table("as this shard sees them", columns, rows) if rows else empty("No cluster has connected yet."),
        wide=True,
    )


def _about(place: ShardPlace, seen: ObservedShard) -> Html:
    link = seen.coordinator
    return card(
        "About",
        pairs(
            {
                "address": place.address,
                "version": seen.version or "unknown",
                "epoch": count(seen.epoch),
                "started": rfc3339_of_s(seen.started_at) if seen.started_at else "unknown",
                "coordinator": "none"
                if link is None
                else link.last_error or f"{link.address}, term {link.term}",
            }
        ),
        join(el("p", note) for note in seen.notes),
        join(
            el("h3", "Since it started"),
            pairs({name.replace("_", " "): count(value) for name, value in seen.totals.items() if value}),
        )
        if any(seen.totals.values())
        else None,
    )


def _trends(trends: Trend | None) -> Html:
    if trends is None or not trends.values:
        return card("The last hour", empty("Nothing measured yet."), wide=True)
    times = [rfc3339_of_s(time)[11:16] for time in trends.times]
    lines = [ChartLine("p99", next(iter(trends.values.values())))]
    return card("The last hour", line_chart("Cycle p99", "over the last hour", times, lines, " s"), wide=True)
