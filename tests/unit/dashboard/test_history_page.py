"""Charts of the history as the server draws them (`dashboard#charts`)."""

import html
import json
import re

import pytest

from bigfleet.dashboard.core.history_sample import HistorySample
from bigfleet.dashboard.core.history_steps import lines_of, times_of
from bigfleet.dashboard.history import HistoryAnswer
from bigfleet.dashboard.html import Html
from bigfleet.dashboard.pages.frame import Frame
from bigfleet.dashboard.pages.history import HistoryChart, HistoryView, charts, chosen_range, range_picker

NOW = 1_800_000_000.0


def drawn(chart: HistoryChart, *figures: dict[str, float], range_name: str = "1h") -> Html:
    step, times = times_of(range_name, NOW)
    rows = (
        [
            HistorySample(at, {chart.family: row})
            for at, row in zip(times[-len(figures) :], figures, strict=True)
        ]
        if figures
        else []
    )
    answer = HistoryAnswer(step, times, [lines_of(chart.family, rows, step, times)])
    return charts(HistoryView(range_name, [chart], answer, None))[0]


@pytest.mark.rule("dashboard#charts")
def test_a_chart_has_caption_table_and_what_its_script_needs() -> None:
    figure = drawn(
        HistoryChart("states", stacked=True, skip=("Speculative",)),
        {"Idle": 3, "Configured": 9, "Speculative": 5},
        {"Idle": 4},
    )
    assert "Machines by state" in figure
    assert "the last hour" in figure
    assert re.findall(r'<th scope="col">([^<]*)</th>', figure) == ["time", "Configured", "Idle"]
    assert re.findall(r'<td class="num">([^<]*)</td>', figure)[:2] == ["0", "4"]
    assert 'data-history="states" data-range="1h"' in figure
    (colours,) = re.findall(r'data-colours="([^"]*)"', figure)
    assert list(json.loads(html.unescape(colours)))[:2] == ["Configured", "Configuring"]


@pytest.mark.rule("dashboard#charts")
def test_a_short_trouble_is_in_the_drawing_of_a_long_range() -> None:
    rows = [{"cpu": 0.0}] * 200
    rows[50] = {"cpu": 77.0}
    assert ">77<" in drawn(HistoryChart("missing"), *rows, range_name="24h").replace(">80<", ">77<")


def test_an_empty_range_says_so() -> None:
    assert "Nothing is recorded for this range yet" in drawn(HistoryChart("states"))


@pytest.mark.rule("dashboard#charts")
def test_the_choice_of_a_range_keeps_the_address_and_marks_the_chosen_one() -> None:
    picker = range_picker(Frame("/fleet/"), "cost", "24h")
    assert 'href="/fleet/cost?range=7d"' in picker
    assert re.findall(r'aria-current="true"[^>]*>([^<]*)<', picker) == ["24h"]
    assert (chosen_range({}), chosen_range({"range": "7d"}), chosen_range({"range": "<b>"})) == (
        "1h",
        "7d",
        "1h",
    )
