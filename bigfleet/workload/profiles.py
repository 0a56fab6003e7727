"""The scale profiles: the machines and demand that a name means.

Why: a benchmark, a scale test and the fake provider that say "50k" must mean one and the same fleet.
Must never: hold gates, timings, faults or events; those belong to the runner of scale tests, which reads them from its
own files and refers to a profile here for sizes.
Rules: `testing#geometry`, `testing#scale-ladder`, `testing#scale-dev-profile`, `testing#scale-special-profiles`,
`testing#effective-machines`, `shard#shared-packages`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum

from bigfleet.model.errors import InvalidFieldError
from bigfleet.workload.archetype import Catalogue
from bigfleet.workload.catalogues import COST_ROUTING, GANG_HEAVY, REALISTIC, REALISTIC_DEV, SPREAD
from bigfleet.workload.sizing import effective_machines


class Geometry(Enum):
    """What seeds are fractions of: the profile's machines, as in every published run, or those its pods take."""

    NOMINAL = "nominal"
    EFFECTIVE = "effective"


@dataclass(frozen=True, slots=True)
class Seeding:
    """How many machines a fleet starts with, tier by tier."""

    configured_fraction: float = 1.0
    idle_fraction: float = 0.2
    speculative_multiplier: float = 3.0
    speculative_count: int | None = None  # of the whole fleet; when given, it replaces the multiplier
    spot_count: int = 0  # of the whole fleet


@dataclass(frozen=True, slots=True)
class SeedCounts:
    """Machines to seed in one shard, before gang floors raise them."""

    configured_per_cluster: int
    idle: int
    speculative: int
    spot: int


@dataclass(frozen=True, slots=True)
class ScaleProfile:
    """One world: its size, its catalogue, its clusters and shards, and what is there at the start."""

    name: str
    machines: int
    catalogue: Catalogue = REALISTIC
    density: int = 100
    pods_per_cluster: int = 25_000
    shards: int = 1
    seeding: Seeding = Seeding()
    geometry: Geometry = Geometry.NOMINAL
    label: str = ""  # under which its figures were published

    @property
    def pods(self) -> int:
        """All pods of the fleet."""
        return self.machines * self.density

    @property
    def clusters(self) -> int:
        """All clusters of the fleet; all but the last are full."""
        return -(-self.pods // self.pods_per_cluster)

    @property
    def base_machines(self) -> int:
        """What the seeds are fractions of."""
        if self.geometry is Geometry.NOMINAL:
            return self.machines
        return effective_machines(self.catalogue, self.pods, self.density)

    def pods_of(self, cluster: int) -> int:
        """The pods of one cluster, by its number."""
        return min(self.pods_per_cluster, self.pods - cluster * self.pods_per_cluster)

    def clusters_of(self, ordinal: int) -> range:
        """The numbers of the clusters that one shard serves: those that leave its ordinal over."""
        if not 0 <= ordinal < self.shards:
            raise InvalidFieldError("ordinal", ordinal, f"the number of a shard from 0 to {self.shards - 1}")
        return range(ordinal, self.clusters, self.shards)

    def seed_counts(self) -> SeedCounts:
        """The machines of each tier in one shard; all shards are alike."""
        base, seeding = self.base_machines, self.seeding
        speculative = (
            base * seeding.speculative_multiplier
            if seeding.speculative_count is None
            else seeding.speculative_count
        )
        return SeedCounts(
            configured_per_cluster=round(base * seeding.configured_fraction / self.clusters),
            idle=round(base * seeding.idle_fraction / self.shards),
            speculative=round(speculative / self.shards),
            spot=round(seeding.spot_count / self.shards),
        )


def cluster_name(number: int) -> str:
    """The cluster's id; padded, so that text order is number order up to the largest profile."""
    return f"cluster-{number:05d}"


_5K = ScaleProfile("5k", 5_000, label="uber-5k")
_50K = ScaleProfile("50k", 50_000, label="uber-50k")
_LADDER = (
    _5K,
    ScaleProfile("25k", 25_000),
    _50K,
    replace(_50K, name="50k-2shard", shards=2, label=""),
    ScaleProfile("500k", 500_000, label="uber-500k"),
    ScaleProfile("1m", 1_000_000, shards=2),
    ScaleProfile("5m", 5_000_000, shards=10, label="uber-5m"),
)
_DEV = ScaleProfile(
    "dev-50",
    50,
    catalogue=REALISTIC_DEV,
    pods_per_cluster=2_500,
    seeding=Seeding(idle_fraction=1.2, speculative_multiplier=5.0),
)


def _like(parent: ScaleProfile, *names: str, shards: int = 1) -> tuple[ScaleProfile, ...]:
    return tuple(replace(parent, name=name, shards=shards, label="") for name in names)


_SPECIAL = (
    *_like(_5K, "failover-leader-kill", "oscillation-5k", "reclaim-cycle"),
    *_like(_5K, "failover-shard-kill", "failover-partition", "failover-soak", shards=2),
    *_like(_50K, "reclaim-cycle-50k", "spot-churn-50k"),
    ScaleProfile(
        "preemption-5k",
        5_000,
        seeding=Seeding(configured_fraction=0.0, idle_fraction=0.0, speculative_count=4_300),
    ),
    ScaleProfile(
        "scarcity-5k",
        5_000,
        seeding=Seeding(configured_fraction=0.6, idle_fraction=0.0, speculative_multiplier=0.0),
    ),
    ScaleProfile(
        "cost-routing-5k",
        5_000,
        catalogue=COST_ROUTING,
        seeding=Seeding(
            configured_fraction=0.0, idle_fraction=0.0, speculative_count=5_000, spot_count=5_000
        ),
    ),
    ScaleProfile("thundering-herd", 5_000, pods_per_cluster=5_000, shards=2),
    ScaleProfile("spread-5k", 5_000, catalogue=SPREAD),
    ScaleProfile("gang-heavy-5k", 5_000, catalogue=GANG_HEAVY),
    *_like(_5K, "rail-5k", "provider-lies-5k", "restart-storm-5k"),
    ScaleProfile("1m-sim", 1_000_000, shards=4),
)
_BENCH = (
    # As many clusters as it takes for about 2,500 gangs that no single machine holds.
    ScaleProfile("gang-heavy", 34_000, catalogue=GANG_HEAVY),
    # The smallest world that has everything: three clusters, gangs, spreads, all tiers of supply.
    replace(_DEV, name="tiny", machines=15, pods_per_cluster=500, geometry=Geometry.EFFECTIVE),
)

PROFILES: Mapping[str, ScaleProfile] = {
    profile.name: profile for profile in (*_LADDER, _DEV, *_SPECIAL, *_BENCH)
}


def profile_named(name: str) -> ScaleProfile:
    """The profile of that name or published label: `50k` and `uber-50k` are one."""
    for profile in PROFILES.values():
        if name in (profile.name, profile.label) and name:
            return profile
    raise InvalidFieldError("profile", name, f"one of {', '.join(PROFILES)}")
