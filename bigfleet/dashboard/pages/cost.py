"""The cost page: cost of the fleet, and work at risk on interruptible machines.

Rules: `dashboard#page-contents`; the gauge of demand counts needs, and is called so.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from bigfleet.dashboard.charts import ChartPart, bar
from bigfleet.dashboard.core.observed import FleetPicture, MachineCount
from bigfleet.dashboard.core.summary import HOSTED, OverviewSummary
from bigfleet.dashboard.core.wording import count, money
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
            class_="grid",
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


def _buckets(reported: Mapping[str, Any] | None) -> list[Html]:
    if reported is None:
        return [card("By penalty", empty("Needs metrics.", "--scrape URL"))]
    rows = [
        TableRow(
            (
                bucket,
                count(reported["configuredByBucket"].get(bucket, 0)),
                count(reported["demand"].get(bucket, 0)),
            )
        )
        for bucket in reported["buckets"]
        if reported["configuredByBucket"].get(bucket, 0) or reported["demand"].get(bucket, 0)
    ]
    columns = (
        TableColumn("penalty in $"),
        TableColumn("machines", True),
        TableColumn("needs", True),
    )
    flags = [
        el("p", f"■ {flag['severity']}: {flag['message']}", class_="bad") for flag in reported["redFlags"]
    ]
    return [
        card(
            "By penalty of an interruption",
            flags,
            table("supply and demand", columns, rows) if rows else empty("None yet."),
        )
    ]
