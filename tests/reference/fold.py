"""Normalising demand: a gang that fits on one machine needs no domain, so gangs of one kind fold into one need.

Rules: `engine#folding`, `engine#foldable`.
Read literally: a class is identified by the exact value of the total. The total key of the rule, in thousandths rounded up,
only sorts; totals that differ by less than a thousandth are put in order by their exact amounts.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from bigfleet.model.machine import BOUND_STATES, Machine, MachineState
from bigfleet.model.need import Need
from bigfleet.model.resources import Resources
from tests.reference.supply import counts_as, is_obtainable, meets


@dataclass(frozen=True, slots=True)
class NormalNeed:
    """A need of the normalised demand, and the places of the given needs it represents."""

    need: Need
    folded_from: tuple[int, ...]


def normalise(machines: Iterable[Machine], needs: Sequence[Need]) -> list[NormalNeed]:
    """Needs that pass through in their order, then one need per fold class in class order (`engine#folding`)."""
    machines = list(machines)
    passed: list[NormalNeed] = []
    classes: dict[tuple[str, str, Resources, bool], list[int]] = {}
    for place, need in enumerate(needs):
        if is_foldable(need, machines):
            key = (need.cluster, need.profile.without_same.fingerprint, need.total, need.for_fragments)
            classes.setdefault(key, []).append(place)
        else:
            passed.append(NormalNeed(need, (place,)))
    in_order = sorted(
        classes, key=lambda key: (key[0], key[1], total_key(key[2]), tuple(key[2].items()), key[3])
    )
    return passed + [folded(needs, classes[key]) for key in in_order]


def is_foldable(need: Need, machines: Iterable[Machine]) -> bool:
    """Whether the need is a gang without a limit, and one machine that it can count on holds all of it.

    Rules: `engine#folding`, `engine#foldable`, `engine#max-units-per-machine`.
    """
    if need.profile.same_key is None or need.max_units > 0:
        return False
    return any(
        meets(machine, need.profile)
        and counts_as(machine, need).covers(need.total)
        and counts_for_folding(machine, need)
        for machine in machines
    )


def counts_for_folding(machine: Machine, need: Need) -> bool:
    """Bound to the cluster; free and obtainable; or on order for the cluster's folded class.

    Rules: `engine#folding`, `engine#foldable`, `engine#obtainable`.
    """
    if machine.state in BOUND_STATES:
        return machine.cluster == need.cluster
    if machine.state in (MachineState.IDLE, MachineState.SPECULATIVE):
        return is_obtainable(machine, need.profile)
    if machine.state is MachineState.CREATING:
        stripped = need.profile.without_same.fingerprint
        return machine.assigned.fingerprint == stripped and machine.assigned.cluster == need.cluster
    return False


def folded(needs: Sequence[Need], members: Sequence[int]) -> NormalNeed:
    """One need for all members of a class, which are equal in cluster, stripped profile and total (`engine#folding`)."""
    first = needs[members[0]]
    arrivals = [needs[place].arrival_ns for place in members if needs[place].arrival_ns]
    need = replace(
        first,
        profile=first.profile.without_same,
        total=first.total.scaled(len(members)),
        unit=first.total,
        arrival_ns=min(arrivals, default=0),
        group="",
    )
    return NormalNeed(need, tuple(members))


def total_key(total: Resources) -> str:
    """The text classes are sorted by: name=thousandths, each ended by a semicolon, names ascending (`engine#folding`)."""
    return "".join(f"{name}={-(-amount // 10**6)};" for name, amount in sorted(total.items()))
