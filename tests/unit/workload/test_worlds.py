"""Worlds: the same for the same seed, and each of the kind its name says."""

from collections import Counter
from collections.abc import Callable

import pytest

from bigfleet.aio.rng import SeededRng
from bigfleet.engine.planner import Planner
from bigfleet.model.action import ActionKind
from bigfleet.model.decision import Decision
from bigfleet.model.machine import MachineState
from bigfleet.model.profile import HOST_NAME_KEY
from bigfleet.model.situation import IdleHolds
from bigfleet.workload.demand import generate_demand
from bigfleet.workload.draws import DrawSource
from bigfleet.workload.profiles import ScaleProfile, profile_named
from bigfleet.workload.worlds import (
    START,
    World,
    host_name_world,
    own_price_world,
    seeded_world,
    settled_world,
    unbound_world,
    without_supply,
)

TINY = profile_named("tiny")
Make = Callable[[ScaleProfile, DrawSource], World]


def decide(world: World) -> Decision:
    return Planner().decide(
        world.inventory.snapshot(),
        world.needs.demand(),
        parked=frozenset(),
        reported_clusters=None,
        holds=IdleHolds(),
        now=START,
    )


@pytest.fixture(scope="module")
def settled() -> World:
    return settled_world(TINY, SeededRng(1))


@pytest.mark.parametrize(
    "make", [seeded_world, settled_world, unbound_world, host_name_world, own_price_world]
)
def test_a_seed_is_a_world_and_another_seed_another(make: Make) -> None:
    one, again, other = (make(TINY, SeededRng(seed)) for seed in (1, 1, 2))
    assert list(one.inventory.snapshot().machines()) == list(again.inventory.snapshot().machines())
    assert one.needs.snapshot() == again.needs.snapshot()
    assert one.needs.snapshot() != other.needs.snapshot()


def test_the_demand_of_a_world_is_the_one_its_profile_gives(settled: World) -> None:
    for demand in generate_demand(TINY, SeededRng(1)):
        assert settled.needs.of_cluster(demand.cluster) == demand.needs


def test_a_tiny_world_has_three_clusters_gangs_and_every_tier(settled: World) -> None:
    assert len(settled.needs.clusters) == 3
    states = settled.inventory.count_by_state()
    assert min(states[S] for S in (MachineState.IDLE, MachineState.SPECULATIVE, MachineState.CONFIGURED)) > 50
    assert any(verdict.need.profile.same_key for verdict in decide(settled).verdicts)


@pytest.mark.parametrize("make", [settled_world, host_name_world, own_price_world])
def test_a_world_at_rest_is_served_and_wants_nothing(make: Make) -> None:
    decision = decide(make(TINY, SeededRng(1)))
    assert not decision.actions
    assert all(verdict.satisfied for verdict in decision.verdicts)


def test_before_the_first_need_everything_is_still_to_be_obtained() -> None:
    world = unbound_world(TINY, SeededRng(1))
    decision = decide(world)
    kinds = Counter(action.kind for action in decision.actions)
    assert set(kinds) == {ActionKind.BOOTSTRAP, ActionKind.PROVISION}
    assert all(verdict.satisfied for verdict in decision.verdicts)


def test_one_need_of_every_cluster_looks_at_host_names() -> None:
    world = host_name_world(TINY, SeededRng(1))
    for cluster in world.needs.clusters:
        rows = world.needs.of_cluster(cluster)
        keys = [{item.key for item in need.profile.requirements} for need in rows]
        assert sum(HOST_NAME_KEY in named for named in keys) == 1
        assert list(rows) == sorted(
            rows, key=lambda need: (-need.profile.priority, need.profile.fingerprint, need.group)
        )


def test_prices_of_their_own_differ_for_all_machines() -> None:
    world = own_price_world(TINY, SeededRng(1))
    prices = [machine.shape.price_per_hour for machine in world.inventory.snapshot().machines()]
    assert len(set(prices)) == len(prices)


def test_a_world_without_supply_keeps_what_is_bound_and_leaves_the_other_alone(settled: World) -> None:
    before = settled.inventory.count_by_state()
    scarce = without_supply(settled)
    states = scarce.inventory.count_by_state()
    assert states[MachineState.CONFIGURED] == before[MachineState.CONFIGURED] == len(scarce.inventory)
    assert not decide(scarce).actions
    scarce.needs.replace(scarce.needs.clusters[0], ())
    assert settled.inventory.count_by_state() == before
    assert len(settled.needs.clusters) == 3


@pytest.mark.long
def test_a_gang_heavy_world_has_about_2500_gangs_that_no_machine_holds_alone() -> None:
    decision = decide(settled_world(profile_named("gang-heavy"), SeededRng(1)))
    assert not decision.actions
    assert sum(verdict.need.profile.same_key is not None for verdict in decision.verdicts) == pytest.approx(
        2_500, rel=0.05
    )
