"""`bigfleet bench`: figures for people and programs, comparisons that can fail, refusals that name the flaw."""

import json
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path

import pytest
import yaml

from bigfleet.app.bigfleet import PROGRAM
from bigfleet.bench.report import BenchReport, BenchResult, TimeSpan, read_report, write_report
from bigfleet.cli.framework.console import Console
from bigfleet.cli.framework.dispatch import dispatch

SPAN = TimeSpan(10.0, 12.0)
BEFORE = BenchReport(
    profile="tiny",
    seed=1,
    python="3.11.7",
    numpy="2.4.6",
    unit_ms=80.0,
    results=(BenchResult("full_pass", SPAN, SPAN, 2.0, 5), BenchResult("index", SPAN, SPAN, 0.5, 5)),
    bytes_per_machine=100.0,
    actions_sha256="0" * 64,
)


def bench(*argv: object) -> tuple[int, str, str]:
    out, err = StringIO(), StringIO()
    console = Console(PROGRAM, out, err, {}, lambda: datetime(2026, 1, 1, tzinfo=UTC))
    return dispatch(console, ["bench", *map(str, argv)]), out.getvalue(), err.getvalue()


def saved(path: Path, **changes: object) -> Path:
    document = json.loads(write_report(BEFORE)) | changes
    path.write_text(json.dumps(document))
    return path


def results(full_pass: float, index: float) -> list[dict[str, object]]:
    made = []
    for result, units in zip(BEFORE.results, (full_pass, index), strict=True):
        made.append(result.document() | {"units": units})
    return made


@pytest.fixture
def before(tmp_path: Path) -> Path:
    return saved(tmp_path / "before.json")


def test_the_engine_is_measured_and_the_figures_are_kept(tmp_path: Path) -> None:
    out = tmp_path / "figures.json"
    code, stdout, stderr = bench(
        *("engine", "--profile", "tiny", "--seed", 3, "--only", "index,churn_local"),
        *("--repetitions", 1, "-o", "json", "--out", out),
    )
    assert (code, stderr) == (0, "")
    report = read_report(stdout.encode())
    assert out.read_text() == stdout
    assert (report.profile, report.seed) == ("tiny", 3)
    assert [(result.name, result.repetitions) for result in report.results] == [
        ("index", 1),
        ("churn_local", 1),
    ]
    assert bench("compare", out, out, "--fail-over", 1)[0] == 0


def test_people_get_a_table() -> None:
    code, stdout, _ = bench("engine", "--profile", "tiny", "--only", "index", "--repetitions", 1)
    assert code == 0
    lines = stdout.splitlines()
    assert lines[0].startswith("profile tiny, seed 1, Python ")
    assert lines[2].split() == ["BENCHMARK", "UNITS", "CPU_MS", "CPU_P99_MS"]
    assert lines[3].startswith("index")
    assert "bytes per machine" in lines[-1]


@pytest.mark.parametrize(
    ("argv", "told"),
    [
        (["engine", "--profile", "6k"], "profile: found '6k', allowed is one of 5k,"),
        (["engine", "--only", "half_pass"], "only: found 'half_pass', allowed is one of index,"),
        (["engine", "--repetitions", "0"], "--repetitions: found '0', allowed is a whole number at least 1"),
        (["engine", "--seed", "one"], "--seed: found 'one'"),
        (["compare", "one.json"], "AFTER: missing"),
        (["race"], "unknown command 'race'"),
    ],
)
def test_what_cannot_be_measured_is_refused_before_anything_is_built(argv: list[str], told: str) -> None:
    code, stdout, stderr = bench(*argv)
    assert (code, stdout) == (2, "")
    assert told in stderr


def test_a_place_that_cannot_be_written_is_told_before_measuring(tmp_path: Path) -> None:
    code, stdout, stderr = bench(
        "engine", "--profile", "tiny", "--out", tmp_path / "nowhere" / "figures.json"
    )
    assert (code, stdout) == (1, "")
    assert "nowhere/figures.json: No such file or directory" in stderr


def test_a_comparison_shows_every_figure_with_its_ratio_and_mark(before: Path, tmp_path: Path) -> None:
    after = saved(tmp_path / "after.json", results=results(3.0, 0.25))
    code, stdout, stderr = bench("compare", before, after)
    assert (code, stderr) == (0, "")
    assert [line.split() for line in stdout.splitlines()[:4]] == [
        ["FIGURE", "BEFORE", "AFTER", "RATIO", "MARK"],
        ["full_pass", "2", "3", "1.500", "worse"],
        ["index", "0.5", "0.25", "0.500", "better"],
        ["bytes_per_machine", "100", "100", "1.000", "same"],
    ]
    assert stdout.endswith("answers: same\n")


@pytest.mark.parametrize(("limit", "code"), [("1.6", 0), ("1.4", 1)])
def test_a_limit_decides_over_the_exit_code(before: Path, tmp_path: Path, limit: str, code: int) -> None:
    after = saved(tmp_path / "after.json", results=results(3.0, 0.5))
    ended, _, stderr = bench("compare", "--fail-over", limit, before, after)
    assert ended == code
    assert ("full_pass: 1.5 times the earlier figure, allowed is 1.4" in stderr) is bool(code)


def test_other_answers_fail_whatever_the_speed(before: Path, tmp_path: Path) -> None:
    after = saved(tmp_path / "after.json", actions_sha256="1" * 64)
    assert bench("compare", before, after)[0] == 0
    code, stdout, stderr = bench("compare", "--fail-over", 2, before, after)
    assert code == 1
    assert "answers: different" in stdout
    assert "the decisions differ" in stderr


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_a_comparison_can_be_read_by_programs(before: Path, form: str) -> None:
    code, stdout, _ = bench("compare", before, before, "-o", form)
    assert code == 0
    document = yaml.safe_load(stdout) if form == "yaml" else json.loads(stdout)
    assert document["answers"] == "same"
    assert document["results"][0] == {
        "name": "full_pass",
        "before": 2,
        "after": 2,
        "ratio": 1,
        "mark": "same",
    }


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("{}", "version: found nothing"),
        ("nonsense", "document: found broken JSON at line 1"),
        ('{"version": 1, "speed": 9}', "speed: found an unknown field"),
    ],
)
def test_a_bad_file_is_refused_by_name_and_field(
    before: Path, tmp_path: Path, content: str, told: str
) -> None:
    bad = tmp_path / "bad.json"
    bad.write_text(content)
    for pair in ((bad, before), (before, bad)):
        code, stdout, stderr = bench("compare", *pair)
        assert (code, stdout) == (2, "")
        assert f"{bad}: {told}" in stderr


def test_figures_of_different_worlds_are_not_compared(before: Path, tmp_path: Path) -> None:
    other = saved(tmp_path / "other.json", profile="50k")
    code, stdout, stderr = bench("compare", before, other)
    assert (code, stdout) == (2, "")
    assert "profile: found '50k', allowed is 'tiny', as in the first report" in stderr
