"""Preemption: what drains for a need already, whom it could ask to leave, and who is protected.

Called by: the explanations of this room.
Rules: decision-engine section 8; capacity in flight (E4), protected claims (E3), order of victims (E11).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bigfleet.explain.case import NOBODY, Case, Group
from bigfleet.explain.columns import Columns, Places
from bigfleet.explain.cycle_case import CycleCase
from bigfleet.explain.usable import Usable, never_preempts
from bigfleet.model.costs import drain_grace_s, victim_cost
from bigfleet.model.machine import Machine, MachineState


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
    taken: tuple[Victim, ...]
    runner_up: Victim | None
    left: int
    """Machines that could still be asked to leave, the runner-up among them."""
    protected: int
    """Of lower assigned priority, yet claimed this cycle by a need that does not rank below."""
    not_lower: int
    """Able to serve it, but serving work of at least its priority."""
    taken_by_others: int


@dataclass(frozen=True, slots=True)
class Candidates:
    """Configured machines that could serve a need, by what keeps them from leaving for it."""

    taken: Sequence[Machine]
    first: Machine | None
    """Who would be asked next."""
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
    return Preemption(
        in_flight=case.in_flight_for(place),
        taken=tuple(_victim(machine, priority) for machine in sorted(found.taken, key=victim_order)),
        runner_up=None if found.first is None or never else _victim(found.first, priority),
        left=0 if never else found.left,
        protected=found.protected,
        not_lower=found.not_lower,
        taken_by_others=found.taken_by_others,
    )


def _in_groups(case: Case, place: int) -> Candidates:
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
    # Machines of one group cost the same, and its first is the first by id.
    first = min((group.first for group in left), key=victim_order, default=None)
    return Candidates(taken, first, sum(group.size for group in left), protected, not_lower, others)


def _in_columns(case: CycleCase, place: int) -> Candidates:
    """The same on the columns of a running shard."""
    verdict, columns = case.verdict(place), case.columns
    priority = verdict.need.profile.priority
    places = columns.in_state(MachineState.CONFIGURED)
    places = places[case.usable_kinds(verdict)[columns.kind[places]]]
    holder = columns.holder[places]
    places, holder = places[holder != place], holder[holder != place]
    leaving, mine = columns.leaving()[places], columns.leaving_for(place)
    taken = places[leaving & np.isin(places, mine)]
    rest, holder = places[~leaving], holder[~leaving]
    lower = columns.stamps.priority[columns.stamp(rest)] < priority
    protected = lower & case.not_below(verdict.need.profile.precedence)[holder]
    left = rest[lower & ~protected]
    return Candidates(
        taken=columns.records(taken),
        first=_first_victim(columns, left),
        left=left.size,
        protected=int(np.count_nonzero(protected)),
        not_lower=int(np.count_nonzero(~lower)),
        taken_by_others=int(np.count_nonzero(leaving)) - taken.size,
    )


def _first_victim(columns: Columns, places: Places) -> Machine | None:
    """Who of them is given up first: `victim_order`, in columns."""
    if not places.size:
        return None
    stamps = columns.stamp(places)
    costs = columns.stamps.penalties[stamps]
    graces_s = columns.graces_s(places)
    if graces_s is not None:
        costs = costs + graces_s / 3600 * columns.kinds.price[columns.kind[places]]
    cheap = np.flatnonzero(costs == costs.min())
    first = cheap[np.argmin(columns.stamps.priority[stamps[cheap]])]
    return columns.records(places[[first]])[0]


def victim_order(machine: Machine) -> tuple[float, int, str]:
    """The order in which machines are given up (E11)."""
    return (victim_cost(machine), machine.assigned.priority, machine.id)


def _victim(machine: Machine, priority: int) -> Victim:
    assigned = machine.assigned
    return Victim(
        machine=machine,
        interruption_penalty=assigned.interruption_penalty,
        reclamation_penalty=assigned.reclamation_penalty,
        grace_cost=machine.drain_grace_remaining_s / 3600 * machine.shape.price_per_hour,
        cost=victim_cost(machine),
        grace_s=drain_grace_s(priority, assigned.priority),
    )
