"""Two reports side by side: marks, limits, and answers that must not differ."""

from dataclasses import replace

import pytest

from bigfleet.bench.compare import MEMORY, AnswerCheck, FigureChange, FigureRow, compare
from bigfleet.bench.report import BenchReport
from bigfleet.model.errors import InvalidFieldError


def slower(report: BenchReport, times: float) -> BenchReport:
    results = tuple(replace(result, units=result.units * times) for result in report.results)
    return replace(report, results=results)


def test_a_report_is_the_same_as_itself_everywhere(report: BenchReport) -> None:
    comparison = compare(report, report)
    assert {row.mark for row in comparison.rows} == {FigureChange.SAME}
    assert [row.name for row in comparison.rows] == ["full_pass", "zero_change", MEMORY]
    assert comparison.answers is AnswerCheck.SAME
    assert comparison.over(1.0) == []


@pytest.mark.parametrize(
    ("times", "mark"),
    [
        (1.3, FigureChange.WORSE),
        (1.19, FigureChange.SAME),
        (1 / 1.19, FigureChange.SAME),
        (1 / 1.3, FigureChange.BETTER),
    ],
)
def test_a_fifth_either_way_is_noise(report: BenchReport, times: float, mark: FigureChange) -> None:
    rows = compare(report, slower(report, times)).rows
    assert [row.mark for row in rows] == [mark, mark, FigureChange.SAME]


def test_only_figures_above_the_limit_are_over_it(report: BenchReport) -> None:
    after = replace(slower(report, 1.1), bytes_per_machine=200.0)
    assert [row.name for row in compare(report, after).over(1.2)] == [MEMORY]


def test_milliseconds_are_of_no_interest(report: BenchReport) -> None:
    results = tuple(
        replace(result, cpu_ms=replace(result.cpu_ms, median=result.cpu_ms.median * 9))
        for result in report.results
    )
    rows = compare(report, replace(report, results=results, unit_ms=report.unit_ms * 9)).rows
    assert {row.ratio for row in rows} == {1.0}


def test_what_only_one_of_them_measured_is_named(report: BenchReport) -> None:
    first, second = report.results
    one = replace(report, results=(first,))
    other = replace(report, results=(second,))
    comparison = compare(one, other)
    assert [(row.name, row.mark, row.ratio) for row in comparison.rows[:2]] == [
        ("full_pass", FigureChange.GONE, None),
        ("zero_change", FigureChange.NEW, None),
    ]
    assert comparison.answers is AnswerCheck.UNKNOWN
    assert not comparison.answers_differ


def test_other_decisions_are_told_apart_from_other_speeds(report: BenchReport) -> None:
    comparison = compare(report, replace(report, actions_sha256="cd" * 32))
    assert comparison.answers is AnswerCheck.DIFFERENT
    assert comparison.answers_differ


@pytest.mark.parametrize("field", ["profile", "seed"])
def test_reports_of_different_worlds_are_refused(report: BenchReport, field: str) -> None:
    values = {"profile": "50k", "seed": 2}
    with pytest.raises(InvalidFieldError, match=f"^{field}: found .* as in the first report"):
        compare(report, replace(report, **{field: values[field]}))  # type: ignore[arg-type]  # one of two fields


def test_from_nothing_to_something_is_infinitely_worse() -> None:
    assert FigureRow("x", 0.0, 1.0).mark is FigureChange.WORSE
    assert FigureRow("x", 0.0, 0.0).mark is FigureChange.SAME
