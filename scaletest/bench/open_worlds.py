"""Worlds with much open demand: the benchmark shapes of the original, each as machines and needs.

Why: at rest nearly every need is covered by what its cluster holds; these are the moments at which tens of thousands are not.
Must never: draw from anything but the seed it is given, or change what a name stands for.
Rules: `engine#bench-unit`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random

from bigfleet.model.frozen_map import FrozenMap
from bigfleet.model.machine import UNASSIGNED, Assignment, Shape
from bigfleet.model.need import Need, assignment_of
from bigfleet.model.needs_table import NeedsTable
from bigfleet.model.profile import (
    INSTANCE_TYPE_KEY,
    Profile,
    Requirement,
    RequirementOperator,
)
from bigfleet.model.resources import Resources
from bigfleet.workload.archetype import RACK_KEY, Archetype
from bigfleet.workload.bulk import load_fleet
from bigfleet.workload.catalogues import REALISTIC
from bigfleet.workload.fleet import CONFIGURED, IDLE, SPECULATIVE, FleetPart, Tier
from bigfleet.workload.worlds import World

CAPACITY: Mapping[str, tuple[str, str, int]] = {
    "m6i.large": ("2", "8Gi", 0),
    "m6i.xlarge": ("4", "16Gi", 0),
    "m6i.2xlarge": ("8", "32Gi", 0),
    "c6i.4xlarge": ("16", "32Gi", 0),
    "c6i.8xlarge": ("32", "64Gi", 0),
    "n2-standard-32": ("32", "128Gi", 0),
    "r6i.xlarge": ("4", "32Gi", 0),
    "r6i.2xlarge": ("8", "64Gi", 0),
    "a3-highgpu-8g": ("208", "1872Gi", 8),
    "a2-highgpu-8g": ("96", "680Gi", 8),
}
"""What the machines of each type hold: cpu, memory, GPUs."""

ZONES = ("zone-a", "zone-b", "zone-c")
FIVE_TYPES = ("m6i.large", "m6i.xlarge", "c6i.4xlarge", "r6i.2xlarge", "a3-highgpu-8g")
CLUSTERS = 50
_AT_ONCE = 10_000


@dataclass(frozen=True, slots=True)
class OpenWorld:
    """A world, and what is known of it from elsewhere."""

    name: str
    published: str
    """What the original published for the shape, on its own hardware; empty where it published nothing."""
    make: Callable[[Random], World]


def amounts(instance_type: str) -> Resources:
    """What a machine of a type holds."""
    cpu, memory, gpus = CAPACITY[instance_type]
    texts = {"cpu": cpu, "memory": memory, **({"nvidia.com/gpu": str(gpus)} if gpus else {})}
    return Resources.parse(texts)


def machine_shapes(
    instance_type: str, tier: Tier, racks: int = 0, zones: Sequence[str] = ZONES
) -> list[Shape]:
    """The shapes of one type, zone by zone and rack by rack."""
    plain = Shape(
        instance_type=instance_type,
        capacity_type=tier.capacity_type,
        price_per_hour=tier.price_per_hour,
        interruption_probability=tier.interruption_probability,
        resources=FrozenMap(amounts(instance_type).texts()),
    )
    return [
        replace(plain, zone=zone, labels=FrozenMap({RACK_KEY: f"{zone}-r{rack:02d}"} if racks else {}))
        for zone in zones
        for rack in range(max(1, racks))
    ]


def parts(
    name: str,
    tier: Tier,
    shapes: Sequence[Shape],
    count: int,
    *,
    cluster: str = "",
    stamp: Assignment = UNASSIGNED,
) -> Iterable[FleetPart]:
    """So many machines that take turns through the shapes."""
    for start in range(0, count, _AT_ONCE):
        places = range(start, min(count, start + _AT_ONCE))
        yield FleetPart(
            tier,
            [f"{tier.name}-{name}-{place:07d}" for place in places],
            [shapes[place % len(shapes)] for place in places],
            [stamp] * len(places),
            cluster,
        )


def cluster_names(count: int = CLUSTERS) -> list[str]:
    """The names of clusters, in the order of their first roll-ups."""
    return [f"cluster-{number:03d}" for number in range(count)]


def table(rows: Mapping[str, Sequence[Need]]) -> NeedsTable:
    """Demand of clusters that reported one after the other."""
    needs = NeedsTable()
    for number, (cluster, asked) in enumerate(rows.items()):
        needs.replace(cluster, [replace(need, arrival_ns=1_000 + number) for need in asked])
    return needs


def typed(*types: str, **rest: object) -> Profile:
    """A profile limited to some types."""
    requirement = Requirement(INSTANCE_TYPE_KEY, RequirementOperator.IN, types)
    return Profile(requirements=(requirement,), **rest)  # type: ignore[arg-type]  # passed on by name


# Phase 1

SINGLES = tuple(archetype for archetype in REALISTIC.steady if archetype.gang is None)


def _idle_by_weight(count: int) -> Iterable[FleetPart]:
    """Idle machines, as many of each archetype as its weight says, half and half of its types."""
    weights = sum(archetype.weight for archetype in SINGLES)
    for archetype in SINGLES:
        share = -(-count * archetype.weight // weights)
        for place, instance_type in enumerate(archetype.instance_types):
            some = share // len(archetype.instance_types) + (place < share % len(archetype.instance_types))
            name = f"{archetype.name}-{instance_type}"
            yield from parts(name, IDLE, machine_shapes(instance_type, IDLE), some)


def _drawn(random: Random, whole: bool) -> Callable[[str], Need]:
    """Makes one need after the other, each for one pod or one whole machine of an archetype drawn by weight."""
    profiles = {
        (archetype.name, spread): archetype.demand_profile(REALISTIC.zones, spread=spread)
        for archetype in SINGLES
        for spread in (False, True)
    }
    units = {
        archetype.name: [amounts(kind) for kind in archetype.instance_types]
        if whole
        else [size.amounts for size in archetype.sizes]
        for archetype in SINGLES
    }
    weights = [archetype.weight for archetype in SINGLES]

    def draw(cluster: str) -> Need:
        archetype: Archetype = random.choices(SINGLES, weights)[0]
        rule = archetype.spread
        spread = rule is not None and rule.strict and random.random() < rule.probability
        unit = random.choice(units[archetype.name])
        return Need(cluster, profiles[archetype.name, spread], unit, unit)

    return draw


def realistic(random: Random, *, whole: bool) -> World:
    """60,000 Idle machines and 50,000 single needs, both by the weights of the catalogue."""
    draw = _drawn(random, whole)
    rows = {cluster: [draw(cluster) for _ in range(1_000)] for cluster in cluster_names()}
    return World(load_fleet(_idle_by_weight(60_000)), table(rows))


def all_same(random: Random) -> World:
    """60,000 Idle machines of one type and 50,000 needs of one profile."""
    del random
    unit, profile = Resources.parse({"cpu": "400m", "memory": "500Mi"}), typed("m6i.large", priority=100)
    rows = {cluster: [Need(cluster, profile, unit, unit)] * 1_000 for cluster in cluster_names()}
    return World(load_fleet(parts("same", IDLE, machine_shapes("m6i.large", IDLE), 60_000)), table(rows))


def _uber_5k() -> list[FleetPart]:
    bound = [
        part
        for cluster in cluster_names(20)
        for part in parts(cluster, CONFIGURED, machine_shapes("m6i.large", CONFIGURED), 250, cluster=cluster)
    ]
    idle = parts("free", IDLE, machine_shapes("m6i.large", IDLE), 1_000)
    slots = parts("slot", SPECULATIVE, machine_shapes("m6i.large", SPECULATIVE), 12_000)
    return [*bound, *idle, *slots]


def late_run(random: Random, *, unit_rows: bool) -> World:
    """20 clusters of 250 machines that fill up: 160 needs of 3,125 units, or most of them as single rows."""
    del random
    unit = Resources.parse({"cpu": "100m", "memory": "256Mi"})
    rows: dict[str, list[Need]] = {}
    for cluster in cluster_names(20):
        profiles = [typed("m6i.large", priority=100 * (number + 1)) for number in range(8)]
        if unit_rows:
            rows[cluster] = [Need(cluster, profiles[number % 8], unit, unit) for number in range(12_500)]
        else:
            rows[cluster] = [Need(cluster, profile, unit.scaled(3_125), unit) for profile in profiles]
    return World(load_fleet(_uber_5k()), table(rows))


def bucket_sized(random: Random) -> World:
    """100,000 Idle machines in eight racks and 20,000 gangs of one unit, each of a cluster of its own."""
    del random
    unit = Resources.parse({"cpu": "8", "memory": "64Gi"})
    same = Requirement(RACK_KEY, RequirementOperator.SAME)
    profile = Profile((*typed("r6i.2xlarge").requirements, same), priority=1_000)
    rows = {cluster: [Need(cluster, profile, unit, unit, group="gang")] for cluster in cluster_names(20_000)}
    shapes = machine_shapes("r6i.2xlarge", IDLE, 8, ZONES[:1])
    return World(load_fleet(parts("free", IDLE, shapes, 100_000)), table(rows))


def co_located_repeated(random: Random) -> World:
    """10,000 Idle machines in eight racks and 50,000 needs of one fingerprint that each want one machine's worth."""
    del random
    unit = Resources.parse({"cpu": "16", "memory": "32Gi"})
    same = Requirement(RACK_KEY, RequirementOperator.SAME)
    profile = Profile((*typed("c6i.4xlarge").requirements, same), priority=1_000)
    rows = {
        cluster: [Need(cluster, profile, unit, unit, group=f"gang-{number}") for number in range(1_000)]
        for cluster in cluster_names()
    }
    shapes = machine_shapes("c6i.4xlarge", IDLE, 8, ZONES[:1])
    return World(load_fleet(parts("free", IDLE, shapes, 10_000)), table(rows))


def co_located(random: Random) -> World:
    """20 clusters of 250 machines with tiny and service pods, and 127 gangs each that share a rack."""
    del random
    fleet: list[FleetPart] = []
    rows: dict[str, list[Need]] = {}
    tiny, service = typed("m6i.large", "m6i.xlarge", priority=100), typed("m6i.xlarge", priority=1_000)
    same = Requirement(RACK_KEY, RequirementOperator.SAME)
    gangs = Profile((*typed("r6i.2xlarge").requirements, same), priority=1_000)
    small, large = (
        Resources.parse({"cpu": "400m", "memory": "500Mi"}),
        Resources.parse({"cpu": "2", "memory": "8Gi"}),
    )
    member = Resources.parse({"cpu": "4", "memory": "30Gi"})
    held = (("m6i.large", 175), ("m6i.xlarge", 30), ("r6i.2xlarge", 30), ("a3-highgpu-8g", 15))
    for cluster in cluster_names(20):
        for instance_type, count in held:
            shapes = machine_shapes(instance_type, CONFIGURED, 10)
            fleet += parts(f"{cluster}-{instance_type}", CONFIGURED, shapes, count, cluster=cluster)
        sizes = [4] * 95 + [5] * 32
        rows[cluster] = [
            Need(cluster, tiny, small.scaled(17_500), small),
            Need(cluster, service, large.scaled(3_000), large),
            *(
                Need(cluster, gangs, member.scaled(size), member, group=f"gang-{number}")
                for number, size in enumerate(sizes)
            ),
        ]
    for instance_type in ("m6i.large", "m6i.xlarge", "r6i.2xlarge"):
        fleet += parts(f"free-{instance_type}", IDLE, machine_shapes(instance_type, IDLE, 10), 334)
        slots = machine_shapes(instance_type, SPECULATIVE, 10)
        fleet += parts(f"slot-{instance_type}", SPECULATIVE, slots, 4_000)
    return World(load_fleet(fleet), table(rows))


# Phases 2 and 3


def _bound(count: int, clusters: Sequence[str], types: Sequence[str], priority: int) -> Iterable[FleetPart]:
    """Configured machines of some types, shared evenly among clusters, which serve a need of this priority."""
    stamps = {kind: assignment_of(Need("", typed(kind, priority=priority), amounts(kind))) for kind in types}
    for cluster in clusters:
        for kind in types:
            some = count // len(clusters) // len(types)
            shapes = machine_shapes(kind, CONFIGURED)
            yield from parts(
                f"{cluster}-{kind}", CONFIGURED, shapes, some, cluster=cluster, stamp=stamps[kind]
            )


def _served(
    count: int, clusters: Sequence[str], types: Sequence[str], priority: int
) -> dict[str, list[Need]]:
    """Needs that those machines serve."""
    some = count // len(clusters) // len(types)
    return {
        cluster: [
            Need(cluster, typed(kind, priority=priority), amounts(kind).scaled(some), amounts(kind))
            for kind in types
        ]
        for cluster in clusters
    }


def scale_inversions(random: Random) -> World:
    """500,000 Configured machines of low priority, and 100 needs of a high one that each miss five."""
    del random
    names = cluster_names(10)
    rows = _served(500_000, names, FIVE_TYPES, 100)
    urgent = [typed(kind, priority=1_000_000) for kind in FIVE_TYPES]
    rows["urgent"] = [
        Need("urgent", urgent[number % 5], amounts(kind).scaled(5), amounts(kind))
        for number in range(100)
        for kind in [FIVE_TYPES[number % 5]]
    ]
    return World(load_fleet(_bound(500_000, names, FIVE_TYPES, 100)), table(rows))


def no_victims(random: Random) -> World:
    """450,000 Configured machines of high priority, and 100 needs of a low one."""
    del random
    names = cluster_names()
    rows = _served(450_000, names, FIVE_TYPES, 1_000_000)
    kinds = [FIVE_TYPES[number % 5] for number in range(100)]
    rows["modest"] = [
        Need("modest", typed(kind, priority=1_000), amounts(kind).scaled(5), amounts(kind)) for kind in kinds
    ]
    return World(load_fleet(_bound(450_000, names, FIVE_TYPES, 1_000_000)), table(rows))


def high_demand(random: Random) -> World:
    """500,000 Configured machines of five types in 50 clusters, and three large needs for each cluster."""
    del random
    names = cluster_names()
    fleet = load_fleet(_bound(500_000, names, FIVE_TYPES, 100))
    rows = {
        cluster: [
            Need(cluster, typed(kind, priority=100), amounts(kind).scaled(1_500), amounts(kind))
            for kind in FIVE_TYPES[:3]
        ]
        for cluster in names
    }
    return World(fleet, table(rows))


def m29(random: Random) -> World:
    """50 clusters of 9,000 large machines, and one need of 10,000 of them in each."""
    del random
    names = cluster_names()
    kind = "a3-highgpu-8g"
    rows = {
        cluster: [Need(cluster, typed(kind, priority=100), amounts(kind).scaled(10_000), amounts(kind))]
        for cluster in names
    }
    return World(load_fleet(_bound(450_000, names, (kind,), 100)), table(rows))


# Whole cycles


def steady(random: Random, *, idle: int) -> World:
    """Idle machines of five types in three zones, and 50,000 needs of one machine each."""
    profiles = [typed(kind, priority=100) for kind in FIVE_TYPES]
    units = [amounts(kind) for kind in FIVE_TYPES]
    rows = {}
    for cluster in cluster_names():
        picked = [random.randrange(5) for _ in range(1_000)]
        rows[cluster] = [Need(cluster, profiles[place], units[place], units[place]) for place in picked]
    fleet = [
        part
        for kind in FIVE_TYPES
        for part in parts(kind, IDLE, machine_shapes(kind, IDLE), idle // len(FIVE_TYPES))
    ]
    return World(load_fleet(fleet), table(rows))


def acquirable_totals(random: Random) -> World:
    """12,000 slots in thirty racks, and one gang that counts on them."""
    del random
    unit = Resources.parse({"cpu": "8", "memory": "64Gi"})
    same = Requirement(RACK_KEY, RequirementOperator.SAME)
    profile = Profile((*typed("r6i.2xlarge").requirements, same), priority=1_000)
    shapes = machine_shapes("r6i.2xlarge", SPECULATIVE, 10)
    rows = {"one": [Need("one", profile, unit.scaled(4), unit, group="gang")]}
    return World(load_fleet(parts("slot", SPECULATIVE, shapes, 12_000)), table(rows))


def nothing_fits(random: Random) -> World:
    """60,000 Idle machines, and one cluster whose 50,000 rows nothing meets, each of a profile of its own."""
    rows = {**_few_rows(random), "hostile": hostile_rows(0)}
    return World(load_fleet(_idle_by_weight(60_000)), table(rows))


def hostile_rows(generation: int, count: int = 50_000) -> list[Need]:
    """Rows that nobody sent before and nothing meets."""
    unit = Resources.parse({"cpu": "1", "memory": "1Gi"})
    return [
        Need(
            "hostile",
            Profile(
                (Requirement("team", RequirementOperator.IN, (f"{generation}-{number}",)),), priority=1_000
            ),
            unit,
            unit,
        )
        for number in range(count)
    ]


def odd_rows(generation: int, count: int = 50_000) -> list[Need]:
    """Rows that nobody sent before, each of an amount and a profile of its own, and all but a few met by something."""
    profiles = [
        Profile(
            (Requirement("team", RequirementOperator.NOT_IN, (f"{generation}-{number}",)),), priority=1_000
        )
        for number in range(count)
    ]
    units = [
        Resources.parse({"cpu": f"{100 + number % 997}m", "memory": f"{200_000_000 + number}"})
        for number in range(count)
    ]
    return [Need("hostile", profile, unit, unit) for profile, unit in zip(profiles, units, strict=True)]


def every_row_its_own(random: Random) -> World:
    """60,000 Idle machines, and one cluster whose 50,000 rows differ in profile and amount."""
    rows = {**_few_rows(random), "hostile": odd_rows(0)}
    return World(load_fleet(_idle_by_weight(60_000)), table(rows))


def _few_rows(random: Random) -> dict[str, list[Need]]:
    draw = _drawn(random, whole=False)
    return {cluster: [draw(cluster) for _ in range(10)] for cluster in cluster_names(10)}


OPEN_WORLDS: Mapping[str, OpenWorld] = {
    world.name: world
    for world in (
        OpenWorld("Phase1_Realistic_50K, pods", "22 ms", lambda random: realistic(random, whole=False)),
        OpenWorld("Phase1_Realistic_50K, machines", "22 ms", lambda random: realistic(random, whole=True)),
        OpenWorld("Phase1_AllSame_50K", "", all_same),
        OpenWorld("Phase1_Uber5K_LateRun", "0.121 ms", lambda random: late_run(random, unit_rows=False)),
        OpenWorld("Phase1_Uber5K_Unaggregated", "", lambda random: late_run(random, unit_rows=True)),
        OpenWorld("Phase1_Uber50K_BucketSized", "", bucket_sized),
        OpenWorld("TakeCoLocated_Repeated_50K", "", co_located_repeated),
        OpenWorld("Uber5K_CoLocated", "", co_located),
        OpenWorld("Phase2_ScaleInversions", "", scale_inversions),
        OpenWorld("Phase2_NoPreemptableVictims", "", no_victims),
        OpenWorld("Phase3_HighDemand", "416 ms", high_demand),
        OpenWorld("Phase3_M29Shape", "255 ms", m29),
        OpenWorld("AcquirableTotals_Uber5K", "", acquirable_totals),
        OpenWorld("ShardCycle_Steady_1K", "", lambda random: steady(random, idle=1_000)),
        OpenWorld("ShardCycle_Steady_50K", "245 ms", lambda random: steady(random, idle=50_000)),
        OpenWorld("ShardCycle_Steady_100K", "412 ms", lambda random: steady(random, idle=100_000)),
        OpenWorld("ShardCycle_Steady_500K", "2,150 ms", lambda random: steady(random, idle=500_000)),
        OpenWorld("nothing_fits_50K", "", nothing_fits),
        OpenWorld("every_row_its_own_50K", "", every_row_its_own),
    )
}
"""Every shape by name; the last two are our own."""
