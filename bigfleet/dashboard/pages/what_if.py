"""The what-if page: edits on a snapshot, run on the production engine in a separate process.

Rules: `dashboard#what-if`; the result is drawn by a small script from the answer of `/x/whatif`, as it exists only when
asked for.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from bigfleet.dashboard.core.observed import FleetPicture
from bigfleet.dashboard.html import Html, el
from bigfleet.dashboard.pages.frame import Frame, card, main_part
from bigfleet.dashboard.pages.tables import choice

_EDITS: Final = (
    ("add_machines", "Add machines", (("count", "how many", "10"), ("like", "like machine or type", ""))),
    (
        "remove_machines",
        "Lose machines of a type",
        (("type", "instance type", ""), ("zone", "zone, or all", "")),
    ),
    ("lose_zone", "Lose a zone", (("zone", "zone", ""),)),
    ("lose_provider", "Lose a provider", (("provider", "provider", ""),)),
    ("price", "Change a price", (("type", "instance type", ""), ("factor", "times", "1.5"))),
    ("risk", "Change a risk", (("type", "instance type", ""), ("probability", "lost within an hour", "0.2"))),
    ("priority", "Change a priority", (("cluster", "cluster", ""), ("priority", "to", "1000000"))),
    ("scale", "Scale demand", (("cluster", "cluster", ""), ("factor", "times", "2"))),
    ("drop", "Drop demand", (("cluster", "cluster", ""),)),
    ("holds", "Release holds", (("on_demand", "on demand, s", "600"), ("spot", "spot, s", "60"))),
    ("pass_time", "Let time pass", (("seconds", "seconds", "600"),)),
)
"""Name for the script, title, and fields with their labels and initial values."""
_KNOWN: Final = {"like": "types", "type": "types", "zone": "zones", "cluster": "clusters"}
"""Fields for which the browser suggests names, and the list it suggests."""
_HORIZONS: Final = (("cycle", "one cycle"), ("quiet", "until nothing is left to do"))


@dataclass(frozen=True, slots=True)
class WhatIfForm:
    """The question in the address of the page."""

    shard: str = ""
    edits: str = ""
    until: str = ""
    create: str = ""
    drain: str = ""


def what_if(frame: Frame, shards: Sequence[str], asked: WhatIfForm, picture: FleetPicture) -> Html:
    """Return the main part of the what-if page."""
    return main_part(
        frame,
        "What if",
        el(
            "div",
            card(
                "Try a change on paper",
                el("p", "This changes nothing in the fleet and no decision of a shard."),
                _form(frame, shards, asked),
                el(
                    "noscript",
                    "This page needs scripts. Without them, use: bigfleet what-if snapshot.json --edit FILE",
                ),
            ),
            card("Common edits, one after the other", (_edit(*edit) for edit in _EDITS)),
            el("div", id="result", class_="wide", aria_live="polite"),
            class_="grid two",
        ),
        (_names(name, known) for name, known in _known(picture).items()),
        el("script", type="module", src=frame.to(f"{frame.assets}/what-if.js")),
    )


def _form(frame: Frame, shards: Sequence[str], asked: WhatIfForm) -> Html:
    return el(
        "form",
        choice("shard", "Shard", ((name, name) for name in shards), asked.shard),
        el(
            "label",
            "or a snapshot from a file",
            el("input", type="file", name="file", accept=".json,application/json"),
        ),
        choice("until", "Look at", _HORIZONS, asked.until),
        _seconds("create", "creating takes, s", asked.create),
        _seconds("drain", "draining takes, s", asked.drain),
        el(
            "label",
            "Edits, as a JSON list; the form is that of the edit files of bigfleet what-if",
            el("textarea", asked.edits or "[]", name="edits", rows=8, spellcheck="false"),
        ),
        el("button", "Try it", type="submit", class_="main"),
        el("button", "Undo the last edit", type="button", id="undo"),
        id="what-if",
        class_="question",
        data_ask=frame.to("api/v1/x/whatif"),
    )


def _seconds(name: str, title: str, value: str) -> Html:
    given = value if value.replace(".", "", 1).isdigit() else "0"
    return el(
        "label", title, el("input", type="number", name=name, value=given, min=0, max=86_400, step="any")
    )


def _edit(name: str, words: str, fields: Sequence[tuple[str, str, str]]) -> Html:
    """A form for one edit; the script appends the edit to the list."""
    return el(
        "fieldset",
        el("legend", words),
        (
            el(
                "label",
                label,
                el(
                    "input",
                    name=field,
                    value=value,
                    size=14,
                    autocomplete="off",
                    list=f"known-{_KNOWN[field]}" if field in _KNOWN else None,
                ),
            )
            for field, label, value in fields
        ),
        el("button", "Add", type="button", aria_label=f"Add: {words}"),
        data_edit=name,
        class_="edit",
    )


def _known(picture: FleetPicture) -> Mapping[str, set[str]]:
    """Names in use in the fleet; types and zones come from the coordinator's reports."""
    seen = picture.coordinator.seen if picture.coordinator is not None else None
    reports = seen.reports if seen is not None else ()
    return {
        "types": {name for report in reports for name in report.per_instance_type},
        "zones": {name for report in reports for name in report.per_zone},
        "clusters": {row.cluster for place in picture.shards if place.seen for row in place.seen.clusters},
    }


def _names(name: str, known: set[str]) -> Html:
    return el("datalist", (el("option", value=one) for one in sorted(known)), id=f"known-{name}")
