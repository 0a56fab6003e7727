"""The unit of work that times are divided by, and how a time is taken.

Why: machines are noisy and differ; a ratio inside one process says something, a time does not.
What the unit is: half a million dict look-ups with an addition, and twenty thousand rounds of the three NumPy calls
that the hot paths are made of.
"""

import gc
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class Timing:
    """CPU and wall time of some repetitions, in milliseconds."""

    cpu_ms: list[float]
    wall_ms: list[float]

    @property
    def median_cpu_ms(self) -> float:
        """The CPU time to compare with."""
        return statistics.median(self.cpu_ms)

    def as_json(self) -> dict[str, dict[str, float]]:
        """Median and 99th percentile of both."""
        return {
            name: {"median": round(statistics.median(times), 3), "p99": round(max(times), 3)}
            for name, times in (("cpu_ms", self.cpu_ms), ("wall_ms", self.wall_ms))
        }


def timed(
    work: Callable[[], object], repetitions: int = 5, prepare: Callable[[], object] | None = None
) -> Timing:
    """Run something several times; `prepare` runs before each and is not counted."""
    cpu, wall = [], []
    for _ in range(repetitions):
        if prepare is not None:
            prepare()
        gc.collect()
        cpu_start, wall_start = time.process_time(), time.perf_counter()
        work()
        cpu.append((time.process_time() - cpu_start) * 1000)
        wall.append((time.perf_counter() - wall_start) * 1000)
    return Timing(cpu, wall)


def one_unit() -> None:
    """The work of one unit."""
    counts = dict.fromkeys(range(1000), 0)
    for step in range(500_000):
        counts[step % 1000] = counts.get(step % 1000, 0) + 1
    numbers = np.arange(427)
    flags = np.ones(427, dtype=np.bool_)
    for _ in range(20_000):
        kept = flags.take(numbers)
        kept &= flags
        kept.nonzero()
