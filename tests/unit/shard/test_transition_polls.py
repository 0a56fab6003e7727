"""What the shard asks the provider between ticks while machines are in transition, on virtual time (`shard#transition-polls`)."""

import json
from collections.abc import Awaitable, Callable
from itertools import pairwise
from typing import Any

import pytest

from bigfleet.aio.net import Code
from bigfleet.model.machine import MachineState
from bigfleet.provider.fake.latency import fixed, parse_latency
from bigfleet.provider.fake.options import FakeOptions
from bigfleet.provider.fake.selector import Selector
from bigfleet.provider.kit.limits import Timeouts
from bigfleet.shard.core.poll_pace import JITTER
from bigfleet.shard.transition_poller import DISTRUST_S, GETS
from bigfleet.testing.loop import run_virtual
from tests.support.builders import need, of_type
from tests.support.fake_provider import bound, pool
from tests.support.observed_fleet import ObservedFleet

S = MachineState
TICK_S = 10.0

Story = Callable[[ObservedFleet], Awaitable[None]]


def play(
    story: Story, *pools: Any, fake: FakeOptions | None = None, **options: Any
) -> None:  # Any: see ObservedFleet
    """Tell a story about a shard over these pools, of which nothing becomes Idle by itself unless `fake` says so."""

    async def tell() -> None:
        latencies = {"create": fixed(1e6), "configure": fixed(0), "drain": fixed(0)}
        usual = FakeOptions(latencies=latencies, timeouts=Timeouts(create=1e6))
        async with ObservedFleet(pools or (pool("m", 1),), fake or usual, **options) as world:
            await story(world)

    run_virtual(tell())


def asked(world: ObservedFleet, rpc: str = "List") -> list[float]:
    """When the provider was listed."""
    return [call.at_s for call in world.fake.calls(rpc=rpc)]


def polls(world: ObservedFleet) -> list[float]:
    """When the provider was asked for changes: ticks of a shard that lists in full do not ask for those."""
    return [call.at_s for call in world.fake.calls(rpc="List") if "since= " not in call.arguments]


def reactions(world: ObservedFleet) -> list[float]:
    """For each machine the time from Idle at the provider to the Configure call."""
    idle_s: dict[str, float] = {}
    for line in map(json.loads, world.fake.log().splitlines()):
        if line["event"] == "transition" and line["state"] == "Idle":
            idle_s[line["machine"]] = line["t"]
    return sorted(call.at_s - idle_s[call.machine_id] for call in world.fake.calls(rpc="Configure"))


async def on_order(world: ObservedFleet) -> None:
    """Bring one machine into Creating."""
    operator = await world.operator()
    await operator.demand(need("prod", of_type("m6i.large"), cpu=4))
    await world.until(lambda: world.state("m-0") is S.CREATING)


def react(count: int, **options: Any) -> list[float]:  # Any: see ObservedFleet
    """Order machines that become Idle one by one within a minute, and return the reactions."""
    found: list[float] = []

    async def story(world: ObservedFleet) -> None:
        operator = await world.operator()
        await operator.demand(need(cpu=4 * count))
        await operator.until(lambda: len(operator.in_state(S.CONFIGURED)) == count)
        found.extend(reactions(world))

    fake = FakeOptions(latencies={"create": parse_latency("uniform:5s-65s")})
    play(story, pool("m", count), fake=fake, execute_concurrency=64, **options)
    assert len(found) == count
    return found


@pytest.mark.rule("shard#transition-polls")
@pytest.mark.parametrize(("count", "incremental"), [(500, False), (50, True)])
def test_with_500_machines_on_order_each_is_configured_within_1_2_seconds(
    count: int, incremental: bool
) -> None:
    slowest = react(count, incremental_reconcile=incremental)
    # A poll interval, and the least time between two woken cycles, twice since a cycle may be under way.
    assert slowest[-1] <= 1.0 + 2 * 0.1


def test_without_polls_a_machine_waits_for_the_tick() -> None:
    assert react(40, transition_poll_interval_s=0)[-1] > 5


@pytest.mark.rule("shard#transition-polls")
def test_a_shard_without_machines_in_transition_asks_at_ticks_only() -> None:
    async def story(world: ObservedFleet) -> None:
        await world.pass_time(99)
        assert asked(world) == [TICK_S * number for number in range(10)]
        assert asked(world, "Get") == []

    play(story, pool("idle", 5, state=S.IDLE), bound("bound", 5), pool("m", 5))


@pytest.mark.rule("shard#transition-polls")
@pytest.mark.parametrize("state", [S.CREATING, S.CONFIGURING, S.DRAINING])
def test_each_state_of_transition_is_polled_for_and_the_end_of_it_ends_the_polls(state: MachineState) -> None:
    async def story(world: ObservedFleet) -> None:
        operator = await world.operator()
        await operator.demand(*([] if state is S.DRAINING else [need(cpu=4)]))
        await world.until(lambda: world.state("m-0") is state)
        began_s = world.fake.events.now_s()
        await world.pass_time(30)
        between = [at_s for at_s in polls(world) if at_s > began_s]
        assert 24 <= len(between) <= 34
        world.fake.release()
        await world.until(lambda: world.state("m-0") is not state, within_s=1.3)
        await world.pass_time(5)
        known = len(polls(world))
        await world.pass_time(8)
        assert len(polls(world)) == known

    before = {
        S.CREATING: pool("m", 1),
        S.CONFIGURING: pool("m", 1, state=S.IDLE),
        S.DRAINING: bound("m", 1),
    }

    async def held(world: ObservedFleet) -> None:
        world.fake.hold("m-0")
        await story(world)

    play(held, before[state], fake=FakeOptions(), reclaim_cap_fraction=0)


@pytest.mark.rule("shard#transition-polls")
def test_polls_are_an_interval_apart_with_jitter_and_counted() -> None:
    async def story(world: ObservedFleet) -> None:
        await on_order(world)
        await world.pass_time(200)
        apart = [
            later - earlier
            for earlier, later in pairwise(polls(world))
            if earlier // TICK_S == later // TICK_S
        ]
        assert all(1 - JITTER - 1e-3 <= each <= 1 + 1e-3 for each in apart)
        assert max(apart) - min(apart) > JITTER / 2
        counted = world.metric("bigfleet_shard_transition_poll_calls_total", call="List", result="unchanged")
        assert counted == len(polls(world)) >= 180

    play(story)


@pytest.mark.rule("shard#transition-polls")
def test_a_slow_provider_has_one_request_at_a_time_and_rests_three_quarters_of_the_time() -> None:
    async def story(world: ObservedFleet) -> None:
        await on_order(world)
        world.fake.latency("list", "1500ms")
        await world.pass_time(20)
        began_s = world.fake.events.now_s()
        await world.pass_time(300)
        calls = [call for call in world.fake.calls(rpc="List") if call.at_s > began_s]
        assert all(later.at_s >= earlier.at_s + earlier.seconds for earlier, later in pairwise(calls))
        ticks = [call for call in calls if "since= " in call.arguments]
        assert 29 <= len(ticks) <= 30
        assert {call.code for call in ticks[:-1]} == {"OK"}
        assert 30 <= len(calls) - len(ticks) <= 61
        assert world.shard.status().provider.reachable

    play(story)


@pytest.mark.rule("shard#transition-polls")
def test_a_failing_provider_is_asked_less_and_less_and_as_often_again_once_it_answers() -> None:
    async def story(world: ObservedFleet) -> None:
        await on_order(world)
        world.fake.refuse("List", code=Code.INTERNAL, seconds=100)
        failing_s = world.fake.events.now_s()
        await world.pass_time(100)
        failed = [at_s for at_s in polls(world) if at_s > failing_s]
        assert 8 <= len(failed) <= 18  # 1, 2, 4 and 8 s apart, then as ticks are
        assert world.lines("poll_failed")
        world.fake.honest()
        await world.pass_time(20)
        known = len(polls(world))
        await world.pass_time(20)
        assert len(polls(world)) - known >= 15

    play(story)


@pytest.mark.rule("shard#transition-polls")
def test_a_poll_that_gets_no_answer_gives_way_to_the_tick() -> None:
    async def story(world: ObservedFleet) -> None:
        await on_order(world)
        world.fake.lose_answer("List", times=1)
        known = len(asked(world))
        await world.until(lambda: len(asked(world)) > known)
        ticks = len(asked(world)) - len(polls(world))
        assert len(polls(world)) == 1 + known - ticks  # it is a poll whose answer is lost
        await world.pass_time(11)
        assert len(asked(world)) - len(polls(world)) == ticks + 1
        assert world.lines("listing_late") == []
        assert world.metric("bigfleet_shard_transition_poll_calls_total", call="List", result="given_up") == 1
        assert world.shard.status().provider.failures == 0

    play(story)


@pytest.mark.rule("shard#transition-polls")
def test_an_unreachable_provider_is_not_polled() -> None:
    async def story(world: ObservedFleet) -> None:
        await on_order(world)
        world.network.partition(["shard"], ["fake"])
        await world.until(lambda: not world.shard.status().provider.reachable)
        name = "bigfleet_shard_transition_poll_calls_total"
        before = sum(world.metric(name, call="List", result=each) for each in ("failed", "given_up"))
        await world.pass_time(120)
        assert sum(world.metric(name, call="List", result=each) for each in ("failed", "given_up")) == before
        world.network.heal()
        known = len(polls(world))
        await world.pass_time(40)
        assert len(polls(world)) >= known + 15

    play(story)


# Providers that cannot list changes


@pytest.mark.rule("shard#transition-polls")
def test_a_provider_without_cursors_is_asked_for_some_machines_in_turn() -> None:
    async def story(world: ObservedFleet) -> None:
        operator = await world.operator()
        await operator.demand(need(cpu=4 * 100))
        await world.until(lambda: len(world.shard.inventory.in_states([S.CREATING])) == 100)
        await world.pass_time(1)
        began_s = world.fake.events.now_s()
        await world.pass_time(8)
        calls = [call for call in world.fake.calls(rpc="Get") if call.at_s > began_s]
        each_second = [
            sum(second <= call.at_s - began_s < second + 1 - JITTER for call in calls) for second in range(7)
        ]
        assert max(each_second) <= GETS
        assert {call.machine_id for call in calls} == {f"m-{number}" for number in range(100)}
        assert polls(world) == []
        assert world.metric(
            "bigfleet_shard_transition_poll_calls_total", call="Get", result="unchanged"
        ) >= len(calls)

    fake = FakeOptions(latencies={"create": fixed(1e6)}, cursor="none")
    play(story, pool("m", 100), fake=fake, execute_concurrency=64)


def test_a_machine_found_idle_by_get_is_configured_at_once() -> None:
    async def story(world: ObservedFleet) -> None:
        await on_order(world)
        await world.until(lambda: len(world.fake.calls(rpc="Configure")) == 1)
        assert reactions(world)[0] <= 1.2

    play(story, fake=FakeOptions(latencies={"create": fixed(23.4)}, cursor="none"))


@pytest.mark.rule("shard#transition-polls")
def test_a_provider_that_answers_in_full_is_believed_and_not_asked_for_changes_again() -> None:
    async def story(world: ObservedFleet) -> None:
        await on_order(world)
        await world.pass_time(5)
        known = len(polls(world))
        assert known >= 4
        world.shard.poller._cursor = (
            b"no cursor of this provider"  # as after a restart that lost its change log
        )
        await world.pass_time(30)
        assert len(polls(world)) == known + 1
        assert len(world.fake.calls(rpc="Get")) >= 20
        assert len(world.lines("provider_answers_in_full")) == 1
        await world.pass_time(DISTRUST_S)
        assert len(polls(world)) > known + 1

    # Nobody reports the demand of the other cluster, so that its machines stay as they are.
    play(story, pool("m", 1), bound("other", 1200, instance_type="other", cluster="other"))


# What a poll may change


@pytest.mark.rule("shard#transition-polls", "shard#disputed-states")
def test_polls_do_not_count_sightings_of_a_disputed_state() -> None:
    async def story(world: ObservedFleet) -> None:
        await on_order(world)
        await world.until(lambda: len(polls(world)) > 1)
        await world.fake.fail(Selector(id="idle-0"))
        await world.until(lambda: world.state("idle-0") is S.FAILED, within_s=2)  # a loss is believed at once
        await world.fake.repair("idle-0", S.IDLE)
        await world.pass_time(9)
        assert world.state("idle-0") is S.FAILED
        await world.until(lambda: world.state("idle-0") is S.IDLE)
        reports = world.metric("bigfleet_shard_disputed_reports_total")
        assert reports == 2  # two ticks that did not believe it

    play(story, pool("m", 1), pool("idle", 1, instance_type="other", state=S.IDLE))


@pytest.mark.rule("shard#transition-polls", "shard#stale-listing")
def test_polls_of_a_provider_that_answers_with_old_records_undo_no_call() -> None:
    async def story(world: ObservedFleet) -> None:
        operator = await world.operator()
        await operator.demand(need(cpu=4 * 40))
        await world.until(lambda: world.state("m-0") is S.CREATING)
        world.fake.lie("stale-list", 5)
        await operator.until(lambda: len(operator.in_state(S.CONFIGURED)) == 40)
        configured = [call.machine_id for call in world.fake.calls(rpc="Configure")]
        assert len(configured) == len(set(configured)) == 40

    fake = FakeOptions(latencies={"create": parse_latency("uniform:5s-65s"), "configure": fixed(7)})
    play(story, pool("m", 40), fake=fake, execute_concurrency=64, cycle_interval_s=200.0)


@pytest.mark.rule("shard#transition-polls", "shard#touched-machines")
def test_a_report_during_an_action_waits_for_its_end_and_is_asked_for_again() -> None:
    async def story(world: ObservedFleet) -> None:
        world.fake.lose_answer("Create", times=1)
        await on_order(world)
        await world.until(lambda: world.real("m-0") is S.IDLE)
        await world.pass_time(5)
        assert world.shard.dispatcher.is_pending("m-0")
        assert (
            world.state("m-0") is S.CREATING
        )  # or the answer of the call would find another state than it left
        await world.until(lambda: not world.shard.dispatcher.is_pending("m-0"))
        await world.until(lambda: bool(world.fake.calls(rpc="Configure")), within_s=1.5)

    play(story, fake=FakeOptions(latencies={"create": fixed(5)}), cycle_interval_s=200.0)
