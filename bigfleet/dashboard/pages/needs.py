"""The needs of a shard as its last cycle saw them, by precedence, with a line where supply ended.

Rules: dashboard 5 (Needs): filters in the address, grouped by profile, cut line, drawer with the explanation.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from bigfleet.dashboard.core.need_list import NeedList, NeedQuery
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


def query_of(chosen: Mapping[str, str]) -> NeedQuery:
    """Return what a page with these filters asks of the shard; a filter that means nothing asks for nothing."""
    statuses, reasons = [status for status, _ in STATUSES], REASONS
    return NeedQuery(
        cluster=chosen["cluster"],
        status=chosen["status"] if chosen["status"] in statuses else "",
        reason=chosen["reason"] if chosen["reason"] in reasons else "",
        text=chosen["q"],
        first=(_page(chosen.get("page", "")) - 1) * PAGE,
        size=PAGE,
    )


def needs(
    frame: Frame,
    shards: Sequence[str],
    clusters: Sequence[str],
    answer: NeedList | None,
    *,
    chosen: Mapping[str, str],
    problem: str = "",
) -> Html:
    """Return the main part of the needs page."""
    form = filters(
        frame,
        "needs",
        [
            choice("shard", "Shard", ((name, name) for name in shards), chosen["shard"]),
            choice("cluster", "Cluster", _clusters(clusters, chosen["cluster"]), chosen["cluster"]),
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


def _body(frame: Frame, answer: NeedList | None, chosen: Mapping[str, str], problem: str) -> Html:
    if problem:
        return el("p", problem, class_="banner bad", role="alert")
    if answer is None:
        return empty("No shard is known yet.", "--shard-addr HOST:PORT or --coordinator-addr HOST:PORT")
    if answer.cycle == 0:
        return empty(
            "No cycle yet: the shard has decided nothing since it started. This is not the same as no demand."
        )
    if not answer.total:
        words = "No need passes these filters." if answer.needs else "No demand."
        return el("p", words, class_="dim")
    of = "" if answer.total == answer.needs else f"{count(answer.total)} of "
    caption = (
        f"Cycle {count(answer.cycle)}: {of}{plural(answer.needs, 'need')}, {count(answer.total - answer.short)} covered, "
        f"{count(answer.short)} short; highest precedence first"
    )
    first = query_of(chosen).first
    listed = [
        _row(frame, chosen["shard"], row, place == answer.before_first_short and place > 0)
        for place, row in enumerate(answer.rows, first)
    ]
    if not listed:
        return join(
            el("p", "This page lies behind the last one.", class_="dim"),
            _pages(frame, chosen, 0, answer.total),
        )
    return join(table(caption, _COLUMNS, listed), _pages(frame, chosen, first, answer.total))


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


def _clusters(known: Sequence[str], chosen: str) -> list[tuple[str, str]]:
    names = sorted({*known, *([chosen] if chosen else [])})
    return [("", "all"), *((name, name) for name in names)]
