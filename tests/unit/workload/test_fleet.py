"""Fleets against the published seeds, and the invariants of every machine."""

import hashlib
import os
import subprocess
import sys
from collections import Counter
from itertools import islice

import pytest

from bigfleet.aio.rng import SeededRng
from bigfleet.model.machine import CapacityType, Machine, MachineState, check
from bigfleet.model.matching import matches
from bigfleet.model.resources import Resources
from bigfleet.wire.metadata import assignment_from_metadata, assignment_to_metadata
from bigfleet.workload.archetype import ARCHETYPE_KEY, GPU, RACK_KEY
from bigfleet.workload.catalogues import REALISTIC
from bigfleet.workload.demand import ClusterDemand
from bigfleet.workload.fleet import CONFIGURED, IDLE, SPECULATIVE, SPOT, Tier, fleet_size, generate_fleet
from bigfleet.workload.profiles import PROFILES, profile_named
from tests.support.builders import amounts

BOUND = MachineState.CONFIGURED


def test_a_5k_world_starts_with_the_published_machines_in_every_state(fleet_5k: list[Machine]) -> None:
    assert Counter(machine.state for machine in fleet_5k) == {
        MachineState.CONFIGURED: 20 * 326,
        MachineState.IDLE: 1_006,
        MachineState.SPECULATIVE: 15_000,
    }
    assert len({machine.id for machine in fleet_5k}) == len(fleet_5k) == 22_526


def test_a_50k_world_has_225_200_machines_on_some_hundred_shapes_and_stamps() -> None:
    shapes: set[int] = set()
    stamps: set[int] = set()
    states: Counter[MachineState] = Counter()
    for machine in generate_fleet(profile_named("uber-50k"), SeededRng(1)):
        states[machine.state] += 1
        shapes.add(id(machine.shape))
        stamps.add(id(machine.assigned))
    assert states[BOUND] == 65_200
    assert sum(states.values()) == 225_200
    assert len(shapes) < 1_000
    assert len(stamps) < 2_000


def test_equal_shapes_and_stamps_are_one_object(fleet_5k: list[Machine]) -> None:
    assert len({id(machine.shape) for machine in fleet_5k}) == len({machine.shape for machine in fleet_5k})
    assert len({id(machine.assigned) for machine in fleet_5k}) == len(
        {machine.assigned for machine in fleet_5k}
    )


@pytest.mark.parametrize("name", ["5k", "dev-50", "scarcity-5k", "preemption-5k", "cost-routing-5k"])
def test_every_machine_is_valid_and_the_size_is_foretold(name: str) -> None:
    profile, count = profile_named(name), 0
    for machine in generate_fleet(profile, SeededRng(1)):
        check(machine)
        count += 1
    assert count == fleet_size(profile)


def test_every_profile_can_begin() -> None:
    for profile in PROFILES.values():
        for machine in islice(generate_fleet(profile, SeededRng(1), profile.shards - 1), 400):
            check(machine)


@pytest.mark.parametrize(
    ("tier", "kind", "price", "probability"),
    [
        (IDLE, CapacityType.BARE_METAL, 0.0, 0.0),
        (SPECULATIVE, CapacityType.ON_DEMAND, 1.0, 0.05),
        (SPOT, CapacityType.SPOT, 0.3, 0.30),
        (CONFIGURED, CapacityType.BARE_METAL, 0.0, 0.0),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_a_tier_has_its_type_price_and_risk(
    tier: Tier, kind: CapacityType, price: float, probability: float
) -> None:
    profile = profile_named("cost-routing-5k" if tier is SPOT else "dev-50")
    machines = [item for item in generate_fleet(profile, SeededRng(1)) if item.id.startswith(f"{tier.name}-")]
    assert machines
    assert {
        (
            item.shape.capacity_type,
            item.shape.price_per_hour,
            item.shape.interruption_probability,
            ARCHETYPE_KEY in item.shape.labels,
        )
        for item in machines
    } == {(kind, price, probability, tier is not CONFIGURED)}


def test_ids_follow_the_published_form_and_sort_by_number(fleet_5k: list[Machine]) -> None:
    ids = [machine.id for machine in fleet_5k]
    assert {"conf-s0-c00019-i0325", "idle-0000001005", "spec-0000014999"} <= set(ids)
    for prefix in ("conf", "idle", "spec"):
        part = [machine_id for machine_id in ids if machine_id.startswith(prefix)]
        assert part == sorted(part)


def test_a_machine_is_made_for_as_many_pods_as_its_archetype_says(fleet_5k: list[Machine]) -> None:
    capacities = {
        machine.shape.labels[ARCHETYPE_KEY]: machine.shape.capacity
        for machine in fleet_5k
        if machine.state is MachineState.IDLE
    }
    assert capacities["tiny-stateless"] == amounts(cpu=40, memory="50000Mi")
    eight_gpus = Resources.parse({"cpu": "64", "memory": "256Gi", GPU: "8"})
    assert capacities["gpu-inference"] == capacities["gpu-training-small"] == eight_gpus
    assert len(capacities) == len(REALISTIC.steady)


def test_gangs_of_a_rack_find_a_block_in_one_rack_and_all_else_goes_round(fleet_5k: list[Machine]) -> None:
    def racks(name: str) -> list[str]:
        return [
            machine.shape.labels[RACK_KEY]
            for machine in fleet_5k
            if machine.state is MachineState.SPECULATIVE and machine.shape.labels[ARCHETYPE_KEY] == name
        ]

    medium, tiny = racks("gpu-training-medium"), racks("tiny-stateless")
    assert medium[:33] == ["zone-a-rack-0"] * 16 + ["zone-b-rack-1"] * 16 + ["zone-c-rack-2"]
    assert tiny[:4] == ["zone-a-rack-0", "zone-b-rack-1", "zone-c-rack-2", "zone-a-rack-3"]
    assert len(set(tiny)) == 30


def test_bound_machines_are_stamped_for_a_need_of_their_cluster_that_they_match(
    fleet_5k: list[Machine], demand_5k: list[ClusterDemand]
) -> None:
    wanted = {
        (need.cluster, profile.fingerprint, group): profile
        for demand in demand_5k
        for need in demand.needs
        for profile, group in ((need.profile, need.group), (need.profile.without_same, ""))
    }
    named = 0
    for machine in fleet_5k:
        if machine.cluster and machine.assigned.fingerprint:
            named += 1
            profile = wanted[machine.cluster, machine.assigned.fingerprint, machine.assigned.group]
            assert matches(machine, profile)
            assert machine.assigned.priority == profile.priority
    # The rest are those of the gang floors, for which no need asks at the moment.
    assert named / (20 * 326) > 0.8


def test_stamps_survive_the_providers_keeping(fleet_5k: list[Machine]) -> None:
    stamps = {machine.assigned for machine in fleet_5k if machine.cluster}
    for stamp in stamps:
        assert assignment_from_metadata(assignment_to_metadata(stamp, "shard-0")) == (stamp, ())


def test_each_shard_has_its_own_clusters_and_half_of_the_supply() -> None:
    profile = profile_named("failover-soak")
    fleets = [list(generate_fleet(profile, SeededRng(1), ordinal)) for ordinal in (0, 1)]
    clusters = [{machine.cluster for machine in fleet if machine.cluster} for fleet in fleets]
    assert [len(part) for part in clusters] == [10, 10]
    assert not clusters[0] & clusters[1]
    assert [len(fleet) for fleet in fleets] == [fleet_size(profile, ordinal) for ordinal in (0, 1)]


DIGEST = """
import hashlib
from bigfleet.aio.rng import SeededRng
from bigfleet.workload.demand import generate_demand
from bigfleet.workload.fleet import generate_fleet
from bigfleet.workload.profiles import profile_named
profile, digest = profile_named("dev-50"), hashlib.sha256()
for part in (generate_fleet(profile, SeededRng(7)), generate_demand(profile, SeededRng(7))):
    for item in part:
        digest.update(repr(item).encode())
print(digest.hexdigest())
"""


def test_one_seed_is_one_world_byte_for_byte_under_every_hash_seed() -> None:
    answers = {
        subprocess.run(
            [sys.executable, "-c", DIGEST],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("0", "1", "4242")
    }
    assert len(answers) == 1
    assert len(answers.pop().strip()) == 2 * hashlib.sha256().digest_size
