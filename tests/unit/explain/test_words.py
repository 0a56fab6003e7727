"""Durations, amounts and the verdict in words."""

import pytest

from bigfleet.explain.amounts import amounts_words
from bigfleet.explain.durations import duration_text
from bigfleet.explain.verdict_line import ProblemLine, status_lines, verdict_line
from tests.support.builders import amounts

pytestmark = pytest.mark.rule("shard#problems-in-one-look")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-1.0, "0 s"),
        (0.0, "0 s"),
        (0.2, "1 s"),
        (12.4, "12 s"),
        (60.0, "1 min"),
        (200.0, "3 min 20 s"),
        (3_600.0, "1 h"),
        (3_605.0, "1 h"),
        (18_600.0, "5 h 10 min"),
        (90_000.0, "1 d 1 h"),
    ],
)
def test_a_duration_has_its_two_largest_units(seconds: float, text: str) -> None:
    assert duration_text(seconds) == text


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({}, "nothing"),
        ({"cpu": 1}, "1 CPU"),
        ({"memory": "16Gi", "cpu": 4, "nvidia.com/gpu": 8}, "8 GPUs, 4 CPUs and 16Gi of memory"),
        ({"example.com/fpga": 2}, "2 of example.com/fpga"),
    ],
)
def test_amounts_are_said_as_people_say_them(given: dict[str, str | int], text: str) -> None:
    assert amounts_words(amounts(**given)) == text


SHORT = ProblemLine("shortfalls", "web is short 8 GPUs: provider unreachable", 30.0)
AWAY = ProblemLine("provider_unreachable", "provider p:1 unreachable for 12 s", 12.0)
OUT = ProblemLine("offering_cool_off", "m5 in za (Spot) is stocked out; next attempt in 40 s")


@pytest.mark.parametrize(
    ("needs", "covered", "short", "problems", "line"),
    [
        (0, 0, 0, [], "No cluster asks for capacity"),
        (1, 1, 0, [], "The one need is covered"),
        (5, 5, 0, [], "All 5 needs covered"),
        (5, 4, 0, [], "4 of 5 needs covered, 1 waits for machines"),
        (
            5,
            4,
            1,
            [AWAY, SHORT],
            "1 of 5 needs is short: web is short 8 GPUs: provider unreachable; provider unreachable for 12 s",
        ),
        (5, 5, 0, [OUT], "All 5 needs covered; m5 in za (Spot) is stocked out; next attempt in 40 s"),
        (5, 5, 0, [OUT, OUT], "All 5 needs covered; offerings are stocked out"),
        (3, 1, 2, [], "2 of 3 needs are short"),
    ],
)
def test_the_verdict_is_one_line(
    needs: int, covered: int, short: int, problems: list[ProblemLine], line: str
) -> None:
    assert verdict_line(needs=needs, covered=covered, short=short, problems=problems) == line


def test_a_problem_that_the_verdict_names_is_not_listed_again() -> None:
    assert status_lines(f"1 of 5 needs is short: {SHORT.text}", [AWAY, SHORT]) == [
        f"1 of 5 needs is short: {SHORT.text}",
        f"problem: {AWAY.text}",
    ]
