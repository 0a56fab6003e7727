"""The needs of a shard as its last cycle saw them, by precedence, with a line where supply ended.

Rules: dashboard 5 (Needs): filters in the address, grouped by profile, cut line, drawer with the explanation.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from bigfleet.dashboard.core.wording import count, plural
from bigfleet.dashboard.html import Html, el, join
from bigfleet.dashboard.pages.frame import Frame, empty, live, main_part
from bigfleet.dashboard.pages.overview import deficit_text, reason_text
from bigfleet.dashboard.pages.tables import Column, Row, choice, filters, identity, search, table

EVERY_S: Final = 15
PAGE: Final = 200
STATUSES: Final = (("", "all"), ("short", "short"), ("satisfied", "satisfied"), ("parked", "parked"))
REASONS: Final = (
    "PRIORITY_STARVED",
    "NO_MATCHING_SUPPLY",
    "TOPOLOGY_UNSATISFIABLE",
    "PREEMPTION_EXHAUSTED",
)
_COLUMNS: Final = (
    Column("cluster"),
    Column("priority", numeric=True),
    Column("asks for"),
    Column("gang"),
    Column("status"),
    Column("machines", numeric=True),
    Column("missing"),
    Column("short for", numeric=True),
)


def needs(
    frame: Frame,
    shards: Sequence[str],
    answer: Mapping[str, Any] | None,
    chosen: Mapping[str, str],
    problem: str = "",
) -> Html:
    """Return the main part of the needs page."""
    form = filters(
        frame,
        "needs",
        [
            choice("shard", "Shard", ((name, name) for name in shards), chosen["shard"]),
            choice("cluster", "Cluster", _clusters(answer, chosen["cluster"]), chosen["cluster"]),
            choice("status", "Status", STATUSES, chosen["status"]),
            choice(
                "reason",
                "Reason",
                [("", "any"), *((reason, reason_text(reason)) for reason in REASONS)],
                chosen["reason"],
            ),
            search("q", "Profile or gang holds", chosen["q"]),
        ],
    )
    return main_part(
        frame, "Needs", form, live("needs", _body(frame, answer, chosen, problem)), every=EVERY_S
    )


def _body(frame: Frame, answer: Mapping[str, Any] | None, chosen: Mapping[str, str], problem: str) -> Html:
    if problem:
        return el("p", problem, class_="banner bad", role="alert")
    if answer is None:
        return empty("No shard is known yet.", "--shard-addr HOST:PORT or --coordinator-addr HOST:PORT")
    if answer["cycle"] == 0:
        return empty(
            "No cycle yet: the shard has decided nothing since it started. This is not the same as no demand."
        )
    rows = [row for row in answer["needs"] if shown(row, chosen)]
    if not rows:
        words = "No demand." if not answer["needs"] else "No need passes these filters."
        return el("p", words, class_="dim")
    covered = sum(row["satisfied"] for row in rows)
    caption = (
        f"Cycle {count(answer['cycle'])}: {plural(len(rows), 'need')}, {count(covered)} covered, "
        f"{count(len(rows) - covered)} short; highest precedence first"
    )
    first = (_page(chosen["page"]) - 1) * PAGE
    cut = next((place for place, row in enumerate(rows) if not row["satisfied"]), None)
    listed = [
        _row(frame, answer["shardId"], row, place == cut and place > 0)
        for place, row in enumerate(rows[first : first + PAGE], first)
    ]
    return join(table(caption, _COLUMNS, listed), _pages(frame, chosen, first, len(rows)))


def _page(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and 0 < len(text) < 9 and int(text) else 1


def _pages(frame: Frame, chosen: Mapping[str, str], first: int, total: int) -> Html:
    """Where in the list one is, and the ways on."""
    here, last = first // PAGE + 1, (total - 1) // PAGE + 1

    def to(name: str, page: int, there: bool) -> Html | None:
        return (
            el("a", name, href=frame.to("needs", **{**chosen, "page": str(page)}), rel=name)
            if there
            else None
        )

    return el(
        "nav",
        el("span", f"page {count(here)} of {count(last)}", class_="dim") if last > 1 else None,
        to("first", 1, here > 1),
        to("prev", here - 1, here > 1),
        to("next", here + 1, here < last),
        to("last", last, here < last),
        el("a", "as CSV", href=frame.to("api/v1/x/export/needs.csv", **{**chosen, "page": None})),
        class_="pages",
        aria_label="Pages of the list",
    )


def shown(row: Mapping[str, Any], chosen: Mapping[str, str]) -> bool:
    """Tell whether a need passes the filters of the page."""
    status, reason, text = chosen["status"], chosen["reason"], chosen["q"]
    if status == "short" and row["satisfied"]:
        return False
    if status == "satisfied" and not row["satisfied"]:
        return False
    if status == "parked" and not row["acquisitionParked"]:
        return False
    if reason and row["unmetReason"] != reason:
        return False
    return not text or text in row["profileFingerprint"] or text in row["group"]


def explain_address(frame: Frame, shard: str, row: Mapping[str, Any]) -> str:
    """Return the page that explains a need."""
    return frame.to(
        "explain",
        shard=shard,
        cluster=row["clusterId"],
        fingerprint=row["profileFingerprint"],
        group=row["group"],
    )


def _row(frame: Frame, shard: str, row: Mapping[str, Any], cut: bool) -> Row:
    where = explain_address(frame, shard, row)
    status = "satisfied" if row["satisfied"] else reason_text(row["unmetReason"])
    if row["acquisitionParked"]:
        status += ", parked"
    mark, tone = ("● ", "good") if row["satisfied"] else ("■ ", "bad")
    machines = row["claimedMachineCount"]
    return Row(
        (
            el("a", row["clusterId"], href=where, data_drawer=True),
            count(row["priority"]),
            deficit_text(row["aggregateResources"]),
            identity(row["group"]) if row["group"] else "—",
            el("span", f"{mark}{status}", class_=tone),
            count(machines),
            deficit_text(row["residualDeficit"]) if not row["satisfied"] else "—",
            f"{count(row['ageCyclesUnmet'])} cycles" if row["ageCyclesUnmet"] else "—",
        ),
        key=f"{row['clusterId']}|{row['profileFingerprint']}|{row['group']}",
        open=where,
        class_="cut" if cut else "",
    )


def _clusters(answer: Mapping[str, Any] | None, chosen: str) -> list[tuple[str, str]]:
    found = {row["clusterId"] for row in answer["needs"]} if answer else set()
    return [("", "all"), *((name, name) for name in sorted(found | ({chosen} if chosen else set())))]
