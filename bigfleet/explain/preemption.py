"""Explains the preemption for a need: what already drains for it, what it could preempt, and what is protected.

Rules: `engine#phase-2`; capacity in flight (`engine#preemption-in-flight`), protected claims (`engine#victims`), order
of victims (`engine#victim-cost`).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bigfleet.explain.columns import MachineColumns, Places, first_by
from bigfleet.explain.decided_cycle import DecidedCycle
from bigfleet.explain.usable import never_preempts
from bigfleet.model.costs import drain_grace_s, victim_cost
from bigfleet.model.machine import Machine, MachineState

VICTIMS_SHOWN = 100
"""How many machines that leave or drain for a need are listed; after the loss of a zone there are thousands."""


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
    """Machines that could still be preempted, including the runner-up."""
    protected: int
    """Of lower assigned priority, yet claimed this cycle by a need that does not rank below."""
    not_lower: int
    """Able to serve it, but serving work of at least its priority."""
    taken_by_others: int


@dataclass(frozen=True, slots=True)
class PreemptionCandidates:
    """Configured machines that could serve a need, by what becomes of them or keeps them from leaving for it."""

    taken: Sequence[Machine]
    """The first of them in the order in which they are given up."""
    taken_count: int
    runner_up: Machine | None
    left: int
    protected: int
    not_lower: int
    taken_by_others: int


def preemption_of(cycle: DecidedCycle, place: int) -> Preemption | None:
    """The result of Phase 2 for a need; None when Phase 1 satisfied it."""
    verdict = cycle.verdict(place)
    if verdict.satisfied:
        return None
    found = candidates_for(cycle, place)
    priority, never = verdict.need.profile.priority, never_preempts(verdict)
    in_flight = cycle.in_flight_for(place)
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


def candidates_for(cycle: DecidedCycle, place: int) -> PreemptionCandidates:
    verdict, columns = cycle.verdict(place), cycle.columns
    places = columns.in_state(MachineState.CONFIGURED)
    places = places[cycle.usable_kinds(verdict)[columns.kind[places]]]
    places = places[columns.holder[places] != place]
    preemptor = columns.preemptor()[places]
    taken, rest = places[preemptor == place], places[preemptor < 0]
    lower = columns.stamps.priority[columns.stamp(rest)] < verdict.need.profile.priority
    protected = lower & cycle.not_below(verdict.need.profile.precedence)[columns.holder[rest]]
    left = rest[lower & ~protected]
    return PreemptionCandidates(
        taken=columns.records(_first_victims(columns, taken, VICTIMS_SHOWN)),
        taken_count=taken.size,
        runner_up=next(iter(columns.records(_first_victims(columns, left, 1))), None),
        left=left.size,
        protected=int(np.count_nonzero(protected)),
        not_lower=int(np.count_nonzero(~lower)),
        taken_by_others=places.size - rest.size - taken.size,
    )


def _first_victims(columns: MachineColumns, places: Places, most: int) -> Places:
    """The machines that are given up first: by victim cost, then priority, then id."""
    stamps = columns.stamp(places)
    costs = columns.stamps.penalties[stamps]
    graces_s = columns.graces_s(places)
    if graces_s is not None:
        costs = costs + graces_s / 3600 * columns.kinds.price[columns.kind[places]]
    return places[first_by((costs, columns.stamps.priority[stamps]), most)]


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
