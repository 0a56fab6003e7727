"""All needs in list order: whose each is, and when its cluster's run visits it.

Why: after a burst there are tens of thousands of needs, and a roll-up changes the part of one cluster. Needs that follow
each other in list order are one block, so what is sorted are a few blocks of each cluster.
Must never: assume how keys are made; where blocks of two clusters overlap, needs are sorted one by one.
Rules: `engine#needs-table`, `engine#fold-order`.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from operator import itemgetter

import numpy as np

from bigfleet.engine.fold import Block, PlannedNeed
from bigfleet.engine.key_values import Numbers
from bigfleet.model.demand import ListKey

_A_FEW = 32  # one in so many


class ListOrder:
    """The list order of some planned needs."""

    def __init__(self, plans: Mapping[str, Sequence[PlannedNeed]], blocks: Sequence[Block]) -> None:
        """`blocks` are sorted by their first keys."""
        self._plans = plans
        self.names = tuple(plans)
        number = {name: at for at, name in enumerate(self.names)}
        sizes = np.array([len(needs) for needs in plans.values()], dtype=np.intp)
        self._offsets = np.cumsum(sizes) - sizes
        if _overlap(blocks):
            blocks = _singles(plans, blocks)
        counts = np.array([block.size for block in blocks], dtype=np.intp)
        first = np.array([block.start for block in blocks], dtype=np.intp)
        whose = np.array([number[block.cluster] for block in blocks], dtype=np.intp)
        ends = np.cumsum(counts)
        self.run_of: Numbers = np.repeat(whose, counts)
        """By place: the number of the run, as `names` lists them."""
        self.visits: Numbers = np.arange(self.run_of.size) + np.repeat(first - ends + counts, counts)
        """By place: when it is visited."""
        self._place_of: Numbers = np.empty(self.run_of.size, dtype=np.intp)
        self._place_of[self._offsets[self.run_of] + self.visits] = np.arange(self.run_of.size)

    def __len__(self) -> int:
        return int(self.run_of.size)

    def at(self, place: int) -> tuple[str, int]:
        """Whose need is at a place, and when it is visited."""
        runs, visits = self._lists
        return self.names[runs[place]], visits[place]

    @cached_property
    def _lists(self) -> tuple[list[int], list[int]]:
        """Made when the first need is looked at alone: a list answers for one place in a third of the time."""
        return self.run_of.tolist(), self.visits.tolist()

    def places(self, run: int) -> Numbers:
        """The places of all needs of a run, in the order in which they are visited."""
        start = self._offsets[run]
        return self._place_of[start : start + len(self._plans[self.names[run]])]

    def plan(self, place: int) -> PlannedNeed:
        """The need at a place."""
        name, visit = self.at(place)
        return self._plans[name][visit]

    def plans(self) -> list[PlannedNeed]:
        """All needs in list order."""
        parts = [self._plans[name] for name in self.names]
        every = zip(self.run_of.tolist(), self.visits.tolist(), strict=True)
        return [parts[run][visit] for run, visit in every]

    def place_of_key(self, key: ListKey) -> int:
        """How many needs have a smaller key."""
        return bisect_left(range(len(self)), key, key=lambda place: self.plan(place).order)


def merged(kept: list[Block], came: list[Block]) -> list[Block]:
    """Two ordered lists as one.

    Sorting them as one compares all of them and blocks other threads meanwhile; for a few new entries that is a waste.
    """
    if len(came) * _A_FEW > len(kept):
        return sorted(kept + came)
    both: list[Block] = []
    behind = 0
    for entry in came:
        place = bisect_left(kept, entry, behind)
        both += kept[behind:place]
        both.append(entry)
        behind = place
    both += kept[behind:]
    return both


def _overlap(blocks: Sequence[Block]) -> bool:
    return any(one.last > other.first for one, other in pairwise(blocks))


def _singles(plans: Mapping[str, Sequence[PlannedNeed]], blocks: Sequence[Block]) -> list[Block]:
    """A block for each need, in list order."""
    singles = [
        Block(plan.order, plan.order, block.cluster, block.start + further, 1)
        for block in blocks
        for further, plan in enumerate(plans[block.cluster][block.start : block.start + block.size])
    ]
    singles.sort(key=itemgetter(0))
    return singles
