"""The board of Phase 1: every need of the normalised demand, and which machine is claimed for which need.

Why: pre-pass and acquisition write the same claims; results, Phase 2 and Phase 3 read them.
Must never: let a machine be claimed twice.
Rules: `engine#prepass-order`, `engine#phase-1-results`.
"""

from dataclasses import dataclass, field

from bigfleet.model.decision import DomainCoverage
from bigfleet.model.machine import Machine
from bigfleet.model.need import Need
from bigfleet.model.resources import Resources
from tests.reference.supply import counts_as


@dataclass(slots=True)
class Row:
    """One need of the normalised demand and what Phase 1 noted about it."""

    place: int
    need: Need
    folded_from: tuple[int, ...]
    parked: bool
    domain: str | None = None
    structurally_satisfiable: bool = False
    candidates: tuple[DomainCoverage, ...] = ()

    @property
    def is_gang(self) -> bool:
        """Whether its machines must share one value of a key."""
        return self.need.profile.same_key is not None


@dataclass(slots=True)
class Board:
    """Machines, needs, and the claims that pair them."""

    machines: tuple[Machine, ...]
    rows: tuple[Row, ...]
    claimed_for: dict[str, int] = field(default_factory=dict)
    """Machine id to the place of the need that has it."""

    def claim(self, machine: Machine, row: Row) -> None:
        """Pair a machine with a need for this cycle."""
        if machine.id in self.claimed_for:
            raise AssertionError(f"{machine.id} is claimed already, for need {self.claimed_for[machine.id]}")
        self.claimed_for[machine.id] = row.place

    def is_free(self, machine: Machine) -> bool:
        """Whether no need has claimed the machine."""
        return machine.id not in self.claimed_for

    def claims_of(self, row: Row) -> list[Machine]:
        """The machines a need has, by id."""
        mine = [machine for machine in self.machines if self.claimed_for.get(machine.id) == row.place]
        return sorted(mine, key=lambda machine: machine.id)

    def deficit(self, row: Row) -> Resources:
        """The need's total less what every machine it has counts as towards it (`engine#phase-1-results`)."""
        remaining = row.need.total
        for machine in self.claims_of(row):
            remaining -= counts_as(machine, row.need)
        return remaining
