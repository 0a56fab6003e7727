"""The needs page: needs of a shard's last cycle, by precedence and grouped by profile, with a line where supply ended.

Rules: `dashboard#page-contents`: filters in the address, grouped by profile, cut line, drawer with the explanation; `dashboard#need-parts`.
ADR-0163.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any, Final

from bigfleet.dashboard.core.need_list import NeedList, NeedListGroup, NeedListQuery
from bigfleet.dashboard.core.wording import count, plural
from bigfleet.dashboard.html import Html, el, join
from bigfleet.dashboard.pages.frame import Frame, empty, live, main_part
from bigfleet.dashboard.pages.overview import deficit_text, reason_text
from bigfleet.dashboard.pages.profiles import profile_text
from bigfleet.dashboard.pages.supply import COVERAGE_COLUMNS, held_off_text, wanted
from bigfleet.dashboard.pages.tables import (
    RowGroup,
    RowNote,
    TableColumn,
    TableRow,
    choice,
    filters,
    grouped_table,
    identity,
    search,
    table,
)

EVERY_S: Final = 15
PAGE: Final = 200
STATUSES: Final = (("", "all"), ("short", "short"), ("satisfied", "satisfied"), ("parked", "parked"))
REASONS: Final = (
    "PRIORITY_STARVED",
    "NO_MATCHING_SUPPLY",
    "TOPOLOGY_UNSATISFIABLE",
    "PREEMPTION_EXHAUSTED",
    "PROVIDER_UNREACHABLE",
    "BLOB_BACK_OFF",
    "NO_SESSION",
    "MACHINE_BACK_OFF",
    "NOT_ACCEPTED",
)
"""As `ShortfallRow.reason` in the insight service."""
_RELATIONS: Final = {"prev": "prev", "next": "next"}
_COLUMNS: Final = (
    TableColumn("cluster"),
    TableColumn("asks for"),
    TableColumn("gang"),
    TableColumn("status"),
    *COVERAGE_COLUMNS[1:],
    TableColumn("short for", numeric=True),
)


def query_of(chosen: Mapping[str, str]) -> NeedListQuery:
    """Return the shard's query for these filters; an invalid filter is ignored."""
    statuses, reasons = [status for status, _ in STATUSES], REASONS
    return NeedListQuery(
        cluster=chosen["cluster"],
        status=chosen["status"] if chosen["status"] in statuses else "",
        reason=chosen["reason"] if chosen["reason"] in reasons else "",
        text=chosen["q"],
        first=(_page(chosen.get("page", "")) - 1) * PAGE,
        size=PAGE,
        grouped=True,
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
            search("q", "Profile or gang contains", chosen["q"]),
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
        f"{count(answer.short)} short; highest precedence first, by profile"
    )
    first = query_of(chosen).first
    if not answer.rows:
        return join(
            el("p", "This page is beyond the last one.", class_="dim"),
            _pages(frame, chosen, 0, answer),
        )
    groups = _groups(frame, chosen["shard"], answer, first)
    return join(grouped_table(caption, _COLUMNS, groups), _pages(frame, chosen, first, answer))


def _groups(frame: Frame, shard: str, answer: NeedList, first: int) -> Iterator[RowGroup]:
    """The rows of the page grouped by profile, and the lines where supply ended."""
    groups = {group.fingerprint: group for group in answer.groups}
    place = first
    for fingerprint, members in groupby(answer.rows, key=lambda row: str(row["profileFingerprint"])):
        group, rows, begin = groups.get(fingerprint), list[TableRow | RowNote](), place
        heading: Html | None = None
        for row in members:
            line = _line(answer, group, place)
            if line is not None and place == begin:
                yield RowGroup([line])  # above the heading, between two profiles
            elif line is not None:
                rows.append(line)
            heading = heading or _heading(row, group, begin)
            rows.append(_row(frame, shard, row))
            place += 1
        yield RowGroup(rows, heading)


def _line(answer: NeedList, group: NeedListGroup | None, place: int) -> RowNote | None:
    """The line before a need, if supply ended there: for the whole list, or for one profile."""
    if not place:
        return None
    if place == answer.before_first_short and answer.short:
        below = answer.total - place
        words = (
            f"▼ First short need: {_all(place)} above {'is' if place == 1 else 'are'} covered, "
            f"{count(answer.short)} of {count(below)} from here on short."
        )
        return RowNote(el("span", words), class_="cut")
    if group is not None and group.first < place == group.before_first_short and group.short:
        words = (
            f"▼ Supply for this profile ended here: {count(place - group.first)} of its "
            f"{plural(group.needs, 'need')} covered above."
        )
        return RowNote(el("span", words), class_="cut own")
    return None


def _all(needs: int) -> str:
    return "the one need" if needs == 1 else f"all {count(needs)} needs"


def _heading(row: Mapping[str, Any], group: NeedListGroup | None, begin: int) -> Html:
    if group is None:  # from a shard that does not group needs
        return el("span", profile_text(row), title=row["profileFingerprint"])
    covered = group.needs - group.short
    how = (
        "covered"
        if not group.short and group.needs == 1
        else "all covered"
        if not group.short
        else "short"
        if group.needs == 1
        else f"{count(covered)} covered, {count(group.short)} short"
    )
    more = " (goes on from the page before)" if group.first < begin else ""
    return el(
        "span",
        profile_text(row),
        " ",
        el("span", f"{plural(group.needs, 'need')}, {how}{more}", class_="dim"),
        title=row["profileFingerprint"],
    )


def _page(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and 0 < len(text) < 9 and int(text) else 1


def _pages(frame: Frame, chosen: Mapping[str, str], first: int, answer: NeedList) -> Html:
    """The position in the list, and links to other pages."""
    here, last = first // PAGE + 1, (answer.total - 1) // PAGE + 1
    cut = answer.before_first_short // PAGE + 1 if answer.short and answer.before_first_short else here

    def to(name: str, page: int, there: bool) -> Html | None:
        return (
            el("a", name, href=frame.to("needs", **{**chosen, "page": str(page)}), rel=_RELATIONS.get(name))
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
        to("where supply ended", cut, cut != here),
        el("a", "as CSV", href=frame.to("api/v1/x/export/needs.csv", **{**chosen, "page": None})),
        class_="pages",
        aria_label="Pages of the list",
    )


def explain_address(frame: Frame, shard: str, row: Mapping[str, Any]) -> str:
    """Return the address of the page that explains a need."""
    return frame.to(
        "explain",
        shard=shard,
        cluster=row["clusterId"],
        fingerprint=row["profileFingerprint"],
        group=row["group"],
    )


def _row(frame: Frame, shard: str, row: Mapping[str, Any]) -> TableRow:
    where = explain_address(frame, shard, row)
    return TableRow(
        (
            el("a", row["clusterId"], href=where, data_drawer=True),
            deficit_text(row["aggregateResources"]),
            identity(row["group"]) if row["group"] else "—",
            _status(row),
            *_machines(row),
            plural(row["ageCyclesUnmet"], "cycle") if row["ageCyclesUnmet"] else "—",
        ),
        key=f"{row['clusterId']}|{row['profileFingerprint']}|{row['group']}",
        open=where,
    )


_OF_CLUSTER: Final = (TableColumn("need"), *_COLUMNS[1:2], *_COLUMNS[3:])


def needs_of_cluster(frame: Frame, shard: str, answer: NeedList) -> Html:
    """Return the first needs of a cluster by name: that of the gang, else what its profile asks for."""
    shown = (_row(frame, shard, row) for row in answer.rows)
    rows = (
        replace(
            row,
            cells=(
                el("a", need["group"] or profile_text(need), href=row.open, data_drawer=True),
                row.cells[1],
                *row.cells[3:],
            ),
        )
        for row, need in zip(shown, answer.rows, strict=True)
    )
    covered = answer.total - answer.short
    caption = f"{plural(answer.total, 'need')}, {count(covered)} covered, {count(answer.short)} short; highest precedence first"
    return table(caption, _OF_CLUSTER, rows)


def _status(row: Mapping[str, Any]) -> Html:
    """The state of a need in words: covered by machines, on the way, or short and why."""
    parts = row["coverage"]
    words, mark, tone = "covered", "●", "good"
    if not row["satisfied"]:
        words, mark, tone = reason_text(row["unmetReason"]), "■", "bad"
    elif parts is not None and parts["missing"]:
        held = held_off_text(parts)
        words, mark, tone = (f"held off: {held}", "■", "bad") if held else ("being obtained", "▲", "warn")
    if row["acquisitionParked"]:
        words += ", parked"
    return el("span", f"{mark} {words}", class_=tone)


def _machines(row: Mapping[str, Any]) -> tuple[Html | str, ...]:
    """Cells for running, joining, on order, wanted and missing; an older shard says only what it decided."""
    parts = row["coverage"]
    if parts is None:
        missing = deficit_text(row["residualDeficit"]) if not row["satisfied"] else "—"
        return (f"{count(row['claimedMachineCount'])} decided", "unknown", "unknown", "unknown", missing)
    return (
        count(parts["running"]),
        count(parts["joining"]),
        count(parts["onOrder"]),
        wanted(parts["wanted"]),
        el("span", deficit_text(parts["missing"]), class_="bad") if parts["missing"] else "—",
    )


def _clusters(known: Sequence[str], chosen: str) -> list[tuple[str, str]]:
    names = sorted({*known, *([chosen] if chosen else [])})
    return [("", "all"), *((name, name) for name in names)]
