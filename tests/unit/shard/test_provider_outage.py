"""A provider that is away: what the shard tries, what it shows, and how soon it goes on (`shard#provider-standing`)."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from bigfleet.aio.net import Code
from bigfleet.demo.virtual_fleet import FAKE_HOST, FAKE_PORT, SHARD_HOST
from bigfleet.model.machine import MachineState
from bigfleet.provider.fake.options import FakeOptions
from bigfleet.provider.fake.selector import Selector
from bigfleet.shard.core.views import CycleView, HoldOff
from bigfleet.testing.loop import run_virtual
from tests.support.builders import need
from tests.support.fake_provider import bound, pool
from tests.support.observed_fleet import ObservedFleet

S = MachineState
IDLE = pool("idle", 4, state=S.IDLE)
SYNC = FakeOptions(sync=True)
CALLS = ("Create", "Configure", "Drain", "Delete", "Get", "List", "Probe")
RESULTS = ("ok", "refused", "unanswered", "not_sent", "given_up")

Story = Callable[[ObservedFleet], Awaitable[None]]


def play(story: Story, *pools: Any, **options: Any) -> None:
    """Tell a story about a shard over these pools."""

    async def tell() -> None:
        async with ObservedFleet(pools or (IDLE,), **{"fake": SYNC, **options}) as world:
            await story(world)

    run_virtual(tell())


def tried(world: ObservedFleet, *calls: str) -> int:
    """How many calls the shard has tried."""
    name = "bigfleet_shard_provider_calls_total"
    return int(
        sum(world.metric(name, call=call, result=result) for call in calls or CALLS for result in RESULTS)
    )


async def kill(world: ObservedFleet) -> None:
    """End the provider as a kill would."""
    world.network.crash(FAKE_HOST)
    await world.fake.stop(0)


async def revive(world: ObservedFleet) -> None:
    await world.fake.start()
    await world.fake.listen(f":{FAKE_PORT}")


def last(world: ObservedFleet) -> CycleView:
    view = world.shard.last_cycle()
    assert view is not None
    return view


@pytest.mark.rule("shard#provider-standing", "shard#provider-unreachable-later")
def test_a_killed_provider_is_known_within_two_seconds_without_any_demand() -> None:
    async def story(world: ObservedFleet) -> None:
        await world.cycles(1)
        await kill(world)
        await world.pass_time(2)
        provider = world.shard.status().provider
        assert not provider.reachable
        assert provider.failures >= 3
        assert provider.last_error
        assert 0 < provider.next_probe_in_s < 3
        assert world.metric("bigfleet_shard_provider_reachable") == 0
        assert len(world.lines("provider_unreachable")) == 1

    play(story)


@pytest.mark.rule("shard#provider-standing", "shard#hold-off", "shard#provider-unreachable-later")
@pytest.mark.parametrize(("workers", "machines"), [(1, 4), (64, 200)])
def test_an_outage_of_two_minutes_costs_at_most_fifteen_calls_and_demand_is_served_soon_after(
    workers: int, machines: int
) -> None:
    async def story(world: ObservedFleet) -> None:
        operator = await world.operator()
        await operator.demand(need(cpu=4))
        await operator.until(lambda: len(operator.in_state(S.CONFIGURED)) == 1)
        await world.cycles(1)
        before = tried(world)
        await kill(world)
        await operator.demand(need(cpu=4 * machines))
        await world.pass_time(5)
        view = last(world)
        assert set(view.held_off.values()) == {HoldOff.PROVIDER_UNREACHABLE}
        (short,) = view.shortfalls
        assert short.deficit.texts()["cpu"] == str(4 * (machines - 1))
        assert world.metric("bigfleet_shard_shortfalls") == 1
        assert world.metric("bigfleet_shard_actions_held_off", reason="provider-unreachable") == machines - 1
        await world.pass_time(115)
        assert tried(world) - before <= 15
        assert world.metric("bigfleet_shard_provider_unreachable_seconds") > 100
        number = world.shard.loop.number
        assert number < 30
        await revive(world)
        await world.pass_time(5)
        assert world.shard.status().provider.reachable
        assert len(operator.in_state(S.CONFIGURED)) == machines
        assert last(world).held_off == {}
        assert last(world).shortfalls == ()
        assert world.metric("bigfleet_shard_actions_held_off", reason="provider-unreachable") == 0

    play(story, pool("idle", 250, state=S.IDLE), execute_concurrency=workers)


@pytest.mark.rule("shard#hold-off", "shard#audit-log")
def test_an_outage_is_logged_and_audited_at_its_beginning_and_end_only() -> None:
    async def story(world: ObservedFleet) -> None:
        operator = await world.operator()
        await operator.demand(need(cpu=4))
        await operator.until(lambda: len(operator.in_state(S.CONFIGURED)) == 1)
        executed = len(world.audit())
        await kill(world)
        await operator.demand(need(cpu=16))
        await world.pass_time(100)
        (began,) = world.audit()[executed:]
        assert (began["msg"], began["outcome"]) == ("hold-off", "began")
        assert 1 <= began["actions"] <= 3  # some may still wait for the probe
        assert began["reason"] == "provider-unreachable"
        await revive(world)
        await operator.until(lambda: len(operator.in_state(S.CONFIGURED)) == 4)
        ended = world.audit()[executed + 1]
        assert (ended["msg"], ended["outcome"], ended["actions"]) == ("hold-off", "ended", 3)
        assert len(world.lines("actions_held_off")) == len(world.lines("actions_released")) == 1
        assert len(world.lines("provider_unreachable")) == len(world.lines("provider_reachable")) == 1
        assert len(world.lines("reconcile_failed")) <= 1

    play(story, audited=True)


@pytest.mark.rule("shard#provider-standing")
def test_ticks_do_not_list_while_the_provider_is_unreachable_and_its_return_is_listed_at_once() -> None:
    async def story(world: ObservedFleet) -> None:
        await world.cycles(1)
        await kill(world)
        await world.pass_time(2)
        listed = tried(world, "List")
        await world.pass_time(100)
        assert tried(world, "List") == listed
        await revive(world)
        await world.fake.add([pool("new", 1, state=S.IDLE)])
        await world.pass_time(4)
        assert world.state("new-0") is S.IDLE

    play(story)


@pytest.mark.rule("shard#provider-standing")
def test_a_refusal_is_an_answer() -> None:
    async def story(world: ObservedFleet) -> None:
        operator = await world.operator()
        world.fake.refuse("Configure", code=Code.INTERNAL, message="no", seconds=600)
        await operator.demand(need(cpu=16))
        await world.cycles(3)
        assert len(world.fake.calls(rpc="Configure")) >= 3
        assert world.shard.status().provider.reachable

    play(story)


@pytest.mark.rule("shard#provider-standing")
def test_calls_wait_for_the_probe_while_the_provider_is_doubtful() -> None:
    async def story(world: ObservedFleet) -> None:
        operator = await world.operator()
        await world.cycles(1)
        world.fake.pause_rpc("Configure", 3600)  # a call that is lost on the way
        await operator.demand(need(cpu=4))
        await world.until(lambda: len(world.fake.calls(rpc="Configure")) == 1)
        world.fake.pause_rpc("Configure", 0)
        await world.pass_time(29)
        world.fake.pause_rpc("List", 4)
        await world.until(lambda: tried(world, "Configure") == 1)  # cut by its deadline
        assert world.shard.status().provider.failures == 1
        await operator.demand(need(cpu=8))
        await world.pass_time(1.5)
        assert len(world.fake.calls(rpc="Configure")) == 1
        await world.until(lambda: len(world.fake.calls(rpc="Configure")) == 2)
        assert world.shard.status().provider.failures == 0
        assert tried(world, "Probe") == 1

    play(story)


@pytest.mark.rule("shard#provider-standing", "shard#provider-unreachable-at-start")
def test_a_provider_that_is_away_at_the_start_is_probed_and_listed_as_soon_as_it_comes() -> None:
    async def story(world: ObservedFleet) -> None:
        await world.fake.stop(0)
        await world.restart()
        await world.pass_time(60)
        assert not world.shard.status().provider.reachable
        assert world.shard.not_ready() == ("the provider has not been listed yet",)
        assert world.shard.status().provider.last_listing_age_s is None
        assert tried(world) <= 12
        await revive(world)
        await world.pass_time(4)
        assert world.shard.not_ready() == ()
        assert (world.shard.status().provider.last_listing_age_s or 99) < 4

    play(story)


@pytest.mark.rule("shard#provider-standing")
def test_a_partition_is_noticed_by_calls_without_answers_and_over_when_it_heals() -> None:
    async def story(world: ObservedFleet) -> None:
        await world.cycles(1)
        world.network.partition([SHARD_HOST], [FAKE_HOST])
        await world.until(lambda: not world.shard.status().provider.reachable, within_s=180)
        world.network.heal()
        await world.until(lambda: world.shard.status().provider.reachable, within_s=20)

    play(story)


@pytest.mark.rule("shard#provider-standing")
def test_a_connection_that_comes_back_at_once_is_no_outage_and_is_listed() -> None:
    async def story(world: ObservedFleet) -> None:
        await world.cycles(1)
        listed = tried(world, "List")
        world.network.reset(SHARD_HOST, FAKE_HOST)
        await world.pass_time(2)
        assert world.shard.status().provider.failures == 0
        assert world.lines("provider_unreachable") == []
        assert tried(world, "List") == listed + 1

    play(story)


@pytest.mark.rule("shard#hold-off")
def test_actions_in_work_when_the_provider_dies_are_undone_and_not_audited_one_by_one() -> None:
    async def story(world: ObservedFleet) -> None:
        operator = await world.operator()
        await world.cycles(1)
        world.fake.pause_rpc("Configure", 3600)
        await operator.demand(need(cpu=4 * 40))
        await world.until(
            lambda: tried(world, "Configure") == 0 and len(world.fake.calls(rpc="Configure")) == 4
        )
        await kill(world)
        await world.pass_time(30)
        outcomes = [line["outcome"] for line in world.audit() if line["msg"] == "action"]
        assert outcomes == ["ctx_canceled"] * 4  # those sent; the queued ones were never tried
        assert world.shard.dispatcher.in_flight == 0
        counts = world.shard.inventory.count_by_state()
        assert (counts[S.CONFIGURING], counts[S.IDLE]) == (4, 36)

    play(story, pool("idle", 40, state=S.IDLE), execute_concurrency=4, audited=True)


@pytest.mark.rule("shard#session-missing", "shard#operator-disconnects")
def test_acquisitions_of_a_cluster_without_a_session_are_held_off_until_it_connects() -> None:
    async def story(world: ObservedFleet) -> None:
        operator = await world.operator()
        await operator.demand(need(cpu=4))
        await operator.until(lambda: len(operator.in_state(S.CONFIGURED)) == 1)
        await operator.demand(need(cpu=16))
        await operator.close()
        await world.cycles(1)
        executed = len(world.audit())
        await world.pass_time(120)
        assert set(last(world).held_off.values()) == {HoldOff.NO_SESSION}
        assert len(last(world).shortfalls) == 1
        assert len(world.audit()) == executed
        assert world.metric("bigfleet_shard_actions_held_off", reason="no-session") == 3
        again = await world.operator()
        await again.until(lambda: len(again.in_state(S.CONFIGURED)) == 4, within_s=3)

    play(story, audited=True)


@pytest.mark.rule("shard#hold-off")
def test_releases_are_held_off_too() -> None:
    async def story(world: ObservedFleet) -> None:
        operator = await world.operator()
        await operator.demand(need(cpu=4 * 12))
        await world.cycles(1)
        await kill(world)
        await operator.demand()
        await world.pass_time(120)
        assert operator.instructions == []
        assert world.metric("bigfleet_shard_actions_held_off", reason="provider-unreachable") == 12

    play(story, bound("bound", 12))


@pytest.mark.rule("shard#get-before-drain")
def test_no_operator_is_instructed_to_drain_while_the_provider_does_not_answer() -> None:
    async def story(world: ObservedFleet) -> None:
        operator = await world.operator()
        await operator.demand(need(cpu=4 * 12))
        await world.cycles(1)
        world.network.partition([SHARD_HOST], [FAKE_HOST])  # not noticed yet
        await operator.demand()
        await world.pass_time(120)
        assert operator.instructions == []
        assert world.shard.inventory.count_by_state()[S.CONFIGURED] == 12
        assert set(operator.states("bound-0")) == {S.CONFIGURED}
        world.network.heal()
        await world.until(lambda: len(operator.instructions) == 12, within_s=600)

    play(story, bound("bound", 12))


@pytest.mark.rule("shard#get-before-drain")
def test_a_machine_that_failed_meanwhile_is_reported_instead_of_drained() -> None:
    async def story(world: ObservedFleet) -> None:
        operator = await world.operator()
        await operator.demand(need(cpu=4))
        await world.cycles(1)
        await world.fake.fail(Selector(id="bound-0"), "the host burnt down")
        await operator.demand()
        await operator.until(lambda: operator.last_state("bound-0") is S.FAILED, within_s=3)
        assert operator.instructions == []

    play(story, bound("bound", 1))
