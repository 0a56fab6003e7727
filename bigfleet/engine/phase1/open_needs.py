"""The needs that the pre-pass left open, as columns, and what each got since.

Why: after a burst there are tens of thousands, and most are served in batches, without an object of their own.
Must never: hold the fleet, since the verdicts of a decision that is long over still read from here.
Rules: `engine#phase-1-results`, `engine#acquisition-order`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bigfleet.engine.amounts import Vector
from bigfleet.engine.asks import Asks
from bigfleet.engine.fold import PlannedNeed
from bigfleet.engine.key_values import Flags, Numbers
from bigfleet.engine.list_order import ListOrder
from bigfleet.engine.phase1.cluster_run import ClusterRun, NeedOutcome
from bigfleet.model.need import Need

_NONE: Numbers = np.empty(0, dtype=np.intp)


@dataclass(slots=True)
class OpenNeed:
    """One of them, while something works on it alone."""

    place: int
    """In list order."""
    plan: PlannedNeed
    domain: str | None
    credited: Numbers
    """Rows it holds already."""
    missing: Vector

    @property
    def need(self) -> Need:
        """The need itself."""
        return self.plan.need


class OpenNeeds:
    """All of them, in list order; the number of one is its place among them."""

    def __init__(self, asks: Asks, listing: ListOrder, runs: Mapping[str, ClusterRun]) -> None:
        self._runs = list(runs.values())
        parts = [
            (number, run, visits) for number, run in enumerate(self._runs) if (visits := run.open_visits).size
        ]
        whose = [np.full(visits.size, number) for number, _, visits in parts]
        places = _joined([listing.places(number)[visits] for number, _, visits in parts])
        at = np.full(len(listing), -1, dtype=np.intp)
        at[places] = np.arange(places.size)
        order = at[at >= 0]
        self.asks = asks
        self.places: Numbers = places[order]
        self.run_of: Numbers = _joined(whose)[order]
        self.visits: Numbers = _joined([visits for _, _, visits in parts])[order]
        self.ask_of: Numbers = _joined([_asks_of(asks, run, visits) for _, run, visits in parts])[order]
        self.short: Flags = np.ones(self.places.size, dtype=np.bool_)
        """Which of them miss something still."""
        self._left: dict[int, Vector] = {}
        self._claims: list[tuple[Numbers, Numbers]] = []

    def __len__(self) -> int:
        return int(self.places.size)

    def visited(self, number: int) -> tuple[PlannedNeed, NeedOutcome, ClusterRun]:
        """The need, what the pre-pass did for it, and where."""
        run, visit = self._runs[int(self.run_of[number])], int(self.visits[number])
        return run.plans[visit], run.outcomes[visit], run

    def missing(self, number: int) -> Vector:
        """What it misses still."""
        plan, outcome, _ = self.visited(number)
        if not self.short[number]:
            return (0,) * len(plan.wanted)
        return self._left.get(number, outcome.missing)

    def one(self, number: int) -> OpenNeed:
        """One of them alone."""
        plan, outcome, run = self.visited(number)
        place = int(self.places[number])
        return OpenNeed(place, plan, outcome.domain, run.rows(outcome.credited), self.missing(number))

    # While it is served

    def got(self, number: int, rows: Sequence[int] | Numbers, missing: Vector) -> None:
        """Note what one of them acquired, and what it misses then."""
        claimed = np.asarray(rows, dtype=np.intp)
        if claimed.size:
            self._claims.append((np.full(claimed.size, number, dtype=np.intp), claimed))
        self._left[number] = missing
        self.short[number] = any(missing)

    def covered(self, numbers: Numbers, rows: Numbers) -> None:
        """Note that some are covered, given for each machine whose it is."""
        self._claims.append((numbers, rows))
        self.short[numbers] = False

    # Afterwards

    @cached_property
    def claims(self) -> tuple[Numbers, Numbers]:
        """Of every machine that was acquired: whose it is, ascending, and its row."""
        whose = _joined([numbers for numbers, _ in self._claims])
        rows = _joined([rows for _, rows in self._claims])
        order = np.argsort(whose, kind="stable")
        return whose[order], rows[order]

    def acquired(self, number: int) -> Numbers:
        """The rows that one of them acquired."""
        return self.claims[1][self._starts[number] : self._starts[number + 1]]

    @cached_property
    def _starts(self) -> list[int]:
        """Where the machines of each begin among all that were acquired."""
        starts: list[int] = np.searchsorted(self.claims[0], np.arange(len(self) + 1)).tolist()
        return starts

    def number_at(self, place: int) -> int | None:
        """Which of them is at a place of the list, None if that need is not open."""
        return self._number_at.get(place)

    @cached_property
    def _number_at(self) -> dict[int, int]:
        return {place: number for number, place in enumerate(self.places.tolist())}


def _asks_of(asks: Asks, run: ClusterRun, visits: Numbers) -> Numbers:
    if run.asks is None or run.asks[0] is not asks:
        run.asks = (asks, asks.numbers(run.planned, visits)[run.planned.sort_of[visits]])
    return run.asks[1]


def _joined(parts: Sequence[Numbers]) -> Numbers:
    return np.concatenate(parts) if parts else _NONE
