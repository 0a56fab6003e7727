"""Laws of generated worlds, whatever the seed."""

import random
from collections import Counter
from dataclasses import replace
from fractions import Fraction

from hypothesis import given, settings
from hypothesis import strategies as st

from bigfleet.aio.rng import SeededRng
from bigfleet.model.machine import check
from bigfleet.model.need import Need, aggregate
from bigfleet.workload.archetype import Catalogue
from bigfleet.workload.catalogues import CATALOGUES
from bigfleet.workload.demand import RollUp, generate_demand
from bigfleet.workload.fleet import fleet_size, generate_fleet
from bigfleet.workload.objects import ProfileBook, draw_objects
from bigfleet.workload.profiles import Geometry, ScaleProfile, profile_named
from bigfleet.workload.sizing import allocate, effective_machines, gang_floor, machine_shares, split

SEEDS = st.integers(0, 2**64)
WORLDS = st.builds(
    lambda catalogue, machines, pods, shards, geometry: replace(
        profile_named("dev-50"),
        catalogue=catalogue,
        machines=machines,
        pods_per_cluster=pods,
        shards=shards,
        geometry=geometry,
    ),
    st.sampled_from(CATALOGUES),
    st.integers(1, 40),
    st.integers(300, 3_000),
    st.integers(1, 3),
    st.sampled_from(Geometry),
)


@given(st.sampled_from(CATALOGUES), st.integers(1, 5_000), SEEDS)
def test_rows_are_what_an_operator_adds_up_of_one_need_per_object(
    catalogue: Catalogue, pods: int, seed: int
) -> None:
    objects = list(draw_objects(catalogue, pods, random.Random(seed)))
    book = ProfileBook(catalogue)
    naive = aggregate(
        Need("c", book.of(item), item.size.scaled(item.replicas), item.size, 9, item.group)
        for item in objects
    )
    rows = RollUp(catalogue).rows("c", objects, arrival_ns=9)
    assert len(rows) == len(naive)
    assert {need.key: need for need in rows} == {need.key: need for need in naive}
    assert sum(item.replicas for item in objects) == pods


@settings(max_examples=40)
@given(WORLDS, SEEDS)
def test_machines_are_valid_unique_foretold_and_stamped_for_demand_that_exists(
    world: ScaleProfile, seed: int
) -> None:
    for ordinal in range(world.shards):
        demands = list(generate_demand(world, SeededRng(seed), ordinal))
        wanted = {
            (need.cluster, *stamp)
            for demand in demands
            for need in demand.needs
            for stamp in (
                (need.profile.fingerprint, need.group),
                (need.profile.without_same.fingerprint, ""),
            )
        }
        machines = list(generate_fleet(world, SeededRng(seed), ordinal))
        assert len({machine.id for machine in machines}) == len(machines) == fleet_size(world, ordinal)
        for machine in machines:
            check(machine)
            stamp = machine.assigned
            if machine.cluster and stamp.fingerprint:
                assert (machine.cluster, stamp.fingerprint, stamp.group) in wanted


@settings(max_examples=40)
@given(WORLDS, SEEDS)
def test_a_seeded_gang_sits_whole_in_one_domain(world: ScaleProfile, seed: int) -> None:
    needs = {
        (need.cluster, need.group): need
        for demand in generate_demand(world, SeededRng(seed))
        for need in demand.needs
        if need.group
    }
    held: dict[tuple[str, str], list[str | None]] = {}
    for machine in generate_fleet(world, SeededRng(seed)):
        if machine.assigned.group:
            need = needs[machine.cluster, machine.assigned.group]
            held.setdefault((machine.cluster, need.group), []).append(
                machine.shape.label(need.profile.same_key or "")
            )
    for key, domains in held.items():
        assert len(set(domains)) == 1
        assert None not in domains
        assert needs[key].unit.scaled(len(domains)) == needs[key].total


@settings(max_examples=20)
@given(WORLDS, SEEDS)
def test_the_same_seed_gives_the_same_world_from_one_source_or_from_two(
    world: ScaleProfile, seed: int
) -> None:
    source = SeededRng(seed)
    first = (list(generate_demand(world, source)), list(generate_fleet(world, source)))
    again = (list(generate_demand(world, source)), list(generate_fleet(world, SeededRng(seed))))
    assert first == again


@given(st.integers(0, 10**7), st.lists(st.integers(1, 10**6), min_size=1, max_size=12))
def test_parts_of_a_split_add_up_and_lie_within_one_of_their_share(total: int, weights: list[int]) -> None:
    shares = [Fraction(weight, sum(weights)) for weight in weights]
    parts = split(total, shares)
    assert sum(parts) == total
    assert all(abs(part - total * share) < 1 for part, share in zip(parts, shares, strict=True))


@given(st.sampled_from(CATALOGUES), st.integers(1, 10**6))
def test_an_allocation_is_never_less_than_asked_and_holds_every_gang_in_every_zone(
    catalogue: Catalogue, machines: int
) -> None:
    counts = allocate(catalogue, machines, 100)
    assert sum(counts) >= machines
    floors = [gang_floor(archetype, catalogue) for archetype in catalogue.steady]
    for count, floor, share in zip(counts, floors, machine_shares(catalogue, 100), strict=True):
        assert count >= floor
        assert count == floor or abs(count - machines * share) < 1


@given(st.sampled_from(CATALOGUES), st.integers(1, 10**8), st.integers(1, 10**6))
def test_more_pods_never_take_fewer_machines(catalogue: Catalogue, pods: int, more: int) -> None:
    assert effective_machines(catalogue, pods + more, 100) >= effective_machines(catalogue, pods, 100)


@given(SEEDS)
def test_another_seed_gives_another_demand(seed: int) -> None:
    world = profile_named("dev-50")

    def sizes(of: int) -> list[Counter[str]]:
        return [
            Counter(repr(need.total) for need in demand.needs)
            for demand in generate_demand(world, SeededRng(of))
        ]

    assert sizes(seed) != sizes(seed + 1)
