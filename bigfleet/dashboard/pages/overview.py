"""The overview page: a verdict in one line, a bar for each cluster, who is short, three charts over time, actions, cost, events.

Rules: `dashboard#first-screen`; no scrolling at 1280 by 720.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from bigfleet.dashboard.charts import ChartPart, bar
from bigfleet.dashboard.core.fleet_clusters import FleetCluster, clusters_of
from bigfleet.dashboard.core.fleet_events import FleetEvent
from bigfleet.dashboard.core.health import FleetHealth
from bigfleet.dashboard.core.observed import FleetPicture, ObservedShortfall, ShardPlace
from bigfleet.dashboard.core.summary import OverviewSummary
from bigfleet.dashboard.core.wording import (
    UNKNOWN,
    age,
    ago,
    capitalised,
    count,
    duration,
    money,
    plural,
    share,
)
from bigfleet.dashboard.html import Html, el, join
from bigfleet.dashboard.pages.frame import Frame, card, empty, figures, live, main_part
from bigfleet.dashboard.pages.history import HistoryChart, HistoryView, charts, range_picker, trouble_line
from bigfleet.dashboard.pages.supply import cluster_bar, coverage_bar, provider_state, shard_state
from bigfleet.explain.amounts import amounts_words, readable
from bigfleet.model.times import rfc3339_of_s

EVERY_S: Final = 10
CHARTS: Final = (
    HistoryChart(
        "states",
        "Machines by state",
        "without those to be bought",
        stacked=True,
        skip=("Speculative",),
        height=120,
    ),
    HistoryChart("missing", note="at its worst", height=120),
    HistoryChart("cost", "Dollars per hour", "of all hosts", stacked=True, height=120),
    HistoryChart("actions", "Actions per minute", "by kind", height=96),
)
_SHOWN_REASONS: Final = 8
_SHOWN_SHARDS: Final = 4
_SHOWN_EVENTS: Final = 20
_SHOWN_CLUSTERS: Final = 10
_WITHHELD: Final = {
    "reclaims_capped": ("release", "postponed by the limit per cycle"),
    "actions_deferred": ("action", "postponed"),
    "actions_dropped": ("action", "dropped from a full queue"),
    "actions_suppressed": ("action", "suppressed while paused"),
    "actions_dryrun": ("action", "not carried out in dry run"),
}


def overview(
    frame: Frame,
    summary: OverviewSummary,
    picture: FleetPicture,
    view: HistoryView,
    *,
    cycles: Mapping[str, tuple[float, float]] | None,
    events: Sequence[FleetEvent],
) -> Html:
    """Return the main part of the overview page."""
    return main_part(
        frame,
        "Fleet",
        live("verdict", verdict_line(summary)),
        el(
            "div",
            live("clusters", _clusters(frame, summary, picture)),
            live("short", _short(frame, summary, picture)),
            live("wrong", _health(frame, summary, picture)),
            (el("section", figure, class_="card drawn") for figure in charts(view)),
            live("speed", _speed(frame, summary, cycles)),
            live("machines", _machines(frame, summary)),
            live("events", _events(frame, events)),
            class_="screen",
        ),
        trouble_line(view.trouble),
        every=EVERY_S,
        aside=range_picker(frame, "", view.range_name),
    )


def verdict_line(summary: OverviewSummary) -> Html:
    """Return what is wrong, or that nothing is, in one line: red with a mark when anything is wrong."""
    tone = "good" if summary.health is FleetHealth.GOOD else "bad"
    return el("p", summary.verdict, class_=f"state {tone}", data_state=summary.health.word)


def _clusters(frame: Frame, summary: OverviewSummary, picture: FleetPicture) -> Html:
    """A bar for each cluster, those that miss most first."""
    found = clusters_of(picture)
    if not found:
        return card(
            "Clusters",
            empty(
                "Unknown: no shard has reported yet." if summary.needs is None else "No cluster is known yet."
            ),
        )
    more = len(found) - _SHOWN_CLUSTERS
    rows = (_cluster(frame, row) for row in found[:_SHOWN_CLUSTERS])
    columns = ("cluster", "machines of its needs", "running", "coming", "missing", "cost")
    head = el(
        "tr",
        (
            el("th", name, scope="col", class_="num" if name in {"running", "coming", "cost"} else None)
            for name in columns
        ),
    )
    return card(
        "Clusters",
        coverage_bar(summary.coverage),
        el("div", el("table", el("thead", head), el("tbody", rows), class_="bars"), class_="scroll"),
        el("p", el("a", f"{plural(more, 'more cluster')}", href=frame.to("clusters"))) if more > 0 else None,
    )


def _cluster(frame: Frame, row: FleetCluster) -> Html:
    name = el("a", row.name, href=frame.to(f"clusters/{row.name}"))
    parts = row.coverage
    mark = None if row.connected else el("span", " ■ no session", class_="bad")
    cost = el("td", money(row.dollars), class_="num", data_cell=f"{row.name}/cost")
    if parts is None:
        unknown = (el("td", "unknown", class_="dim") for _ in range(4))
        return el("tr", el("th", name, mark, scope="row"), unknown, cost)
    missing = amounts_words(parts.missing) if parts.missing else ""
    where = frame.to("needs", shard=row.shards[0], cluster=row.name, status="short")
    return el(
        "tr",
        el("th", name, mark, scope="row"),
        el("td", cluster_bar(parts)),
        el("td", count(parts.running), class_="num", data_cell=f"{row.name}/running"),
        el("td", count(parts.joining + parts.on_order), class_="num", data_cell=f"{row.name}/coming"),
        el(
            "td",
            el("a", f"■ {missing}", href=where, class_="bad") if missing else "nothing",
            class_=None if missing else "dim",
        ),
        cost,
    )


def _health(frame: Frame, summary: OverviewSummary, picture: FleetPicture) -> Html:
    shown = summary.reasons[:_SHOWN_REASONS]
    more = len(summary.reasons) - len(shown)
    body: Html | None = None
    if shown:
        body = el(
            "ul",
            (el("li", el("a", capitalised(reason.text), href=link(frame, reason.path))) for reason in shown),
            el("li", f"and {more} more") if more > 0 else None,
            class_="reasons",
        )
    seen = [place for place in picture.shards if place.seen is not None]
    hidden = len(seen) - _SHOWN_SHARDS
    return card(
        "What is wrong?" if shown else "Nothing is wrong",
        body,
        [_shard(frame, place) for place in seen[:_SHOWN_SHARDS]],
        el("p", el("a", f"{plural(hidden, 'more shard')}", href=frame.to("shards"))) if hidden > 0 else None,
    )


def _shard(frame: Frame, place: ShardPlace) -> Html | None:
    if place.seen is None:
        return None
    name = el("a", place.shard_id, href=frame.to(f"shards/{place.shard_id}"))
    provider = place.seen.provider
    if provider is not None and not provider.reachable and place.seen.ready and not place.error:
        return el("p", name, ": provider ", provider_state(place.seen), class_="dim")
    return el("p", name, ": ", shard_state(place), ", provider ", provider_state(place.seen), class_="dim")


def _short(frame: Frame, summary: OverviewSummary, picture: FleetPicture) -> Html:
    if summary.short_by_class is None:
        body: Html = empty("Unknown: no shard has reported yet.")
    elif not summary.oldest:
        covered = (summary.needs or 0) - (summary.needs_short or 0)
        body = el(
            "p",
            f"No shortfall. {count(covered)} of {plural(summary.needs or 0, 'need')} covered."
            if summary.needs
            else "No demand.",
        )
    else:
        body = join(
            figures(
                *(
                    (name, el("a", count(number), href=frame.to("needs", status="short")) if number else "0")
                    for name, number in summary.short_by_class.items()
                )
            ),
            el(
                "table",
                el("caption", "oldest first"),
                el(
                    "thead",
                    el("tr", (el("th", name, scope="col") for name in ("missing", "of", "why", "for"))),
                ),
                el("tbody", (_shortfall(frame, row, picture) for row in summary.oldest)),
            ),
        )
    return card("Who is short, and why?", body)


def _shortfall(frame: Frame, row: ObservedShortfall, picture: FleetPicture) -> Html:
    where = frame.to("needs", shard=row.shard_id, status="short", q=row.fingerprint)
    return el(
        "tr",
        el("td", el("a", deficit_text(row.deficit), href=where)),
        el("td", ", ".join(row.clusters[:3]) or "—"),
        el("td", reason_text(row.reason)),
        el("td", _since(row, picture), class_="num", title=plural(row.age_cycles, "cycle")),
    )


def _since(row: ObservedShortfall, picture: FleetPicture) -> str:
    """For how long a shortfall lasts, as a time; shards count it in cycles."""
    place = picture.shard(row.shard_id)
    return (
        UNKNOWN if place is None or place.seen is None else age(row.age_cycles * place.seen.cycle_interval_s)
    )


def _speed(frame: Frame, summary: OverviewSummary, cycles: Mapping[str, tuple[float, float]] | None) -> Html:
    rows: list[tuple[str, Html | str]] = []
    if cycles:
        worst = max(cycles, key=lambda pod: cycles[pod][1])
        p50, p99 = cycles[worst]
        rows = [("cycle p50", duration(p50)), ("cycle p99", duration(p99))]
        if len(cycles) > 1:
            rows.append(("slowest shard", el("a", worst, href=frame.to(f"shards/{worst}"))))
    withheld = "unknown"
    if summary.withheld is not None:
        told = (
            f"{plural(number, _WITHHELD[name][0])} {_WITHHELD[name][1]}"
            for name, number in summary.withheld.items()
            if number
        )
        withheld = ", ".join(told) or "nothing"
    return card(
        "Speed",
        figures(
            *rows,
            ("last cycle", ago(summary.last_cycle_age_s)),
            ("queue", el("a", count(summary.queue_depth), href=frame.to("shards"))),
            ("being done", el("a", count(summary.in_flight), href=frame.to("decisions"))),
        ),
        None if cycles else empty("Cycle times come from metrics, and none have been read yet."),
        el(
            "p",
            f"Withheld since the start: {withheld}. ",
            el("a", "All decisions", href=frame.to("decisions")),
        ),
    )


def _machines(frame: Frame, summary: OverviewSummary) -> Html:
    if summary.by_state is None or summary.by_capacity_type is None:
        return card("Stock and cost", empty("Unknown: no shard has reported yet."))
    spot, hosted = summary.by_capacity_type.get("Spot", 0), sum(summary.by_capacity_type.values())
    risk = summary.pinned_at_risk or 0
    return card(
        "Stock and cost",
        figures(
            ("machines", el("a", count(summary.machines), href=frame.to("machines"))),
            (
                "free",
                el("a", count(summary.by_state.get("Idle", 0)), href=frame.to("machines", state="Idle")),
            ),
            (
                "in use",
                el(
                    "a",
                    money((summary.cost_per_hour or 0.0) - (summary.idle_cost_per_hour or 0.0)),
                    href=frame.to("cost"),
                ),
            ),
            ("idle", el("a", money(summary.idle_cost_per_hour), href=frame.to("cost"))),
            ("spot share", el("a", share(spot, hosted), href=frame.to("machines", capacity="Spot"))),
        ),
        bar(
            "By state",
            [
                ChartPart(name, number, frame.to("machines", state=name))
                for name, number in summary.by_state.items()
            ],
        ),
        bar(
            "Hosts by capacity type",
            [
                ChartPart(name, number, frame.to("machines", capacity=name))
                for name, number in summary.by_capacity_type.items()
            ],
        ),
        el(
            "p",
            f"■ {plural(risk, 'interruptible machine')} carry work that must not be interrupted",
            class_="bad",
        )
        if risk
        else None,
    )


def _events(frame: Frame, events: Sequence[FleetEvent]) -> Html:
    if not events:
        return card("What changed?", empty("Nothing since this dashboard started."))
    return card("What changed?", event_list(frame, events[:_SHOWN_EVENTS]))


def event_list(frame: Frame, events: Sequence[FleetEvent]) -> Html:
    """Return events with their times."""
    return el(
        "ul",
        (
            el(
                "li",
                el(
                    "time",
                    rfc3339_of_s(event.at)[11:19],
                    datetime=rfc3339_of_s(event.at),
                    title=rfc3339_of_s(event.at),
                ),
                " ",
                el("a", event.text, href=link(frame, event.path)),
            )
            for event in events
        ),
        class_="plain",
    )


def link(frame: Frame, path: str) -> str:
    """Return the address of a path that may have a query."""
    place, _, query = path.partition("?")
    return frame.to(place) + (f"?{query}" if query else "")


def deficit_text(deficit: Mapping[str, str]) -> str:
    """Return amounts in one line."""
    return readable(deficit) or "nothing"


def reason_text(reason: str) -> str:
    """Return a reason in words."""
    return reason.replace("_", " ").lower() or "—"
