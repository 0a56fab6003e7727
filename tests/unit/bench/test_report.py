"""The public form of the figures: exact in what it writes, strict in what it reads."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from bigfleet.bench.meter import Timing
from bigfleet.bench.report import BenchReport, TimeSpan, read_report, result_of, write_report
from bigfleet.document.errors import DocumentError
from bigfleet.model.errors import InvalidFieldError

Edit = Callable[[dict[str, Any]], object]


def test_a_report_survives_being_written_and_read(report: BenchReport) -> None:
    assert read_report(write_report(report)) == report


def test_the_form_has_the_published_fields_in_their_order_and_no_other(report: BenchReport) -> None:
    document = json.loads(write_report(report))
    assert list(document) == [
        "version",
        "profile",
        "seed",
        "python",
        "numpy",
        "unit_ms",
        "results",
        "memory",
        "actions_sha256",
    ]
    assert list(document["results"][0]) == ["name", "cpu_ms", "wall_ms", "units", "repetitions"]
    assert (
        list(document["results"][0]["cpu_ms"]) == list(document["results"][0]["wall_ms"]) == ["median", "p99"]
    )
    assert document["memory"] == {"bytes_per_machine": 97.3}
    assert document["version"] == 1


def test_figures_are_medians_and_the_99th_percentile_with_five_digits() -> None:
    result = result_of("x", Timing([1.0, 123.456789, 2.0], [3.0, 1.0, 2.0], [4.0, 4.0, 4.0]))
    assert result.cpu_ms == TimeSpan(2.0, 123.46)
    assert result.wall_ms == TimeSpan(2.0, 3.0)
    assert (result.units, result.repetitions) == (0.5, 3)


@pytest.mark.parametrize(
    ("edit", "refusal"),
    [
        pytest.param(lambda d: d.pop("seed"), r"seed: found nothing, allowed is an integer", id="missing"),
        pytest.param(lambda d: d.update(extra=1), r"extra: found an unknown field", id="unknown"),
        pytest.param(
            lambda d: d.update({"x-note": 1}), r"x-note: found an unknown field", id="x- is no way in"
        ),
        pytest.param(
            lambda d: d.update(version=2),
            r"version: found 2, allowed is an integer from 1 to 1",
            id="version",
        ),
        pytest.param(lambda d: d.update(unit_ms=0), r"unit_ms: found 0, allowed is .* above 0", id="no unit"),
        pytest.param(
            lambda d: d.update(results={}), r"results: found an object, allowed is a list", id="no list"
        ),
        pytest.param(
            lambda d: d["results"][1].update(units="fast"), r"results\[1\]\.units: found \"fast\"", id="type"
        ),
        pytest.param(
            lambda d: d["results"][0].update(units=-1),
            r"results\[0\]\.units: found -1, allowed is",
            id="negative",
        ),
        pytest.param(
            lambda d: d["results"][0]["cpu_ms"].pop("p99"),
            r"results\[0\]\.cpu_ms\.p99: found nothing",
            id="deep",
        ),
        pytest.param(
            lambda d: d["results"][0]["cpu_ms"].update(mean=1),
            r"results\[0\]\.cpu_ms\.mean: found an unknown field",
            id="deep unknown",
        ),
        pytest.param(
            lambda d: d["results"][0].update({"x-a": 1}),
            r"results\[0\]\.x-a: found an unknown field",
            id="x- in a result",
        ),
        pytest.param(
            lambda d: d["memory"].update({"x-a": 1}),
            r"memory\.x-a: found an unknown field",
            id="x- in the memory",
        ),
        pytest.param(
            lambda d: d["results"][0].update(repetitions=0), r"results\[0\]\.repetitions: found 0", id="none"
        ),
        pytest.param(
            lambda d: d["results"][1].update(name="full_pass"),
            r"results\[1\]\.name: found \"full_pass\", allowed is each name once",
            id="twice",
        ),
        pytest.param(
            lambda d: d["memory"].update(bytes_per_machine=None),
            r"memory\.bytes_per_machine: found null",
            id="null",
        ),
        pytest.param(
            lambda d: d.update(actions_sha256="xyz"), r"actions_sha256: found \"xyz\"", id="no digest"
        ),
    ],
)
def test_what_is_wrong_is_refused_with_its_path(report: BenchReport, edit: Edit, refusal: str) -> None:
    document = json.loads(write_report(report))
    edit(document)
    with pytest.raises(DocumentError, match=f"^{refusal}"):
        read_report(json.dumps(document).encode())


@pytest.mark.parametrize("data", [b"", b"[]", b"{", b"\xff", b"1"])
def test_what_is_no_report_at_all_is_refused(data: bytes) -> None:
    with pytest.raises(DocumentError, match=r"^document: found"):
        read_report(data)


def test_a_figure_is_asked_for_by_name(report: BenchReport) -> None:
    assert report.units("zero_change") == 0.0006
    with pytest.raises(InvalidFieldError, match="allowed is one of full_pass, zero_change"):
        report.units("half_pass")
