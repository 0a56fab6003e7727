"""The machines of a shard: filtered, sorted and paged by the shard itself.

Rules: `dashboard#page-contents`, `dashboard#budgets`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from bigfleet.dashboard.core.observed import ObservedShard
from bigfleet.dashboard.core.summary import STATES
from bigfleet.dashboard.core.wording import count, money, plural
from bigfleet.dashboard.html import Html, el, join
from bigfleet.dashboard.pages.frame import Frame, empty, live, main_part
from bigfleet.dashboard.pages.overview import deficit_text
from bigfleet.dashboard.pages.supply import cool_off_table
from bigfleet.dashboard.pages.tables import (
    SortOrder,
    TableColumn,
    TableRow,
    choice,
    filters,
    identity,
    search,
    table,
)

EVERY_S: Final = 15
TYPES: Final = ("BareMetal", "Reserved", "OnDemand", "Spot")
_COLUMNS: Final = (
    TableColumn("machine", sort="id"),
    TableColumn("state", sort="state"),
    TableColumn("cluster", sort="cluster"),
    TableColumn("type", sort="type"),
    TableColumn("zone", sort="zone"),
    TableColumn("capacity"),
    TableColumn("price", numeric=True, sort="price"),
    TableColumn("priority", numeric=True, sort="priority"),
    TableColumn("now"),
)


def machines(
    frame: Frame,
    shards: Sequence[str],
    answer: Mapping[str, Any] | None,
    chosen: Mapping[str, str],
    *,
    problem: str = "",
    seen: ObservedShard | None = None,
) -> Html:
    """Return the main part of the machines page; `seen` is the last status of the shard."""
    form = filters(
        frame,
        "machines",
        [
            choice("shard", "Shard", ((name, name) for name in shards), chosen["shard"]),
            choice("state", "State", [("", "any"), *((name, name) for name in STATES)], chosen["state"]),
            choice(
                "capacity", "Capacity", [("", "any"), *((name, name) for name in TYPES)], chosen["capacity"]
            ),
            search("cluster", "Cluster", chosen["cluster"]),
            search("type", "Instance type", chosen["type"]),
            search("zone", "Zone", chosen["zone"]),
            search("q", "Id contains", chosen["q"]),
        ],
        hidden={"sort": chosen["sort"]},
    )
    stock_outs = None if seen is None else cool_off_table(seen)
    body = live("machines", stock_outs, _body(frame, answer, chosen, problem))
    return main_part(frame, "Machines", form, body, every=EVERY_S)


def _body(frame: Frame, answer: Mapping[str, Any] | None, chosen: Mapping[str, str], problem: str) -> Html:
    if problem:
        return el("p", problem, class_="banner bad", role="alert")
    if answer is None:
        return empty("No shard is known yet.", "--shard-addr HOST:PORT or --coordinator-addr HOST:PORT")
    if answer["cycle"] == 0:
        return empty("No cycle yet: the shard has not listed its machines since it started.")
    if not answer["rows"]:
        words = (
            "The provider lists no machine." if not answer["machines"] else "No machine passes these filters."
        )
        return el("p", words, class_="dim")
    by_state = ", ".join(f"{count(number)} {state}" for state, number in answer["byState"].items())
    caption = f"Cycle {count(answer['cycle'])}: {count(answer['total'])} of {count(answer['machines'])} machines ({by_state})"
    rows = [_row(frame, answer["shardId"], row) for row in answer["rows"]]
    query = {name: value for name, value in chosen.items() if value}
    pages = el(
        "nav",
        el("a", "first page", href=frame.to("machines", **{**query, "page": None}))
        if chosen["page"]
        else None,
        el("a", "next page", href=frame.to("machines", **{**query, "page": answer["nextPage"]}))
        if answer["nextPage"]
        else None,
        el("a", "as CSV", href=frame.to("api/v1/x/export/machines.csv", **{**query, "page": None})),
        class_="pages",
        aria_label="Pages of the list",
    )
    return join(table(caption, _COLUMNS, rows, SortOrder(frame, "machines", query, chosen["sort"])), pages)


def machines_of_cluster(frame: Frame, answer: Mapping[str, Any]) -> Html:
    """Return the first machines of a cluster, the dearest first."""
    by_state = ", ".join(f"{count(number)} {state}" for state, number in answer["byState"].items() if number)
    left_out = {"cluster", "now"}
    rows = (_row(frame, answer["shardId"], row) for row in answer["rows"])
    kept = [place for place, column in enumerate(_COLUMNS) if column.title not in left_out]
    shown = (replace(row, cells=tuple(row.cells[place] for place in kept)) for row in rows)
    columns = [TableColumn(_COLUMNS[place].title, _COLUMNS[place].numeric) for place in kept]
    return table(f"{plural(answer['total'], 'machine')} ({by_state}), highest price first", columns, shown)


def _row(frame: Frame, shard: str, row: Mapping[str, Any]) -> TableRow:
    where = frame.to("explain", shard=shard, machine=row["id"])
    assigned = row["assigned"]
    return TableRow(
        (
            el("a", identity(row["id"]), href=where, data_drawer=True),
            row["state"],
            row["cluster"] or (f"for {assigned['cluster']}" if assigned and assigned["cluster"] else "—"),
            f"{row['instanceType']} {row['capacityType']}",
            row["zone"],
            deficit_text(row["capacity"]),
            money(row["pricePerHour"]),
            count(assigned["priority"]) if assigned else "—",
            _doing(row),
        ),
        key=row["id"],
        open=where,
    )


def _doing(row: Mapping[str, Any]) -> str:
    if row["pending"]:
        return "an action is under way"
    return str(row["lastError"]) or "—"
