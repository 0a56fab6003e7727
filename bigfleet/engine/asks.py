"""What open needs ask for, each sort once: what it takes to serve a sort is looked up or computed once for all its needs.

Why: fifty thousand needs that nothing covers are a few dozen sorts as a rule. And fifty thousand sorts, as a hostile tenant
sends them, have a handful of answers, so that what follows from an answer is shared by all sorts that have it.
Must never: tell two needs apart by cluster, group or arrival; they come into the order of needs alone.
Rules: `engine#acquisition-order`, `engine#ordinary-picker`, `engine#spread-picker`, `engine#obtainable`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bigfleet.engine.fold import Plans
from bigfleet.engine.key_values import Flags, Numbers
from bigfleet.engine.kinds import Kinds
from bigfleet.model.buckets import PenaltyBucket
from bigfleet.model.need import Need
from bigfleet.model.profile import Profile, Spread, WhenUnsatisfiable
from bigfleet.model.resources import Resources

_SPARE = 64  # sorts that nothing asks for any more; a hostile tenant's may be 64 KiB of text each
_Precedence = tuple[int, int, int]

GANG, SPREAD = -1, -2
"""In place of a queue: such a need is served by a picker of its own."""


@dataclass(frozen=True, slots=True)
class QueueKind:
    """Machines that some sorts of needs take from in one order."""

    flags: Flags
    """The kinds of machines."""
    bucket: PenaltyBucket
    """By which they are put in order."""
    spread_key: str | None
    """The key by whose values equal costs are put in order; None for needs without a strict spread."""


class Asks:
    """The sorts of needs that were open since the table was made, by number."""

    def __init__(self, kinds: Kinds) -> None:
        self.kinds = kinds
        self.queue_kinds: list[QueueKind] = []
        self.needs: list[Need] = []
        """One need of each sort."""
        self.flags: list[Flags] = []
        """The kinds that a sort may acquire or preempt."""
        self._number: dict[tuple[str, Resources, Resources, int], int] = {}
        self._queue_number: dict[tuple[int, PenaltyBucket, str | None], int] = {}
        self._precedence_number: dict[_Precedence, int] = {}
        self._queue: list[int] = []
        self._single: list[bool] = []
        self._precedence: list[int] = []
        self._columns: tuple[Numbers, Flags, Numbers] | None = None

    def __len__(self) -> int:
        return len(self.needs)

    def serves(self, kinds: Kinds, needs: int) -> bool:
        """Whether the table is about these kinds, and not mostly about sorts that nothing asks for any more."""
        return self.kinds is kinds and len(self.needs) <= 2 * needs + _SPARE

    def numbers(self, planned: Plans, visits: Numbers) -> Numbers:
        """The numbers of the sorts that some of a cluster's needs are of, by the number the cluster has for the sort."""
        numbers = np.full(len(planned.sorts), -1, dtype=np.intp)
        for sort in _distinct(planned.sort_of[visits], len(planned.sorts)):
            numbers[sort] = self._of(planned.sorts[sort])
        return numbers

    def _of(self, need: Need) -> int:
        name = (need.profile.fingerprint, need.total, need.unit, need.max_units)
        number = self._number.get(name)
        if number is None:
            number = self._number[name] = len(self.needs)
            self._add(need)
        return number

    def _add(self, need: Need) -> None:
        profile = need.profile
        flags = self.kinds.acquirable(profile, need.unit)
        single = need.unit.covers(need.total)
        self.needs.append(need)
        self.flags.append(flags)
        self._single.append(single)
        self._precedence.append(
            self._precedence_number.setdefault(profile.precedence, len(self._precedence_number))
        )
        self._queue.append(self._queue_of(profile, flags, single=single))
        self._columns = None

    def _queue_of(self, profile: Profile, flags: Flags, *, single: bool) -> int:
        if profile.same_key is not None:
            return GANG
        spread = strict_spread(profile)
        if spread is not None and not single:
            return SPREAD
        spread_key = None if spread is None else spread.topology_key
        name = (id(flags), profile.interruption_bucket, spread_key)
        queue = self._queue_number.setdefault(name, len(self.queue_kinds))
        if queue == len(self.queue_kinds):
            # The flags are held here, so that no others are made at their address.
            self.queue_kinds.append(QueueKind(flags, profile.interruption_bucket, spread_key))
        return queue

    def _arrays(self) -> tuple[Numbers, Flags, Numbers]:
        if self._columns is None:
            self._columns = (
                np.array(self._queue, dtype=np.intp),
                np.array(self._single, dtype=np.bool_),
                np.array(self._precedence, dtype=np.intp),
            )
        return self._columns

    @property
    def queue(self) -> Numbers:
        """By sort: the number of its queue, or `GANG` or `SPREAD`."""
        return self._arrays()[0]

    @property
    def single(self) -> Flags:
        """By sort: whether each machine that may serve it covers it alone."""
        return self._arrays()[1]

    @property
    def precedence(self) -> Numbers:
        """By sort: the place of its precedence, 0 for the highest."""
        return self._ranked(sorted(self._precedence_number, reverse=True))

    @property
    def priority(self) -> Numbers:
        """By sort: its priority."""
        priorities = np.array([each[0] for each in self._precedence_number], dtype=np.int64)
        return priorities[self._arrays()[2]]

    def _ranked(self, ordered: Sequence[_Precedence]) -> Numbers:
        rank = np.empty(len(ordered), dtype=np.intp)
        rank[[self._precedence_number[each] for each in ordered]] = np.arange(len(ordered))
        return rank[self._arrays()[2]]


def strict_spread(profile: Profile) -> Spread | None:
    """The one spread that is enforced: the first in canonical order that forbids scheduling otherwise."""
    strict = WhenUnsatisfiable.DO_NOT_SCHEDULE
    return next((item for item in profile.spreads if item.when_unsatisfiable is strict), None)


def _distinct(numbers: NDArray[np.intp], top: int) -> list[int]:
    met = np.zeros(top, dtype=np.bool_)
    met[numbers] = True
    found: list[int] = met.nonzero()[0].tolist()
    return found
