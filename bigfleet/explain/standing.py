"""Standing: where one machine stands towards one need, in the order in which the engine asks.

Why: "why not that one?" has exactly one answer for every machine: the first test it fails, or that it was not needed.
Must never: give a machine two standings or none; what is taken and what is refused add up to the fleet.
Rules: dashboard 6.1, point 4; decision-engine sections 3, 7 and 8.
"""

from dataclasses import dataclass
from enum import StrEnum

from bigfleet.explain.case import NOBODY, Case, Group
from bigfleet.model.machine import BOUND_STATES, Assignment, Machine, MachineState, Shape
from bigfleet.model.matching import holds
from bigfleet.model.need import Need
from bigfleet.model.profile import Operator, Requirement, Spread, WhenUnsatisfiable
from bigfleet.model.quantity import format_quantity

S = MachineState
FREE = (S.IDLE, S.SPECULATIVE)
GONE = (S.DRAINING, S.DELETING, S.FAILED)

_SIGNS = {
    Operator.IN: "In",
    Operator.NOT_IN: "NotIn",
    Operator.EXISTS: "Exists",
    Operator.DOES_NOT_EXIST: "DoesNotExist",
    Operator.SAME: "Same",
    Operator.UNSPECIFIED: "Unspecified",
}


class Standing(StrEnum):
    """Every answer there is, first the good ones, then the tests in their order."""

    TAKEN = "taken"
    PREEMPTED = "preempted for it"
    IN_FLIGHT = "drains for it"
    WRONG_STATE = "wrong state"
    OTHER_CLUSTER = "bound to another cluster"
    OTHER_ORDER = "on order for another need"
    PINNED_TYPE = "instance type not wanted"
    REQUIREMENT = "requirement not met"
    BELOW_UNIT = "below the unit"
    CLAIMED = "claimed by another need"
    OUTSIDE_DOMAIN = "outside the domain"
    PARKED = "parked"
    SPREAD_KEY = "without the spread's key"
    SPREAD_LIMIT = "spread limit"
    NOT_NEEDED = "not needed"


CHOSEN = (Standing.TAKEN, Standing.PREEMPTED, Standing.IN_FLIGHT)
"""What is not refused."""


@dataclass(frozen=True, slots=True, order=True)
class Answer:
    """A standing and what it hangs on: a state, a cluster, a requirement, a dimension, a need."""

    standing: Standing
    detail: str = ""
    need: int = NOBODY  # who claims it, for CLAIMED


class Judge:
    """Judges groups of machines on behalf of one need."""

    def __init__(self, case: Case, place: int) -> None:
        self._case, self.place = case, place
        verdict = case.verdict(place)
        self.need: Need = verdict.need
        self._verdict = verdict
        self.spread = strict_spread(self.need)
        self._key = self.need.profile.same_key
        self._pinned = frozenset(self.need.profile.pinned_types)
        self.domain = self._domain()
        self._known: dict[tuple[int, bool], Answer | None] = {}

    def _domain(self) -> str | None:
        """Where a gang gathers; one without a domain of its own keeps to that of the machines it took."""
        if self._key is None or self._verdict.domain is not None or not self._verdict.claimed:
            return self._verdict.domain
        return self._case.machines[self._verdict.claimed[0]].shape.label(self._key)

    def answer(self, group: Group) -> Answer:
        """Where the machines of a group stand."""
        machine = group.first
        if group.holder == self.place:
            return Answer(Standing.TAKEN, step_of(machine))
        if group.preemptor == self.place:
            return Answer(Standing.PREEMPTED, machine.cluster)
        if group.drains_for == self.place:
            return Answer(Standing.IN_FLIGHT, machine.cluster)
        return self._bound(machine) or self._unfit(machine) or self._unfree(group)

    def fits(self, machine: Machine) -> bool:
        """Whether the need could use such a machine, whoever holds it and wherever it stands."""
        of_type = not self._pinned or machine.shape.instance_type in self._pinned
        return of_type and self._unfit(machine) is None

    def suits(self, machine: Machine) -> bool:
        """Whether profile and unit allow for this very machine in its state, whoever holds it."""
        return self._unfit(machine) is None

    def matches(self, machine: Machine) -> bool:
        """Whether the need could use such a machine were it large enough."""
        answer = self._unfit(machine)
        of_type = not self._pinned or machine.shape.instance_type in self._pinned
        return of_type and (answer is None or answer.standing is Standing.BELOW_UNIT)

    def could_take(self, machine: Machine) -> bool:
        """Whether the need may take this machine where it gathers, unless another need does."""
        if self._bound(machine) is not None or self._unfit(machine) is not None:
            return False
        return self._key is None or self.domain in (None, machine.shape.label(self._key))

    def _bound(self, machine: Machine) -> Answer | None:
        state = machine.state
        if state in GONE:
            return Answer(Standing.WRONG_STATE, state.label)
        if state in BOUND_STATES and machine.cluster != self.need.cluster:
            return Answer(Standing.OTHER_CLUSTER, machine.cluster)
        return self.on_order(machine.assigned) if state is S.CREATING else None

    def on_order(self, stamp: Assignment) -> Answer | None:
        """For whom a Creating machine with this stamp comes up, unless it is for this need."""
        if stamp.cluster != self.need.cluster:
            return Answer(Standing.OTHER_ORDER, stamp.cluster or "nobody")
        gang = self._key is not None and stamp.group != self.need.group
        if gang or stamp.fingerprint != self.need.profile.fingerprint:
            return Answer(Standing.OTHER_ORDER, f"another need of {stamp.cluster}")
        return None

    def _unfit(self, machine: Machine) -> Answer | None:
        # By identity: shapes are shared and kept alive by the case, and there are far fewer of them than machines.
        key = (id(machine.shape), machine.state in FREE)
        if key not in self._known:
            self._known[key] = self._flaw(machine.shape, free=key[1])
        return self._known[key]

    def _flaw(self, shape: Shape, *, free: bool) -> Answer | None:
        if free and self._pinned and shape.instance_type not in self._pinned:
            return Answer(Standing.PINNED_TYPE, shape.instance_type or "none")
        for requirement in self.need.profile.requirements:
            if not holds(requirement, shape.label(requirement.key)):
                return not_met(requirement)
        for name, wanted in self.need.unit.items():
            if shape.capacity.amount(name) < wanted:
                return below_unit(name, wanted)
        return None

    def _unfree(self, group: Group) -> Answer:
        machine, verdict = group.first, self._verdict
        if group.holder != NOBODY:
            return self.claimed(group.holder)
        if self._key is not None:
            value = machine.shape.label(self._key) or ""
            if self.domain is not None and value != self.domain:
                return Answer(Standing.OUTSIDE_DOMAIN, value)
        if verdict.satisfied:
            return Answer(Standing.NOT_NEEDED)
        if verdict.parked:
            return Answer(Standing.PARKED)
        if self.spread is not None and self._key is None:
            group_of = machine.shape.label(self.spread.topology_key)
            if group_of is None:
                return Answer(Standing.SPREAD_KEY, self.spread.topology_key)
            return Answer(Standing.SPREAD_LIMIT, group_of)
        return Answer(Standing.NOT_NEEDED)

    def claimed(self, holder: int) -> Answer:
        """Where a machine stands that another need has."""
        return Answer(Standing.CLAIMED, self.relation(holder), holder)

    def relation(self, holder: int) -> str:
        """How the need at another place ranks."""
        mine, theirs = self.need.profile.precedence, self._case.need(holder).profile.precedence
        if theirs == mine:
            return "of equal precedence"
        return "of higher precedence" if theirs > mine else "of lower precedence"


def step_of(machine: Machine) -> str:
    """By which step a machine that a need holds came to it."""
    return step_in(machine.state)


def step_in(state: MachineState) -> str:
    """By which step a machine in a state came to the need that holds it."""
    match state:
        case S.IDLE:
            return "bootstrapped"
        case S.SPECULATIVE:
            return "provisioned"
        case S.CREATING:
            return "on order"
        case _:
            return "kept"


def not_met(requirement: Requirement) -> Answer:
    """Where a machine stands on which a requirement does not hold."""
    return Answer(Standing.REQUIREMENT, requirement_text(requirement))


def below_unit(name: str, wanted: int) -> Answer:
    """Where a machine stands that holds less of one dimension than each must."""
    return Answer(Standing.BELOW_UNIT, f"{name} {format_quantity(wanted)}")


def strict_spread(need: Need) -> Spread | None:
    """The one spread that binds: the first that forbids scheduling otherwise."""
    strict = (
        item for item in need.profile.spreads if item.when_unsatisfiable is WhenUnsatisfiable.DO_NOT_SCHEDULE
    )
    return next(strict, None)


def requirement_text(requirement: Requirement) -> str:
    """A requirement as people read it: `rack In r1,r2`."""
    values = f" {','.join(requirement.values)}" if requirement.values else ""
    return f"{requirement.key} {_SIGNS[requirement.operator]}{values}"
