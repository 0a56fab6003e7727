"""Preemption: what drains for a need already, whom it could ask to leave, and who is protected.

Called by: the explanations of this room.
Rules: decision-engine section 8; capacity in flight (E4), protected claims (E3), order of victims (E11).
"""

from dataclasses import dataclass

from bigfleet.explain.case import NOBODY, Case, Group
from bigfleet.explain.usable import Usable, never_preempts
from bigfleet.model.costs import drain_grace_s, victim_cost
from bigfleet.model.machine import Machine


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


def preemption_of(case: Case, place: int) -> Preemption | None:
    """How Phase 2 went for a need; None when it did not come to that."""
    verdict = case.verdict(place)
    if verdict.satisfied:
        return None
    usable = Usable(verdict)
    mine, priority = verdict.need.profile.precedence, verdict.need.profile.priority
    taken: list[Machine] = []
    left: list[Group] = []
    protected = not_lower = others = 0
    for group in case.victims_for(place):
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
    if never_preempts(verdict):
        left = []
    # Machines of one group cost the same, and its first is the first by id.
    next_one = min((group.first for group in left), key=_victim_order, default=None)
    return Preemption(
        in_flight=tuple(machine_id for machine_id, found in sorted(case.in_flight.items()) if found == place),
        taken=tuple(_victim(machine, priority) for machine in sorted(taken, key=_victim_order)),
        runner_up=None if next_one is None else _victim(next_one, priority),
        left=sum(group.size for group in left),
        protected=protected,
        not_lower=not_lower,
        taken_by_others=others,
    )


def _victim_order(machine: Machine) -> tuple[float, int, str]:
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
