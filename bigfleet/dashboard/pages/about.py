"""The About page: configured sources, versions and events.

Rules: `dashboard#page-contents`.
"""

from collections.abc import Mapping, Sequence

from bigfleet.dashboard.core.fleet_events import FleetEvent
from bigfleet.dashboard.core.observed import FleetPicture
from bigfleet.dashboard.core.wording import duration
from bigfleet.dashboard.fleet_sources import Wiring
from bigfleet.dashboard.history import History
from bigfleet.dashboard.html import Html, el, join
from bigfleet.dashboard.pages.frame import Frame, card, empty, live, main_part
from bigfleet.dashboard.pages.history import history_problem
from bigfleet.dashboard.pages.overview import event_list
from bigfleet.dashboard.pages.tables import pairs

_SKEW_S = 1.0


def _clocks(picture: FleetPicture) -> Html:
    """Shards whose clock differs from this host's. Ages are right all the same, as a shard measures them itself."""
    ahead = {
        place.shard_id: place.seen.clock_ahead_s
        for place in picture.shards
        if place.seen and abs(place.seen.clock_ahead_s) > _SKEW_S
    }
    if not ahead:
        return el("p", "No shard's clock differs from this host's.")
    return pairs(
        {
            shard: f"{duration(abs(seconds))} {'ahead of' if seconds > 0 else 'behind'} this host"
            for shard, seconds in ahead.items()
        }
    )


def about(
    frame: Frame,
    wiring: Wiring,
    picture: FleetPicture,
    events: Sequence[FleetEvent],
    problems: Mapping[str, str],
    *,
    history: History,
) -> Html:
    """Return the main part of the About page."""
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
                card("Sources", sources, trouble, history_problem(history)),
                card("Versions", pairs({"this dashboard": wiring.version, **versions})),
                card("Clocks", _clocks(picture)),
                card("Events", event_list(frame, events) if events else empty("None yet.")),
                card(
                    "Licence",
                    el("p", "BigFleet is licensed under the Apache License 2.0."),
                    el("p", "Charts are drawn by uPlot 1.6.32, © Leon Sorokin, under the MIT License."),
                ),
                class_="grid",
            ),
        ),
        every=15,
    )
