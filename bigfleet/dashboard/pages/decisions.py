"""The stream of actions with their outcomes.

Rules: `dashboard#page-contents`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from bigfleet.dashboard.core.wording import count, plural
from bigfleet.dashboard.html import Html, el, join
from bigfleet.dashboard.pages.explain import DECISION_COLUMNS, decision
from bigfleet.dashboard.pages.frame import Frame, empty, live, main_part
from bigfleet.dashboard.pages.tables import TableRow, choice, filters, search, table
from bigfleet.model.times import rfc3339_of_s

OUTCOMES: Final = (("", "any"), ("success", "success"), ("failed", "not a success"))
KINDS: Final = ("Bootstrap", "Provision", "Reclaim", "Preempt", "Delete")


def decisions(
    frame: Frame,
    shards: Sequence[str],
    answer: Mapping[str, Any] | None,
    chosen: Mapping[str, str],
    problem: str,
) -> Html:
    """Return the stream of actions."""
    form = filters(
        frame,
        "decisions",
        [
            choice("shard", "Shard", [("", "all"), *((name, name) for name in shards)], chosen["shard"]),
            choice("kind", "Kind", [("", "any"), *((name, name) for name in KINDS)], chosen["kind"]),
            choice("outcome", "Outcome", OUTCOMES, chosen["outcome"]),
            search("cluster", "Cluster", chosen["cluster"]),
            search("machine", "Machine", chosen["machine"]),
        ],
    )
    if problem:
        body: Html = el("p", problem, class_="banner bad", role="alert")
    elif answer is None or not answer["decisions"]:
        body = empty("No action that a shard remembers.")
    else:
        wanted = [row for row in answer["decisions"] if _passes(row, chosen["outcome"])]
        rows = [_row(frame, repeated) for repeated in repeats(wanted)]
        caption = f"{plural(len(wanted), 'action')} among the last {count(len(answer['decisions']))}, repeats in one row, newest first"
        body = (
            table(caption, DECISION_COLUMNS, rows) if rows else empty("No such action among the last ones.")
        )
    return main_part(frame, "Decisions", form, live("decisions", body), every=10)


def _passes(row: Mapping[str, Any], outcome: str) -> bool:
    return not outcome or (row["outcome"] == "success") == (outcome == "success")


def repeats(rows: Sequence[Mapping[str, Any]]) -> list[list[Mapping[str, Any]]]:
    """Return actions with those together that differ in their time alone, in the order of the newest of each."""
    found: dict[tuple[str, ...], list[Mapping[str, Any]]] = {}
    for row in rows:
        names = ("shardId", "kind", "machine", "cluster", "reason", "outcome", "error")
        found.setdefault(tuple(row[name] for name in names), []).append(row)
    return list(found.values())


def _row(frame: Frame, repeated: Sequence[Mapping[str, Any]]) -> TableRow:
    newest, oldest = repeated[0], repeated[-1]
    row = decision(newest, frame.to("explain", shard=newest["shardId"], machine=newest["machine"]))
    cluster = newest["cluster"]
    cells = list(row.cells)
    if cluster:
        cells[3] = el("a", cluster, href=frame.to(f"clusters/{cluster}"))
    if len(repeated) > 1:
        since = rfc3339_of_s(oldest["atUnixNanos"] / 1e9)[11:19]
        cells[5] = join(cells[5], f", {count(len(repeated))} times since {since}")
    return replace(row, cells=cells)
