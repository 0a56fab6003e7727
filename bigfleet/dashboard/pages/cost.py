"""The cost page: cost of the fleet, and work at risk on interruptible machines.

Rules: `dashboard#page-contents`; the gauge of demand counts needs, and is called so.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from bigfleet.dashboard.charts import ChartPart, bar
from bigfleet.dashboard.core.money import PINNED, bucket_order
from bigfleet.dashboard.core.observed import FleetPicture, MachineCount
from bigfleet.dashboard.core.summary import HOSTED, OverviewSummary
from bigfleet.dashboard.core.wording import count, money, plural, share
from bigfleet.dashboard.html import Html, el
from bigfleet.dashboard.pages.frame import Frame, card, empty, figures, live, main_part
from bigfleet.dashboard.pages.history import HistoryChart, HistoryView, charts, range_picker, trouble_line
from bigfleet.dashboard.pages.tables import TableColumn, TableRow, table

_CLUSTERS: Final = 20
CHARTS: Final = (
    HistoryChart("cost", "All hosts", "$/h by capacity type", stacked=True),
    HistoryChart("cluster-cost", "Clusters", "$/h of the machines bound to each"),
    HistoryChart("price", "One machine", "$/h, the mean by capacity type"),
)


def cost(
    frame: Frame,
    picture: FleetPicture,
    summary: OverviewSummary,
    reported: Mapping[str, Any] | None,
    view: HistoryView,
) -> Html:
    """Return the main part of the cost page."""
    rows = [
        row for place in picture.shards if place.seen for row in place.seen.machines if row.state in HOSTED
    ]
    if not rows and reported is None:
        body: Html = empty("Unknown: no shard has reported yet.")
    else:
        body = el(
            "div",
            _costs(rows, summary),
            _clusters(frame, picture),
            _buckets(reported),
            class_="grid two",
        )
    drawn = card("Over time", trouble_line(view.trouble), el("div", charts(view), class_="charts"), wide=True)
    picker = range_picker(frame, "cost", view.range_name)
    return main_part(frame, "Cost", live("cost", body), drawn, every=20, aside=picker)


def _costs(rows: Sequence[MachineCount], summary: OverviewSummary) -> list[Html]:
    by_type: dict[str, float] = {}
    by_state: dict[str, float] = {}
    for row in rows:
        by_type[row.capacity_type] = by_type.get(row.capacity_type, 0.0) + row.price_per_hour
        by_state[row.state] = by_state.get(row.state, 0.0) + row.price_per_hour
    return [
        card(
            "Dollars per hour",
            figures(
                ("all hosts", money(summary.cost_per_hour)),
                ("idle", money(summary.idle_cost_per_hour)),
                ("exposed to interruption", money(summary.exposure_per_hour)),
            ),
            bar(
                "By capacity type",
                [ChartPart(name, round(value, 2)) for name, value in sorted(by_type.items())],
                " $/h",
            ),
            bar(
                "By state",
                [ChartPart(name, round(value, 2)) for name, value in sorted(by_state.items())],
                " $/h",
            ),
        )
    ]


def _clusters(frame: Frame, picture: FleetPicture) -> Html:
    """Cost of each cluster's machines over all shards, highest first."""
    machines: dict[str, int] = {}
    dollars: dict[str, float] = {}
    for row in (row for place in picture.shards if place.seen for row in place.seen.clusters):
        machines[row.cluster] = machines.get(row.cluster, 0) + row.machines
        dollars[row.cluster] = dollars.get(row.cluster, 0.0) + (row.price_per_hour or 0.0)
    names = sorted(machines, key=lambda name: (-dollars[name], name))
    listed = (
        TableRow(
            (
                el("a", name, href=frame.to(f"clusters/{name}")),
                count(machines[name]),
                money(dollars[name]),
            ),
            key=name,
        )
        for name in names[:_CLUSTERS]
    )
    columns = (TableColumn("cluster"), TableColumn("machines", True), TableColumn("cost", True))
    more = len(names) - _CLUSTERS
    return card(
        "By cluster",
        table("machines bound to it, highest cost first", columns, listed) if names else empty("None yet."),
        el("p", f"{count(more)} more, which cost less", class_="dim") if more > 0 else None,
    )


def _buckets(reported: Mapping[str, Any] | None) -> Html:
    """Which penalty runs on which capacity type, with what is wrong with it in sentences."""
    title = "What an interruption would cost"
    if reported is None:
        return card(title, empty("Needs metrics.", "--scrape URL"))
    configured, types = reported["configured"], reported["capacityTypes"]
    shown = [
        bucket
        for bucket in reported["buckets"]
        if reported["configuredByBucket"].get(bucket, 0) or reported["demand"].get(bucket, 0)
    ]
    rows = (
        TableRow(
            (
                penalty(bucket),
                *(_machines_at(configured, kind, bucket, reported["redFlags"]) for kind in types),
                count(reported["demand"].get(bucket, 0)),
            ),
            key=f"penalty {bucket}",
        )
        for bucket in shown
    )
    columns = (
        TableColumn("penalty"),
        *(TableColumn(f"on {kind}", True) for kind in types),
        TableColumn("needs", True),
    )
    return card(
        title,
        el("ul", (el("li", sentence) for sentence in warnings(reported)), class_="reasons"),
        table("machines that serve, by the penalty of their work and their capacity type", columns, rows)
        if shown
        else empty("No machine serves yet."),
    )


def _machines_at(
    configured: Mapping[str, Mapping[str, int]], kind: str, bucket: str, flags: Sequence[Mapping[str, Any]]
) -> Html | str:
    number = configured.get(kind, {}).get(bucket, 0)
    marked = any(flag["capacityType"] == kind and flag["bucket"] == bucket for flag in flags)
    return el("span", f"■ {count(number)}", class_="bad") if marked else count(number)


def penalty(bucket: str) -> str:
    """Return a penalty bucket in words."""
    if bucket == PINNED:
        return "never to be interrupted"
    try:
        amount = float(bucket)
    except ValueError:
        return "not stated"
    if not amount:
        return "nothing"
    return f"up to ${amount:,.2f}" if amount < 1 else f"up to ${amount:,.0f}"


def warnings(reported: Mapping[str, Any]) -> list[Html]:
    """Return what is wrong with where work runs, and how much of it runs on spot machines, in sentences."""
    found = [el("span", f"■ {flag['message']}.", class_="bad") for flag in reported["redFlags"]]
    by_type, totals = reported["configuredByCapacityType"], reported["totals"]
    whole = totals["configuredMachines"]
    if not whole:
        return [el("span", "No machine serves a need.")]
    cheap = sum(
        number
        for kind, row in reported["configured"].items()
        if kind != "Spot"
        for bucket, number in row.items()
        if bucket_order(bucket)[0] == 0
    )
    found.append(
        el("span", f"{share(by_type.get('Spot', 0), whole)} of the machines that serve are spot machines.")
    )
    if cheap:
        verb = "serves" if cheap == 1 else "serve"
        words = f"{plural(cheap, 'machine')} not bought as spot {verb} work whose interruption costs nothing; spot may be cheaper."
        found.append(el("span", f"▲ {words}", class_="warn"))
    if not reported["redFlags"]:
        found.insert(
            0, el("span", "● No work that is dear to interrupt runs on a spot machine.", class_="good")
        )
    return found
