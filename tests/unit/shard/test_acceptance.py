"""Needs whose machines the provider has not accepted: since when they wait, and when they count as short."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from bigfleet.model.machine import MachineState
from bigfleet.provider.fake.options import FakeOptions
from bigfleet.shard.core.views import CycleView
from bigfleet.testing.loop import run_virtual
from tests.support.builders import need
from tests.support.fake_provider import pool
from tests.support.observed_fleet import ObservedFleet

S = MachineState

Story = Callable[[ObservedFleet], Awaitable[None]]


def play(story: Story, *pools: Any, **options: Any) -> None:
    """Tell a story about a shard over these pools."""

    async def tell() -> None:
        async with ObservedFleet(pools, **options) as world:
            await story(world)

    run_virtual(tell())


def last(world: ObservedFleet) -> CycleView:
    view = world.shard.last_cycle()
    assert view is not None
    return view


@pytest.mark.rule("shard#not-accepted")
@pytest.mark.parametrize(("call", "state"), [("Create", S.SPECULATIVE), ("Configure", S.IDLE)])
def test_a_need_whose_call_hangs_is_short_after_two_cycle_intervals(call: str, state: MachineState) -> None:
    async def story(world: ObservedFleet) -> None:
        operator = await world.operator()
        await world.cycles(1)
        world.fake.pause_rpc(call, 3600)
        await operator.demand(need(cpu=4))
        await world.until(lambda: len(world.fake.calls(rpc=call)) == 1)
        await world.pass_time(12)
        view = last(world)
        assert view.decision.verdicts[0].satisfied  # the engine credits what is in flight
        (since_s,) = view.waiting_since_s.values()
        assert 9 < view.now - since_s < 20
        assert view.shortfalls == ()
        assert not world.shard.is_accepted("m-0")
        await world.until(lambda: bool(last(world).shortfalls), within_s=19)
        (short,) = last(world).shortfalls
        assert short.deficit.texts()["cpu"] == "4"
        assert world.metric("bigfleet_shard_shortfalls") == 1

    play(story, pool("m", 1, state=state), fake=FakeOptions(sync=True))


@pytest.mark.rule("shard#not-accepted")
def test_a_machine_on_order_is_accepted_and_its_need_does_not_wait() -> None:
    async def story(world: ObservedFleet) -> None:
        operator = await world.operator()
        await world.cycles(1)
        world.fake.hold(kind="create")
        await operator.demand(need(cpu=4))
        await world.until(lambda: world.state("m-0") is S.CREATING)
        await world.cycles(4)
        assert world.state("m-0") is S.CREATING
        assert world.shard.is_accepted("m-0")
        assert last(world).waiting_since_s == {}
        assert last(world).shortfalls == ()

    play(story, pool("m", 1))


@pytest.mark.rule("shard#not-accepted")
@pytest.mark.parametrize("incremental", [False, True], ids=["full listings", "deltas"])
def test_a_call_without_an_answer_is_not_accepted_until_the_provider_shows_its_result(
    incremental: bool,
) -> None:
    async def story(world: ObservedFleet) -> None:
        operator = await world.operator()
        await world.cycles(1)
        world.fake.lose_answer("Create", times=1)
        await operator.demand(need(cpu=4))
        await world.until(lambda: world.state("m-0") is S.CREATING)
        await world.until(lambda: world.shard.dispatcher.in_flight == 0)
        assert not world.shard.is_accepted("m-0")
        await operator.until(lambda: operator.last_state("m-0") is S.CONFIGURED)
        assert world.shard.is_accepted("m-0")
        await world.cycles(1)
        assert last(world).waiting_since_s == {}

    play(story, pool("m", 1), incremental_reconcile=incremental)
