"""Folding: gangs that fit on one machine become ordinary needs (ADR-0041), cluster by cluster.

Why: such a gang needs no choice of a domain, and a whole machine for each of many small gangs would overstate demand.
Must never: look at another cluster's bound machines, so that a cluster's needs change only with its own or with supply.
Rules: `engine#folding`; a Creating machine on order for the class counts, `engine#foldable`; free machines count only
where they are `engine#obtainable`.
"""

from operator import itemgetter
from typing import NamedTuple

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


def planned_needs(
    demand: ClusterNeeds, folds: Folds, parked: frozenset[GangRef], scale: Scale
) -> tuple[PlannedNeed, ...]:
    """A cluster's needs as the phases work on them, in the order in which the pre-pass visits them."""
    vector, rows, turns = scale.vector, demand.rows, demand.turns
    planned = [
        PlannedNeed(turns[place], rows[place], (place,), vector(rows[place].total), False)
        for place in demand.ordinary
    ]
    folded = iter(folds)
    for alike in demand.gang_classes:
        small = []
        for group in alike.groups:
            if next(folded):
                small.append(group)
                continue
            wanted = vector(group.total)
            planned += [
                PlannedNeed(turns[place], rows[place], (place,), wanted, _is_parked(rows[place], parked))
                for place in group.places
            ]
        if small:
            whole = alike if len(small) == len(alike.groups) else demand.gang_class(small)
            planned.append(
                PlannedNeed(whole.turn, whole.folded, whole.places, vector(whole.folded.total), False)
            )
    planned += [
        PlannedNeed(
            turns[place], rows[place], (place,), vector(rows[place].total), _is_parked(rows[place], parked)
        )
        for place in demand.unfoldable
    ]
    planned.sort(key=itemgetter(0))
    return tuple(planned)


def _is_parked(need: Need, parked: frozenset[GangRef]) -> bool:
    return bool(parked) and GangRef(need.cluster, need.group, need.profile.fingerprint) in parked
