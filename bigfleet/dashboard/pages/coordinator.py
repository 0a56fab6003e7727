"""What the coordinator reports: shard reports, replicas, registry, domains.

Rules: `dashboard#page-contents`; an empty list after a failover means rebuilding.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from bigfleet.dashboard.charts import ChartPart, bar
from bigfleet.dashboard.core.health import STALE_S
from bigfleet.dashboard.core.observed import CoordinatorPlace, FleetPicture, ObservedReport
from bigfleet.dashboard.core.wording import age, ago, amount, count, plural
from bigfleet.dashboard.html import Html, el
from bigfleet.dashboard.pages.frame import Frame, card, empty, figures, live, main_part
from bigfleet.dashboard.pages.overview import deficit_text
from bigfleet.dashboard.pages.supply import cool_off_table
from bigfleet.dashboard.pages.tables import TableColumn, TableRow, identity, table
from bigfleet.model.times import rfc3339_of_s


def capacity(frame: Frame, picture: FleetPicture, hints: Sequence[Mapping[str, Any]] | None) -> Html:
    """Return each shard's report to the coordinator, and the available capacity that clusters see."""
    place = picture.coordinator
    if place is None:
        body: Html = empty("Source not configured.", "--coordinator-addr HOST:PORT")
    elif place.seen is None or not place.seen.reports:
        body = empty(place.error or "No reports yet; the leader may be rebuilding after a failover.")
    else:
        body = el("div", (_report(frame, report, picture.at) for report in place.seen.reports), class_="grid")
    offered = el("div", (_hints(row) for row in hints), class_="grid") if hints else None
    stock_outs = [
        card(f"Out of stock at {one.shard_id}", cool_off_table(one.seen))
        for one in picture.shards
        if one.seen is not None and one.seen.cool_offs
    ]
    return main_part(frame, "Capacity", live("capacity", stock_outs, body, offered), every=15)


def _report(frame: Frame, report: ObservedReport, now: float) -> Html:
    late = now - report.received_at
    fresh = ago(late) if late <= STALE_S else el("span", f"▲ stale, {age(late)} ago", class_="warn")
    shortfalls = [
        TableRow(
            (
                count(int(str(row["priority"]))),
                deficit_text(_texts(row["deficit"])),
                count(int(str(row["ageCycles"]))),
            )
        )
        for row in report.shortfalls
    ]
    columns = (TableColumn("priority", True), TableColumn("missing"), TableColumn("cycles", True))
    return card(
        f"Shard {report.shard_id}",
        figures(
            ("reported", fresh),
            ("machines", count(report.total_machines)),
            ("free or obtainable", count(report.free_machines)),
        ),
        bar("By type", [ChartPart(name, value) for name, value in report.per_instance_type.items()]),
        bar("By zone", [ChartPart(name, value) for name, value in report.per_zone.items()]),
        el("p", "Provider ", el("code", report.provider_address or "inside the shard")),
        table("shortfalls, by priority", columns, shortfalls)
        if shortfalls
        else el("p", "No shortfall.", class_="dim"),
        el("p", el("a", "its needs", href=frame.to("needs", shard=report.shard_id))),
    )


def _texts(value: object) -> Mapping[str, str]:
    return value if isinstance(value, Mapping) else {}


def _hints(row: Mapping[str, Any]) -> Html:
    columns = (
        TableColumn("name"),
        TableColumn("resources"),
        TableColumn("count", True),
        TableColumn("availability"),
        TableColumn("cost"),
    )
    rows = [
        TableRow(
            (
                item["name"],
                deficit_text(item["resources"]),
                count(item["availableCount"]),
                item["availability"],
                str(item["cost"]),
            )
        )
        for item in row.get("items", ())
    ]
    body = (
        table("available capacity", columns, rows) if rows else empty(row.get("error") or "Nothing offered.")
    )
    return card(f"Offered to {row['id']}", body)


def topology(frame: Frame, picture: FleetPicture, reported: Mapping[str, Any] | None) -> Html:
    """Return coordinator, registry and domains."""
    place = picture.coordinator
    if place is None:
        return main_part(
            frame,
            "Topology",
            live("topology", empty("Source not configured.", "--coordinator-addr HOST:PORT")),
            every=15,
        )
    parts = [_replicas(place, picture.at)]
    if reported is not None:
        raft = reported["coordinator"]
        parts.append(
            card(
                "Log",
                figures(
                    ("term", count(raft["raftTerm"])),
                    ("writes", f"{amount(raft['applyRatePerSec'])}/s"),
                    ("refused", f"{amount(raft['applyErrorRatePerSec'])}/s"),
                    ("instructions waiting", count(raft["pendingInstructionsTotal"])),
                ),
            )
        )
    if place.seen is not None:
        parts += [_registry(frame, place, picture.at), _domains(place)]
    return main_part(frame, "Topology", live("topology", el("div", parts, class_="grid two")), every=15)


def _replicas(place: CoordinatorPlace, now: float) -> Html:
    trouble = None
    if place.error:
        since = "" if place.answered_at is None else f" Last answer {age(now - place.answered_at)} ago."
        rebuilding = "; rebuilding" if place.leaderless else ""
        trouble = el("p", f"■ {place.error}{rebuilding}.{since}", class_="bad")
    columns = (
        TableColumn("replica"),
        TableColumn("state"),
        TableColumn("members"),
        TableColumn("term", True),
        TableColumn("index", True),
    )
    rows = [
        TableRow(
            (
                identity(row.address),
                row.error or row.state,
                row.membership,
                count(row.last_term),
                count(row.last_index),
            ),
            key=row.address,
        )
        for row in (place.seen.replicas if place.seen else ())
    ]
    return card(
        "Coordinator",
        trouble,
        table("replicas", columns, rows) if rows else empty("No replica has answered."),
    )


def _registry(frame: Frame, place: CoordinatorPlace, now: float) -> Html:
    columns = (TableColumn("shard"), TableColumn("address"), TableColumn("registered"), TableColumn("heard"))
    rows = [
        TableRow(
            (
                el("a", identity(row.shard_id), href=frame.to(f"shards/{row.shard_id}")),
                el("code", row.address),
                el(
                    "time",
                    ago(now - row.registered_at),
                    datetime=rfc3339_of_s(row.registered_at),
                    title=rfc3339_of_s(row.registered_at),
                ),
                ago(now - row.last_heartbeat) if row.last_heartbeat else "not since this leader took over",
            ),
            key=row.shard_id,
        )
        for row in (place.seen.registered if place.seen else ())
    ]
    return card(
        "Registered shards", table("by name", columns, rows) if rows else empty("No shard has registered.")
    )


def _domains(place: CoordinatorPlace) -> Html:
    rows = [
        TableRow((row.key, row.value, row.shard_id)) for row in (place.seen.domains if place.seen else ())
    ]
    columns = (TableColumn("key"), TableColumn("value"), TableColumn("shard"))
    shown = rows[:500]
    more = el("p", f"{count(len(rows) - 500)} more", class_="dim") if len(rows) > 500 else None
    return card(
        "Domains",
        table(plural(len(rows), "domain"), columns, shown) if rows else empty("None assigned."),
        more,
    )
