"""Worlds: the inventory and the needs of one shard, ready to be decided on.

Why: benchmarks and scale tests start from a fleet at rest, before its first need, or without anything to spare; each is
made from a profile and a seed, so that a figure names its world in two words.
Must never: draw from anything but the source it is given; the same profile and source are the same world.
Rules: `testing#workload`, `engine#bench-unit`, `engine#growth`.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from bigfleet.model.inventory import Inventory
from bigfleet.model.machine import BOUND_STATES
from bigfleet.model.need import Need
from bigfleet.model.needs_table import NeedsTable
from bigfleet.model.profile import HOST_NAME_KEY, Requirement, RequirementOperator
from bigfleet.workload.bulk import copied, load_fleet, priced_apart, unbound
from bigfleet.workload.demand import ClusterDemand, generate_demand
from bigfleet.workload.draws import DrawSource
from bigfleet.workload.fleet import FleetPart, fleet_parts
from bigfleet.workload.objects import SharedDraws
from bigfleet.workload.profiles import ScaleProfile
from bigfleet.workload.settled import settle

START = 1_700_000_000.0
"""The time of every world."""

_MOST_CYCLES = 40
"""Ordinary worlds come to rest in three cycles; one full of gangs, which take machines from each other, took eleven."""


@dataclass(frozen=True, slots=True)
class World:
    """One shard's machines and demand."""

    inventory: Inventory
    needs: NeedsTable


def seeded_world(profile: ScaleProfile, source: DrawSource) -> World:
    """The fleet as its profile seeds it: stamped for most of its demand, the rest still to be obtained."""
    parts, demands = _drawn(profile, source)
    return World(load_fleet(parts), _table(demands))


def settled_world(profile: ScaleProfile, source: DrawSource) -> World:
    """The fleet at rest: all demand met, no action due."""
    return _at_rest(seeded_world(profile, source))


def unbound_world(profile: ScaleProfile, source: DrawSource) -> World:
    """The fleet before the first need: its demand is there, nothing is bound yet."""
    parts, demands = _drawn(profile, source)
    return World(load_fleet(unbound(parts)), _table(demands))


def host_name_world(profile: ScaleProfile, source: DrawSource) -> World:
    """The fleet at rest, where every machine has a host name and one need of each cluster looks at it."""
    parts, demands = _drawn(profile, source)
    return _at_rest(World(load_fleet(parts, host_names=True), _table(map(_naming_hosts, demands))))


def own_price_world(profile: ScaleProfile, source: DrawSource) -> World:
    """The fleet at rest, where every machine has a price that no other has."""
    parts, demands = _drawn(profile, source)
    draws = source.child("worlds").stream("prices")
    return _at_rest(World(load_fleet(priced_apart(parts, draws)), _table(demands)))


def without_supply(world: World) -> World:
    """A world of its own with the bound machines of another, and nothing that could be acquired."""
    snapshot = world.inventory.snapshot()
    states = snapshot.columns["state"][snapshot.id_order]
    kept = snapshot.id_order[np.isin(states, list(BOUND_STATES))]
    needs = NeedsTable()
    for cluster in world.needs.clusters:
        needs.replace(cluster, world.needs.of_cluster(cluster))
    return World(copied(snapshot, kept), needs)


def _drawn(profile: ScaleProfile, source: DrawSource) -> tuple[Iterator[FleetPart], Iterator[ClusterDemand]]:
    """Machines and demand of one drawing."""
    objects = SharedDraws()
    return (
        fleet_parts(profile, source, objects=objects),
        generate_demand(profile, source, objects=objects),
    )


def _table(demands: Iterable[ClusterDemand]) -> NeedsTable:
    needs = NeedsTable()
    for demand in demands:
        needs.replace(demand.cluster, demand.needs)
    return needs


def _at_rest(world: World) -> World:
    settle(world.inventory, world.needs.snapshot(), START, most_cycles=_MOST_CYCLES)
    return world


def _naming_hosts(demand: ClusterDemand) -> ClusterDemand:
    """The demand with one pod more, which may run on any host but one."""
    model = next(need for need in reversed(demand.needs) if not need.group)
    profile = model.profile
    avoids = Requirement(HOST_NAME_KEY, RequirementOperator.NOT_IN, (f"{demand.cluster}.internal",))
    profile = replace(profile, requirements=(*profile.requirements, avoids))
    extra = Need(demand.cluster, profile, model.unit, model.unit, model.arrival_ns)
    rows = sorted((*demand.needs, extra), key=_row_order)
    return ClusterDemand(demand.cluster, tuple(rows))


def _row_order(need: Need) -> tuple[int, str, str]:
    return (-need.profile.priority, need.profile.fingerprint, need.group)
