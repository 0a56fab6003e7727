"""The overview page: a verdict in one line, then health, shortfalls, actions, machines and cost, speed, events.

Rules: `dashboard#first-screen`; no scrolling at 1280 by 720.
"""

from collections.abc import Mapping, Sequence

from bigfleet.dashboard.charts import ChartLine, ChartPart, bar, line_chart
from bigfleet.dashboard.core.fleet_events import FleetEvent
from bigfleet.dashboard.core.health import FleetHealth
from bigfleet.dashboard.core.observed import FleetPicture, ObservedShortfall, ShardPlace
from bigfleet.dashboard.core.summary import OverviewSummary
from bigfleet.dashboard.core.wording import ago, capitalised, count, duration, money, plural, share
from bigfleet.dashboard.html import Html, el, join
from bigfleet.dashboard.metric_reader import Trend
from bigfleet.dashboard.pages.frame import Frame, card, empty, figures, live, main_part
from bigfleet.dashboard.pages.supply import coverage_bar, provider_state, shard_state
from bigfleet.explain.amounts import readable
from bigfleet.model.times import rfc3339_of_s

EVERY_S = 10
_SHOWN_REASONS = 8
_SHOWN_SHARDS = 4
_SHOWN_EVENTS = 20
_WITHHELD = {
    "reclaims_capped": "releases postponed by the limit per cycle",
    "actions_deferred": "actions postponed",
    "actions_dropped": "actions dropped from a full queue",
    "actions_suppressed": "actions suppressed while paused",
    "actions_dryrun": "actions not carried out in dry run",
}


def overview(
    frame: Frame,
    summary: OverviewSummary,
    picture: FleetPicture,
    *,
    actions: Trend | None,
    cycles: Mapping[str, tuple[float, float]] | None,
    events: Sequence[FleetEvent],
) -> Html:
    """Return the main part of the overview page."""
    return main_part(
        frame,
        "Fleet",
        live("verdict", verdict_line(summary)),
        live(
            "fleet",
            el(
                "div",
                _health(frame, summary, picture),
                _shortfalls(frame, summary),
                _actions(frame, summary, actions),
                _machines(frame, summary),
                _speed(frame, summary, cycles),
                _events(frame, events),
                class_="grid screen",
            ),
        ),
        every=EVERY_S,
    )


def verdict_line(summary: OverviewSummary) -> Html:
    """Return what is wrong, or that nothing is, in one line: red with a mark when anything is wrong."""
    tone = "good" if summary.health is FleetHealth.GOOD else "bad"
    return el("p", summary.verdict, class_=f"state {tone}", data_state=summary.health.word)


def _health(frame: Frame, summary: OverviewSummary, picture: FleetPicture) -> Html:
    shown = summary.reasons[:_SHOWN_REASONS]
    if shown:
        body: Html = el(
            "ul",
            (el("li", el("a", capitalised(reason.text), href=link(frame, reason.path))) for reason in shown),
            el("li", f"and {len(summary.reasons) - len(shown)} more")
            if len(summary.reasons) > len(shown)
            else None,
            class_="reasons",
        )
    else:
        body = el("p", "Nothing.")
    seen = [place for place in picture.shards if place.seen is not None]
    more = len(seen) - _SHOWN_SHARDS
    return card(
        "Is anything wrong now?",
        body,
        [_shard(frame, place) for place in seen[:_SHOWN_SHARDS]],
        el("p", el("a", f"{plural(more, 'more shard')}", href=frame.to("shards"))) if more > 0 else None,
    )


def _shard(frame: Frame, place: ShardPlace) -> Html | None:
    if place.seen is None:
        return None
    name = el("a", place.shard_id, href=frame.to(f"shards/{place.shard_id}"))
    provider = place.seen.provider
    if provider is not None and not provider.reachable and place.seen.ready and not place.error:
        return el("p", name, ": provider ", provider_state(place.seen), class_="dim")
    return el("p", name, ": ", shard_state(place), ", provider ", provider_state(place.seen), class_="dim")


def _shortfalls(frame: Frame, summary: OverviewSummary) -> Html:
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
                    el("tr", (el("th", name, scope="col") for name in ("missing", "for", "why", "cycles"))),
                ),
                el("tbody", (_shortfall(frame, row) for row in summary.oldest)),
            ),
        )
    return card("Who is short, since when, why?", body, coverage_bar(summary.coverage))


def _shortfall(frame: Frame, row: ObservedShortfall) -> Html:
    where = frame.to("needs", shard=row.shard_id, status="short", q=row.fingerprint)
    return el(
        "tr",
        el("td", el("a", deficit_text(row.deficit), href=where)),
        el("td", ", ".join(row.clusters[:3]) or "—"),
        el("td", reason_text(row.reason)),
        el("td", count(row.age_cycles), class_="num"),
    )


def _actions(frame: Frame, summary: OverviewSummary, trend: Trend | None) -> Html:
    chart = _action_chart(trend)
    withheld = "unknown"
    if summary.withheld is not None:
        withheld = (
            ", ".join(
                f"{count(number)} {_WITHHELD[name]}" for name, number in summary.withheld.items() if number
            )
            or "nothing"
        )
    more = el("a", "All decisions", href=frame.to("decisions"))
    return card("What is it doing?", chart, el("p", f"Withheld since the start: {withheld}. ", more))


def _action_chart(trend: Trend | None) -> Html:
    if trend is None:
        return empty("Unknown: metrics count actions, and this dashboard reads none.", "--scrape URL")
    if not any(value for row in trend.values.values() for value in row):
        return empty("No action within the last hour.")
    lines = [
        ChartLine(labels[0], [None if value is None else value * 60 for value in row])
        for labels, row in trend.values.items()
        if any(row)
    ]
    return line_chart(
        "Actions per minute", "over the last hour", [rfc3339_of_s(time)[11:16] for time in trend.times], lines
    )


def _machines(frame: Frame, summary: OverviewSummary) -> Html:
    if summary.by_state is None or summary.by_capacity_type is None:
        return card("What do we have, what does it cost?", empty("Unknown: no shard has reported yet."))
    spot, hosted = summary.by_capacity_type.get("Spot", 0), sum(summary.by_capacity_type.values())
    risk = summary.pinned_at_risk or 0
    return card(
        "What do we have, what does it cost?",
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


def _speed(frame: Frame, summary: OverviewSummary, cycles: Mapping[str, tuple[float, float]] | None) -> Html:
    rows: list[tuple[str, Html | str]] = []
    if cycles:
        worst = max(cycles, key=lambda pod: cycles[pod][1])
        p50, p99 = cycles[worst]
        rows = [("cycle p50", duration(p50)), ("cycle p99", duration(p99))]
        if len(cycles) > 1:
            rows.append(("slowest shard", el("a", worst, href=frame.to(f"shards/{worst}"))))
    return card(
        "Is it fast enough?",
        figures(
            *rows,
            ("queue", el("a", count(summary.queue_depth), href=frame.to("shards"))),
            ("being done", el("a", count(summary.in_flight), href=frame.to("decisions"))),
            ("last cycle", ago(summary.last_cycle_age_s)),
        ),
        None if cycles else empty("Cycle times come from metrics, and none have been read yet."),
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
