"""Demand against the published figures of the world, and on the wire."""

from collections.abc import Sequence

import pytest

from bigfleet.aio.rng import SeededRng
from bigfleet.engine.cycle import decide
from bigfleet.model.inventory import Inventory
from bigfleet.model.machine import Machine
from bigfleet.model.need import Need
from bigfleet.model.needs_table import NeedsTable
from bigfleet.model.situation import IdleHolds
from bigfleet.wire.rollups import Rollup, RollupReader, rollup_to_proto
from bigfleet.workload.catalogues import REALISTIC
from bigfleet.workload.demand import ClusterDemand, RollUp, generate_demand
from bigfleet.workload.objects import WorkloadObject
from bigfleet.workload.profiles import profile_named
from tests.support.builders import amounts


@pytest.fixture(scope="module")
def demand_50k() -> list[ClusterDemand]:
    return list(generate_demand(profile_named("50k"), SeededRng(1)))


def test_a_50k_world_has_as_many_rows_and_gangs_as_published(demand_50k: list[ClusterDemand]) -> None:
    rows = [need for demand in demand_50k for need in demand.needs]
    assert len(demand_50k) == 200
    assert len(rows) == pytest.approx(45_745, rel=0.02)
    assert len(rows) / 200 == pytest.approx(228, rel=0.02)
    too_large = [need for need in rows if "gpu-training" in need.group]
    assert len(too_large) / 200 == pytest.approx(2.7, abs=0.15)
    assert [demand.cluster for demand in demand_50k] == sorted(demand.cluster for demand in demand_50k)


def test_after_folding_a_cluster_has_as_many_needs_as_published(
    fleet_5k: list[Machine], demand_5k: list[ClusterDemand]
) -> None:
    inventory, table = Inventory(), NeedsTable()
    for machine in fleet_5k:
        inventory.insert(machine, 0.0)
    for demand in demand_5k:
        table.replace(demand.cluster, demand.needs)
    needs = table.snapshot()
    decision = decide(
        inventory.snapshot(),
        needs,
        parked=frozenset(),
        reported_clusters=None,
        holds=IdleHolds(),
        now=0.0,
    )
    normalised = decision.verdicts
    assert len(normalised) / 20 == pytest.approx(14.7, abs=0.6)
    assert sum(1 for item in normalised if item.need.group) / 20 == pytest.approx(2.7, abs=0.6)


def test_all_pods_are_asked_for(demand_5k: list[ClusterDemand]) -> None:
    rows = [need for demand in demand_5k for need in demand.needs]
    cpu = sum(need.total.amount("cpu") for need in rows) / 10**9
    assert cpu / 500_000 == pytest.approx(_mean_cpu(), rel=0.03)


def _mean_cpu() -> float:
    pods = {item.name: item.weight * float(item.mean_replicas) for item in REALISTIC.steady}
    cpu = {
        item.name: sum(size.amounts.amount("cpu") / 10**9 * size.share / 100 for size in item.sizes)
        for item in REALISTIC.steady
    }
    return sum(pods[name] * cpu[name] for name in pods) / sum(pods.values())


def test_every_roll_up_is_read_back_from_the_wire_as_it_was(demand_5k: list[ClusterDemand]) -> None:
    for demand in demand_5k:
        sent = Rollup(demand.cluster, 0, demand.needs)
        read = RollupReader(demand.cluster).read(rollup_to_proto(sent).SerializeToString())
        assert read == sent


def test_rows_go_out_by_priority_then_fingerprint_then_group_and_never_twice(
    demand_5k: list[ClusterDemand],
) -> None:
    for demand in demand_5k:
        order = [(-need.profile.priority, need.profile.fingerprint, need.group) for need in demand.needs]
        assert order == sorted(set(order))


def test_needs_share_profiles_and_amounts(demand_5k: list[ClusterDemand]) -> None:
    rows = [need for demand in demand_5k for need in demand.needs]
    assert len({id(need.profile) for need in rows}) == len({need.profile.fingerprint for need in rows}) == 10
    gangs = [need for need in rows if need.group]
    assert len({id(need.total) for need in gangs}) == len(
        {(need.profile.priority, need.total) for need in gangs}
    )


def rows_of(*objects: WorkloadObject) -> Sequence[Need]:
    return RollUp(REALISTIC).rows("c", objects, arrival_ns=5)


def test_sizes_of_one_kind_add_up_and_the_unit_is_the_largest() -> None:
    service = REALISTIC.archetype("cpu-service")
    small, large = (size.amounts for size in service.sizes)
    (row,) = rows_of(WorkloadObject(service, 0, small, False, 2), WorkloadObject(service, 1, large, False, 1))
    assert row.total == amounts(cpu="8600m", memory="33500Mi")
    assert row.unit == large
    assert (row.cluster, row.arrival_ns, row.group) == ("c", 5, "")


def test_a_strict_spread_makes_a_row_of_its_own_and_a_soft_one_does_not() -> None:
    service, tiny = REALISTIC.archetype("cpu-service"), REALISTIC.archetype("tiny-stateless")
    objects = [
        WorkloadObject(archetype, at, archetype.main_size, spread, 1)
        for at, (archetype, spread) in enumerate(
            [(service, False), (service, True), (tiny, False), (tiny, True)]
        )
    ]
    assert [(need.profile.priority, len(need.profile.spreads)) for need in rows_of(*objects)] == [
        (1000, 0),
        (1000, 1),
        (100, 0),
    ]


def test_gangs_of_one_kind_stay_apart() -> None:
    cache = REALISTIC.archetype("memory-cache")
    rows = rows_of(*(WorkloadObject(cache, at, cache.main_size, False, 4) for at in (1, 2)))
    assert len(rows) == 2
    assert rows[0].profile is rows[1].profile
    assert rows[0].total == amounts(cpu=8, memory="64Gi")
    assert rows[0].unit == cache.main_size


def test_a_shard_hears_of_its_own_clusters_only() -> None:
    profile = profile_named("failover-shard-kill")
    parts = [[demand.cluster for demand in generate_demand(profile, SeededRng(1), at)] for at in (0, 1)]
    assert [len(part) for part in parts] == [10, 10]
    assert parts[0][:2] == ["cluster-00000", "cluster-00002"]
    assert not set(parts[0]) & set(parts[1])
