"""The fleet and the demand of the shard's benchmark: every cluster is served exactly, and a tenth is free.

Why: a shard in its steady state has nothing to do but look; what it costs to look at everything is what is measured.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from bigfleet.model.frozen_map import FrozenMap
from bigfleet.model.machine import CapacityType, MachineState, Shape
from bigfleet.model.need import Need
from bigfleet.model.profile import INSTANCE_TYPE_KEY, Profile, Requirement, RequirementOperator
from bigfleet.model.resources import Resources
from bigfleet.provider.kit.core.values import DescribedMachine
from bigfleet.shard.core.lifecycle import assignment_of
from bigfleet.wire.metadata import assignment_to_metadata

ROWS = 10
SHARD = "shard-0"


@dataclass(frozen=True, slots=True)
class FleetSize:
    """How many clusters, and how many machines in all; a tenth each is Idle and Speculative."""

    clusters: int
    machines: int

    @property
    def per_row(self) -> int:
        """Machines that serve one row of one cluster."""
        return self.machines * 8 // 10 // (self.clusters * ROWS)

    @property
    def seeded(self) -> int:
        """Machines that there really are, as every row is served by a whole number of them."""
        return self.clusters * ROWS * self.per_row + 2 * self.free

    @property
    def free(self) -> int:
        """Idle machines, and as many slots."""
        return self.machines // 10


def cluster_name(number: int) -> str:
    return f"c{number:05d}"


def profile(row: int) -> Profile:
    return Profile(
        requirements=(Requirement(INSTANCE_TYPE_KEY, RequirementOperator.IN, (f"type-{row}",)),),
        priority=100 + row,
    )


PROFILES = tuple(profile(row) for row in range(ROWS))
_SHAPES = tuple(
    Shape(
        instance_type=f"type-{row}",
        zone="zone-a",
        capacity_type=CapacityType.BARE_METAL,
        resources=FrozenMap({"cpu": "16", "memory": "64Gi"}),
    )
    for row in range(ROWS)
)


def demand(number: int, size: FleetSize, extra: int = 0) -> tuple[Need, ...]:
    """A cluster's rows: what its machines hold, and so many machines more of one type, another for each cluster."""
    cluster = cluster_name(number)
    grows = number % ROWS
    return tuple(
        Need(
            cluster, each, Resources.parse({"cpu": str(16 * (size.per_row + (extra if row == grows else 0)))})
        )
        for row, each in enumerate(PROFILES)
    )


def slots(size: FleetSize) -> Iterator[DescribedMachine]:
    """Every machine."""
    metadata = [FrozenMap(assignment_to_metadata(assignment_of(Need("", each)), SHARD)) for each in PROFILES]
    for number in range(size.clusters):
        cluster = cluster_name(number)
        for row in range(ROWS):
            for place in range(size.per_row):
                machine_id = f"{cluster}-{row}-{place}"
                yield DescribedMachine(
                    machine_id,
                    _SHAPES[row],
                    f"host/{machine_id}",
                    MachineState.CONFIGURED,
                    cluster,
                    metadata[row],
                )
    for place in range(size.free):
        yield DescribedMachine(
            f"idle-{place}", _SHAPES[place % ROWS], f"host/idle-{place}", MachineState.IDLE
        )
        yield DescribedMachine(f"slot-{place}", _SHAPES[place % ROWS])
