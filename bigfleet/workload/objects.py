"""Workload objects: what is drawn for a cluster before anything is added up.

Why: all pods of a Deployment are alike, so size and spread are drawn once per object and hold for all of its replicas;
drawing them per pod would even out every cluster.
Must never: draw in another order. The order of draws is part of the meaning of a seed: archetype, size, spread, replicas.
Rules: `testing#workload-objects`.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from bigfleet.model.profile import Profile
from bigfleet.model.resources import Resources
from bigfleet.workload.archetype import REPLICA_BANDS, Archetype, Catalogue
from bigfleet.workload.draws import Draws, DrawSource, Wheel, between
from bigfleet.workload.profiles import ScaleProfile

NAMESPACE = "scaletest"
GROUP_KEY = "scaletest.bigfleet/group"

_BANDS = Wheel(weight for weight, _, _ in REPLICA_BANDS)


@dataclass(frozen=True, slots=True)
class WorkloadObject:
    """One Deployment or StatefulSet of one cluster."""

    archetype: Archetype
    number: int  # among the objects of its cluster, in the order of drawing
    size: Resources
    spread: bool  # whether it asks for the spread of its archetype
    replicas: int

    @property
    def name(self) -> str:
        """Unique in its cluster."""
        return f"{self.archetype.name}-{self.number}"

    @property
    def group(self) -> str:
        """The identity of a gang as an operator writes it: scope, topology key, selector (`operator#gang-rows`); else empty."""
        gang = self.archetype.gang
        if gang is None:
            return ""
        return f"{NAMESPACE}\0{gang.topology_key}\0{GROUP_KEY}={self.name},;"


ObjectsOf = Callable[[ScaleProfile, int, DrawSource], Iterable[WorkloadObject]]
"""How a reader gets at the objects of a cluster: `objects_of`, or something that knows them already."""


def objects_of(profile: ScaleProfile, cluster: int, source: DrawSource) -> Iterator[WorkloadObject]:
    """The objects of one cluster, by its number; always the same for the same source."""
    draws = source.child(f"workload/c{cluster}").stream("objects")
    return draw_objects(profile.catalogue, profile.pods_of(cluster), draws)


class SharedDraws:
    """Draws the objects of each cluster once for two readers, who need not come at the same time."""

    def __init__(self) -> None:
        self._drawn: dict[int, list[WorkloadObject]] = {}

    def __call__(self, profile: ScaleProfile, cluster: int, source: DrawSource) -> list[WorkloadObject]:
        """The objects of one cluster; the second to ask takes them away."""
        objects = self._drawn.pop(cluster, None)
        if objects is None:
            objects = self._drawn[cluster] = list(objects_of(profile, cluster, source))
        return objects


def draw_objects(catalogue: Catalogue, pods: int, draws: Draws) -> Iterator[WorkloadObject]:
    """Objects by weight until their replicas reach the number of pods; the last one is cut to it."""
    number, left = 0, pods
    while left > 0:
        archetype = catalogue.steady[catalogue.wheel.draw(draws)]
        drawn = draw_object(archetype, number, draws, most=left)
        left -= drawn.replicas
        number += 1
        yield drawn


def draw_object(archetype: Archetype, number: int, draws: Draws, most: int | None = None) -> WorkloadObject:
    """One object of a given archetype, cut to `most` replicas; without it uncut, as forced bursts are."""
    size = archetype.sizes[archetype.size_wheel.draw(draws)].amounts
    spread = archetype.spread is not None and draws.random() < archetype.spread.probability
    replicas = _draw_replicas(archetype, draws)
    return WorkloadObject(archetype, number, size, spread, replicas if most is None else min(replicas, most))


def _draw_replicas(archetype: Archetype, draws: Draws) -> int:
    if archetype.gang is not None:
        return between(archetype.gang.fewest, archetype.gang.most, draws)
    _, fewest, most = REPLICA_BANDS[_BANDS.draw(draws)]
    return archetype.capped(between(fewest, most, draws))


class ProfileBook:
    """The demand profiles of a catalogue, each made once and shared by all needs and stamps."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._profiles: dict[tuple[str, bool], Profile] = {}
        known: dict[str, Profile] = {}  # a spread that is not sent leaves the profile as it is without
        for archetype in catalogue.archetypes:
            for spread in (False, True):
                profile = archetype.demand_profile(catalogue.zones, spread=spread)
                self._profiles[archetype.name, spread] = known.setdefault(profile.fingerprint, profile)

    def of(self, item: WorkloadObject) -> Profile:
        """The constraints of an object's pods."""
        return self._profiles[item.archetype.name, item.spread]

    def folded(self, item: WorkloadObject) -> Profile:
        """The same once the engine has folded a gang that fits on one machine."""
        return self._profiles[item.archetype.name, item.spread].without_same
