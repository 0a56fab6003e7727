"""Stock-outs and failing machines: what is left out of decisions, and when it is tried again, on virtual time."""

from collections.abc import Awaitable, Callable
from itertools import pairwise
from typing import Any

import pytest

from bigfleet.aio.net import Code
from bigfleet.model.machine import MachineState
from bigfleet.provider.fake.options import FakeOptions
from bigfleet.shard.core.views import CycleView, HoldOff
from bigfleet.testing.loop import run_virtual
from tests.support.builders import need
from tests.support.fake_provider import bound, pool
from tests.support.observed_fleet import ObservedFleet

S = MachineState
CHEAP = pool("cheap", 40, zones=("zone-a",))
DEAR = pool("dear", 40, zones=("zone-a",), instance_type="m7i.large", price_per_hour=9.0)
MODES = pytest.mark.parametrize("sync", [False, True], ids=["asynchronous", "synchronous"])

Story = Callable[[ObservedFleet], Awaitable[None]]


def play(story: Story, *pools: Any, **options: Any) -> None:
    """Tell a story about a shard over these pools."""

    async def tell() -> None:
        async with ObservedFleet(pools or (CHEAP, DEAR), **options) as world:
            await story(world)

    run_virtual(tell())


def last(world: ObservedFleet) -> CycleView:
    view = world.shard.last_cycle()
    assert view is not None
    return view


def created(world: ObservedFleet, prefix: str) -> list[float]:
    """When machines of a pool were ordered."""
    return [call.at_s for call in world.fake.calls(rpc="Create") if call.machine_id.startswith(prefix)]


@pytest.mark.rule("shard#offering-cool-off", "shard#stock-out")
@MODES
def test_a_stock_out_of_ten_minutes_is_routed_around_and_costs_few_calls(sync: bool) -> None:
    async def story(world: ObservedFleet) -> None:
        await world.cycles(1)
        world.fake.stockout("m6i.large", seconds=600)
        operator = await world.operator()
        await operator.demand(need(cpu=4 * 4))
        await world.until(lambda: bool(last(world).cool_offs))
        found = last(world).number
        await world.until(lambda: len(created(world, "dear")) >= 3)
        assert last(world).number <= found + 2
        (cool_off,) = last(world).cool_offs
        assert (cool_off.instance_type, cool_off.zone) == ("m6i.large", "zone-a")
        assert cool_off.error.startswith("stockout:")
        assert world.metric("bigfleet_shard_offering_cool_offs") == 1
        await operator.until(lambda: len(operator.in_state(S.CONFIGURED)) == 4, within_s=300)
        for more in range(5, 21):  # new demand all the time, so that every trial is taken
            await operator.demand(need(cpu=4 * more))
            await world.pass_time(36)
        assert 4 <= len(created(world, "cheap")) < 12
        await operator.demand(need(cpu=4 * 25))
        await world.until(lambda: last(world).cool_offs == (), within_s=1300)
        await operator.demand(need(cpu=4 * 30))
        await world.until(
            lambda: any(world.real(f"cheap-{n}") is S.CONFIGURED for n in range(40)), within_s=300
        )

    play(story, fake=FakeOptions(sync=sync))


@pytest.mark.rule("shard#offering-cool-off")
def test_queued_creates_of_an_offering_that_ran_out_are_not_sent() -> None:
    async def story(world: ObservedFleet) -> None:
        await world.cycles(1)
        world.fake.stockout("m6i.large")
        world.fake.latency("create-call", "100ms")
        operator = await world.operator()
        await operator.demand(need(cpu=4 * 20))
        await operator.until(lambda: len(operator.in_state(S.CONFIGURED)) == 20, within_s=120)
        assert len(created(world, "cheap")) == 10  # one per worker; the ten queued behind them stay slots
        assert world.shard.inventory.count_by_state()[S.FAILED] == 10

    play(story, fake=FakeOptions(sync=True), execute_concurrency=10)


@pytest.mark.rule("shard#offering-cool-off")
def test_a_create_refused_for_want_of_quota_cools_its_offering_off() -> None:
    async def story(world: ObservedFleet) -> None:
        await world.cycles(1)
        world.fake.refuse("Create", code=Code.RESOURCE_EXHAUSTED, message="quota", times=1)
        operator = await world.operator()
        await operator.demand(need(cpu=4))
        await operator.until(lambda: len(operator.in_state(S.CONFIGURED)) == 1, within_s=60)
        assert world.machine(operator.in_state(S.CONFIGURED)[0]).shape.instance_type == "m7i.large"
        (cool_off,) = last(world).cool_offs
        assert "quota" in cool_off.error

    play(story)


@pytest.mark.rule("shard#offering-cool-off")
def test_the_view_has_all_machines_beside_those_that_the_engine_saw() -> None:
    async def story(world: ObservedFleet) -> None:
        await world.cycles(1)
        assert last(world).inventory is None
        world.fake.stockout("m6i.large")
        operator = await world.operator()
        await operator.demand(need(cpu=4))
        await world.until(lambda: bool(last(world).cool_offs))
        view = last(world)
        assert len(view.every_machine) == 80
        assert len(view.snapshot) == 80 - view.cool_offs[0].machines
        assert view.cool_offs[0].machines >= 38

    play(story)


@pytest.mark.rule("shard#machine-back-off", "shard#drain-refused")
def test_a_machine_whose_drain_is_refused_is_left_alone_ever_longer() -> None:
    async def story(world: ObservedFleet) -> None:
        operator = await world.operator()
        await operator.demand(need(cpu=4))
        await world.cycles(1)
        world.fake.refuse("Drain", message="busy", seconds=400)
        await operator.demand()
        await world.pass_time(400)
        tried = world.fake.calls(rpc="Drain")
        assert 5 <= len(tried) <= 7
        assert len(operator.instructions) == len(tried)
        gaps = [round(late.at_s - early.at_s) for early, late in pairwise(tried)]
        assert gaps == sorted(gaps)
        assert list(last(world).machine_backoffs) == ["bound-0"]
        assert "busy" in last(world).machine_backoffs["bound-0"].error
        assert world.metric("bigfleet_shard_actions_held_off", reason=HoldOff.MACHINE_BACK_OFF.value) == 1
        await world.until(lambda: world.state("bound-0") is S.IDLE, within_s=400)
        await world.cycles(2)
        assert last(world).machine_backoffs == {}

    play(story, bound("bound", 1))


@pytest.mark.rule("shard#machine-back-off")
def test_a_machine_that_refused_is_not_taken_again_at_once_when_the_provider_says_that_it_is_idle() -> None:
    async def story(world: ObservedFleet) -> None:
        await world.cycles(1)
        world.fake.refuse("Configure", message="no", seconds=600)
        operator = await world.operator()
        await operator.demand(need(cpu=4))
        await world.pass_time(600)
        tried = [call.machine_id for call in world.fake.calls(rpc="Configure")]
        assert 4 <= len(tried) <= 40  # two machines, Failed until the third sighting, then backed off
        await operator.until(lambda: len(operator.in_state(S.CONFIGURED)) == 1, within_s=900)

    play(story, pool("idle", 2, state=S.IDLE), fake=FakeOptions(sync=True))


@pytest.mark.rule("shard#audit-log")
def test_a_record_names_the_cycle_that_decided_the_one_in_which_it_ended_and_the_error() -> None:
    async def story(world: ObservedFleet) -> None:
        await world.cycles(1)
        world.fake.refuse("Configure", message="no such image", times=1)
        world.fake.latency("configure-call", "25s")
        operator = await world.operator()
        await operator.demand(need(cpu=4))
        await world.until(lambda: len(world.audit()) == 1)
        (record,) = world.audit()
        assert (record["cycle"], record["outcome"]) == (2, "provider_error")
        assert record["ended_cycle"] >= record["cycle"]
        assert "no such image" in record["error"]
        await operator.until(lambda: len(operator.in_state(S.CONFIGURED)) == 1)
        good = world.audit()[-1]
        assert good["ended_cycle"] > good["cycle"]
        assert "error" not in good

    play(story, pool("idle", 2, state=S.IDLE), audited=True, fake=FakeOptions(sync=True))
