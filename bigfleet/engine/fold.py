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
    if all(need.profile.same_key is None for need in needs):
        return [NormalisedNeed(need, (place,)) for place, need in enumerate(needs)]
    passed: list[NormalisedNeed] = []
    classes: dict[tuple[str, str, Resources], list[int]] = {}
    supply = _Supply(index)
    for place, need in enumerate(needs):
        if need.profile.same_key is not None and supply.holds_whole(need):
            classes.setdefault((need.cluster, need.profile.without_same.fingerprint, need.total), []).append(
                place
            )
        else:
            passed.append(NormalisedNeed(need, (place,)))
    in_order = sorted(classes, key=_class_order)
    return passed + [_folded([needs[place] for place in classes[key]], classes[key]) for key in in_order]


def _class_order(key: tuple[str, str, Resources]) -> tuple[str, str, str, tuple[tuple[str, int], ...]]:
    """By cluster, profile and total; totals as text in thousandths rounded up, which is part of the answer.

    Totals that differ by less are put in order by their exact amounts.
    """
    cluster, fingerprint, total = key
    text = "".join(f"{name}={-(-amount * 1000 // NANO)};" for name, amount in total.items())
    return (cluster, fingerprint, text, tuple(total.items()))


def _folded(members: Sequence[Need], sources: Sequence[int]) -> NormalisedNeed:
    first = members[0]
    arrivals = [member.arrival_ns for member in members if member.arrival_ns]
    total = first.total.scaled(len(members))
    need = Need(first.cluster, first.profile.without_same, total, first.total, min(arrivals, default=0))
    return NormalisedNeed(need, tuple(sources))


class _Supply:
    """Which kinds of machines exist where a gang could be held whole."""

    def __init__(self, index: MachineIndex) -> None:
        self._index = index
        self._anywhere = np.zeros(index.kinds, dtype=np.bool_)
        self._anywhere[index.kind[index.in_state(MachineState.IDLE, MachineState.SPECULATIVE)]] = True
        bound = index.in_state(*BOUND_STATES)
        pairs = np.unique(index.cluster[bound] * np.int64(index.kinds) + index.kind[bound])
        clusters, kinds = pairs // index.kinds, pairs % index.kinds
        starts = np.flatnonzero(np.diff(clusters, prepend=-1))
        self._bound: dict[str, Numbers] = {
            index.cluster_name(int(clusters[start])): part
            for start, part in zip(starts, np.split(kinds, starts[1:]), strict=bool(starts.size))
        }
        self._on_order: dict[tuple[str, str], list[int]] = {}
        for machine in index.in_state(MachineState.CREATING).tolist():
            stamp = index.assignments[index.assignment[machine]]
            if stamp.cluster:
                self._on_order.setdefault((stamp.cluster, stamp.fingerprint), []).append(
                    int(index.kind[machine])
                )
        self._free: dict[tuple[str, Resources], bool] = {}
        self._held: dict[tuple[str, str, Resources], bool] = {}

    def holds_whole(self, need: Need) -> bool:
        """Whether some machine that matches the gang as it stands could hold all of it."""
        requirements = need.profile.requirements_text
        free = self._free.get((requirements, need.total))
        if free is None:
            free = bool((self._fitting(need) & self._index.pinned(need) & self._anywhere).any())
            self._free[(requirements, need.total)] = free
        if free:
            return True
        held = self._held.get((need.cluster, requirements, need.total))
        if held is None:
            held = bool(self._fitting(need)[self._bound.get(need.cluster, _NONE)].any())
            self._held[(need.cluster, requirements, need.total)] = held
        if held or not self._on_order:
            return held
        ordered = self._on_order.get((need.cluster, need.profile.without_same.fingerprint))
        return ordered is not None and bool(self._fitting(need)[ordered].any())

    def _fitting(self, need: Need) -> Flags:
        return self._index.matching(need) & self._index.covering(need.total)


_NONE: Numbers = np.empty(0, dtype=np.intp)
