"""Archetypes: what kinds of workload a fleet serves, and a catalogue of them.

Why: seed and load must agree on sizes, shares and group sizes, so both read one description.
Must never: name a machine, a cluster or a number of pods; that is for the profile.
Rules: `testing#workload-catalogues`, `testing#workload-objects`; ADR-0015, ADR-0032, ADR-0037, ADR-0050.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from bigfleet.model.buckets import bucket_of
from bigfleet.model.errors import InvalidFieldError
from bigfleet.model.profile import (
    INSTANCE_TYPE_KEY,
    ZONE_KEY,
    Profile,
    Requirement,
    RequirementOperator,
    Spread,
    WhenUnsatisfiable,
)
from bigfleet.model.resources import Resources
from bigfleet.workload.draws import Wheel

RACK_KEY = "topology.bigfleet/rack"
ARCHETYPE_KEY = "scaletest.bigfleet/archetype"
GPU = "nvidia.com/gpu"

CORE_RESOURCES = frozenset({"cpu", "memory"})
"""What is left when these are taken away is extended: a device, which no density multiplies."""

REPLICA_BANDS: tuple[tuple[int, int, int], ...] = ((55, 1, 5), (30, 6, 25), (12, 26, 100), (3, 101, 400))
"""(weight, fewest, most) replicas of an object that is no gang; uniform inside a band, 21.375 in the mean."""

STATEFUL_LIMIT = 25
"""Most replicas of a StatefulSet that is no gang."""


@dataclass(frozen=True, slots=True)
class Size:
    """What one pod asks for, and how often this size is drawn; the shares of an archetype add up to 100."""

    amounts: Resources
    share: int = 100


@dataclass(frozen=True, slots=True)
class SpreadRule:
    """How likely an object asks for an even spread over zones, and how strictly."""

    probability: float
    max_skew: int
    strict: bool


@dataclass(frozen=True, slots=True)
class GangRule:
    """All pods of an object in one domain: which key makes the domain, and how many pods there are."""

    fewest: int
    most: int
    topology_key: str = RACK_KEY


@dataclass(frozen=True)  # no slots: what follows from the fields is worked out once and kept
class Archetype:
    """One kind of workload."""

    name: str
    weight: int
    instance_types: tuple[str, ...]
    sizes: tuple[Size, ...]
    priority: int
    interruption_penalty: float
    reclamation_penalty: float
    spread: SpreadRule | None = None
    gang: GangRule | None = None
    pods_per_node: int | None = None  # None: the density of the profile, or 1 for shapes with a device
    mean_life_s: float | None = None  # None: immortal
    stateful: bool = False  # a StatefulSet, else a Deployment
    burst_only: bool = False  # no steady share, no seed, no gang floor; weight zero would not do (ADR-0050)

    @cached_property
    def size_wheel(self) -> Wheel:
        """Draws one of the sizes."""
        return Wheel(size.share for size in self.sizes)

    @cached_property
    def main_size(self) -> Resources:
        """The size drawn most often, the first of several; its machines are made for it."""
        return max(self.sizes, key=lambda size: size.share).amounts

    @cached_property
    def mean_replicas(self) -> Fraction:
        """Pods of one object in the mean; exact, as shares are split by it."""
        if self.gang is not None:
            return Fraction(self.gang.fewest + self.gang.most, 2)
        total = sum(weight for weight, _, _ in REPLICA_BANDS)
        return sum(
            (
                Fraction(weight, total)
                * Fraction(sum(map(self.capped, range(fewest, most + 1))), most + 1 - fewest)
                for weight, fewest, most in REPLICA_BANDS
            ),
            Fraction(0),
        )

    @property
    def block(self) -> int:
        """How many consecutive machines are in one rack: those of the largest gang where gangs share a rack, else one."""
        return self.gang.most if self.gang is not None and self.gang.topology_key == RACK_KEY else 1

    def capped(self, replicas: int) -> int:
        """A number of replicas from the bands, as this kind of object may have it."""
        return min(replicas, STATEFUL_LIMIT) if self.stateful else replicas

    def pods_per_machine(self, density: int) -> int:
        """How many of its pods one of its machines is made for."""
        if self.pods_per_node is not None:
            return self.pods_per_node
        extended = any(name not in CORE_RESOURCES for size in self.sizes for name in size.amounts)
        return 1 if extended else density

    def demand_profile(self, zones: tuple[str, ...], *, spread: bool) -> Profile:
        """The constraints of its pods as an operator sends them: soft spreads are left out there."""
        requirements = [
            Requirement(INSTANCE_TYPE_KEY, RequirementOperator.IN, self.instance_types),
            Requirement(ZONE_KEY, RequirementOperator.IN, zones),
        ]
        if self.gang is not None:
            requirements.append(Requirement(self.gang.topology_key, RequirementOperator.SAME))
        rule = self.spread if spread and self.spread is not None and self.spread.strict else None
        spreads = (
            () if rule is None else (Spread(ZONE_KEY, rule.max_skew, WhenUnsatisfiable.DO_NOT_SCHEDULE),)
        )
        return Profile(
            requirements=tuple(requirements),
            spreads=spreads,
            priority=self.priority,
            interruption_bucket=bucket_of(self.interruption_penalty),
            reclamation_bucket=bucket_of(self.reclamation_penalty),
        )


@dataclass(frozen=True)  # no slots: see Archetype
class Catalogue:
    """Archetypes and the zones and racks of their machines."""

    name: str
    archetypes: tuple[Archetype, ...]
    zones: tuple[str, ...] = ("zone-a", "zone-b", "zone-c")
    racks_per_zone: int = 10

    @cached_property
    def steady(self) -> tuple[Archetype, ...]:
        """The archetypes that are drawn, seeded and counted; the rest come in bursts only."""
        return tuple(archetype for archetype in self.archetypes if not archetype.burst_only)

    @cached_property
    def wheel(self) -> Wheel:
        """Draws one of the steady archetypes."""
        return Wheel(archetype.weight for archetype in self.steady)

    def archetype(self, name: str) -> Archetype:
        """The archetype of that name, a burst-only one too."""
        for archetype in self.archetypes:
            if archetype.name == name:
                return archetype
        known = ", ".join(archetype.name for archetype in self.archetypes)
        raise InvalidFieldError("archetype", name, f"one of {known}")
