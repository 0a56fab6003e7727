"""The stream of actions with their outcomes.

Rules: `dashboard#page-contents`.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from bigfleet.dashboard.html import Html, el
from bigfleet.dashboard.pages.explain import DECISION_COLUMNS, decision
from bigfleet.dashboard.pages.frame import Frame, empty, live, main_part
from bigfleet.dashboard.pages.tables import choice, filters, search, table

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
            search("cluster", "Cluster", chosen["cluster"]),
            search("machine", "Machine", chosen["machine"]),
        ],
    )
    if problem:
        body: Html = el("p", problem, class_="banner bad", role="alert")
    elif answer is None or not answer["decisions"]:
        body = empty("No action that a shard remembers.")
    else:
        rows = [
            decision(row, frame.to("explain", shard=row["shardId"], machine=row["machine"]))
            for row in answer["decisions"]
        ]
        body = table("newest first", DECISION_COLUMNS, rows)
    return main_part(frame, "Decisions", form, live("decisions", body), every=10)
