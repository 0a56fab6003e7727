"""The histogram bucket sets, by the letters that the rules use.

Why: dashboards and objectives read quantiles off these bounds, so they are contract to the last digit.
Rules: `shard#metrics`, `operator#operator-metrics`.
"""

from enum import Enum


def _doubling(first_ms: int, count: int) -> tuple[float, ...]:
    # From whole milliseconds, so that a bound is the float nearest to its text (0.256, not 0.25600000000000001).
    return tuple(first_ms * 2**i / 1000 for i in range(count))


class Buckets(Enum):
    """A named set of upper bounds; `+Inf` is added by the client library."""

    A = _doubling(1, 14)
    B = _doubling(10, 16)
    C = _doubling(10, 20)
    D = _doubling(1, 16)
    E = _doubling(1, 17)
    # Finer around the objective of one second for a whole roll-up.
    ROLLUP = (*_doubling(1, 9), 0.35, 0.5, 0.65, 0.8, 1.0, 1.25, 2.0, 4.0, 8.0, 16.0, 32.0)
    # Commands per Raft batch, which holds at most 256.
    BATCH = tuple(float(2**i) for i in range(9))

    @property
    def bounds(self) -> tuple[float, ...]:
        return self.value
