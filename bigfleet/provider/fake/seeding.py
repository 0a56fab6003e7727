"""Machines of a fake from a workload catalogue, the same fleet that benchmarks generate.

Must never: use another source of randomness than the seed, or another generator than `bigfleet.workload.fleet`.
Rules: `providers#fake-flags`, `testing#seeded-machines`, `testing#machine-allocation`, `testing#effective-machines`,
`testing#sizing-oracle`.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from bigfleet.aio.rng import SeededRng
from bigfleet.model.errors import InvalidFieldError
from bigfleet.model.frozen_map import FrozenMap
from bigfleet.model.machine import Assignment
from bigfleet.provider.kit.core.values import DescribedMachine
from bigfleet.wire.metadata import OWNER_SHARD, assignment_to_metadata
from bigfleet.workload.archetype import Catalogue
from bigfleet.workload.catalogues import REALISTIC
from bigfleet.workload.fleet import CONFIGURED, FleetPart, fleet_parts, host_ref
from bigfleet.workload.profiles import ScaleProfile, SeedCounts


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogueSeed:
    """Numbers of machines of each tier for one shard; `clusters` counts those of the whole fleet."""

    catalogue: Catalogue = REALISTIC
    idle: int = 0
    speculative: int = 0
    spot: int = 0
    configured_per_cluster: int = 0
    clusters: int = 0
    density: int = 100
    ordinal: int = 0
    shards: int = 1
    owner_shard: str = ""
    """The owner in the metadata of bound machines; empty leaves the key out, so that any shard takes them."""
    seed: int = 1

    def __post_init__(self) -> None:
        for name in ("idle", "speculative", "spot", "configured_per_cluster", "clusters", "ordinal"):
            if getattr(self, name) < 0:
                raise InvalidFieldError(name, getattr(self, name), "0 or more")
        for name in ("density", "shards"):
            if getattr(self, name) < 1:
                raise InvalidFieldError(name, getattr(self, name), "1 or more")
        if self.ordinal >= self.shards:
            raise InvalidFieldError("ordinal", self.ordinal, f"0 to {self.shards - 1}, one per shard")
        if self.configured_per_cluster and not self.clusters:
            raise InvalidFieldError("clusters", 0, "1 or more together with configured-per-cluster")

    def slots(self) -> Iterator[DescribedMachine]:
        """Yield the machines, generated some thousands at a time."""
        stamps = _Stamps(self.owner_shard)
        for part in fleet_parts(self._profile(), SeededRng(self.seed), self.ordinal):
            yield from _slots(part, stamps)

    def _profile(self) -> ScaleProfile:
        return _Counted(
            name="seeded",
            machines=self.clusters * self.configured_per_cluster,
            catalogue=self.catalogue,
            density=self.density,
            pods_per_cluster=max(self.configured_per_cluster * self.density, 1),
            shards=self.shards,
            cluster_count=self.clusters,
            counts=SeedCounts(self.configured_per_cluster, self.idle, self.speculative, self.spot),
        )


@dataclass(frozen=True, slots=True)
class _Counted(ScaleProfile):
    """A profile whose counts are given, not derived."""

    cluster_count: int = 0
    counts: SeedCounts = field(default_factory=lambda: SeedCounts(0, 0, 0, 0))

    @property
    def clusters(self) -> int:
        return self.cluster_count

    def pods_of(self, cluster: int) -> int:  # noqa: ARG002  all clusters are alike
        return self.pods_per_cluster

    def seed_counts(self) -> SeedCounts:
        return self.counts


class _Stamps:
    """Assignments as shard metadata, each encoded once."""

    def __init__(self, owner_shard: str) -> None:
        self._owner_shard = owner_shard
        self._made: dict[Assignment, FrozenMap[str]] = {}

    def of(self, stamp: Assignment) -> FrozenMap[str]:
        found = self._made.get(stamp)
        if found is None:
            texts = assignment_to_metadata(stamp, self._owner_shard)
            if not self._owner_shard:
                del texts[OWNER_SHARD]
            found = self._made[stamp] = FrozenMap(texts)
        return found


def _slots(part: FleetPart, stamps: _Stamps) -> Iterator[DescribedMachine]:
    if part.tier is CONFIGURED:
        for machine_id, shape, stamp in zip(part.ids, part.shapes, part.stamps, strict=True):
            yield DescribedMachine(
                machine_id, shape, host_ref(machine_id), part.tier.state, part.cluster, stamps.of(stamp)
            )
        return
    has_host = part.tier.has_host
    for machine_id, shape in zip(part.ids, part.shapes, strict=True):
        yield DescribedMachine(machine_id, shape, host_ref(machine_id) if has_host else "")
