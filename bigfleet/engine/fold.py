"""Folding: gangs that fit on one machine become ordinary needs (ADR-0041), cluster by cluster.

Why: such a gang needs no choice of a domain, and a whole machine for each of many small gangs would overstate demand.
Must never: look at another cluster's bound machines, so that a cluster's needs change only with its own or with supply.
Rules: `engine#folding`; a Creating machine on order for the class counts, `engine#foldable`; free machines count only
where they are `engine#obtainable`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from operator import itemgetter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bigfleet.engine.amounts import Scale, Vector
from bigfleet.engine.fleet import ClusterMembers, Fleet
from bigfleet.engine.key_values import Flags
from bigfleet.model.demand import ClusterNeeds, GangGroup, ListKey, Turn
from bigfleet.model.need import Need
from bigfleet.model.resources import Resources
from bigfleet.model.situation import GangRef


class PlannedNeed(NamedTuple):  # a tuple, as a full pass makes tens of thousands of them
    """A need of the list that the phases work on."""

    turn: Turn
    """Its position in the order in which the pre-pass visits needs; gangs first among equals.

    Rules: `engine#prepass-order`, `engine#acquisition-order`.
    """
    need: Need
    places: tuple[int, ...]
    """The rows of its cluster that it represents."""
    wanted: Vector
    parked: bool

    @property
    def order(self) -> ListKey:
        """Its position in list order: needs that were not folded first, then folded classes."""
        return self.turn[2]

    def missing(self, scale: Scale, amounts: Vector) -> Resources:
        """What it misses, by name. Where that is all it wants, its total is returned: tens of thousands of needs may miss all."""
        return self.need.total if amounts == self.wanted else scale.resources(amounts)


Folds = tuple[bool, ...]
"""For each group of a cluster's gangs whether it folds."""


class Folding:
    """Which gangs fold, given the machines that exist."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._in_supply = fleet.acquirable_counts() > 0
        self._anywhere: dict[tuple[str, Resources, bool], bool] = {}

    def of(self, demand: ClusterNeeds) -> Folds:
        """Decide it for every group of a cluster."""
        members = self._fleet.members.get(demand.cluster)
        return tuple(
            self._anywhere_whole(group) or (members is not None and self._held_whole(group, members))
            for alike in demand.gang_classes
            for group in alike.groups
        )

    def _anywhere_whole(self, group: GangGroup) -> bool:
        """Whether a machine that any need may acquire could hold the whole gang."""
        key = (group.profile.requirements_text, group.total, group.profile.refuses_interruptible)
        found = self._anywhere.get(key)
        if found is None:
            fitting = self._fitting(group) & self._in_supply & self._fleet.kinds.obtainable(group.profile)
            found = self._anywhere[key] = bool(fitting.any())
        return found

    def _held_whole(self, group: GangGroup, members: ClusterMembers) -> bool:
        """Whether a machine of the cluster could, or one that is on order for the class."""
        fitting = self._fitting(group)
        if fitting[members.kinds[: members.bound]].any():
            return True
        ordered = members.on_order.get(group.profile.without_same.fingerprint)
        return ordered is not None and bool(fitting[members.kinds[ordered]].any())

    def _fitting(self, group: GangGroup) -> Flags:
        """The kinds that match the gang and cover all of it."""
        return self._fleet.kinds.eligible(group.profile, group.total)


_planned = partial(tuple.__new__, PlannedNeed)


class Block(NamedTuple):
    """Needs of one cluster that are visited one after the other and follow each other in list order."""

    first: ListKey
    last: ListKey
    cluster: str
    start: int
    """When the first of them is visited."""
    size: int


@dataclass(frozen=True, slots=True)
class Plans:
    """A cluster's needs as the phases work on them, in the order in which the pre-pass visits them."""

    needs: Sequence[PlannedNeed]
    sorts: Sequence[Need]
    """One of each sort of needs that differ in nothing but arrival, group and fragments."""
    sort_of: NDArray[np.intp]
    """For each need its sort."""
    blocks: Sequence[Block]
    gangs: bool
    """Whether there is one."""


NO_PLANS = Plans((), (), np.empty(0, dtype=np.intp), (), gangs=False)


def planned_needs(demand: ClusterNeeds, folds: Folds, parked: frozenset[GangRef], scale: Scale) -> Plans:
    """A cluster's needs as the phases work on them."""
    rows, turns = demand.rows, demand.turns
    ordinary, sort_of = demand.ordinary, demand.alike_of
    visited = ordinary == tuple(range(len(rows)))
    sorts = sort_of if visited else sort_of[list(ordinary)]
    # Of gangs, most of which fold, each group has one.
    vectors = {sort: scale.vector(demand.alike[sort].total) for sort in dict.fromkeys(sorts.tolist())}
    planned: list[PlannedNeed] = list(
        map(
            _planned,
            zip(
                turns if visited else [turns[place] for place in ordinary],
                rows if visited else [rows[place] for place in ordinary],
                zip(ordinary, strict=True),
                map(vectors.__getitem__, sorts.tolist()),
                repeat(False),
            ),
        )
    )
    if not demand.gang_classes and not demand.unfoldable:
        blocks = _blocks(demand.cluster, planned, demand.stretches)
        return Plans(planned, demand.alike, sorts, blocks, gangs=False)
    folded = iter(folds)
    for alike in demand.gang_classes:
        small = []
        for group in alike.groups:
            if next(folded):
                small.append(group)
                continue
            wanted = scale.vector(group.total)
            planned += [
                PlannedNeed(turns[place], rows[place], (place,), wanted, _is_parked(rows[place], parked))
                for place in group.places
            ]
        if small:
            whole = alike if len(small) == len(alike.groups) else demand.gang_class(small)
            wanted = scale.vector(whole.folded.total)
            planned.append(PlannedNeed(whole.turn, whole.folded, whole.places, wanted, False))
    planned += [
        PlannedNeed(
            turns[place],
            rows[place],
            (place,),
            scale.vector(rows[place].total),
            _is_parked(rows[place], parked),
        )
        for place in demand.unfoldable
    ]
    planned.sort(key=itemgetter(0))
    every = list(demand.alike)
    sort_at = sort_of.tolist()
    mixed = []
    for plan in planned:
        if plan.turn[2][0] == 0:
            mixed.append(sort_at[plan.places[0]])
        else:  # a folded class is a need of its own
            mixed.append(len(every))
            every.append(plan.need)
    gangs = any(not plan.turn[1] for plan in planned)
    numbers = np.array(mixed, dtype=np.intp)
    return Plans(planned, every, numbers, _blocks(demand.cluster, planned, _stretches(planned)), gangs=gangs)


def _blocks(cluster: str, planned: Sequence[PlannedNeed], starts: Sequence[int]) -> Sequence[Block]:
    """The needs in pieces, given where each starts."""
    return [
        Block(planned[start].order, planned[end - 1].order, cluster, start, end - start)
        for start, end in zip(starts, [*starts[1:], len(planned)], strict=bool(starts))
    ]


def _stretches(planned: Sequence[PlannedNeed]) -> list[int]:
    """Where pieces start in which each need has the list key that follows the one before; folded needs stand alone."""
    starts = []
    before: tuple[object, ...] = ()
    for visit, (turn, _, places, _, _) in enumerate(planned):
        priority, ordinary, key = turn
        if key[0]:
            starts.append(visit)
            continue
        shared = key[:-1]
        if (priority, ordinary, shared, places[0]) != before:
            starts.append(visit)
        before = (priority, ordinary, shared, places[0] + 1)
    return starts


def _is_parked(need: Need, parked: frozenset[GangRef]) -> bool:
    return bool(parked) and GangRef(need.cluster, need.group, need.profile.fingerprint) in parked
