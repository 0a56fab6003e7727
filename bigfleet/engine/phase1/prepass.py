"""The pre-pass: every cluster's run, and whose turn it is where runs meet.

Why: it is the only place where existing supply is attributed; Phase 3 reclaims exactly what it leaves unclaimed.
Must never: let a gang look at shared supply before every gang that is visited earlier has.
Rules: `engine#prepass-order`, `engine#acquisition-order`, `engine#commit-broker`: runs may go side by side, and the
answer does not depend on how many do.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from heapq import heapify, heappop, heapreplace

from bigfleet.engine.phase1.cluster_run import ClusterRun
from bigfleet.engine.phase1.gang_supply import GangSupply

Turns = Iterator[tuple[object, ...]]
Workers = Callable[[Sequence[Callable[[], None]]], None]
"""Carries out jobs that know nothing of each other, in any order or side by side, and returns when all are done."""


def one_after_the_other(jobs: Sequence[Callable[[], None]]) -> None:
    """The worker that everybody has."""
    for job in jobs:
        job()


class _Run:
    """A run and how far it has come."""

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self.turn: tuple[object, ...] | None = None

    def advance(self) -> None:
        self.turn = next(self._turns, None)


def run_prepass(
    replanned: Iterable[ClusterRun], again: Iterable[ClusterRun], supply: GangSupply, workers: Workers
) -> None:
    """Finish new runs, and check finished ones again that shared supply may have changed."""
    runs = [
        *(_Run(run.steps(supply)) for run in replanned),
        *(_Run(run.steps_again(supply)) for run in again),
    ]
    # Up to the first gang that has to wait; until then runs are independent.
    workers([run.advance for run in runs])
    waiting = [(run.turn, number, run) for number, run in enumerate(runs) if run.turn is not None]
    heapify(waiting)
    while waiting:
        _, number, run = waiting[0]
        run.advance()
        if run.turn is None:
            heappop(waiting)
        else:
            heapreplace(waiting, (run.turn, number, run))
