"""The catalogues against the published table, row by row (`testing#realistic-catalogue`, `testing#other-catalogues`)."""

from dataclasses import dataclass

import pytest

from bigfleet.model.buckets import bucket_of, upper_bound
from bigfleet.model.profile import ZONE_KEY
from bigfleet.workload.archetype import GPU, RACK_KEY, Archetype, Catalogue, GangRule, SpreadRule
from bigfleet.workload.catalogues import (
    CATALOGUES,
    COST_ROUTING,
    GANG_HEAVY,
    REALISTIC,
    REALISTIC_DEV,
    SPREAD,
)
from bigfleet.workload.sizing import machine_shares, pod_shares
from tests.support.builders import amounts

SHARES = [  # archetype, weight, percent of pods, percent of machines
    ("tiny-stateless", 16073, 75.45, 66.43),
    ("cpu-service", 2755, 12.93, 11.39),
    ("cpu-batch", 1378, 6.47, 5.70),
    ("memory-cache", 2000, 1.76, 1.55),
    ("stateful-db", 2000, 1.76, 1.55),
    ("gpu-inference", 100, 0.47, 5.17),
    ("gpu-training-small", 32, 0.035, 3.09),
    ("gpu-training-medium", 18, 0.047, 4.18),
    ("critical-realtime", 230, 1.08, 0.95),
]


def test_the_weights_give_the_published_shares_of_pods_and_machines() -> None:
    pods, machines = pod_shares(REALISTIC), machine_shares(REALISTIC, 100)
    found = [(archetype.name, archetype.weight) for archetype in REALISTIC.steady]
    assert found == [(name, weight) for name, weight, _, _ in SHARES]
    for (_, _, pod_percent, machine_percent), pod, machine in zip(SHARES, pods, machines, strict=True):
        assert float(100 * pod) == pytest.approx(pod_percent, abs=0.0051)
        assert float(100 * machine) == pytest.approx(machine_percent, abs=0.0051)
    assert sum(pods) == sum(machines) == 1


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the published table, its first size only."""

    name: str
    size: str
    priority: int
    penalties: tuple[float, float]
    gang: GangRule | None
    pods: int


ROWS = [
    Row("tiny-stateless", "400m/500Mi", 100, (32, 64), None, 100),
    Row("cpu-service", "2200m/8500Mi", 1000, (1024, 8192), None, 100),
    Row("cpu-batch", "4/8Gi", 100, (64, 256), None, 100),
    Row("memory-cache", "2/16Gi", 1000, (4096, 16384), GangRule(3, 5), 100),
    Row("stateful-db", "8/32Gi", 1000, (8192, 32768), GangRule(3, 5), 100),
    Row("gpu-inference", "8/32Gi/1", 1000, (4096, 8192), None, 8),
    Row("gpu-training-small", "64/256Gi/8", 1000, (16384, 32768), GangRule(2, 8), 1),
    Row("gpu-training-medium", "64/256Gi/8", 1000, (32768, 65536), GangRule(8, 16), 1),
    Row("gpu-training-large", "128/512Gi/8", 1000, (65536, 131072), GangRule(64, 256, ZONE_KEY), 1),
    Row("critical-realtime", "4/8Gi", 1_000_000, (65536, 65536), None, 100),
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_an_archetype_is_as_published(row: Row) -> None:
    archetype = REALISTIC.archetype(row.name)
    size = dict(zip(("cpu", "memory", GPU), row.size.split("/"), strict=False))
    assert archetype.sizes[0].amounts == amounts(**size)
    assert archetype.priority == row.priority
    assert (archetype.interruption_penalty, archetype.reclamation_penalty) == row.penalties
    assert archetype.gang == row.gang
    assert archetype.pods_per_machine(100) == row.pods


def test_sizes_come_in_the_published_shares() -> None:
    several = {
        item.name: [(size.amounts, size.share) for size in item.sizes]
        for item in REALISTIC.archetypes
        if len(item.sizes) > 1
    }
    assert several == {
        "tiny-stateless": [
            (amounts(cpu="400m", memory="500Mi"), 60),
            (amounts(cpu="300m", memory="384Mi"), 40),
        ],
        "cpu-service": [
            (amounts(cpu="2200m", memory="8500Mi"), 70),
            (amounts(cpu="4200m", memory="16500Mi"), 30),
        ],
        "cpu-batch": [(amounts(cpu=4, memory="8Gi"), 60), (amounts(cpu=8, memory="16Gi"), 40)],
    }


def test_spreads_are_as_published() -> None:
    assert {item.name: item.spread for item in REALISTIC.archetypes if item.spread} == {
        "tiny-stateless": SpreadRule(0.45, 2, strict=False),
        "cpu-service": SpreadRule(0.75, 1, strict=True),
        "cpu-batch": SpreadRule(0.15, 2, strict=False),
        "gpu-inference": SpreadRule(0.5, 2, strict=False),
        "critical-realtime": SpreadRule(1.0, 1, strict=True),
    }


def test_only_batch_is_mortal_only_databases_are_stateful_and_only_large_training_comes_in_bursts() -> None:
    def names(kept: list[Archetype]) -> list[str]:
        return [archetype.name for archetype in kept]

    everything = list(REALISTIC.archetypes)
    assert names([item for item in everything if item.mean_life_s is not None]) == ["cpu-batch"]
    assert REALISTIC.archetype("cpu-batch").mean_life_s == 600
    assert names([item for item in everything if item.stateful]) == ["memory-cache", "stateful-db"]
    assert names([item for item in everything if item.burst_only]) == ["gpu-training-large"]


@pytest.mark.parametrize("catalogue", CATALOGUES, ids=lambda catalogue: catalogue.name)
def test_every_catalogue_makes_sense(catalogue: Catalogue) -> None:
    names = [archetype.name for archetype in catalogue.archetypes]
    assert len(set(names)) == len(names)
    for archetype in catalogue.archetypes:
        assert archetype.weight > 0
        assert sum(size.share for size in archetype.sizes) == 100
        assert all(not size.amounts.is_zero for size in archetype.sizes)
        assert len(set(archetype.instance_types)) == len(archetype.instance_types) > 0
        assert archetype.gang is None or 0 < archetype.gang.fewest <= archetype.gang.most
        assert archetype.gang is None or archetype.gang.topology_key in (RACK_KEY, ZONE_KEY)
        assert archetype.gang is None or archetype.spread is None
        assert archetype.spread is None or 0 < archetype.spread.probability <= 1
        # A stamp holds dollars and a profile buckets; they agree only on the bounds of buckets.
        for dollars in (archetype.interruption_penalty, archetype.reclamation_penalty):
            assert upper_bound(bucket_of(dollars)) == dollars


def test_the_development_catalogue_has_its_own_weights_and_groups() -> None:
    assert [archetype.weight for archetype in REALISTIC_DEV.archetypes] == [40, 15, 10, 8, 8, 5, 8, 6, 3]
    assert REALISTIC_DEV.archetype("gpu-training-small").gang == GangRule(2, 4)
    assert REALISTIC_DEV.archetype("gpu-training-medium").gang == GangRule(4, 8, ZONE_KEY)
    assert REALISTIC_DEV.archetype("gpu-inference").pods_per_machine(100) == 1
    assert "gpu-training-large" not in [archetype.name for archetype in REALISTIC_DEV.archetypes]


def test_cost_routing_lies_on_both_sides_of_the_price_at_which_spot_pays() -> None:
    tolerant, sensitive = COST_ROUTING.archetypes
    break_even = (1.0 - 0.3) / (0.30 - 0.05)
    assert tolerant.interruption_penalty == 0 < break_even < sensitive.interruption_penalty == 8
    assert tolerant.instance_types == sensitive.instance_types
    assert tolerant.sizes == sensitive.sizes


def test_the_special_catalogues_differ_only_in_what_they_are_for() -> None:
    changed = [
        new.name for old, new in zip(REALISTIC.archetypes, SPREAD.archetypes, strict=True) if old != new
    ]
    assert changed == ["cpu-service"]
    assert SPREAD.archetype("cpu-service").spread == SpreadRule(1.0, 1, strict=True)
    shares = zip(GANG_HEAVY.steady, machine_shares(GANG_HEAVY, 100), strict=True)
    in_gangs = sum(share for archetype, share in shares if archetype.gang is not None)
    assert float(in_gangs) == pytest.approx(0.5, abs=0.001)
