"""Listings that are lost, late, short or doubted, on virtual time."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from bigfleet.demo.virtual_fleet import FAKE_HOST, SHARD_HOST
from bigfleet.model.machine import MachineState
from bigfleet.provider.fake.options import FakeOptions
from bigfleet.testing.loop import run_virtual
from tests.support.builders import need
from tests.support.fake_provider import bound, pool
from tests.support.observed_fleet import ObservedFleet

S = MachineState

Story = Callable[[ObservedFleet], Awaitable[None]]


def play(story: Story, *pools: Any, **options: Any) -> None:
    """Tell a story about a shard over these pools."""

    async def tell() -> None:
        async with ObservedFleet(pools or (pool("idle", 4, state=S.IDLE),), **options) as world:
            await story(world)

    run_virtual(tell())


def listings(world: ObservedFleet) -> int:
    return len(world.fake.calls(rpc="List"))


@pytest.mark.rule("shard#dead-connections", "shard#listing-never-answered")
def test_one_lost_answer_costs_less_than_twelve_seconds() -> None:
    async def story(world: ObservedFleet) -> None:
        await world.cycles(1)
        world.fake.lose_answer("List", times=1)
        await world.fake.add([pool("late", 1, state=S.IDLE)])
        asked = listings(world)
        await world.until(lambda: listings(world) > asked)
        await world.pass_time(6)
        assert world.state("late-0") is S.IDLE
        assert len(world.lines("listing_late")) == 1
        assert (
            world.shard.status().provider.failures == 0
        )  # a lost answer is not a failure once another one came

    play(story)


@pytest.mark.rule("shard#dead-connections")
def test_a_provider_that_takes_long_is_not_asked_twice() -> None:
    async def story(world: ObservedFleet) -> None:
        world.fake.latency("list", "7s")
        await world.cycles(2)
        asked = listings(world)
        await world.pass_time(100)
        assert listings(world) - asked <= 10
        assert world.lines("listing_late") == []

    play(story)


@pytest.mark.rule("shard#dead-connections")
def test_a_listing_whose_connection_died_is_requested_again_at_once() -> None:
    async def story(world: ObservedFleet) -> None:
        await world.cycles(1)
        world.fake.pause_rpc("List", 3)
        await world.fake.add([pool("late", 1, state=S.IDLE)])
        await world.pass_time(8)
        asked = listings(world)
        world.fake.pause_rpc("List", 3)
        await world.until(lambda: listings(world) > asked)
        world.network.reset(SHARD_HOST, FAKE_HOST)
        await world.pass_time(4)
        assert world.state("late-0") is S.IDLE
        assert len(world.lines("listing_repeated")) == 1
        assert world.lines("reconcile_failed") == []

    play(story)


@pytest.mark.rule("shard#slow-listings")
def test_a_listing_that_no_cycle_waited_for_is_applied_when_it_comes() -> None:
    async def story(world: ObservedFleet) -> None:
        await world.cycles(1)
        await world.fake.add([pool("late", 1, state=S.IDLE)])
        world.fake.pause_rpc("List", 22)
        await world.until(lambda: bool(world.lines("listing_slow")))
        await world.pass_time(3.5)
        assert world.state("late-0") is S.IDLE

    play(story)


@pytest.mark.rule("shard#listing-guard", "shard#listing-truncated")
def test_half_listings_for_ninety_seconds_cause_no_create_and_no_drain() -> None:
    async def story(world: ObservedFleet) -> None:
        operator = await world.operator()
        await operator.demand(need(cpu=4 * 40))
        await world.cycles(2)
        world.fake.lie("drop-list", 0.5)
        calls = len(world.fake.calls())
        await world.until(lambda: bool(world.lines("listing_held")))
        provider = world.shard.status().provider
        assert provider.doubted_for_s is not None
        assert provider.doubted_missing >= 10
        assert world.metric("bigfleet_shard_listing_doubted") == 1
        await world.pass_time(90)
        world.fake.honest()
        await world.cycles(3)
        changed = {call.rpc for call in world.fake.calls()[calls:]}
        assert changed == {"List"}
        assert world.shard.status().provider.doubted_for_s is None
        assert len(world.shard.inventory) == 80
        assert operator.instructions == []

    play(story, bound("bound", 40), pool("m", 40), fake=FakeOptions(sync=True))
