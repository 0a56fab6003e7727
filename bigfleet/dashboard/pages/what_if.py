"""What if: edits on a live snapshot, tried on the production engine in a process of its own.

Rules: dashboard 7; the result is drawn by a small script from the answer of `/x/whatif`, as it exists only when asked for.
"""

from collections.abc import Sequence
from typing import Final

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
    ("priority", "Change a priority", (("cluster", "cluster", ""), ("priority", "to", "1000000"))),
    ("scale", "Scale demand", (("cluster", "cluster", ""), ("factor", "times", "2"))),
    ("drop", "Drop demand", (("cluster", "cluster", ""),)),
    ("pass_time", "Let time pass", (("seconds", "seconds", "600"),)),
)
"""Name for the script, words for people, fields with their labels and first values."""


def what_if(frame: Frame, shards: Sequence[str], shard: str, edits: str) -> Html:
    """Return the main part of the what-if page."""
    form = el(
        "form",
        choice("shard", "Shard", ((name, name) for name in shards), shard),
        el(
            "label",
            "Edits, as a JSON list; the form is that of the edit files of bigfleet what-if",
            el("textarea", edits or "[]", name="edits", rows=8, spellcheck="false"),
        ),
        el("button", "Try it", type="submit", class_="main"),
        el("button", "Undo the last edit", type="button", id="undo"),
        id="what-if",
        class_="filters question",
        data_ask=frame.to("api/v1/x/whatif"),
    )
    return main_part(
        frame,
        "What if",
        el(
            "div",
            el(
                "div",
                card(
                    "Try a change on paper",
                    el("p", "Nothing is carried out; no shard decides differently for it."),
                    form,
                    el(
                        "noscript",
                        "This page asks by script. Without, use: bigfleet what-if snapshot.json --edit FILE",
                    ),
                ),
                el("div", id="result", aria_live="polite"),
            ),
            card("Common edits, one after the other", (_edit(*edit) for edit in _EDITS)),
            class_="grid",
        ),
        el("script", type="module", src=frame.to(f"{frame.assets}/what-if.js")),
    )


def _edit(name: str, words: str, fields: Sequence[tuple[str, str, str]]) -> Html:
    """One edit to fill in; the script writes it to the end of the list."""
    return el(
        "fieldset",
        el("legend", words),
        (
            el("label", label, el("input", name=field, value=value, size=14, autocomplete="off"))
            for field, label, value in fields
        ),
        el("button", "Add", type="button", aria_label=f"Add: {words}"),
        data_edit=name,
        class_="edit",
    )
