"""What this dashboard is wired to, which versions it sees, and what happened.

Rules: dashboard 5 (About).
"""

from collections.abc import Mapping, Sequence

from bigfleet.dashboard.core.happenings import Happening
from bigfleet.dashboard.core.seen import Picture
from bigfleet.dashboard.fleet import Wiring
from bigfleet.dashboard.html import Html, el, join
from bigfleet.dashboard.pages.frame import Frame, card, empty, live, main_part
from bigfleet.dashboard.pages.overview import event_list
from bigfleet.dashboard.pages.tables import pairs


def about(
    frame: Frame, wiring: Wiring, picture: Picture, events: Sequence[Happening], problems: Mapping[str, str]
) -> Html:
    """Return what this dashboard is wired to."""
    sources = pairs(dict(wiring.notes))
    versions = {place.shard_id: place.seen.version or "unknown" for place in picture.shards if place.seen}
    trouble = join(
        el("p", f"Metrics of {pod}: {problem}", class_="warn") for pod, problem in problems.items()
    )
    return main_part(
        frame,
        "About",
        live(
            "about",
            el(
                "div",
                card("Sources", sources, trouble),
                card("Versions", pairs({"this dashboard": wiring.version, **versions})),
                card("Events", event_list(frame, events) if events else empty("None yet.")),
                card("Licence", el("p", "BigFleet is licensed under the Apache License 2.0.")),
                class_="grid",
            ),
        ),
        every=15,
    )
