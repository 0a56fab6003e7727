"""Folding: gangs that fit on one machine become ordinary needs (ADR-0041).

Why: such a gang needs no choice of a domain, and a whole machine for each of many small gangs would overstate demand.
Called by: the cycle, before Phase 1; every later step works on the list this returns.
Rules: decision-engine section 6; a Creating machine on order for the class counts, decision E6.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bigfleet.engine.index import Flags, MachineIndex, Numbers
from bigfleet.model.machine import BOUND_STATES, MachineState
from bigfleet.model.need import Need
from bigfleet.model.quantity import NANO
from bigfleet.model.resources import Resources


@dataclass(frozen=True, slots=True)
class NormalisedNeed:
    """A need of the list that the phases work on, and which rows of the demand it stands for."""

    need: Need
    sources: tuple[int, ...]


def normalise(needs: Sequence[Need], index: MachineIndex) -> list[NormalisedNeed]:
    """Pass ordinary needs and large gangs through, then one need per class of small gangs."""
    passed: list[NormalisedNeed] = []
    classes: dict[tuple[str, str, str], list[int]] = {}
    if all(need.profile.same_key is None for need in needs):
        return [NormalisedNeed(need, (place,)) for place, need in enumerate(needs)]
    supply = _Supply(index)
    for place, need in enumerate(needs):
        if need.profile.same_key is not None and supply.holds_whole(need):
            key = (need.cluster, need.profile.without_same().fingerprint, _total_key(need.total))
            classes.setdefault(key, []).append(place)
        else:
            passed.append(NormalisedNeed(need, (place,)))
    return passed + [
        _folded([needs[place] for place in classes[key]], classes[key]) for key in sorted(classes)
    ]


def _folded(members: Sequence[Need], sources: Sequence[int]) -> NormalisedNeed:
    first = members[0]
    arrivals = [member.arrival_ns for member in members if member.arrival_ns]
    total = first.total.scaled(len(members))
    need = Need(first.cluster, first.profile.without_same(), total, first.total, min(arrivals, default=0))
    return NormalisedNeed(need, tuple(sources))


def _total_key(total: Resources) -> str:
    # In thousandths rounded up, as text: the order of classes is part of the answer.
    return "".join(f"{name}={-(-amount * 1000 // NANO)};" for name, amount in total.items())


class _Supply:
    """Which kinds of machines exist where a gang could be held whole."""

    def __init__(self, index: MachineIndex) -> None:
        self._index = index
        self._anywhere = self._kinds(index.in_state(MachineState.IDLE, MachineState.SPECULATIVE))
        self._bound: dict[str, Flags] = {}
        bound = index.in_state(*BOUND_STATES)
        clusters = index.cluster[bound]
        for number in np.unique(clusters).tolist():
            self._bound[index.cluster_name(number)] = self._kinds(bound[clusters == number])
        self._on_order: dict[tuple[str, str], Flags] = {}
        for machine in index.in_state(MachineState.CREATING).tolist():
            stamp = index.assignments[index.assignment[machine]]
            if stamp.cluster:
                none = np.zeros(index.kinds, dtype=np.bool_)
                self._on_order.setdefault((stamp.cluster, stamp.fingerprint), none)[index.kind[machine]] = (
                    True
                )

    def _kinds(self, machines: Numbers) -> Flags:
        flags = np.zeros(self._index.kinds, dtype=np.bool_)
        flags[self._index.kind[machines]] = True
        return flags

    def holds_whole(self, need: Need) -> bool:
        """Whether some machine that matches the gang as it stands could hold all of it."""
        index = self._index
        fitting = index.matching(need) & index.covering(need.total)
        if (fitting & index.pinned(need) & self._anywhere).any():
            return True
        bound = self._bound.get(need.cluster)
        if bound is not None and (fitting & bound).any():
            return True
        on_order = self._on_order.get((need.cluster, need.profile.without_same().fingerprint))
        return on_order is not None and bool((fitting & on_order).any())
