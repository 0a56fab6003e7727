"""Charts as inline SVG: lines, stacked bars, strips; each with a caption in words and its numbers as a table.

Why: charts must work without scripts, with screen readers and in both themes. So the server draws them, classes give the
colours, and the page contains the numbers of each as a table.
Must never: set a colour (the style sheet does), show something by colour alone, or let the colour of a name depend on
which other names are present.
Rules: `dashboard#look`, `dashboard#wording`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import floor, log10
from typing import Final

from bigfleet.dashboard.core.wording import amount
from bigfleet.dashboard.html import Html, el

WIDTH: Final = 480
HEIGHT: Final = 140
_LEFT, _RIGHT, _BOTTOM, _TOP = 48, 4, 20, 8
_LEAST_POINTS: Final = 10
_TABLE_ROWS: Final = 12
_COLOURS: Final = 8
_STATES: Final = {
    "Configured": 2, "Configuring": 3, "Idle": 4, "Creating": 0, "Draining": 1, "Deleting": 7, "Failed": 5, "Speculative": 6,
}  # fmt: skip
_PARTS: Final = {"running": 2, "joining": 3, "on order": 0, "wanted": 5, "missing": 5}
_ACTIONS: Final = {"Bootstrap": 2, "Provision": 0, "Reclaim": 1, "Preempt": 5, "Delete": 7}
_CAPACITY_TYPES: Final = {"Reserved": 3, "BareMetal": 0, "OnDemand": 2, "Spot": 1}
_OTHERS: Final = {"short": 5, "all": 6, "p50": 0, "p99": 1, "other": 6}
_FIXED: Final = {**_OTHERS, **_STATES, **_PARTS, **_ACTIONS, **_CAPACITY_TYPES}
"""The colour of states, parts of a need, actions and capacity types, whatever else is shown."""
_OF_FAMILY: Final[Mapping[str, Mapping[str, int]]] = {
    "states": _STATES, "coverage": _PARTS, "actions": _ACTIONS, "capacity": _CAPACITY_TYPES, "cost": _CAPACITY_TYPES,
    "price": _CAPACITY_TYPES,
}  # fmt: skip


def colours_of(family: str) -> Mapping[str, int]:
    """Return the fixed colours of a family of the history, in the order in which they are stacked from below."""
    return _OF_FAMILY.get(family, _OTHERS)


@dataclass(frozen=True, slots=True)
class ChartLine:
    """One line of a chart; None where nothing was measured, which leaves a gap."""

    name: str
    values: Sequence[float | None]


def _colour(name: str, place: int) -> int:
    """The number of a colour: the fixed one of a name that has one, else by place."""
    return _FIXED.get(name, place)


def line_chart(
    title: str,
    caption: str,
    times: Sequence[str],
    lines: Sequence[ChartLine],
    unit: str = "",
    *,
    spoken: str = "",
    given: Mapping[str, str | bool | None] | None = None,
    nothing: Html | None = None,
) -> Html:
    """Return lines over time, with a legend.

    Time before the first value is left out; otherwise a young fleet would be a few dots at the edge. `spoken` is added to the
    words of a screen reader; `given` are attributes for a script that draws the chart anew, `nothing` is shown in place of a chart without lines.
    """
    begin = min(_begin(lines), max(len(times) - _LEAST_POINTS, 0))
    times, lines = times[begin:], [ChartLine(line.name, line.values[begin:]) for line in lines]
    top = _round_up(max((value for line in lines for value in line.values if value is not None), default=0.0))
    body = [
        *_axes(times, top, unit),
        *(
            el("polyline", class_=f"line s{_colour(line.name, place) % _COLOURS}", points=" ".join(points))
            if len(points) > 1
            else el(
                "circle",
                class_=f"part s{_colour(line.name, place) % _COLOURS}",
                r=3,
                **dict(zip(("cx", "cy"), points[0].split(","), strict=True)),
            )
            for place, line in enumerate(lines)
            for points in _runs(line.values, top)
        ),
    ]
    legend = el(
        "ul",
        (
            el(
                "li",
                el("span", class_=f"key s{_colour(line.name, place) % _COLOURS}", aria_hidden="true"),
                " ",
                line.name,
            )
            for place, line in enumerate(lines)
        ),
        class_="legend",
    )
    table = _line_table(times, lines, unit)
    return _figure(
        title,
        caption,
        body,
        [legend, table],
        spoken=spoken,
        given=given or {},
        nothing=None if lines else nothing,
    )


@dataclass(frozen=True, slots=True)
class ChartPart:
    """One part of a bar."""

    name: str
    value: float
    href: str = ""


def bar(title: str, parts: Sequence[ChartPart], unit: str = "", end: ChartPart | None = None) -> Html:
    """Return one bar cut into parts, with a list that names each part and its number; `end` has no number of its own."""
    names = (
        el(
            "li",
            el("span", class_=f"key {_shade(part.name, place)}", aria_hidden="true"),
            " ",
            el("a", part.name, href=part.href) if part.href else part.name,
            " ",
            el("b", amount(part.value), unit),
        )
        for place, part in enumerate(parts)
        if part.value > 0
    )
    legend = el("ul", names, class_="legend")
    return el(
        "figure",
        el("figcaption", title),
        _pieces([*parts, *([end] if end else [])], aria_hidden="true"),
        legend,
        class_="bars",
    )


def small_bar(parts: Sequence[ChartPart], words: str = "") -> Html:
    """Return a bar for a table cell; its numbers are in the label, and must be in other cells of the row too."""
    words = (
        words or ", ".join(f"{amount(part.value)} {part.name}" for part in parts if part.value > 0) or "none"
    )
    return _pieces(parts, role="img", aria_label=words)


def _pieces(parts: Sequence[ChartPart], **attributes: str) -> Html:
    whole = sum(part.value for part in parts)
    at, pieces = 0.0, []
    for place, part in enumerate(parts):
        width = 0.0 if whole == 0 else part.value / whole * WIDTH
        if width:
            pieces.append(
                el(
                    "rect",
                    class_=f"part {_shade(part.name, place)}",
                    x=f"{at:.1f}",
                    y=0,
                    width=f"{width:.1f}",
                    height=16,
                )
            )
        at += width
    return el(
        "svg", pieces, viewBox=f"0 0 {WIDTH} 16", preserveAspectRatio="none", class_="bar", **attributes
    )


def _shade(name: str, place: int) -> str:
    return f"s{_colour(name, place) % _COLOURS}"


def strip(title: str, cells: Sequence[tuple[str, str]]) -> Html:
    """Return a row of small cells, oldest first; each is a class and its meaning in words."""
    width = 6
    drawing = el(
        "svg",
        (
            el(
                "rect",
                el("title", words),
                class_=f"cell {kind}",
                x=place * width,
                y=0,
                width=width - 1,
                height=14,
            )
            for place, (kind, words) in enumerate(cells)
        ),
        viewBox=f"0 0 {max(len(cells), 1) * width} 14",
        class_="strip",
        role="img",
        aria_label=title,
    )
    return el("figure", el("figcaption", title), drawing, class_="strips")


@dataclass(frozen=True, slots=True)
class StoryPart:
    """A stretch of a story: its name, which gives the colour, its length, and its meaning in words."""

    name: str
    seconds: float
    words: str


def story(title: str, parts: Sequence[StoryPart]) -> Html:
    """Return stretches one after the other, oldest first, as wide as they are long; short ones stay visible.

    The names are in a legend; the numbers must be in a table on the page too.
    """
    whole = sum(part.seconds for part in parts) or 1.0
    widths = [max(part.seconds / whole * WIDTH, WIDTH / 60) for part in parts]
    scale, at, pieces = WIDTH / sum(widths), 0.0, []
    for part, width in zip(parts, widths, strict=True):
        mark = el("title", part.words)
        colour = f"part {_shade(part.name, 0)}"
        pieces.append(
            el("rect", mark, class_=colour, x=f"{at:.1f}", y=0, width=f"{width * scale - 1:.1f}", height=22)
        )
        at += width * scale
    words = "; ".join(part.words for part in parts)
    drawing = el(
        "svg",
        pieces,
        viewBox=f"0 0 {WIDTH} 22",
        preserveAspectRatio="none",
        class_="story",
        role="img",
        aria_label=f"{title}: {words}",
    )
    names = (
        el("li", el("span", class_=f"key {_shade(name, 0)}", aria_hidden="true"), " ", name)
        for name in dict.fromkeys(part.name for part in parts)
    )
    return el("figure", el("figcaption", title), drawing, el("ul", names, class_="legend"), class_="stories")


def _axes(times: Sequence[str], top: float, unit: str) -> list[Html]:
    base = HEIGHT - _BOTTOM
    marks = [
        el("line", class_="grid", x1=_LEFT, x2=WIDTH, y1=_y(part * top, top), y2=_y(part * top, top))
        for part in (0, 0.5, 1)
    ]
    marks += [
        el(
            "text",
            f"{amount(part * top)}{unit}",
            class_="tick",
            x=_LEFT - 4,
            y=float(_y(part * top, top)) + 4,
            text_anchor="end",
        )
        for part in (0, 0.5, 1)
    ]
    if times:
        marks.append(el("text", times[0], class_="tick", x=_LEFT, y=base + 14))
        marks.append(el("text", times[-1], class_="tick", x=WIDTH, y=base + 14, text_anchor="end"))
    return marks


def _round_up(value: float) -> float:
    """The next larger number that is easy to read on an axis and to halve."""
    if value <= 0:
        return 1.0
    unit = 10.0 ** floor(log10(value))
    return next(step * unit for step in (1, 2, 4, 5, 6, 8, 10) if step * unit >= value * (1 - 1e-9))


def _y(value: float, top: float) -> str:
    return f"{HEIGHT - _BOTTOM - value / top * (HEIGHT - _BOTTOM - _TOP):.1f}"


def _begin(lines: Sequence[ChartLine]) -> int:
    """The first place at which any line has a value."""
    places = (next((at for at, value in enumerate(line.values) if value is not None), None) for line in lines)
    return min((place for place in places if place is not None), default=0)


def _runs(values: Sequence[float | None], top: float) -> list[list[str]]:
    """The points of each stretch without a gap."""
    step = (WIDTH - _RIGHT - _LEFT) / max(len(values) - 1, 1)
    runs: list[list[str]] = [[]]
    for place, value in enumerate(values):
        if value is None:
            runs.append([])
        else:
            runs[-1].append(f"{_LEFT + place * step:.1f},{_y(value, top)}")
    return [run for run in runs if run]


def _line_table(times: Sequence[str], lines: Sequence[ChartLine], unit: str) -> Html:
    stride = max(1, len(times) // _TABLE_ROWS)
    places = range(len(times) - 1, -1, -stride)
    head = el("tr", el("th", "time", scope="col"), (el("th", line.name, scope="col") for line in lines))
    rows = (
        el(
            "tr",
            el("th", times[place], scope="row"),
            (el("td", _cell(line.values[place], unit), class_="num") for line in lines),
        )
        for place in places
    )
    return el(
        "details",
        el("summary", "as a table"),
        el("div", el("table", el("thead", head), el("tbody", rows)), class_="scroll"),
    )


def _cell(value: float | None, unit: str) -> str:
    return "—" if value is None else f"{amount(value, 3)}{unit}"


def _figure(
    title: str,
    caption: str,
    body: Sequence[Html],
    below: Sequence[Html],
    *,
    spoken: str,
    given: Mapping[str, str | bool | None],
    nothing: Html | None,
) -> Html:
    drawing = el(
        "svg",
        body,
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        class_="chart",
        role="img",
        aria_label=". ".join(filter(None, (title, caption, spoken))),
    )
    return el(
        "figure",
        el("figcaption", el("b", title), " ", el("span", caption, class_="dim")),
        el("div", nothing or drawing, class_="plot"),
        below,
        **given,
    )
