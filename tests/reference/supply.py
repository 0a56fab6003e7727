"""Which machines a need may count on, and in what order they are walked.

Why: the phases differ in what they do with a machine, hardly in which machines they look at; the filters and the orders
of the rules are here once, each with its number.
Rules: `engine#inventory`, `engine#matching`, `engine#acquisition-order`, `engine#pools`, `engine#obtainable`,
`engine#hostname-domain`, `engine#max-units-per-machine`.
"""

import math
from collections.abc import Iterable

from bigfleet.model.buckets import upper_bound
from bigfleet.model.costs import effective_cost
from bigfleet.model.machine import Machine, MachineState
from bigfleet.model.matching import holds
from bigfleet.model.need import Need
from bigfleet.model.profile import Profile
from bigfleet.model.resources import Resources


def value_for(machine: Machine, key: str) -> str | None:
    """A machine's value for a label key; one without a host name goes by its id (`engine#hostname-domain`)."""
    value = machine.shape.label(key)
    if key == "kubernetes.io/hostname" and value is None:
        return machine.id
    return value


def meets(machine: Machine, profile: Profile) -> bool:
    """Whether a machine meets every requirement of a profile (`engine#matching`)."""
    return all(holds(wanted, value_for(machine, wanted.key)) for wanted in profile.requirements)


def in_state(machines: Iterable[Machine], state: MachineState) -> list[Machine]:
    """Machines in a state by id (`engine#inventory`)."""
    return sorted((machine for machine in machines if machine.state is state), key=lambda machine: machine.id)


def bound_to(machines: Iterable[Machine], cluster: str, state: MachineState) -> list[Machine]:
    """A cluster's machines in a state in keep order (`engine#inventory`): price, dearest to lose first, id."""

    def keep_order(machine: Machine) -> tuple[float, float, str]:
        return (machine.shape.price_per_hour, -machine.assigned.reclamation_penalty, machine.id)

    return sorted(
        (machine for machine in in_state(machines, state) if machine.cluster == cluster), key=keep_order
    )


def is_of_pinned_type(machine: Machine, profile: Profile) -> bool:
    """Whether the instance-type field is one the profile is limited to, if it is limited at all.

    Rules: `engine#matching`, `engine#pinned-types`.
    """
    return not profile.pinned_types or machine.shape.instance_type in profile.pinned_types


def suits(machine: Machine, need: Need) -> bool:
    """Whether a machine matches the need's profile and covers its unit; asked of bound machines (`engine#crediting`)."""
    return meets(machine, need.profile) and counts_as(machine, need).covers(need.unit)


def counts_as(machine: Machine, need: Need) -> Resources:
    """What a machine counts as towards a need: its capacity, of what the unit names at most so many units.

    A need that names pods counts 110 of them on a machine that does not say how many it has room for.
    Rules: `engine#capacity`, `engine#max-units-per-machine`, `engine#pods`.
    """
    amounts = dict(machine.shape.capacity.items())
    stated = machine.shape.allocatable or machine.shape.resources
    if (need.total.amount("pods") or need.unit.amount("pods")) and "pods" not in stated:
        amounts["pods"] = 110 * 10**9
    if need.max_units > 0:
        for name, amount in need.unit.items():
            amounts[name] = min(amounts.get(name, 0), need.max_units * amount)
    return Resources(amounts)


def cost_of(machine: Machine, profile: Profile) -> float:
    """What a machine costs work of this profile per hour (`engine#effective-cost`)."""
    shape = machine.shape
    penalty = upper_bound(profile.interruption_bucket)
    return effective_cost(shape.price_per_hour, shape.interruption_probability, penalty)


def is_obtainable(machine: Machine, profile: Profile) -> bool:
    """Whether a profile may get such a machine at all: of a pinned type, and at a finite cost.

    Rules: `engine#pinned-types`, `engine#obtainable`.
    """
    return is_of_pinned_type(machine, profile) and math.isfinite(cost_of(machine, profile))


def can_be_got_for(machine: Machine, need: Need) -> bool:
    """`suits`, for machines that would have to be got (`engine#obtainable`)."""
    return is_obtainable(machine, need.profile) and suits(machine, need)


def idle_pool(machines: Iterable[Machine], need: Need) -> list[Machine]:
    """Idle machines a need could take, in the order of `engine#pools`: effective cost, least worth elsewhere, id."""

    def idle_order(machine: Machine) -> tuple[float, float, str]:
        return (cost_of(machine, need.profile), machine.assigned.reclamation_penalty, machine.id)

    idle = in_state(machines, MachineState.IDLE)
    return sorted((machine for machine in idle if can_be_got_for(machine, need)), key=idle_order)


def speculative_pool(machines: Iterable[Machine], need: Need) -> list[Machine]:
    """Speculative machines a need could buy, by effective cost for its profile, then id (`engine#acquisition-order`)."""

    def speculative_order(machine: Machine) -> tuple[float, str]:
        return (cost_of(machine, need.profile), machine.id)

    speculative = in_state(machines, MachineState.SPECULATIVE)
    return sorted(
        (machine for machine in speculative if can_be_got_for(machine, need)), key=speculative_order
    )
