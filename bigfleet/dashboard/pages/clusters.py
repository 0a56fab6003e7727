"""Clusters: all of them in a table, and one of them over all shards.

Rules: `dashboard#page-clusters`, `dashboard#need-parts`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from bigfleet.dashboard.core.need_list import NeedList
from bigfleet.dashboard.core.observed import FleetPicture, ObservedCluster
from bigfleet.dashboard.core.wording import ago, count, plural
from bigfleet.dashboard.html import Html, el
from bigfleet.dashboard.pages.frame import Frame, card, empty, figures, live, main_part
from bigfleet.dashboard.pages.history import HistoryChart, HistoryView, charts, range_picker, trouble_line
from bigfleet.dashboard.pages.machines import machines_of_cluster
from bigfleet.dashboard.pages.needs import needs_of_cluster
from bigfleet.dashboard.pages.supply import COVERAGE_COLUMNS, coverage_bar, coverage_cells
from bigfleet.dashboard.pages.tables import TableColumn, TableRow, identity, pairs, table

_IN_CLUSTER: Final = (
    TableColumn("requests", True),
    TableColumn("pending", True),
    TableColumn("nodes coming", True),
)
_REPORTED: Final = ("capacityRequests", "capacityRequestsPending", "upcomingNodes")


def clusters(frame: Frame, picture: FleetPicture, reported: Mapping[str, Mapping[str, Any]] | None) -> Html:
    """Return the list of clusters; `reported` holds the rows of their API servers, by cluster."""
    rows = [
        _cluster_row(frame, place.shard_id, cluster, picture.at, reported)
        for place in picture.shards
        if place.seen
        for cluster in place.seen.clusters
    ]
    columns = (
        TableColumn("cluster"),
        TableColumn("shard"),
        TableColumn("session"),
        TableColumn("roll-up"),
        TableColumn("rows", True),
        TableColumn("machines", True),
        *COVERAGE_COLUMNS,
        *(_IN_CLUSTER if reported is not None else ()),
    )
    hint = (
        None
        if reported is not None
        else empty("The clusters' API servers supply requests and nodes.", "--kubeconfig FILE")
    )
    body = table(plural(len(rows), "cluster"), columns, rows) if rows else empty("No cluster is known yet.")
    return main_part(frame, "Clusters", live("clusters", body, hint), every=20)


def _cluster_row(
    frame: Frame,
    shard: str,
    cluster: ObservedCluster,
    now: float,
    reported: Mapping[str, Mapping[str, Any]] | None,
) -> TableRow:
    row = (reported or {}).get(cluster.cluster, {})
    numbers = [row.get(name) for name in _REPORTED] if reported is not None else []
    return TableRow(
        (
            el("a", cluster.cluster, href=frame.to(f"clusters/{cluster.cluster}")),
            el("a", identity(shard), href=frame.to(f"shards/{shard}")),
            session(cluster),
            _rollup(cluster, now),
            count(cluster.rows),
            count(cluster.machines),
            *coverage_cells(cluster.coverage),
            *(row.get("error") or count(number) for number in numbers),
        ),
        key=cluster.cluster,
    )


def session(cluster: ObservedCluster) -> Html:
    """Return whether the cluster's operator has a session."""
    if cluster.connected:
        return el("span", "● connected", class_="good")
    return el("span", "■ no session", class_="bad")


def _rollup(cluster: ObservedCluster, now: float) -> Html | str:
    if cluster.held_rollups:
        return el("span", f"▲ {plural(cluster.held_rollups, 'roll-up')} held back", class_="warn")
    return ago(now - cluster.rollup_accepted) if cluster.rollup_accepted else "none yet"


@dataclass(frozen=True, slots=True)
class ClusterLists:
    """The first needs and machines of a cluster at one shard; None where the shard did not answer."""

    needs: NeedList | None
    machines: Mapping[str, Any] | None
    problem: str = ""


def cluster(
    frame: Frame,
    name: str,
    picture: FleetPicture,
    reported: Mapping[str, Any] | None,
    *,
    problem: str,
    view: HistoryView,
    lists: Mapping[str, ClusterLists],
) -> Html:
    """Return one cluster over all shards."""
    seen = [
        (place.shard_id, row)
        for place in picture.shards
        if place.seen
        for row in place.seen.clusters
        if row.cluster == name
    ]
    cards = [
        card(
            f"At shard {shard}",
            figures(
                ("session", session(row)),
                ("roll-up", _rollup(row, picture.at)),
                ("rows", count(row.rows)),
                ("machines", count(row.machines)),
            ),
            coverage_bar(row.coverage),
            el(
                "p",
                el("a", "its needs", href=frame.to("needs", shard=shard, cluster=name)),
                " · ",
                el("a", "its machines", href=frame.to("machines", shard=shard, cluster=name)),
                " · ",
                el("a", "its decisions", href=frame.to("decisions", shard=shard, cluster=name)),
            ),
        )
        for shard, row in seen
    ]
    if reported is not None:
        cards.append(
            card(
                "Requests by phase",
                pairs({k: count(v) for k, v in reported["capacityRequestsByPhase"].items()}),
            )
        )
        cards.append(
            card(
                "Coming nodes by phase",
                pairs({k: count(v) for k, v in reported["upcomingNodesByPhase"].items()}),
            )
        )
    else:
        cards.append(
            card("In the cluster", empty(problem or "Not read.", "" if problem else "--kubeconfig FILE"))
        )
    if not seen:
        cards.insert(0, card("Unknown", empty("No shard has seen this cluster.")))
    drawn = card("Over time", trouble_line(view.trouble), el("div", charts(view), class_="charts"), wide=True)
    return main_part(
        frame,
        f"Cluster {name}",
        live("cluster", el("div", cards, class_="grid")),
        drawn,
        live("lists", (_lists(frame, shard, name, lists[shard]) for shard, _ in seen if shard in lists)),
        every=15,
        aside=range_picker(frame, f"clusters/{name}", view.range_name),
    )


def _lists(frame: Frame, shard: str, name: str, lists: ClusterLists) -> Html:
    """Its needs and machines at one shard: the first of each, with a link to all."""
    parts: list[Html] = []
    if lists.needs is not None and lists.needs.rows:
        parts.append(needs_of_cluster(frame, shard, lists.needs))
        if lists.needs.total > len(lists.needs.rows):
            words = f"all {count(lists.needs.total)} needs"
            parts.append(el("p", el("a", words, href=frame.to("needs", shard=shard, cluster=name))))
    if lists.machines is not None and lists.machines["rows"]:
        parts.append(machines_of_cluster(frame, lists.machines))
        if lists.machines["total"] > len(lists.machines["rows"]):
            words = f"all {count(lists.machines['total'])} machines"
            parts.append(el("p", el("a", words, href=frame.to("machines", shard=shard, cluster=name))))
    nothing = empty(lists.problem or "It asks for nothing and has no machine.")
    return card(f"Needs and machines at {shard}", *(parts or [nothing]), wide=True)


def charts_of(name: str) -> tuple[HistoryChart, ...]:
    """Return the charts of a cluster's page."""
    return (
        HistoryChart("coverage", cluster=name, stacked=True),
        HistoryChart("missing", note="the most at a time", cluster=name),
        HistoryChart("cluster-cost", "Cost", "$/h of the machines bound to it", cluster=name),
    )
