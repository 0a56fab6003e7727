"""How one machine fits one need: the first test it fails, in the order in which the engine tests.

Why: "why not that one?" has exactly one answer for every machine: the first test it fails, or that it was not needed.
Must never: give a machine two results or none; taken and refused machines add up to the fleet.
Rules: `dashboard#explain-classes`, `engine#matching`, `engine#obtainable`, `engine#phase-1`, `engine#phase-2`.
"""

from dataclasses import dataclass
from enum import StrEnum

from bigfleet.explain.decided_cycle import NO_NEED, DecidedCycle, MachineGroup
from bigfleet.explain.usable import is_refused
from bigfleet.model.machine import BOUND_STATES, Assignment, Machine, MachineState, Shape
from bigfleet.model.matching import holds
from bigfleet.model.need import Need
from bigfleet.model.profile import HOST_NAME_KEY, Requirement, RequirementOperator, Spread, WhenUnsatisfiable
from bigfleet.model.quantity import format_quantity

S = MachineState
FREE = (S.IDLE, S.SPECULATIVE)
GONE = (S.DRAINING, S.DELETING, S.FAILED)

_SIGNS = {
    RequirementOperator.IN: "In",
    RequirementOperator.NOT_IN: "NotIn",
    RequirementOperator.EXISTS: "Exists",
    RequirementOperator.DOES_NOT_EXIST: "DoesNotExist",
    RequirementOperator.SAME: "Same",
    RequirementOperator.UNSPECIFIED: "Unspecified",
}


class FitResult(StrEnum):
    """Every result there is: first the good ones, then the tests in their order."""

    TAKEN = "taken"
    PREEMPTED = "preempted for it"
    IN_FLIGHT = "drains for it"
    STOCKED_OUT = "stocked out"
    WRONG_STATE = "wrong state"
    OTHER_CLUSTER = "bound to another cluster"
    OTHER_ORDER = "on order for another need"
    PINNED_TYPE = "instance type not wanted"
    REQUIREMENT = "requirement not met"
    BELOW_UNIT = "below the unit"
    INTERRUPTIBLE = "interruptible, refused to pinned work"
    CLAIMED = "claimed by another need"
    OUTSIDE_DOMAIN = "outside the domain"
    PARKED = "parked"
    SPREAD_KEY = "without the spread's key"
    SPREAD_LIMIT = "spread limit"
    NOT_NEEDED = "not needed"


CHOSEN = (FitResult.TAKEN, FitResult.PREEMPTED, FitResult.IN_FLIGHT)
"""Results that are not refusals."""


@dataclass(frozen=True, slots=True, order=True)
class MachineFit:
    """A result and what it depends on: a state, a cluster, a requirement, a dimension, a need."""

    result: FitResult
    detail: str = ""
    need: int = NO_NEED  # the need that claims it, for CLAIMED


class FitChecker:
    """Tests groups of machines for one need."""

    def __init__(self, cycle: DecidedCycle, place: int) -> None:
        self._cycle, self.place = cycle, place
        verdict = cycle.verdict(place)
        self.need: Need = verdict.need
        self._verdict = verdict
        self.spread = strict_spread(self.need)
        self._key = self.need.profile.same_key
        self._pinned = frozenset(self.need.profile.pinned_types)
        self.domain = self._domain()
        self._by_host = any(item.key == HOST_NAME_KEY for item in self.need.profile.requirements)
        self._known: dict[tuple[int, bool, str], MachineFit | None] = {}

    def _domain(self) -> str | None:
        """The domain of a gang; a gang without one stays with the domain of the machines it took."""
        if self._key is None or self._verdict.domain is not None or not self._verdict.claimed:
            return self._verdict.domain
        return self._cycle.machines[self._verdict.claimed[0]].label(self._key)

    def fit(self, group: MachineGroup) -> MachineFit:
        """Return how the machines of a group fit."""
        machine = group.first
        if group.holder == self.place:
            return MachineFit(FitResult.TAKEN, step_of(machine))
        if group.preemptor == self.place:
            return MachineFit(FitResult.PREEMPTED, machine.cluster)
        if group.drains_for == self.place:
            return MachineFit(FitResult.IN_FLIGHT, machine.cluster)
        return self._bound(machine) or self._unfit(machine) or self._unfree(group)

    def fits(self, machine: Machine) -> bool:
        """Whether the need could use such a machine, regardless of its holder and state."""
        return self._obtainable(machine.shape) and self._unfit(machine) is None

    def suits(self, machine: Machine) -> bool:
        """Whether profile and unit allow this machine in its state, regardless of its holder."""
        return self._unfit(machine) is None

    def matches(self, machine: Machine) -> bool:
        """Whether the need could use such a machine if it were large enough."""
        fit = self._unfit(machine)
        return self._obtainable(machine.shape) and (fit is None or fit.result is FitResult.BELOW_UNIT)

    def _obtainable(self, shape: Shape) -> bool:
        of_type = not self._pinned or shape.instance_type in self._pinned
        return of_type and not is_refused(shape, self.need)

    def _bound(self, machine: Machine) -> MachineFit | None:
        state = machine.state
        if state in GONE:
            return MachineFit(FitResult.WRONG_STATE, state.label)
        if state in BOUND_STATES and machine.cluster != self.need.cluster:
            return MachineFit(FitResult.OTHER_CLUSTER, machine.cluster)
        return self.on_order(machine.assigned) if state is S.CREATING else None

    def on_order(self, stamp: Assignment) -> MachineFit | None:
        """Return for what a Creating machine with this stamp is ordered; None when it is for this need."""
        if stamp.cluster != self.need.cluster:
            return MachineFit(FitResult.OTHER_ORDER, stamp.cluster or "nobody")
        gang = self._key is not None and stamp.group != self.need.group
        if gang or stamp.fingerprint != self.need.profile.fingerprint:
            return MachineFit(FitResult.OTHER_ORDER, f"another need of {stamp.cluster}")
        return None

    def _unfit(self, machine: Machine) -> MachineFit | None:
        # By identity: shapes are shared and kept alive by the cycle, and there are far fewer of them than machines.
        key = (id(machine.shape), machine.state in FREE, machine.id if self._by_host else "")
        if key not in self._known:
            self._known[key] = self._flaw(machine, free=key[1])
        return self._known[key]

    def _flaw(self, machine: Machine, *, free: bool) -> MachineFit | None:
        shape = machine.shape
        if free and self._pinned and shape.instance_type not in self._pinned:
            return MachineFit(FitResult.PINNED_TYPE, shape.instance_type or "none")
        for requirement in self.need.profile.requirements:
            if not holds(requirement, machine.label(requirement.key)):
                return not_met(requirement)
        for name, wanted in self.need.unit.items():
            if shape.with_pods.amount(name) < wanted:
                return below_unit(name, wanted)
        if free and is_refused(shape, self.need):
            return MachineFit(FitResult.INTERRUPTIBLE)
        return None

    def _unfree(self, group: MachineGroup) -> MachineFit:
        machine, verdict = group.first, self._verdict
        if group.holder != NO_NEED:
            return self.claimed(group.holder)
        if self._key is not None:
            value = machine.label(self._key) or ""
            if self.domain is not None and value != self.domain:
                return MachineFit(FitResult.OUTSIDE_DOMAIN, value)
        if verdict.satisfied:
            return MachineFit(FitResult.NOT_NEEDED)
        if verdict.parked:
            return MachineFit(FitResult.PARKED)
        if self.spread is not None and self._key is None:
            group_of = machine.label(self.spread.topology_key)
            if group_of is None:
                return MachineFit(FitResult.SPREAD_KEY, self.spread.topology_key)
            return MachineFit(FitResult.SPREAD_LIMIT, group_of)
        return MachineFit(FitResult.NOT_NEEDED)

    def claimed(self, holder: int) -> MachineFit:
        """The fit of a machine that another need holds."""
        return MachineFit(FitResult.CLAIMED, self.relation(holder), holder)

    def relation(self, holder: int) -> str:
        """How the need at another place ranks against this one."""
        mine, theirs = self.need.profile.precedence, self._cycle.need(holder).profile.precedence
        if theirs == mine:
            return "of equal precedence"
        return "of higher precedence" if theirs > mine else "of lower precedence"


def step_of(machine: Machine) -> str:
    """The step by which a need got the machine."""
    return step_in(machine.state)


def step_in(state: MachineState) -> str:
    """The step by which a need got a machine that is in a state."""
    match state:
        case S.IDLE:
            return "bootstrapped"
        case S.SPECULATIVE:
            return "provisioned"
        case S.CREATING:
            return "on order"
        case _:
            return "kept"


def not_met(requirement: Requirement) -> MachineFit:
    """The fit of a machine that does not meet a requirement."""
    return MachineFit(FitResult.REQUIREMENT, requirement_text(requirement))


def below_unit(name: str, wanted: int) -> MachineFit:
    """The fit of a machine that has less of one dimension than the unit."""
    return MachineFit(FitResult.BELOW_UNIT, f"{name} {format_quantity(wanted)}")


def strict_spread(need: Need) -> Spread | None:
    """The one spread that binds: the first with DoNotSchedule."""
    strict = (
        item for item in need.profile.spreads if item.when_unsatisfiable is WhenUnsatisfiable.DO_NOT_SCHEDULE
    )
    return next(strict, None)


def requirement_text(requirement: Requirement) -> str:
    """A requirement in readable form: `rack In r1,r2`."""
    values = f" {','.join(requirement.values)}" if requirement.values else ""
    return f"{requirement.key} {_SIGNS[requirement.operator]}{values}"
