"""Explains a need or a machine: the tables of `bigfleet explain`, as a page.

Rules: `dashboard#explain`; the text is the command line's, since both are made of the same listings.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from bigfleet.dashboard.charts import StoryPart, story, strip
from bigfleet.dashboard.core.wording import age, count, money, plural
from bigfleet.dashboard.html import Child, Html, el, join
from bigfleet.dashboard.pages.frame import Frame, empty, main_part
from bigfleet.dashboard.pages.overview import reason_text
from bigfleet.dashboard.pages.tables import TableColumn, TableRow, copy_button, identity, pairs, table
from bigfleet.document.listing import Listing
from bigfleet.explain.tables import machine_listings, machine_title, need_listings, need_title
from bigfleet.model.times import rfc3339_of_s

_TITLES: Final = {
    "steps": "Steps of the decision",
    "chosen": "Chosen, and the next best",
    "refused": "Refused machines, by reason",
    "competitors": "Needs that compete",
    "domains": "Domains weighed",
    "victims": "Preemption",
    "changes": "What would change the answer",
    "facts": "Facts",
    "needs": "How each need judges it",
}


def need_page(frame: Frame, answer: Mapping[str, Any]) -> Html:
    """Return the explanation of a need."""
    document = answer["explanation"]
    return main_part(
        frame,
        "Explain",
        el(
            "article",
            _head(need_title(document), document["sentence"], answer),
            _ages(answer),
            _history(answer["history"]),
            (_listing(listing) for listing in need_listings(document, quick=answer["approximate"])),
            class_="card",
        ),
    )


def machine_page(frame: Frame, answer: Mapping[str, Any], now: float) -> Html:
    """Return the explanation of a machine."""
    document = answer["explanation"]
    return main_part(
        frame,
        "Explain",
        el(
            "article",
            _head(machine_title(document), document["sentence"], answer),
            _record(answer["machine"], now),
            (_listing(listing) for listing in machine_listings(document)),
            _transitions(answer["transitions"], now),
            _decisions(answer["decisions"]),
            class_="card",
        ),
    )


def explanation_tables(document: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """Return title and tables of the explanation of a need or a machine as plain values, for the script that draws them."""
    listings = machine_listings(document) if kind == "machine" else need_listings(document, quick=False)
    return {
        "title": machine_title(document) if kind == "machine" else need_title(document),
        "tables": [
            {
                "title": _TITLES[listing.name],
                "columns": [column.title.lower() for column in listing.columns],
                "rows": [[_shown(row, column.key) for column in listing.columns] for row in listing.rows],
            }
            for listing in listings
        ],
    }


def start_page(frame: Frame, problem: str = "") -> Html:
    """Return the page before a choice, or after an answer failed."""
    return main_part(
        frame,
        "Explain",
        el(
            "article",
            el("p", problem, class_="banner bad", role="alert") if problem else None,
            empty("Choose a need or a machine from its list; its row opens the explanation."),
            el(
                "p",
                el("a", "Needs", href=frame.to("needs")),
                " · ",
                el("a", "Machines", href=frame.to("machines")),
            ),
            class_="card",
        ),
    )


def _head(title: str, sentence: str, answer: Mapping[str, Any]) -> Html:
    guess = "This shard does not explain needs; this explanation is approximate, made from its list of needs."
    return join(
        el("p", guess, class_="banner") if answer.get("approximate") else None,
        el("h2", title[:1].upper() + title[1:]),
        el("p", el("b", sentence)),
        el("p", f"Shard {answer['shardId']}, cycle {count(answer['cycle'])}.", class_="dim"),
    )


def _ages(answer: Mapping[str, Any]) -> Html:
    lines = []
    if answer["ageCyclesUnmet"]:
        lines.append(f"Short for {plural(answer['ageCyclesUnmet'], 'cycle')} in a row.")
    if answer["parkedAgeCycles"]:
        lines.append(f"Without progress for {plural(answer['parkedAgeCycles'], 'cycle')}.")
    if answer["blobBackoffUntilUnixNanos"]:
        until = rfc3339_of_s(answer["blobBackoffUntilUnixNanos"] / 1e9)
        lines.append(
            f"Its operator could not create a bootstrap blob; the shard does not try again before {until}."
        )
    return join(el("p", line) for line in lines)


def _history(rows: Sequence[Mapping[str, Any]]) -> Html | None:
    if not rows:
        return None
    cells = [(_tone(row["reason"]), f"cycle {row['cycle']}: {_verdict(row['reason'])}") for row in rows]
    return strip(
        "The last cycle" if len(rows) == 1 else f"The last {count(len(rows))} cycles, oldest first", cells
    )


def _tone(reason: str) -> str:
    return {"SATISFIED": "good", "": ""}.get(reason, "bad")


def _verdict(reason: str) -> str:
    return reason_text(reason) if reason else "not asked for"


def _listing(listing: Listing) -> Html:
    columns = [TableColumn(column.title.lower()) for column in listing.columns]
    rows = (TableRow([_shown(row, column.key) for column in listing.columns]) for row in listing.rows)
    return join(el("h3", _TITLES[listing.name]), table(None, columns, rows))


def _shown(row: Mapping[str, object], key: str) -> str:
    """A value of a listing; a space after each id lets the page break lines."""
    text = cell(row.get(key))
    return text.replace(",", ", ") if key == "ids" else text


def cell(value: object) -> str:
    """Return a value as in the tables of the command line."""
    if value is None:
        return "—"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return ",".join(map(cell, value)) or "—"
    return str(value)


def _record(row: Mapping[str, Any], now: float) -> Html:
    """The machine as the provider and the shard know it."""
    host, assigned, since = row["host"], row["assigned"], row["idleSinceUnixNanos"]
    facts: dict[str, Child] = {
        "machine": join(identity(row["id"]), " ", copy_button(row["id"])),
        "state": row["state"],
        "cluster": row["cluster"] or "none",
        "host": identity(f"{host['provider']} {host['ref']}") if host else "none",
        "price": money(row["pricePerHour"]),
        "lost within an hour": f"{100 * row['interruptionProbability']:g} %",
    }
    if assigned is not None:
        worth = ", ".join(
            f"{name} ${value:g}" if isinstance(value, float | int) else f"{name} {value}"
            for name, value in (
                ("interruption", assigned["interruptionPenalty"]),
                ("reclamation", assigned["reclamationPenalty"]),
            )
        )
        facts["obtained for"] = f"priority {count(assigned['priority'])}, {worth}"
    if since:
        facts["idle for"] = age(now - since / 1e9)
    if row["lastError"]:
        facts["last error"] = row["lastError"]
    if row["pending"]:
        facts["now"] = "an action is under way"
    return join(el("h3", "Record"), pairs(facts))


def _transitions(rows: Sequence[Mapping[str, Any]], now: float) -> Html | None:
    if not rows:
        return None
    columns = (TableColumn("when"), TableColumn("from"), TableColumn("to"), TableColumn("cause"))
    listed = (
        TableRow(
            (
                el(
                    "time",
                    f"{age(now - row['atUnixNanos'] / 1e9)} ago",
                    datetime=rfc3339_of_s(row["atUnixNanos"] / 1e9),
                    title=rfc3339_of_s(row["atUnixNanos"] / 1e9),
                ),
                row["before"] or "new",
                row["after"] or "gone",
                CAUSES.get(row["cause"], row["cause"]),
            )
        )
        for row in rows
    )
    return join(el("h3", "Its story"), _strip(rows, now), table("newest first", columns, listed))


CAUSES: Final = {
    "action": "by an action of the shard",
    "reconcile": "seen when the provider was listed",
}
"""Causes of transitions in words."""


def _strip(rows: Sequence[Mapping[str, Any]], now: float) -> Html:
    """The states of a machine over time; the last one lasts until now."""
    parts, ends = list[StoryPart](), now
    for row in rows:  # newest first
        begin = row["atUnixNanos"] / 1e9
        name = row["after"] or "gone"
        lasted = max(ends - begin, 0.0)
        cause = CAUSES.get(row["cause"], row["cause"])
        parts.append(StoryPart(name, lasted, f"{name} for {age(lasted)}{f', {cause}' if cause else ''}"))
        ends = begin
    since = age(now - rows[-1]["atUnixNanos"] / 1e9)
    return story(f"Since {since} ago, oldest at the left", parts[::-1])


def _decisions(rows: Iterable[Mapping[str, Any]]) -> Html | None:
    listed = [decision(row) for row in rows]
    return join(el("h3", "Its actions"), table("newest first", DECISION_COLUMNS, listed)) if listed else None


WHY: Final = {
    "phase1.idle": "a need takes an idle one",
    "phase1.speculative": "a need wants one more",
    "phase2.inversion": "higher priority needs it",
    "phase3.excess": "no need uses it there",
    "phase3.release": "idle for long enough",
}
"""Reasons of actions in words."""
DECISION_COLUMNS: Final = (
    TableColumn("when"),
    TableColumn("kind"),
    TableColumn("machine"),
    TableColumn("cluster"),
    TableColumn("why"),
    TableColumn("outcome"),
    TableColumn("grace", numeric=True),
)


def decision(row: Mapping[str, Any], where: str = "") -> TableRow:
    """Return an action and its outcome as a row."""
    at = rfc3339_of_s(row["atUnixNanos"] / 1e9)
    tone = "good" if row["outcome"] == "success" else "warn"
    machine = identity(row["machine"])
    return TableRow(
        (
            el("time", at[11:19], datetime=at, title=at),
            row["kind"],
            el("a", machine, href=where, data_drawer=True) if where else machine,
            row["cluster"] or "—",
            el("span", WHY.get(row["reason"], row["reason"]), title=row["reason"]),
            el("span", f"{row['outcome']}: {row['error']}" if row["error"] else row["outcome"], class_=tone),
            f"{count(row['graceSeconds'])} s" if row["graceSeconds"] else "—",
        ),
        key=f"{row['shardId']}/{row['sequence']}",
        open=where,
    )
