"""Fuzzing that follows coverage: its figures are read right, and planted faults are found in an instrumented process.

Rules: `testing#fuzzing`.
"""

from pathlib import Path

import pytest

from tests.fuzz.guided import Reached, available, figures_of, guided
from tests.fuzz.shrinking import smallest
from tests.fuzz.targets import BY_NAME, Target

pytestmark = pytest.mark.rule("testing#fuzzing")
needs_atheris = pytest.mark.skipif(
    not available(), reason="atheris is not installed; make fuzz installs it where it can be"
)
OUTPUT = """\
INFO: Seed: 1
#3\tINITED cov: 289 ft: 456 corp: 2/3272b exec/s: 0 rss: 111Mb
#64\tpulse  cov: 290 ft: 457 corp: 3/3300b lim: 4 exec/s: 0 rss: 111Mb
#85300\tREDUCE cov: 429 ft: 1852 corp: 227/723Kb lim: 65536 exec/s: 4061 rss: 113Mb L: 1914/39846 MS: 1 Custom-
stat::number_of_executed_units: 85312
stat::peak_rss_mb:              113
"""
PLANTED = """
from tests.fuzz.targets import Target

def deep(data):
    if data[:1] == b"a" and data[1:2] == b"b" and data[2:3] == b"c" and data[3:4] == b"d":
        raise ZeroDivisionError("planted")

def slow(data):
    while data[:1] == b"s":
        pass

class Seeded(Target):
    def seeds(self):
        return (b"x",)

BY_NAME = {name: Seeded(name, feed, (ValueError,)) for name, feed in {"deep": deep, "slow": slow}.items()}
"""


def test_figures_are_those_of_the_first_inputs_and_of_the_last_line() -> None:
    assert figures_of(OUTPUT.splitlines()) == (85312, Reached(289, 456, 2), Reached(429, 1852, 227))


def test_a_run_that_ended_before_its_first_input_has_no_figures() -> None:
    assert figures_of(["Traceback (most recent call last):"]) == (0, Reached(), Reached())


def test_a_finding_is_made_as_small_as_shows_it() -> None:
    def feed(data: bytes) -> None:
        if data.count(b"(") > data.count(b")") and b"x" in data:
            raise ZeroDivisionError

    target = Target("planted", feed, (ValueError,))
    assert sorted(smallest(target, b"((ab)) and ((x y) and more, much more")) == sorted(b"(x")


def test_an_input_that_shows_nothing_stays_as_it_is() -> None:
    assert smallest(BY_NAME["yaml"], b"a: 1") == b"a: 1"


@needs_atheris
@pytest.mark.integration
def test_a_run_keeps_inputs_that_reach_new_code_and_goes_on_from_them(tmp_path: Path) -> None:
    first, second = (guided("fake-script", 0.1, number, tmp_path) for number in (1, 2))
    assert (first.finding, second.finding) == ("", "")
    assert first.end.features > first.start.features
    assert second.start.features > first.start.features
    assert first.executions > 0


@needs_atheris
@pytest.mark.integration
@pytest.mark.parametrize(
    ("name", "words", "start"),
    [("deep", "ZeroDivisionError: planted", b"abcd"), ("slow", "TooSlow: more than 10 s", b"s")],
)
def test_a_planted_fault_is_found_step_by_step_and_the_input_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, words: str, start: bytes
) -> None:
    (tmp_path / "planted.py").write_text(PLANTED)
    seeds = tmp_path / "corpus" / name
    seeds.mkdir(parents=True)
    (seeds / "x").write_bytes(b"x")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    run = guided(name, 2.0, 1, tmp_path / "scratch", module="planted", corpus=tmp_path / "corpus")
    assert words in run.finding
    assert [path.read_bytes()[: len(start)] for path in run.inputs] == [start]
