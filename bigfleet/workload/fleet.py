"""Fleets: the machines that a world starts with, one at a time or in parts.

Why: two million machines must be made without two million maps; shapes and stamps are shared, and nothing is held back.
Must never: hold more than one cluster's objects or one part's machines, or make a machine that `bigfleet.model.machine.check` refuses.
Rules: `testing#seeded-machines`, `testing#machine-allocation`. Three things are left open there and chosen so that a
settled 50k world binds as many machines as published (85,234; ours 84,517, 86,473 and 85,255 with the seeds 1 to 3): a
machine is made for the main size of its archetype; archetypes follow each other in catalogue order; numbers in ids are
padded, as ids break ties and are compared as text.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from bigfleet.model.frozen_map import FrozenMap
from bigfleet.model.machine import (
    NO_HOST,
    UNASSIGNED,
    Assignment,
    CapacityType,
    HostRef,
    Machine,
    MachineState,
    Shape,
)
from bigfleet.workload.archetype import ARCHETYPE_KEY, RACK_KEY, Archetype
from bigfleet.workload.draws import DrawSource
from bigfleet.workload.objects import ObjectsOf, WorkloadObject, objects_of
from bigfleet.workload.profiles import ScaleProfile, cluster_name
from bigfleet.workload.sizing import allocate
from bigfleet.workload.stamps import Stamper

PROVIDER = "workload"
"""The provider that a seeded host belongs to."""

_AT_ONCE = 10_000


@dataclass(frozen=True, slots=True)
class Tier:
    """What all machines of one kind of supply have in common."""

    name: str
    state: MachineState
    capacity_type: CapacityType
    price_per_hour: float
    interruption_probability: float

    @property
    def has_host(self) -> bool:
        """Whether there is hardware behind its machines yet."""
        return self.state is not MachineState.SPECULATIVE


IDLE = Tier("idle", MachineState.IDLE, CapacityType.BARE_METAL, 0.0, 0.0)
SPECULATIVE = Tier("spec", MachineState.SPECULATIVE, CapacityType.ON_DEMAND, 1.0, 0.05)
SPOT = Tier("spot", MachineState.SPECULATIVE, CapacityType.SPOT, 0.3, 0.30)
CONFIGURED = Tier("conf", MachineState.CONFIGURED, CapacityType.BARE_METAL, 0.0, 0.0)


@dataclass(frozen=True, slots=True)
class FleetPart:
    """Machines of one tier, and of one cluster where they are bound, by id; four parallel lists instead of records."""

    tier: Tier
    ids: list[str]
    shapes: list[Shape]
    stamps: list[Assignment]
    cluster: str = ""

    def machines(self) -> Iterator[Machine]:
        """The records, made one at a time."""
        for machine_id, shape, stamp in zip(self.ids, self.shapes, self.stamps, strict=True):
            yield Machine(machine_id, self.tier.state, shape, self._host(machine_id), self.cluster, stamp)

    def _host(self, machine_id: str) -> HostRef:
        return HostRef(PROVIDER, host_ref(machine_id)) if self.tier.has_host else NO_HOST


def host_ref(machine_id: str) -> str:
    """What the provider calls the hardware of one of its machines."""
    return f"host-{machine_id}"


def generate_fleet(profile: ScaleProfile, source: DrawSource, ordinal: int = 0) -> Iterator[Machine]:
    """Every machine of one shard: cluster by cluster the Configured ones, then Idle, Speculative and spot.

    Always the same for the same source; bound machines are stamped for the demand that the same source gives. Ids are
    unique within the shard: `idle-0` exists in each.
    """
    for part in fleet_parts(profile, source, ordinal):
        yield from part.machines()


def fleet_parts(
    profile: ScaleProfile, source: DrawSource, ordinal: int = 0, objects: ObjectsOf = objects_of
) -> Iterator[FleetPart]:
    """The same machines in the same order, some thousands at a time, for those who load them in bulk."""
    counts = profile.seed_counts()
    shapes = _Shapes(profile)
    stamper = Stamper(profile)
    bound = shapes.allocation(counts.configured_per_cluster)
    for cluster in profile.clusters_of(ordinal) if any(bound) else ():
        served = _by_archetype(objects(profile, cluster, source))
        stamps = [
            stamp
            for archetype, count in zip(profile.catalogue.steady, bound, strict=True)
            for stamp in stamper.stamps(archetype, count, served[archetype.name])
        ]
        prefix = f"conf-s{ordinal}-c{cluster:05d}-i"
        ids = [f"{prefix}{number:04d}" for number in range(len(stamps))]
        seeds = list(shapes.of_tier(CONFIGURED, bound))
        yield FleetPart(CONFIGURED, ids, seeds, stamps, cluster_name(cluster))
    for tier, machines in ((IDLE, counts.idle), (SPECULATIVE, counts.speculative), (SPOT, counts.spot)):
        numbered = enumerate(shapes.of_tier(tier, shapes.allocation(machines)))
        while chunk := list(islice(numbered, _AT_ONCE)):
            ids = [f"{tier.name}-{number:010d}" for number, _ in chunk]
            yield FleetPart(tier, ids, [shape for _, shape in chunk], [UNASSIGNED] * len(chunk))


def fleet_size(profile: ScaleProfile, ordinal: int = 0) -> int:
    """How many machines `generate_fleet` makes, without making them."""
    counts, shapes = profile.seed_counts(), _Shapes(profile)
    tiers = sum(sum(shapes.allocation(count)) for count in (counts.idle, counts.speculative, counts.spot))
    return tiers + len(profile.clusters_of(ordinal)) * sum(shapes.allocation(counts.configured_per_cluster))


def _by_archetype(objects: Iterable[WorkloadObject]) -> dict[str, list[WorkloadObject]]:
    found: dict[str, list[WorkloadObject]] = defaultdict(list)
    for item in objects:
        found[item.archetype.name].append(item)
    return found


class _Shapes:
    """The shapes of a profile's machines, each made once; there are some hundreds, whatever the fleet's size."""

    def __init__(self, profile: ScaleProfile) -> None:
        self._catalogue, self._density = profile.catalogue, profile.density
        self._made: dict[tuple[str, str, int, str], Shape] = {}
        self._known: dict[Shape, Shape] = {}  # archetypes of one type and size have equal shapes

    def allocation(self, machines: int) -> tuple[int, ...]:
        """The machines of each archetype."""
        return allocate(self._catalogue, machines, self._density)

    def of_tier(self, tier: Tier, counts: Sequence[int]) -> Iterator[Shape]:
        """The shapes of a tier's machines in the order of their ids: `counts` of each archetype, one after the other."""
        running = 0
        for archetype, count in zip(self._catalogue.steady, counts, strict=True):
            block, types = archetype.block, archetype.instance_types
            for place in range(count):
                yield self._shape(tier, archetype, place // block, types[running % len(types)])
                running += 1

    def _shape(self, tier: Tier, archetype: Archetype, slot: int, instance_type: str) -> Shape:
        # Zone and rack repeat with the slot: three zones and ten racks have no common factor, so all thirty occur.
        zones, racks = self._catalogue.zones, self._catalogue.racks_per_zone
        key = (tier.name, archetype.name, slot % (len(zones) * racks), instance_type)
        known = self._made.get(key)
        if known is None:
            zone = zones[slot % len(zones)]
            labels = {RACK_KEY: f"{zone}-rack-{slot % racks}"}
            if tier is not CONFIGURED:
                labels[ARCHETYPE_KEY] = archetype.name
            pods = archetype.pods_per_machine(self._density)
            capacity = FrozenMap(archetype.main_size.scaled(pods).texts())
            shape = Shape(
                instance_type=instance_type,
                zone=zone,
                capacity_type=tier.capacity_type,
                price_per_hour=tier.price_per_hour,
                interruption_probability=tier.interruption_probability,
                resources=capacity,
                allocatable=capacity,
                labels=FrozenMap(labels),
            )
            known = self._made[key] = self._known.setdefault(shape, shape)
        return known
