"""Phase 2: needs that Phase 1 left short take machines from work of strictly lower priority.

Must never: move a machine now; a victim drains, and a later Phase 1 takes it when it is Idle.
Rules: `engine#phase-2`, `engine#victims`, `engine#preemption-in-flight`, `engine#victim-cost`.
Read literally: `engine#prepass-order` and `engine#acquisition-order` says nothing about Phase 2, so ties in
priority stay in list order there, gang or not; Draining machines are counted, as victims are taken, until the need
is covered.
"""

from dataclasses import dataclass, field

from bigfleet.model.action import Action, ActionKind
from bigfleet.model.costs import drain_grace_s, victim_cost
from bigfleet.model.decision import Unresolved
from bigfleet.model.machine import Machine, MachineState, NeedRef
from bigfleet.model.resources import ZERO
from tests.reference.board import Board, Row
from tests.reference.supply import can_be_got_for, counts_as, in_state, value_for


@dataclass(slots=True)
class Preemption:
    """What Phase 2 wants and what it could not help."""

    actions: list[Action] = field(default_factory=list)
    unresolved: list[Unresolved] = field(default_factory=list)
    used: set[str] = field(default_factory=set)
    """Victims of this pass, and Draining machines counted in it: each helps one need."""


def preempt(board: Board) -> Preemption:
    """Help short needs by priority, then list order (`engine#phase-2`)."""
    result = Preemption()
    short = [row for row in board.rows if not board.deficit(row).is_zero]
    for row in sorted(short, key=lambda row: (-row.need.profile.priority, row.place)):
        if row.parked or (row.is_gang and row.domain is None):
            result.unresolved.append(Unresolved(row.place, board.deficit(row)))
        else:
            help_one(board, row, result)
    return result


def help_one(board: Board, row: Row, result: Preemption) -> None:
    """Count what drains for the need already, then take victims, then note what is left.

    Rules: `engine#phase-2`, `engine#preemption-in-flight`.
    """
    remaining = board.deficit(row)
    for machine in in_flight(board, row):
        if not remaining.is_zero and machine.id not in result.used:
            result.used.add(machine.id)
            remaining -= counts_as(machine, row.need)
    taken: list[Machine] = []
    for machine in candidates(board, row):
        if not remaining.is_zero and machine.id not in result.used:
            result.used.add(machine.id)
            taken.append(machine)
            remaining -= counts_as(machine, row.need)
    result.actions.extend(preempted(machine, row) for machine in taken)
    if not remaining.is_zero:
        freed = sum((counts_as(machine, row.need) for machine in taken), ZERO)
        result.unresolved.append(Unresolved(row.place, remaining, len(taken), freed))


def in_flight(board: Board, row: Row) -> list[Machine]:
    """Draining machines that were preempted for this need, by id (`engine#preemption-in-flight`)."""
    reference = NeedRef(*row.need.stamp_key)
    draining = in_state(board.machines, MachineState.DRAINING)
    return [machine for machine in draining if machine.draining_for == reference and would_help(machine, row)]


def candidates(board: Board, row: Row) -> list[Machine]:
    """Configured machines of any cluster that may be taken, cheapest to take first.

    Rules: `engine#phase-2`, `engine#victims`, `engine#victim-cost`.
    """
    victims = [
        machine
        for machine in in_state(board.machines, MachineState.CONFIGURED)
        if machine.assigned.priority < row.need.profile.priority
        and would_help(machine, row)
        and not is_protected(board, machine, row)
    ]
    return sorted(victims, key=lambda machine: (victim_cost(machine), machine.assigned.priority, machine.id))


def would_help(machine: Machine, row: Row) -> bool:
    """The filters of type, match, unit and, for gangs, domain (`engine#phase-2`)."""
    key = row.need.profile.same_key
    in_domain = key is None or value_for(machine, key) == row.domain
    return in_domain and can_be_got_for(machine, row.need)


def is_protected(board: Board, machine: Machine, row: Row) -> bool:
    """Whether a need of equal or higher precedence than the preemptor claimed the machine in this cycle (`engine#victims`)."""
    place = board.claimed_for.get(machine.id)
    return place is not None and board.rows[place].need.profile.precedence >= row.need.profile.precedence


def preempted(machine: Machine, row: Row) -> Action:
    """The action on one victim (`engine#actions`, `engine#action-order`)."""
    priority = row.need.profile.priority
    return Action(
        ActionKind.PREEMPT,
        machine.id,
        cluster=machine.cluster,
        need=row.place,
        grace_s=drain_grace_s(priority, machine.assigned.priority),
        preemptor_priority=priority,
    )
