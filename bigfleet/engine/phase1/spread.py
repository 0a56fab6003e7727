"""Strict spread: machines are taken so that the values of one topology key fill up evenly.

Rules: `engine#spread-picker`: one walk over both states, counts begin at what the need already holds, exhausted values
count too.

Zones are few and each has many machines, so machines are put in order only as far as needs take them. Host names are as
many as machines: then one order of all heads is kept for all needs, and a need touches a few of them.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from heapq import heapify, heappop, heappush
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from bigfleet.engine.amounts import CapacitySizes, Vector, fill, less
from bigfleet.engine.fleet import Fleet
from bigfleet.engine.key_values import Numbers
from bigfleet.engine.phase1.broker import Broker
from bigfleet.engine.pools import Stream
from bigfleet.engine.radix import stable_order

FEW_VALUES = 64
"""Up to this many values, each has its own queue."""

_PIECE = 64
_PLENTY = 2**62
_First = tuple[bool, float]
"""State and effective cost of the next machine of a value."""

_Head = tuple[bool, float, int, int]
"""The next machine of a group: Idle before Speculative, then by effective cost, then by value; and the group."""


class Groups(Protocol):
    """The machines that needs of one sort may acquire, by their value of a label key."""

    def pick(
        self, number: int, credited: Numbers, missing: Vector, max_skew: int, sizes: CapacitySizes
    ) -> Vector:
        """Take one machine after the other from the value that is furthest behind, until the need is covered."""
        ...


class FewGroups:
    """The machines that needs of one sort may acquire, by a label key of few values."""

    def __init__(
        self,
        fleet: Fleet,
        broker: Broker,
        key: str,
        costs: NDArray[np.float64],
        streams: Callable[[str], tuple[Stream, Stream]],
    ) -> None:
        """`costs` are what each kind costs the needs.

        `streams` gives Idle and Speculative machines with a value of the key; no other need takes from those.
        """
        values = fleet.kinds.values(key)
        self._codes = values.codes
        self._fleet, self._broker = fleet, broker
        self._queues = {
            code: _Queue(fleet, broker, costs, streams(value)) for code, value in enumerate(values.values)
        }

    def pick(
        self, number: int, credited: Numbers, missing: Vector, max_skew: int, sizes: CapacitySizes
    ) -> Vector:
        """Take one machine after the other from the value that is furthest behind, until the need is covered."""
        queues = self._queues
        heads = {code: head for code, queue in queues.items() if (head := queue.head()) is not None}
        counts = dict.fromkeys(heads, 0)
        for code in self._codes[self._fleet.kind[credited]].tolist():
            if code >= 0:
                counts[code] = counts.get(code, 0) + 1
        still = _Missing(missing)
        chosen: list[int] = []
        walk = self._evenly if max_skew <= 1 else partial(self._within, max_skew - 1)
        for code in walk(heads, counts):
            row, size = queues[code].take()
            chosen.append(row)
            if still.covered_with(sizes.vectors[size]):
                break
        self._broker.propose(number, chosen)
        return still.vector()

    def _evenly(self, heads: dict[int, _First], counts: dict[int, int]) -> Iterator[int]:
        """The values to take from while none may be ahead of another: one machine each, then the next round.

        Every group that is behind takes part in the round, and in a round the order of heads does not change.
        """
        if not heads:
            return
        level = min(counts.values())
        while True:
            behind = [code for code, count in counts.items() if count == level]
            round_ = sorted(
                (head, code) for code in behind if (head := self._queues[code].head()) is not None
            )
            for _, code in round_:
                yield code
                counts[code] += 1
            if len(round_) < len(behind):
                return  # a value that has nothing left holds back all others
            level += 1

    def _within(self, above: int, heads: dict[int, _First], counts: dict[int, int]) -> Iterator[int]:
        """The values to take from while one may be so many machines ahead of the least."""
        while heads:
            most = min(counts.values()) + above
            allowed = [(head, code) for code, head in heads.items() if counts[code] <= most]
            if not allowed:
                return
            code = min(allowed)[1]
            yield code
            counts[code] += 1
            head = self._queues[code].head()
            if head is None:
                del heads[code]
            else:
                heads[code] = head


class _Missing:
    """What a need still misses while it takes machines one by one; arithmetic only where their size changes."""

    def __init__(self, missing: Vector) -> None:
        self._missing = missing
        self._size: Vector = ()
        self._taken = self._needed = 0

    def covered_with(self, size: Vector) -> bool:
        """Count a machine; return whether nothing is missing any more."""
        if size is not self._size:
            self._missing, self._size = self.vector(), size
            self._taken, self._needed = 0, fill(self._missing, size, _PLENTY)[0]
        self._taken += 1
        return self._taken >= self._needed

    def vector(self) -> Vector:
        """What is missing."""
        return less(self._missing, self._size, self._taken) if self._taken else self._missing


class _Queue:
    """The machines of one value, Idle before Speculative, read from their streams chunk by chunk."""

    def __init__(
        self, fleet: Fleet, broker: Broker, costs: NDArray[np.float64], streams: tuple[Stream, Stream]
    ) -> None:
        self._fleet, self._broker, self._streams = fleet, broker, list(streams)
        self._cost_of_kind = costs
        self._later = False
        self._rows: Sequence[int] = ()
        self._costs: Sequence[float] = ()
        self._sizes: Sequence[int] = ()
        self._next = 0
        self._waiting: Numbers = np.empty(0, dtype=np.intp)  # of the stream, not yet made into lists

    def head(self) -> _First | None:
        """State and effective cost of the next machine that is not taken."""
        taken = self._broker.taken
        while True:
            while self._next < len(self._rows):
                if not taken[self._rows[self._next]]:
                    return self._later, self._costs[self._next]
                self._next += 1
            if not self._refill():
                return None

    def take(self) -> tuple[int, int]:
        """Give away the machine at the head, with the number of its size."""
        at, self._next = self._next, self._next + 1
        return self._rows[at], self._sizes[at]

    def _refill(self) -> bool:
        while self._streams and not self._waiting.size:
            self._waiting = self._streams[0].chunk()
            if not self._waiting.size:
                del self._streams[0]
                self._later = True
        rows, self._waiting = self._waiting[:_PIECE], self._waiting[_PIECE:]
        kinds = self._fleet.kind[rows]
        self._rows, self._next = rows.tolist(), 0
        self._costs = self._cost_of_kind[kinds].tolist()
        self._sizes = self._fleet.kinds.size[kinds].tolist()
        return bool(self._rows)


class ManyGroups:
    """The machines that needs of one sort may acquire, by a label key of many values."""

    def __init__(
        self,
        fleet: Fleet,
        broker: Broker,
        key: str,
        costs: NDArray[np.float64],
        pools: tuple[Numbers, Numbers],
    ) -> None:
        """`costs` are what each kind costs the needs; `pools` are Idle and Speculative rows in pool order."""
        self._fleet, self._broker, self._costs = fleet, broker, costs
        values = fleet.kinds.values(key)
        self._codes = values.codes
        idle, _ = pools
        rows = np.concatenate(pools)
        codes = self._codes[fleet.kind[rows]]
        speculative_too = np.arange(rows.size) >= idle.size
        order = stable_order(codes + 1, len(values.values) + 1)
        order = order[codes[order] >= 0]
        self._rows, self._later, codes = rows[order], speculative_too[order], codes[order]
        self._starts = np.flatnonzero(np.diff(codes, prepend=-1))
        self._next: list[int] = self._starts.tolist()
        self._ends: list[int] = [*self._next[1:], codes.size]
        self._code_of: list[int] = codes[self._starts].tolist()
        self._group_of = {code: group for group, code in enumerate(self._code_of)}
        self._heap: list[_Head] = [self._head(group) for group in range(len(self._next))]
        heapify(self._heap)

    def _head(self, group: int) -> _Head:
        at = self._next[group]
        kind = self._fleet.kind[self._rows[at]]
        return bool(self._later[at]), float(self._costs[kind]), self._code_of[group], group

    def _move_on(self, group: int) -> bool:
        """Go to the next machine of a group that is not taken; return whether there is one."""
        at, end, taken = self._next[group], self._ends[group], self._broker.taken
        while at < end and taken[self._rows[at]]:
            at += 1
        self._next[group] = at
        return at < end

    def pick(
        self, number: int, credited: Numbers, missing: Vector, max_skew: int, sizes: CapacitySizes
    ) -> Vector:
        """Take one machine after the other from the value that is furthest behind, until the need is covered."""
        held = self._codes[self._fleet.kind[credited]].tolist()
        counts: dict[int, int] = {}
        for code in held:
            if code >= 0:
                counts[code] = counts.get(code, 0) + 1
        tally = _Tally(self._others_alive(counts), counts)
        above = max(1, max_skew) - 1
        size_of = self._fleet.kinds.size
        chosen: list[int] = []
        set_aside: list[_Head] = []
        heap = self._heap
        while any(missing) and heap:
            head = heappop(heap)
            group = head[-1]
            if self._broker.taken[self._rows[self._next[group]]]:  # since the heap was made
                if self._move_on(group):
                    heappush(heap, self._head(group))
                continue
            if counts.get(head[2], 0) > tally.least + above:
                set_aside.append(head)
                continue
            row = int(self._rows[self._next[group]])
            chosen.append(row)
            missing = less(missing, sizes.vectors[int(size_of[self._fleet.kind[row]])])
            self._next[group] += 1
            if self._move_on(group):
                heappush(heap, self._head(group))
            if tally.one_more(head[2]):
                for waiting in set_aside:
                    heappush(heap, waiting)
                set_aside = []
        for waiting in set_aside:
            heappush(heap, waiting)
        self._broker.propose(number, chosen)
        return missing

    def _others_alive(self, held: dict[int, int]) -> int:
        """How many values have a machine that is not taken, apart from those where the need holds one."""
        if not self._starts.size:
            return 0
        alive = np.logical_or.reduceat(~self._broker.taken[self._rows], self._starts)
        alive[[group for code in held if (group := self._group_of.get(code)) is not None]] = False
        return int(np.count_nonzero(alive))


class _Tally:
    """How many values hold how many machines of the need, and the least any of them holds."""

    def __init__(self, empty: int, counts: dict[int, int]) -> None:
        self._counts = counts
        self._values: dict[int, int] = {0: empty}
        for count in counts.values():
            self._values[count] = self._values.get(count, 0) + 1
        self.least = min((count for count, values in self._values.items() if values), default=0)

    def one_more(self, code: int) -> bool:
        """Count a machine; return whether the minimum has risen."""
        count = self._counts.get(code, 0)
        self._counts[code] = count + 1
        self._values[count] -= 1
        self._values[count + 1] = self._values.get(count + 1, 0) + 1
        if count > self.least or self._values[count]:
            return False
        self.least = count + 1
        return True
