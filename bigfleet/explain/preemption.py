"""Preemption: what drains for a need already, whom it could ask to leave, and who is protected.

Rules: decision-engine section 8; capacity in flight (E4), protected claims (E3), order of victims (E11).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bigfleet.explain.case import NOBODY, Case, Group
from bigfleet.explain.columns import Columns, Places, first_by
from bigfleet.explain.cycle_case import CycleCase
from bigfleet.explain.usable import Usable, never_preempts
from bigfleet.model.costs import drain_grace_s, victim_cost
from bigfleet.model.machine import Machine, MachineState

VICTIMS_SHOWN = 100
"""How many machines that leave or drain for a need are told one by one; after the loss of a zone they are thousands."""


@dataclass(frozen=True, slots=True)
class Victim:
    """A machine that leaves, or would leave next, and what that costs."""

    machine: Machine
    interruption_penalty: float
    reclamation_penalty: float
    grace_cost: float
    cost: float
    grace_s: int


@dataclass(frozen=True, slots=True)
class Preemption:
    """Phase 2 on behalf of one need."""

    in_flight: tuple[str, ...]
    """The first by id of those that drain for it already."""
    in_flight_count: int
    taken: tuple[Victim, ...]
    """The first in the order in which they are given up of those that leave for it."""
    taken_count: int
    runner_up: Victim | None
    left: int
    """Machines that could still be asked to leave, the runner-up among them."""
    protected: int
    """Of lower assigned priority, yet claimed this cycle by a need that does not rank below."""
    not_lower: int
    """Able to serve it, but serving work of at least its priority."""
    taken_by_others: int


@dataclass(frozen=True, slots=True)
class _Candidates:
    """Configured machines that could serve a need, by what becomes of them or keeps them from leaving for it."""

    taken: Sequence[Machine]
    """The first of them in the order in which they are given up."""
    taken_count: int
    runner_up: Machine | None
    left: int
    protected: int
    not_lower: int
    taken_by_others: int


def preemption_of(case: Case, place: int) -> Preemption | None:
    """How Phase 2 went for a need; None when it did not come to that."""
    verdict = case.verdict(place)
    if verdict.satisfied:
        return None
    found = _in_columns(case, place) if isinstance(case, CycleCase) else _in_groups(case, place)
    priority, never = verdict.need.profile.priority, never_preempts(verdict)
    in_flight = case.in_flight_for(place)
    return Preemption(
        in_flight=in_flight[:VICTIMS_SHOWN],
        in_flight_count=len(in_flight),
        taken=tuple(victim_of(machine, priority) for machine in found.taken),
        taken_count=found.taken_count,
        runner_up=None if found.runner_up is None or never else victim_of(found.runner_up, priority),
        left=0 if never else found.left,
        protected=found.protected,
        not_lower=found.not_lower,
        taken_by_others=found.taken_by_others,
    )


def _in_groups(case: Case, place: int) -> _Candidates:
    verdict = case.verdict(place)
    usable = Usable(verdict)
    mine, priority = verdict.need.profile.precedence, verdict.need.profile.priority
    taken: list[Machine] = []
    left: list[Group] = []
    protected = not_lower = others = 0
    for group in case.groups:
        if group.first.state is not MachineState.CONFIGURED:
            continue
        if group.holder == place or not usable(group.first):
            continue
        if group.preemptor == place:
            taken.extend(case.machines[machine_id] for machine_id in group.ids)
        elif group.preemptor != NOBODY:
            others += group.size
        elif group.first.assigned.priority >= priority:
            not_lower += group.size
        elif group.holder != NOBODY and case.need(group.holder).profile.precedence >= mine:
            protected += group.size
        else:
            left.append(group)
    return _Candidates(
        taken=sorted(taken, key=_victim_order)[:VICTIMS_SHOWN],
        taken_count=len(taken),
        # Machines of one group cost the same, and its first is the first by id.
        runner_up=min((group.first for group in left), key=_victim_order, default=None),
        left=sum(group.size for group in left),
        protected=protected,
        not_lower=not_lower,
        taken_by_others=others,
    )


def _in_columns(case: CycleCase, place: int) -> _Candidates:
    verdict, columns = case.verdict(place), case.columns
    places = columns.in_state(MachineState.CONFIGURED)
    places = places[case.usable_kinds(verdict)[columns.kind[places]]]
    places = places[columns.holder[places] != place]
    leaving = columns.leaving()[places]
    for_it = np.zeros(len(columns), dtype=np.bool_)
    for_it[columns.leaving_for(place)] = True
    taken, rest = places[for_it[places]], places[~leaving]
    lower = columns.stamps.priority[columns.stamp(rest)] < verdict.need.profile.priority
    protected = lower & case.not_below(verdict.need.profile.precedence)[columns.holder[rest]]
    left = rest[lower & ~protected]
    return _Candidates(
        taken=columns.records(_first_victims(columns, taken, VICTIMS_SHOWN)),
        taken_count=taken.size,
        runner_up=next(iter(columns.records(_first_victims(columns, left, 1))), None),
        left=left.size,
        protected=int(np.count_nonzero(protected)),
        not_lower=int(np.count_nonzero(~lower)),
        taken_by_others=int(np.count_nonzero(leaving)) - taken.size,
    )


def _first_victims(columns: Columns, places: Places, most: int) -> Places:
    """Who of some machines is given up first, by `_victim_order`."""
    stamps = columns.stamp(places)
    costs = columns.stamps.penalties[stamps]
    graces_s = columns.graces_s(places)
    if graces_s is not None:
        costs = costs + graces_s / 3600 * columns.kinds.price[columns.kind[places]]
    return places[first_by((costs, columns.stamps.priority[stamps]), most)]


def _victim_order(machine: Machine) -> tuple[float, int, str]:
    return (victim_cost(machine), machine.assigned.priority, machine.id)


def victim_of(machine: Machine, priority: int) -> Victim:
    """What it costs that a machine leaves for a need of this priority."""
    assigned = machine.assigned
    return Victim(
        machine=machine,
        interruption_penalty=assigned.interruption_penalty,
        reclamation_penalty=assigned.reclamation_penalty,
        grace_cost=machine.drain_grace_remaining_s / 3600 * machine.shape.price_per_hour,
        cost=victim_cost(machine),
        grace_s=drain_grace_s(priority, assigned.priority),
    )
