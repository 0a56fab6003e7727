"""A whole run on the smallest world: every figure there, the same answers for the same seed."""

import gc
from dataclasses import replace

import pytest

from bigfleet.bench.meter import BenchMeter
from bigfleet.bench.plans import BENCHMARKS, plan_named
from bigfleet.bench.report import BenchResult, read_report, write_report
from bigfleet.bench.run import run

TINY = plan_named("tiny")


def test_a_run_measures_everything_and_its_report_can_be_read_back(meter: BenchMeter) -> None:
    done: list[BenchResult] = []
    report = run(TINY, tuple(BENCHMARKS), 1, meter, done.append)
    assert [result.name for result in report.results] == list(BENCHMARKS)
    assert tuple(done) == report.results
    assert {(result.cpu_ms.median, result.wall_ms.median, result.units) for result in done} == {
        (1.0, 2.0, 1.0)
    }
    assert (report.profile, report.seed, report.unit_ms) == ("tiny", 1, 1.0)
    assert report.bytes_per_machine > 40
    assert read_report(write_report(report)) == report
    assert gc.get_freeze_count() == 0


def test_a_seed_gives_the_same_answers_however_often_they_are_measured(meter: BenchMeter) -> None:
    names = ("churn_local", "preemption")
    once = run(TINY, names, 1, meter)
    assert once.actions_sha256 == run(TINY, names, 1, replace(meter, repetitions=2)).actions_sha256
    assert once.actions_sha256 != run(TINY, names, 2, meter).actions_sha256
    assert once.actions_sha256 != run(TINY, names[:1], 1, meter).actions_sha256


@pytest.mark.parametrize("name", ["ingest_first", "index"])
def test_one_benchmark_alone_can_be_measured(meter: BenchMeter, name: str) -> None:
    assert [result.name for result in run(TINY, (name,), 1, meter).results] == [name]
