"""Charts: the colour of a name does not depend on what else is shown (`dashboard#wording`)."""

import re

import pytest

from bigfleet.dashboard.charts import ChartLine, ChartPart, bar, line_chart, small_bar


def shades(markup: str) -> list[str]:
    """Colours of the parts of a bar, in order."""
    return re.findall(r'<rect class="part ([^"]*)"', markup)


@pytest.mark.rule("dashboard#wording")
def test_a_state_keeps_its_colour_when_another_state_appears() -> None:
    alone = shades(bar("states", [ChartPart("Configured", 4)]))
    both = shades(bar("states", [ChartPart("Idle", 1), ChartPart("Configured", 4), ChartPart("Failed", 1)]))
    assert alone == both[1:2]
    assert len(set(both)) == 3


@pytest.mark.rule("dashboard#wording")
def test_an_action_keeps_its_colour_when_another_kind_appears() -> None:
    def of(*names: str) -> dict[str, str]:
        lines = [ChartLine(name, [1.0, 2.0]) for name in names]
        markup = line_chart("actions", "", ["a", "b"], lines)
        return dict(zip(names, re.findall(r'<polyline class="line ([^"]*)"', markup), strict=True))

    assert of("Preempt")["Preempt"] == of("Bootstrap", "Delete", "Preempt")["Preempt"]


def test_names_without_a_fixed_colour_are_told_apart_by_place() -> None:
    found = shades(bar("zones", [ChartPart(f"zone-{n}", 1) for n in range(8)]))
    assert len(set(found)) == 8


def test_a_small_bar_has_its_numbers_in_words() -> None:
    markup = small_bar([ChartPart("running", 3), ChartPart("joining", 0), ChartPart("wanted", 2)])
    assert 'role="img" aria-label="3 running, 2 wanted"' in markup
    assert len(shades(markup)) == 2
    assert 'aria-label="none"' in small_bar([ChartPart("running", 0)])
