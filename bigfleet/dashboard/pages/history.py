"""Charts of the history on pages: the drawing of the server, what its script needs to take over, the choice of a range.

Why: a page without scripts shows the same numbers; with them the script draws the answer of `/api/v1/x/history`.
Must never: give the charts of one page different ranges, since they share a cross-hair.
Rules: `dashboard#charts`, `dashboard#history-ranges`, `dashboard#history-trouble`.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from bigfleet.dashboard.charts import ChartLine, colours_of, line_chart
from bigfleet.dashboard.core.history_sample import FAMILIES
from bigfleet.dashboard.core.history_steps import DEFAULT_RANGE, RANGES
from bigfleet.dashboard.history import History, HistoryAnswer, HistoryTrouble
from bigfleet.dashboard.html import Html, el
from bigfleet.dashboard.pages.frame import Frame, empty
from bigfleet.model.times import rfc3339_of_s

_POINTS: Final = 90
"""Points that the server draws; a drawing of the script has all."""
_WORDS: Final[Mapping[str, str]] = {
    "1h": "the last hour",
    "6h": "the last 6 hours",
    "24h": "the last 24 hours",
    "7d": "the last 7 days",
    "30d": "the last 30 days",
    "90d": "the last 90 days",
}


@dataclass(frozen=True, slots=True)
class HistoryChart:
    """A chart of one family: of the fleet, or of a cluster."""

    family: str
    title: str = ""
    note: str = ""
    cluster: str | None = None
    stacked: bool = False
    skip: tuple[str, ...] = ()
    """Names that are left out."""
    height: int = 170

    @property
    def heading(self) -> str:
        """Its title."""
        return self.title or FAMILIES[self.family].title


@dataclass(frozen=True, slots=True)
class HistoryView:
    """What is drawn on one page: a range, the charts that it has, and their numbers."""

    range_name: str
    charts: Sequence[HistoryChart]
    answer: HistoryAnswer
    trouble: HistoryTrouble | None


def chosen_range(query: Mapping[str, str]) -> str:
    """Return the range that an address names; another word than those offered is the usual one."""
    return query.get("range", "") if query.get("range", "") in RANGES else DEFAULT_RANGE


async def view_of(
    history: History, range_name: str, charts: Sequence[HistoryChart], now: float
) -> HistoryView:
    """Read the numbers of some charts."""
    asked = [(chart.family, chart.cluster) for chart in charts]
    return HistoryView(range_name, charts, await history.lines(range_name, asked, now=now), history.trouble)


def range_picker(frame: Frame, path: str, chosen: str, query: Mapping[str, str] | None = None) -> Html:
    """Return the choice of a range, which holds for every chart of the page."""
    links = (
        el(
            "li",
            el(
                "a",
                name,
                href=frame.to(path, **{**(query or {}), "range": name}),
                aria_current="true" if name == chosen else None,
                aria_label=_WORDS[name],
            ),
        )
        for name in RANGES
    )
    return el("nav", el("ul", links), class_="ranges", aria_label="Time range of all charts")


def charts(view: HistoryView) -> list[Html]:
    """Return the charts of a view, in its order."""
    return [_chart(view, place) for place in range(len(view.charts))]


def _chart(view: HistoryView, place: int) -> Html:
    chart, found = view.charts[place], view.answer.lines[place].lines
    names = [name for name in found if name not in chart.skip]
    order = colours_of(chart.family)
    names.sort(key=lambda name: (list(order).index(name) if name in order else len(order), name))
    worst = FAMILIES[chart.family].worst
    times = list(view.answer.times)
    stride = -(-len(times) // _POINTS)
    lines = [ChartLine(name, _thinned(found[name], stride, worst=worst)) for name in names]
    words = [_time(view.range_name, at) for at in times[::-1][::stride][::-1]]
    given = {
        "data_history": chart.family,
        "data_range": view.range_name,
        "data_cluster": chart.cluster,
        "data_unit": FAMILIES[chart.family].unit,
        "data_colours": json.dumps(dict(order)),
        "data_stacked": True if chart.stacked else None,
        "data_skip": ",".join(chart.skip) or None,
        "data_height": str(chart.height),
    }
    if not lines:
        given["class_"] = "waiting"
    nothing = empty("Nothing is recorded for this range yet; a sample is taken every ten seconds.")
    return line_chart(
        chart.heading, chart.note, words, lines, spoken=_WORDS[view.range_name], given=given, nothing=nothing
    )


def _thinned(values: Sequence[float | None], stride: int, *, worst: bool) -> list[float | None]:
    """Fewer values, the newest kept: the last of each stretch, or the largest where the worst counts."""
    found: list[float | None] = []
    for end in range(len(values), 0, -stride):
        known = [value for value in values[max(end - stride, 0) : end] if value is not None]
        found.append(None if not known else max(known) if worst else known[-1])
    return found[::-1]


def _time(range_name: str, at: int) -> str:
    text = rfc3339_of_s(at)
    return text[11:16] if RANGES[range_name][0] <= 86_400 else f"{text[5:10]} {text[11:16]}"


def history_problem(history: History) -> Html | None:
    """Return what is wrong with the file of the history; nothing when it is well."""
    return trouble_line(history.trouble)


def trouble_line(trouble: HistoryTrouble | None) -> Html | None:
    """Return trouble with the history in a line."""
    if trouble is None:
        return None
    what = "Charts end with this process" if trouble.lasting else "Charts begin anew"
    return el("p", f"▲ {what}: {trouble.text}", class_="warn")
