"""Machines that a decision left out because their offering is stocked out, as explanations show them.

Why: the engine never sees them, so without this a reader would look for them in vain.
Must never: leave one out: chosen, refused and stocked-out machines add up to the fleet.
Rules: `shard#offering-cool-off`, `dashboard#explain-classes`.
"""

from dataclasses import dataclass

from bigfleet.explain.durations import duration_text
from bigfleet.explain.fit import FitChecker
from bigfleet.explain.fleet_summary import cost_for
from bigfleet.model.machine import CapacityType, Machine


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Machines of one shape whose offering is in cool-off."""

    first: Machine
    """The first by id."""
    count: int
    examples: tuple[str, ...]
    left_s: float
    """Until the next attempt; 0 when one is due."""
    error: str = ""
    """What the provider said."""

    @property
    def offering(self) -> str:
        """The name of the offering."""
        shape = self.first.shape
        return offering_name(shape.instance_type, shape.zone, shape.capacity_type)

    @property
    def detail(self) -> str:
        """The offering and when it is tried again."""
        return f"{self.offering}, {next_attempt(self.left_s)}"


@dataclass(frozen=True, slots=True)
class StockedOutOffer:
    """An offering that a need would use if it were not stocked out."""

    offering: str
    effective_cost: float
    machines: int
    left_s: float


def usable_offers(checker: FitChecker, left_out: tuple[LeftOut, ...]) -> tuple[StockedOutOffer, ...]:
    """The offerings that the need could use, cheapest first."""
    offers = [
        StockedOutOffer(item.offering, cost_for(item.first.shape, checker.need), item.count, item.left_s)
        for item in left_out
        if checker.fits(item.first)
    ]
    return tuple(sorted(offers, key=lambda offer: (offer.effective_cost, offer.offering)))


def offering_name(instance_type: str, zone: str, capacity_type: CapacityType) -> str:
    """An offering in a sentence: `m5.large in za (Spot)`."""
    where = f" in {zone}" if zone else ""
    kind = "" if capacity_type is CapacityType.UNSPECIFIED else f" ({capacity_type.label})"
    return f"{instance_type or 'machines without an instance type'}{where}{kind}"


def next_attempt(left_s: float) -> str:
    """When something is tried again, in a sentence."""
    return f"next attempt in {duration_text(left_s)}" if left_s > 0 else "the next attempt is due"
