"""How a time is taken: CPU and wall time of some repetitions, each between two runs of a known piece of work.

Why: machines differ and are noisy; a time says little, a ratio to work done at the same moment in the same process a lot.
Must never: count preparation, checks or the collector's debts of either into the work.
Rules: `engine#bars`.
"""

import gc
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T")

REPETITIONS = 5
EVICTED_BYTES = 256 * 2**20
"""What is walked through before a cold call; more than the last-level cache of today's servers holds per core."""


@dataclass(frozen=True, slots=True)
class Timing:
    """CPU and wall time of some repetitions and of the unit around each, in milliseconds."""

    cpu_ms: list[float]
    wall_ms: list[float]
    unit_ms: list[float]

    @property
    def units(self) -> float:
        """The median of CPU time in units, each repetition by the unit as it ran then."""
        return statistics.median(map(float.__truediv__, self.cpu_ms, self.unit_ms))


def percentile(values: list[float], percent: int) -> float:
    """The smallest value that this many percent do not exceed; of fewer than a hundred, the 99th is the largest."""
    ordered = sorted(values)
    return ordered[max(0, -(-len(ordered) * percent // 100) - 1)]


@dataclass(frozen=True, slots=True)
class Clocks:
    """Where time comes from; tests bring their own."""

    cpu_s: Callable[[], float] = time.process_time
    wall_s: Callable[[], float] = time.perf_counter


def one_unit() -> None:
    """Half a million dict look-ups with an addition, and twenty thousand rounds of the calls hot paths are made of."""
    counts = dict.fromkeys(range(1000), 0)
    for step in range(500_000):
        counts[step % 1000] = counts.get(step % 1000, 0) + 1
    numbers = np.arange(427)
    flags = np.ones(427, dtype=np.bool_)
    for _ in range(20_000):
        kept = flags.take(numbers)
        kept &= flags
        kept.nonzero()


@dataclass(slots=True)
class BenchCase(Generic[T]):
    """One thing to measure: what is timed, what precedes it untimed, and what is said about its result afterwards."""

    work: Callable[[], T]
    prepare: Callable[[], object] | None = None
    check: Callable[[T], object] | None = None
    cold: bool = False


@dataclass(slots=True)
class BenchMeter:
    """Takes times."""

    repetitions: int = REPETITIONS
    clocks: Clocks = field(default_factory=Clocks)
    unit: Callable[[], object] = one_unit
    evicted_bytes: int = EVICTED_BYTES
    _buffer: NDArray[np.uint8] | None = None

    def measure(self, case: BenchCase[T]) -> Timing:
        """Run a case as often as the meter repeats."""
        timing = Timing([], [], [])
        for _ in range(self.repetitions):
            if case.prepare is not None:
                case.prepare()
            before = self._timed(self.unit)[1]
            gc.collect()
            if case.cold:
                self._evict()
            gc.disable()  # as a shard does for the length of a cycle; it collects between cycles
            try:
                result, cpu_ms, wall_ms = self._timed(case.work)
            finally:
                gc.enable()
            timing.cpu_ms.append(cpu_ms)
            timing.wall_ms.append(wall_ms)
            timing.unit_ms.append((before + self._timed(self.unit)[1]) / 2)
            if case.check is not None:
                case.check(result)
            del result
        return timing

    def _timed(self, work: Callable[[], T]) -> tuple[T, float, float]:
        cpu, wall = self.clocks.cpu_s(), self.clocks.wall_s()
        result = work()
        return result, (self.clocks.cpu_s() - cpu) * 1000, (self.clocks.wall_s() - wall) * 1000

    def _evict(self) -> None:
        """Leave nothing of the world in the caches."""
        if self._buffer is None:
            self._buffer = np.zeros(self.evicted_bytes, dtype=np.uint8)
        self._buffer += 1
