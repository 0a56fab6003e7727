"""The frame around every page: head, navigation, state announcements, drawer.

Must never: refer to anything outside this server, or hold inline script or style, which the security policy forbids.
Rules: `dashboard#api`, `dashboard#page-contents`, `dashboard#look`, `dashboard#security`.
"""

from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, urlencode

from bigfleet.dashboard.core.glossary import GLOSSARY
from bigfleet.dashboard.html import Child, Html, el, join, page

GROUPS: Final = (
    ("Fleet", (("", "Overview"), ("needs", "Needs"), ("machines", "Machines"), ("clusters", "Clusters"))),
    ("Supply", (("capacity", "Capacity"), ("cost", "Cost"))),
    ("Control", (("decisions", "Decisions"), ("shards", "Shards"), ("topology", "Topology"))),
    ("Tools", (("whatif", "What-if"), ("about", "About"))),
)
"""The pages in the navigation, in groups: what runs, where it comes from, who decides, what helps to understand it."""
NAVIGATION: Final = tuple(page for _, pages in GROUPS for page in pages)
SCRIPTS: Final = ("theme.js", "live.js", "rows.js")
_CHARTS: Final = " data-history="
"""What only a figure has that a script draws; `html.el` escapes quotes of all other text."""


@dataclass(frozen=True, slots=True)
class Frame:
    """What all pages of one server share."""

    base: str = "/"
    """Prefix behind a reverse proxy, with a slash at both ends."""
    assets: str = ""
    """Path of the static files under the base, with their hash."""
    warnings: tuple[str, ...] = ()
    """A warning on every page, such as a remote listener without authentication."""

    def to(self, path: str = "", **query: str | int | None) -> str:
        """Return an address of this server."""
        given = {key: value for key, value in query.items() if value not in (None, "")}
        return f"{self.base}{quote(path)}{'?' + urlencode(given) if given else ''}"


def whole(frame: Frame, title: str, here: str, content: Html) -> str:
    """Return a whole page around the content of its main part."""
    head = el(
        "head",
        el("meta", charset="utf-8"),
        el("meta", name="viewport", content="width=device-width, initial-scale=1"),
        el("meta", name="color-scheme", content="light dark"),
        el("title", f"{title} · BigFleet"),
        el("link", rel="icon", href=frame.to(f"{frame.assets}/icon.svg"), type="image/svg+xml"),
        el("link", rel="stylesheet", href=frame.to(f"{frame.assets}/app.css")),
        (el("script", type="module", src=frame.to(f"{frame.assets}/{name}")) for name in SCRIPTS),
        _chart_scripts(frame) if _CHARTS in content else None,
    )
    drawer = el(
        "dialog",
        el("button", "Close", type="button", class_="close"),
        el("div", class_="body"),
        id="drawer",
        class_="drawer",
        aria_label="Details",
    )
    body = el(
        "body",
        el("a", "Skip to content", href="#content", class_="skip"),
        _top(frame, here),
        content,
        el("footer", "Read-only: nothing on these pages can change the fleet. Times are UTC."),
        el("div", id="said", class_="skip", role="status"),
        drawer,
        data_stream=frame.to("api/v1/x/stream"),
    )
    return page(el("html", head, body, lang="en"))


def _chart_scripts(frame: Frame) -> list[Html]:
    """The chart library, its style and the script that uses it; modules run after scripts that are deferred before them."""
    return [
        el("link", rel="stylesheet", href=frame.to(f"{frame.assets}/uplot.css")),
        el("script", defer=True, src=frame.to(f"{frame.assets}/uplot.js")),
        el("script", type="module", src=frame.to(f"{frame.assets}/charts.js")),
    ]


def main_part(
    frame: Frame, title: str, *content: Child, every: int | None = None, aside: Child = None
) -> Html:
    """Return the main part of a page: its heading and content, refreshed every so many seconds."""
    return el(
        "main",
        el("p", id="stale", class_="banner bad", role="alert", hidden=True),
        (el("p", warning, class_="banner") for warning in frame.warnings),
        el("div", el("h1", title), aside, class_="heading"),
        content,
        id="content",
        tabindex="-1",
        data_every=every,
    )


def live(name: str, *content: Child) -> Html:
    """Return a part that is replaced when the page is refreshed."""
    return el("div", content, data_live=name)


def card(title: str, *content: Child, wide: bool = False) -> Html:
    """Return a box with a heading."""
    return el("section", el("h2", title), content, class_="card wide" if wide else "card")


def figures(*rows: tuple[str, Child]) -> Html:
    """Return a few large numbers with their names."""
    return el(
        "dl",
        (
            el("div", el("dt", name, title=GLOSSARY.get(name)), el("dd", value, data_cell=name))
            for name, value in rows
        ),
        class_="figures",
    )


def empty(text: str, flag: str = "") -> Html:
    """Return the text for an empty part: why it is empty, and which flag would fill it."""
    return el("p", text, join(" Pass ", el("code", flag), ".") if flag else None, class_="dim")


def _top(frame: Frame, here: str) -> Html:
    groups = (
        el(
            "li",
            el("span", title, class_="group"),
            el(
                "ul",
                (
                    el(
                        "li",
                        el("a", name, href=frame.to(path), aria_current="page" if path == here else None),
                    )
                    for path, name in pages
                ),
            ),
        )
        for title, pages in GROUPS
    )
    return el(
        "header",
        el("a", "BigFleet", href=frame.to(), class_="brand"),
        el(
            "button",
            "Menu",
            type="button",
            class_="menu",
            aria_expanded="false",
            aria_controls="pages",
            data_menu=True,
        ),
        el("nav", el("ul", groups), id="pages", aria_label="Pages"),
        el("button", "Theme", type="button", data_theme_toggle=True, hidden=True),
        class_="top",
    )
