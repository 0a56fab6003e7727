"""One run: build the worlds, measure what was asked for, put the figures together.

Why: benchmarks share worlds that are dear to build, and a report is worth something only if all of it comes from one process.
Must never: measure while the collector still has the building of a world to pay for.
Rules: `engine#bench-unit`, `engine#bars`.
"""

import gc
import hashlib
import platform
import statistics
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from bigfleet.aio.rng import SeededRng
from bigfleet.bench.cases import CASES
from bigfleet.bench.ingest import Listings, ingest_cases
from bigfleet.bench.measured_world import MeasuredWorld
from bigfleet.bench.memory import resident_bytes
from bigfleet.bench.meter import BenchCase, BenchMeter, T
from bigfleet.bench.plans import BenchPlan
from bigfleet.bench.report import BenchReport, BenchResult, result_of, rounded
from bigfleet.document.canonical import one_line
from bigfleet.document.decisions import decision_document
from bigfleet.model.decision import Decision
from bigfleet.model.situation import Situation
from bigfleet.workload.fleet import fleet_size, generate_fleet
from bigfleet.workload.worlds import START, settled_world

ResultDone = Callable[[BenchResult], object]


def run(
    plan: BenchPlan, names: Sequence[str], seed: int, meter: BenchMeter, done: ResultDone | None = None
) -> BenchReport:
    """Run the benchmarks of these names on the plan's world; `done` is called with each result."""
    return _Run(plan, seed, meter, done).report(names)


class _Run:
    def __init__(self, plan: BenchPlan, seed: int, meter: BenchMeter, done: ResultDone | None) -> None:
        self._plan, self._seed, self._meter, self._done = plan, seed, meter, done
        self._source = SeededRng(seed)
        self._results: list[BenchResult] = []
        self._units_ms: list[float] = []
        self._actions = hashlib.sha256()

    def report(self, names: Sequence[str]) -> BenchReport:
        settled = MeasuredWorld(settled_world(self._plan.profile, self._source))
        machines = len(settled.world.inventory)
        exact = settled.world.inventory.size().bytes_per_machine
        remembered = _memory_of(settled) / machines
        for name in names:
            if name in CASES:
                with _loaded():
                    case = CASES[name](self._plan, self._source, settled, self._note(name))
                    gc.freeze()
                    self._measure(name, case)
                    settled.restore()
                    del case  # and its world, before the next one is built
        del settled
        self._read(names)
        return BenchReport(
            profile=self._plan.name,
            seed=self._seed,
            python=platform.python_version(),
            numpy=np.__version__,
            unit_ms=rounded(statistics.median(self._units_ms)),
            results=tuple(self._results),
            bytes_per_machine=round(exact + remembered, 1),
            actions_sha256=self._actions.hexdigest(),
        )

    def _read(self, names: Sequence[str]) -> None:
        if not any(name.startswith("ingest_") for name in names):
            return
        with _loaded():
            profile = self._plan.profile
            listings = Listings(generate_fleet(profile, self._source), fleet_size(profile))
            for name, case in ingest_cases(listings):
                if name in names:
                    gc.freeze()
                    self._measure(name, case)

    def _measure(self, name: str, case: BenchCase[T]) -> None:
        timing = self._meter.measure(case)
        self._units_ms += timing.unit_ms
        self._results.append(result_of(name, timing))
        if self._done is not None:
            self._done(self._results[-1])

    def _note(self, name: str) -> Callable[[Decision], None]:
        """Adds what a benchmark decided first to the fingerprint of all answers."""

        def note(decision: Decision) -> None:
            document = decision_document(Situation(START), Decision(decision.actions, (), ()))
            self._actions.update(one_line({"name": name, "actions": document["actions"]}))

        return note


def _memory_of(measured: MeasuredWorld) -> int:
    """What a planner keeps of its first cycle, in bytes."""
    measured.full_pass()  # grown and used before the first reading, so that what is counted is memory kept
    before = resident_bytes()
    measured.cycle()
    return max(0, resident_bytes() - before)


@contextmanager
def _loaded() -> Iterator[None]:
    """Whatever is frozen inside is given back to the collector at the end."""
    gc.collect()
    try:
        yield
    finally:
        gc.unfreeze()
