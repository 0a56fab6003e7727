"""A meter whose clocks tick by themselves, and a report that several tests look at."""

from itertools import count

import pytest

from bigfleet.bench.meter import BenchMeter, Clocks
from bigfleet.bench.report import BenchReport, BenchResult, TimeSpan


def ticking() -> Clocks:
    """Clocks that move on by a millisecond of CPU and two of wall time with every look at them."""
    cpu, wall = count(), count()
    return Clocks(lambda: next(cpu) / 1000, lambda: next(wall) / 500)


@pytest.fixture
def meter() -> BenchMeter:
    return BenchMeter(repetitions=1, clocks=ticking(), unit=lambda: None, evicted_bytes=1)


@pytest.fixture
def report() -> BenchReport:
    return BenchReport(
        profile="tiny",
        seed=1,
        python="3.11.7",
        numpy="2.4.6",
        unit_ms=80.5,
        results=(
            BenchResult("full_pass", TimeSpan(100.0, 120.5), TimeSpan(101.0, 130.0), 1.25, 5),
            BenchResult("zero_change", TimeSpan(0.05, 0.07), TimeSpan(0.05, 0.08), 0.0006, 5),
        ),
        bytes_per_machine=97.3,
        actions_sha256="ab" * 32,
    )
