"""Changes to a world: repeatable, of the size that was asked for, and nothing but values."""

from collections import Counter

import pytest

from bigfleet.aio.rng import SeededRng
from bigfleet.model.machine import MachineState, check
from bigfleet.model.need import Need
from bigfleet.workload.changes import (
    MOST_PODS_FEWER,
    chosen,
    grown,
    joined_machines,
    lost_machines,
    machine_changes,
    with_new_needs,
)
from bigfleet.workload.demand import generate_demand
from bigfleet.workload.draws import Draws
from bigfleet.workload.profiles import profile_named
from bigfleet.workload.worlds import World, seeded_world

TINY = profile_named("tiny")


def draws() -> Draws:
    return SeededRng(7).stream("changes")


@pytest.fixture(scope="module")
def world() -> World:
    return seeded_world(TINY, SeededRng(1))


@pytest.fixture(scope="module")
def needs() -> tuple[Need, ...]:
    return next(generate_demand(TINY, SeededRng(1))).needs


def test_some_are_chosen_in_their_order_each_at_most_once() -> None:
    items = list(range(100))
    some = chosen(items, 30, draws())
    assert some == sorted(set(some))
    assert len(some) == 30
    assert some == chosen(items, 30, draws())
    assert chosen(items, 200, draws()) == items


def test_new_needs_ask_for_a_few_pods_fewer_and_never_more(needs: tuple[Need, ...]) -> None:
    after = with_new_needs(needs, draws())
    assert len(after) == len(needs)
    ordinary = [(old, new) for old, new in zip(needs, after, strict=True) if not old.group]
    assert all(old.total.covers(new.total) and new.total.covers(new.unit) for old, new in ordinary)
    assert all(
        (new.total + old.unit.scaled(MOST_PODS_FEWER)).covers(old.total)
        for old, new in ordinary
        if old != new
    )
    assert sum(old.total != new.total for old, new in ordinary) > len(ordinary) / 2
    assert all(new.arrival_ns > old.arrival_ns for old, new in zip(needs, after, strict=True))


def test_one_gang_goes_and_one_of_its_size_comes(needs: tuple[Need, ...]) -> None:
    after = with_new_needs(needs, draws())
    (place,) = [at for at, need in enumerate(after) if need.group != needs[at].group]
    assert needs[place].group
    assert after[place].total == needs[place].total
    assert after[place].group not in {need.group for need in needs}


def test_a_cluster_without_gangs_gets_new_needs_too(needs: tuple[Need, ...]) -> None:
    ordinary = [need for need in needs if not need.group]
    assert len(with_new_needs(ordinary, draws())) == len(ordinary)


def test_grown_demand_is_larger_in_every_dimension_by_the_same_part(needs: tuple[Need, ...]) -> None:
    for old, new in zip(needs, grown(needs, 50), strict=True):
        assert {name: 2 * amount for name, amount in new.total.items()} == {
            name: 3 * amount for name, amount in old.total.items()
        }
        assert (new.unit, new.group, new.profile) == (old.unit, old.group, old.profile)


def test_lost_machines_were_bound_to_the_clusters_named_and_fail_or_drain(world: World) -> None:
    snapshot = world.inventory.snapshot()
    names = world.needs.clusters[:2]
    lost = lost_machines(snapshot, names, 20, draws())
    assert Counter(machine.state for machine in lost) == {MachineState.FAILED: 10, MachineState.DRAINING: 10}
    assert {machine.cluster for machine in lost} == set(names)
    assert len({machine.id for machine in lost}) == 20
    for machine in lost:
        check(machine)
        assert world.inventory.get(machine.id).state is MachineState.CONFIGURED
    assert lost == lost_machines(snapshot, names, 20, draws())


def test_a_cluster_that_has_no_machine_loses_none(world: World) -> None:
    assert lost_machines(world.inventory.snapshot(), ["nobody"], 5, draws()) == []


def test_a_machine_that_joins_takes_the_place_of_one_that_was_lost(world: World) -> None:
    snapshot = world.inventory.snapshot()
    lost = lost_machines(snapshot, world.needs.clusters, 20, draws())
    joined = joined_machines(snapshot, lost)
    served = Counter((machine.cluster, machine.assigned, machine.shape.instance_type) for machine in lost)
    assert 0 < len(joined) <= 20
    assert len({machine.id for machine in joined}) == len(joined)
    for machine in joined:
        check(machine)
        assert machine.state is MachineState.CONFIGURED
        assert world.inventory.get(machine.id).state is MachineState.SPECULATIVE
        served[machine.cluster, machine.assigned, machine.shape.instance_type] -= 1
    assert min(served.values()) >= 0


def test_as_many_machines_come_as_go(world: World) -> None:
    changes = machine_changes(world.inventory.snapshot(), world.needs.clusters, 21, draws())
    states = Counter(machine.state for machine in changes)
    assert states[MachineState.FAILED] + states[MachineState.DRAINING] == 11
    assert 0 < states[MachineState.CONFIGURED] <= 10
    assert len({machine.id for machine in changes}) == len(changes)
