"""Demand at one moment, cluster by cluster, sorted once into what the engine asks of it.

Why: a cluster's roll-up changes rarely and is decided on every few seconds. What follows from its rows alone, such
as which gangs are alike, is computed when they arrive; a cluster whose rows are the same object is unchanged.
Must never: change, or merge rows that a machine might distinguish.
Rules: `engine#needs-table`, `engine#folding`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import gcd
from operator import itemgetter

import numpy as np
from numpy.typing import NDArray

from bigfleet.model.need import Need
from bigfleet.model.profile import Profile
from bigfleet.model.quantity import NANO
from bigfleet.model.resources import Resources

ListKey = tuple[object, ...]
"""The position of a row in list order, the smaller the earlier; keys of one demand are comparable."""

Turn = tuple[int, bool, ListKey]
"""In which order needs are visited: by priority, gangs first among equals, then as listed.

Rules: `engine#prepass-order`, `engine#acquisition-order`.
"""


@dataclass(frozen=True, slots=True)
class GangGroup:
    """Gangs of a cluster with one profile and one total: they fold together or not at all."""

    profile: Profile
    total: Resources
    for_fragments: bool
    places: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class GangClass:
    """Groups that become one need if they fold (ADR-0041)."""

    groups: tuple[GangGroup, ...]
    places: tuple[int, ...]
    folded: Need
    """The need that represents all of them."""
    turn: Turn


class ClusterNeeds:
    """One cluster's rows as it sent them."""

    def __init__(self, cluster: str, rows: Sequence[Need], keys: Sequence[ListKey]) -> None:
        self.cluster, self.rows, self.keys = cluster, tuple(rows), tuple(keys)
        self.turns: tuple[Turn, ...] = tuple(
            (-need.profile.priority, need.profile.same_key is None, (0, *key))
            for need, key in zip(self.rows, self.keys, strict=True)
        )
        ordinary = [place for place, turn in enumerate(self.turns) if turn[1]]
        ordinary.sort(key=self.turns.__getitem__)
        self.ordinary = tuple(ordinary)
        """The places of rows that are no gangs, in the order in which they are visited."""
        self.stretches = _stretches(self.keys, self.ordinary)
        """Which of those begin a stretch that follows each other in list order, whatever becomes of the gangs."""
        self.alike, self.alike_of = _alike(self.rows)
        """One row of each sort of rows that differ in nothing but arrival, group and fragments; and for each row its sort."""
        self.gang_classes = self._classes()
        self.unfoldable = tuple(
            place
            for place, need in enumerate(self.rows)
            if need.max_units and need.profile.same_key is not None
        )
        profiles = {id(need.profile): need.profile for need in self.rows}.values()
        self.label_keys = frozenset(
            key
            for profile in profiles
            for key in (
                *(item.key for item in profile.requirements),
                *(item.topology_key for item in profile.spreads),
            )
        )
        self.amounts = Amounts.of({vector for need in self.rows for vector in (need.total, need.unit)})

    def _classes(self) -> tuple[GangClass, ...]:
        groups: dict[tuple[str, Resources, bool], list[int]] = {}
        for place, need in enumerate(self.rows):
            if need.profile.same_key is not None and not need.max_units:
                key = (need.profile.fingerprint, need.total, need.for_fragments)
                groups.setdefault(key, []).append(place)
        classes: dict[tuple[str, Resources, bool], list[GangGroup]] = {}
        for (_, total, for_fragments), places in groups.items():
            profile = self.rows[places[0]].profile
            classes.setdefault((profile.without_same.fingerprint, total, for_fragments), []).append(
                GangGroup(profile, total, for_fragments, tuple(places))
            )
        return tuple(map(self.gang_class, classes.values()))

    def gang_class(self, groups: Sequence[GangGroup]) -> GangClass:
        """The ordinary need that represents gangs which each fit on one machine, and its position in list order."""
        places = tuple(place for group in groups for place in group.places)
        arrivals = [arrival for place in places if (arrival := self.rows[place].arrival_ns)]
        profile, total = groups[0].profile.without_same, groups[0].total
        added_up, fragments = total.scaled(len(places)), groups[0].for_fragments
        need = Need(self.cluster, profile, added_up, total, min(arrivals, default=0), for_fragments=fragments)
        order = (1, self.cluster, profile.fingerprint, *_total_order(total), fragments)
        return GangClass(tuple(groups), places, need, (-profile.priority, True, order))


def _stretches(keys: Sequence[ListKey], places: Sequence[int]) -> tuple[int, ...]:
    starts = []
    follows, shared = -1, None
    no_gangs = len(places) == len(keys)  # else one may stand between two rows
    for visit, place in enumerate(places):
        prefix = keys[place][:-1]
        if prefix != shared or not (place == follows or (no_gangs and place > follows)):
            starts.append(visit)
            shared = prefix
        follows = place + 1
    return tuple(starts)


def _alike(rows: Sequence[Need]) -> tuple[tuple[Need, ...], NDArray[np.intp]]:
    """By objects first: rows that were read from equal bytes share theirs, and to compare amounts takes longer."""
    by_object: dict[tuple[int, int, int, int], int] = {}
    by_value: dict[tuple[str, Resources, Resources, int], int] = {}
    found: list[Need] = []
    sorts = []
    for need in rows:
        profile, total, unit, limit = need.profile, need.total, need.unit, need.max_units
        objects = (id(profile), id(total), id(unit), limit)
        sort = by_object.get(objects)
        if sort is None:
            sort = by_value.setdefault((profile.fingerprint, total, unit, limit), len(found))
            by_object[objects] = sort
            if sort == len(found):
                found.append(need)
        sorts.append(sort)
    return tuple(found), np.array(sorts, dtype=np.intp)


def _total_order(total: Resources) -> tuple[str, tuple[tuple[str, int], ...]]:
    """Totals as text in thousandths rounded up, which is part of the answer; the exact amounts settle the rest."""
    text = "".join(f"{name}={-(-amount * 1000 // NANO)};" for name, amount in total.items())
    return (text, tuple(total.items()))


@dataclass(frozen=True, slots=True)
class Amounts:
    """What the amounts of each dimension have in common, and the largest of them."""

    common: Mapping[str, int]
    largest: Mapping[str, int]

    @classmethod
    def of(cls, vectors: Iterable[Resources]) -> "Amounts":
        """Of some vectors."""
        common: dict[str, int] = {}
        largest: dict[str, int] = {}
        for vector in vectors:
            for name, amount in vector.items():
                common[name] = gcd(common.get(name, 0), amount)
                largest[name] = max(largest.get(name, 0), amount)
        return cls(common, largest)

    @classmethod
    def union(cls, parts: Iterable["Amounts"]) -> "Amounts":
        """Of all that the parts are about."""
        common: dict[str, int] = {}
        largest: dict[str, int] = {}
        for part in parts:
            for name, divisor in part.common.items():
                common[name] = gcd(common.get(name, 0), divisor)
                largest[name] = max(largest.get(name, 0), part.largest[name])
        return cls(common, largest)


@dataclass(frozen=True)  # no slots: the order of all rows is cached on first use
class Demand:
    """The needs of all clusters at one moment."""

    by_cluster: Mapping[str, ClusterNeeds]

    @classmethod
    def listed(cls, needs: Iterable[Need]) -> "Demand":
        """Demand whose list order is the order in which it is given, as in a document."""
        rows: dict[str, list[Need]] = {}
        keys: dict[str, list[ListKey]] = {}
        for place, need in enumerate(needs):
            rows.setdefault(need.cluster, []).append(need)
            keys.setdefault(need.cluster, []).append((place,))
        return cls({name: ClusterNeeds(name, rows[name], keys[name]) for name in rows})

    def __len__(self) -> int:
        return sum(len(part.rows) for part in self.by_cluster.values())

    @cached_property
    def rows(self) -> tuple[Need, ...]:
        """All rows in list order."""
        keyed = [
            keyed for part in self.by_cluster.values() for keyed in zip(part.keys, part.rows, strict=True)
        ]
        keyed.sort(key=itemgetter(0))
        return tuple([need for _, need in keyed])
