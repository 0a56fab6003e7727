"""Machines of one state by kind, and streams: machines in the order in which a need takes them.

Why: needs of one sort take from the same machines in the same order, and most take a few. A stream makes that order
only as far as it is read, and never goes back: claims only grow while a cycle runs.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bigfleet.engine.radix import stable_order

Numbers = NDArray[np.intp]
Ranks = NDArray[np.int32]
_CHUNK = 64


@dataclass(frozen=True, slots=True)
class MovedMachines:
    """Machines that came into a state or left it: their ranks, and their kinds while they were in it."""

    ranks: Ranks
    kinds: NDArray[np.int32]


class StatePool:
    """The machines of one state; a machine is known by its rank, its place in the order of ids."""

    def __init__(self, id_order: NDArray[np.integer], by_kind: Ranks, counts: Numbers) -> None:
        """`by_kind` are the ranks of all machines, kind after kind and by id in each; `counts` how many of each kind."""
        self.id_order, self.counts = id_order, counts
        self._ends = np.cumsum(counts)
        self._by_kind = by_kind

    @classmethod
    def of(
        cls, id_order: NDArray[np.integer], ranks: Ranks, kind: NDArray[np.int32], kinds: int
    ) -> "StatePool":
        """The pool of some machines, given by their ranks in ascending order."""
        of_rank = kind[id_order[ranks]]
        return cls(id_order, ranks[stable_order(of_rank, kinds)], np.bincount(of_rank, minlength=kinds))

    def grown(self, kinds: int) -> "StatePool":
        """The same machines, of more kinds than there were."""
        return StatePool(self.id_order, self._by_kind, np.pad(self.counts, (0, kinds - self.counts.size)))

    def changed(self, gone: MovedMachines, come: MovedMachines) -> "StatePool":
        """A pool without some of its machines and with others, while the order of ids is the same."""
        counts = self.counts.copy()
        np.subtract.at(counts, gone.kinds, 1)
        leaves = np.zeros(self.id_order.size, dtype=np.bool_)
        leaves[gone.ranks] = True
        stayed = self._by_kind[~leaves[self._by_kind]]
        ends = np.cumsum(counts)
        order = np.lexsort((come.ranks, come.kinds))
        ranks, of_rank = come.ranks[order], come.kinds[order]
        firsts = (ends[of_rank] - counts[of_rank]).tolist()
        places = [
            first + int(np.searchsorted(stayed[first:end], rank))
            for first, end, rank in zip(firsts, ends[of_rank].tolist(), ranks, strict=True)
        ]
        np.add.at(counts, come.kinds, 1)
        return StatePool(self.id_order, np.insert(stayed, places, ranks), counts)

    def of_kinds(self, kinds: Numbers) -> Ranks:
        """The ranks of all machines of some kinds, kind after kind."""
        ends, counts, ranks = self._ends, self.counts, self._by_kind
        if kinds.size == 1:
            kind = int(kinds[0])
            return ranks[ends[kind] - counts[kind] : ends[kind]]
        parts = zip((ends[kinds] - counts[kinds]).tolist(), ends[kinds].tolist(), strict=True)
        return np.concatenate([ranks[start:end] for start, end in parts])


class Stream:
    """Machines of some kinds by tier, then by a second key if there is one, then by id."""

    def __init__(
        self,
        pool: StatePool,
        kinds: Numbers,
        tiers: Numbers,
        second: Callable[[NDArray[np.integer]], NDArray[np.float64]] | None = None,
    ) -> None:
        """`kinds` are in the order of their `tiers`; `second` returns a key of rows."""
        there = pool.counts[kinds] > 0
        self._pool, self._second = pool, second
        self._kinds, self._tiers = kinds[there], tiers[there]
        self._ends = np.cumsum(pool.counts[self._kinds])
        self._tier_ends = np.searchsorted(self._tiers, self._tiers, side="right")
        self._next = 0
        self._ahead: Numbers = np.empty(0, dtype=np.intp)
        self._at = 0

    def ahead(self, taken: NDArray[np.bool_], count: int) -> Numbers:
        """The next rows that are not taken; at least `count` of them if there are so many."""
        span = max(_CHUNK, 2 * count)
        while True:
            window = self._ahead[self._at : self._at + span]
            free = ~taken[window]
            if free.size and np.count_nonzero(free) >= count:
                self._at += int(free.argmax())  # what is taken at the head is taken for good
                return window[free]
            if self._at + span < self._ahead.size:
                span *= 4
            elif self._next < self._kinds.size:
                more = self._more(span)
                self._ahead, self._at = np.concatenate([window[free], more]), 0
            else:
                self._ahead, self._at = window[free], 0
                return self._ahead

    def chunk(self) -> Numbers:
        """The next rows, taken or not, and none at the end; for callers that remember what they got."""
        if self._next >= self._kinds.size:
            return np.empty(0, dtype=np.intp)
        return self._more(_CHUNK)

    def everything(self, taken: NDArray[np.bool_]) -> Numbers:
        """All rows that are not taken."""
        return self.ahead(taken, int(self._ends[-1]) if self._ends.size else 0)

    def _more(self, count: int) -> Numbers:
        """The next rows, whole tiers at a time."""
        start = self._next
        done = int(self._ends[start - 1]) if start else 0
        last = min(int(np.searchsorted(self._ends, done + count)), self._kinds.size - 1)
        end = self._next = int(self._tier_ends[last])
        kinds = self._kinds[start:end]
        ranks = self._pool.of_kinds(kinds)
        if end - start > 1 or self._second is not None:
            ranks = self._ordered(ranks, kinds, self._tiers[start:end])
        rows: Numbers = self._pool.id_order[ranks].astype(np.intp, copy=False)
        return rows

    def _ordered(self, ranks: Ranks, kinds: Numbers, tiers: Numbers) -> Ranks:
        second = None if self._second is None else self._second(self._pool.id_order[ranks])
        if second is not None and not (second != second[0]).any():
            second = None
        if tiers[0] == tiers[-1] and second is None:
            return np.sort(ranks)
        of_rank = np.repeat(tiers, self._pool.counts[kinds])
        keys = (ranks, of_rank) if second is None else (ranks, second, of_rank)
        return ranks[np.lexsort(keys)]
