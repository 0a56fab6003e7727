"""The counted view of the whole fleet from one need: what it has, what it could take, what is refused and why.

Why: an explanation names a few machines of each class and counts the rest. `bigfleet.explain.summarize` does the counting.
Must never: leave a machine out. Chosen and refused machines add up to the fleet.
Rules: `dashboard#explain-classes`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bigfleet.explain.fit import FitResult, MachineFit
from bigfleet.model.buckets import upper_bound
from bigfleet.model.costs import effective_cost
from bigfleet.model.machine import CapacityType, MachineState, Shape
from bigfleet.model.need import Need
from bigfleet.model.resources import Resources

EXAMPLES = 5
"""How many machines of a class are named."""
COMPETITORS = 10
REFUSALS_SHOWN = 50
"""How many refusals with one result are shown one by one."""

S = MachineState
STEPS = (S.CONFIGURED, S.CONFIGURING, S.CREATING, S.IDLE, S.SPECULATIVE)
WAITING = (FitResult.NOT_NEEDED, FitResult.PARKED, FitResult.SPREAD_LIMIT)
"""Results of machines that the need could take if it wanted more and were allowed to."""
FIT_RESULTS = tuple(FitResult)

Looks = tuple[MachineState, str, str, CapacityType, float, float]


def looks_of(state: MachineState, shape: Shape) -> Looks:
    """What machines of one class have in common."""
    return (
        *(state, shape.instance_type, shape.zone, shape.capacity_type),
        *(shape.price_per_hour, shape.interruption_probability),
    )


def cost_for(shape: Shape, need: Need) -> float:
    """The effective hourly cost of a machine of a shape to a need."""
    penalty = upper_bound(need.profile.interruption_bucket)
    return effective_cost(shape.price_per_hour, shape.interruption_probability, penalty)


@dataclass(frozen=True, slots=True)
class ChosenClass:
    """Machines of one price, type, zone and state that a need got in one way."""

    how: str
    state: MachineState
    shape: Shape
    """Of one of them; they differ in labels at most."""
    count: int
    examples: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RefusedClass:
    """Machines that were refused for one reason."""

    fit: MachineFit
    count: int
    examples: tuple[str, ...]
    others: int = 0
    """How many details of one result are shown as one; a large fleet has thousands of clusters."""


@dataclass(frozen=True, slots=True)
class FleetSummary:
    """All machines, counted for one need."""

    fitting: Mapping[MachineState, int]
    """How many the need may take in each state, unless another need does."""
    taken: Mapping[MachineState, int]
    offered: Mapping[MachineState, Resources]
    """What the taken ones hold."""
    chosen: Sequence[ChosenClass]
    next_best: ChosenClass | None
    refused: Sequence[RefusedClass]
    """By result, then the most common first."""
    held: Sequence[tuple[MachineFit, int]]
    """The ten needs that hold most of what this need could use, with their numbers of machines."""
