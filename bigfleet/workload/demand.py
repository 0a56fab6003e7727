"""Demand: the rows that the operators of a world send, one roll-up per cluster.

Why: engine, shard and benchmarks start from roll-ups, not from pods; what an operator would add up of the drawn objects
is added up here, without a Kubernetes in between.
Must never: split or merge rows otherwise than an operator does. The tests compare with `bigfleet.model.need.aggregate`
over one need per object.
Rules: `testing#workload-objects`, `operator#contribution`, `operator#aggregation`, `operator#spread-kept`,
`operator#gang-rows`.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from bigfleet.model.need import Need
from bigfleet.model.resources import ZERO, Resources
from bigfleet.workload.archetype import Catalogue
from bigfleet.workload.draws import DrawSource
from bigfleet.workload.objects import ObjectsOf, ProfileBook, WorkloadObject, objects_of
from bigfleet.workload.profiles import ScaleProfile, cluster_name


@dataclass(frozen=True, slots=True)
class ClusterDemand:
    """One cluster's whole demand, rows in the order in which an operator sends them."""

    cluster: str
    needs: tuple[Need, ...]


def generate_demand(
    profile: ScaleProfile,
    source: DrawSource,
    ordinal: int = 0,
    arrival_ns: int = 0,
    objects: ObjectsOf = objects_of,
) -> Iterator[ClusterDemand]:
    """The demand of every cluster of one shard, cluster by cluster; always the same for the same source."""
    roll_up = RollUp(profile.catalogue)
    for number in profile.clusters_of(ordinal):
        cluster = cluster_name(number)
        yield ClusterDemand(cluster, roll_up.rows(cluster, objects(profile, number, source), arrival_ns))


class RollUp:
    """Adds up objects to rows; profiles and amounts are shared between all clusters it is used for."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._profiles = ProfileBook(catalogue)
        self._multiples: dict[tuple[Resources, int], Resources] = {}

    def rows(self, cluster: str, objects: Iterable[WorkloadObject], arrival_ns: int = 0) -> tuple[Need, ...]:
        """The rows of one cluster by priority descending, then fingerprint, then group."""
        gangs: list[Need] = []
        kinds: dict[str, tuple[WorkloadObject, dict[Resources, int]]] = {}
        for item in objects:
            profile = self._profiles.of(item)
            if item.archetype.gang is not None:
                total = self._multiple(item.size, item.replicas)
                gangs.append(Need(cluster, profile, total, item.size, arrival_ns, item.group))
                continue
            _, pods = kinds.setdefault(profile.fingerprint, (item, {}))
            pods[item.size] = pods.get(item.size, 0) + item.replicas
        rows = gangs
        for first, pods in kinds.values():
            total, unit = ZERO, ZERO
            for size, count in pods.items():
                total, unit = total + size.scaled(count), unit.maximum(size)
            rows.append(Need(cluster, self._profiles.of(first), total, unit, arrival_ns))
        rows.sort(key=lambda need: (-need.profile.priority, need.profile.fingerprint, need.group))
        return tuple(rows)

    def _multiple(self, size: Resources, count: int) -> Resources:
        known = self._multiples.get((size, count))
        if known is None:
            known = self._multiples[size, count] = size.scaled(count)
        return known
