"""What wakes a cycle, and how far apart cycles are (`shard#wake-ups`, ADR-0075, ADR-0110)."""

import pytest

from bigfleet.model.machine import MachineState
from bigfleet.provider.fake.options import FakeOptions
from bigfleet.shard.core.pending_action import PendingAction
from bigfleet.shard.cycle_loop import woken_apart_s
from bigfleet.shard.cycle_planner import CycleInput, CyclePlan
from bigfleet.shard.options import ShardOptions
from bigfleet.testing.loop import run_virtual
from tests.support.builders import need
from tests.support.fake_provider import pool
from tests.support.observed_fleet import ObservedFleet

S = MachineState
IDLE = pool("idle", 40, state=S.IDLE)


def test_the_first_cycle_runs_at_once_and_the_others_on_the_tick() -> None:
    async def story() -> None:
        async with ObservedFleet((IDLE,)) as world:
            await world.pass_time(0.1)
            assert world.shard.loop.number == 1
            await world.pass_time(9.8)
            assert world.shard.loop.number == 1
            await world.pass_time(50.2)
            assert world.shard.loop.number == 7

    run_virtual(story())


def test_an_unchanged_roll_up_wakes_nothing_and_a_changed_one_does() -> None:
    async def story() -> None:
        async with ObservedFleet((IDLE,)) as world:
            operator = await world.operator()
            await operator.demand(need(cpu=4), at_ns=1)
            await operator.until(lambda: len(operator.in_state(S.CONFIGURED)) == 1)
            await world.cycles(1)
            began = world.shard.loop.number
            for at_ns in range(2, 6):
                await operator.demand(need(cpu=4), at_ns=at_ns)
                await world.pass_time(1.5)
            assert operator.echoes().count("rollup") == 5
            assert world.shard.loop.number == began
            await operator.demand(need(cpu=8), at_ns=9)
            await world.pass_time(1.5)
            assert world.shard.loop.number == began + 1

    run_virtual(story())


def test_woken_cycles_follow_within_a_tenth_of_a_second_and_list_nothing() -> None:
    async def story() -> None:
        async with ObservedFleet((IDLE,), transition_poll_interval_s=0) as world:
            operator = await world.operator()
            await world.pass_time(0.5)
            listed = len(world.fake.calls(rpc="List"))
            number = world.shard.loop.number
            await operator.demand(need(cpu=4))
            await world.pass_time(0.02)
            assert world.shard.loop.number == number + 1
            for place in range(400):
                await operator.demand(need(cpu=4 + place))
                await world.pass_time(0.01)
            assert 30 <= world.shard.loop.number - number <= 1 + 42
            assert len(world.fake.calls(rpc="List")) == listed

    run_virtual(story())


@pytest.mark.parametrize(("took_s", "apart_s"), [(0.0, 0.1), (0.03, 0.1), (0.2, 0.4), (0.5, 1.0), (0.9, 1.0)])
def test_woken_cycles_are_twice_the_duration_of_the_last_one_apart_within_bounds(
    took_s: float, apart_s: float
) -> None:
    assert woken_apart_s(took_s, ShardOptions()) == pytest.approx(apart_s)


@pytest.mark.rule("shard#ledger-ages", "shard#shortfalls")
def test_cycles_that_follow_closely_do_not_make_shortfalls_older() -> None:
    async def story() -> None:
        async with ObservedFleet((IDLE,)) as world:
            operator = await world.operator()
            await world.pass_time(0.5)
            number = world.shard.loop.number
            for place in range(60):
                await operator.demand(need(cpu=400 + 4 * place))
                await world.pass_time(0.1)
            view = world.shard.last_cycle()
            assert view is not None
            assert view.number - number >= 40
            assert [short.age_cycles for short in view.shortfalls] == [6]

    run_virtual(story())


def test_deferred_actions_wake_a_further_cycle() -> None:
    async def story() -> None:
        async with ObservedFleet(
            (IDLE,), FakeOptions(sync=True), max_actions_per_cycle=3, execute_concurrency=4
        ) as world:
            operator = await world.operator()
            await operator.demand(need(cpu=4 * 9))
            await world.pass_time(5)
            assert len(operator.in_state(S.CONFIGURED)) == 9
            assert world.metric("bigfleet_shard_actions_deferred_total") == 6 + 3

    run_virtual(story())


@pytest.mark.rule("shard#one-action-per-machine", "shard#queue", "shard#queue-full")
def test_a_full_queue_drops_releases_the_entry_and_wakes_a_cycle_once_half_empty() -> None:
    async def story() -> None:
        options = FakeOptions(sync=True)
        async with ObservedFleet((IDLE,), options, execute_concurrency=2) as world:
            world.fake.latency("configure-call", "200ms")
            operator = await world.operator()
            await operator.demand(need(cpu=4 * 20))
            await operator.until(lambda: len(operator.in_state(S.CONFIGURED)) == 20, within_s=30)
            assert world.metric("bigfleet_shard_actions_dropped_total") > 0
            assert world.metric("bigfleet_shard_action_queue_depth") == 0

    run_virtual(story())


@pytest.mark.rule("shard#one-action-per-machine", "shard#queue", "shard#listing-of-pending")
def test_a_pending_machine_is_neither_queued_twice_nor_touched_by_reconcile() -> None:
    async def story() -> None:
        async with ObservedFleet((IDLE,), FakeOptions(sync=True)) as world:
            operator = await world.operator()
            world.fake.pause_rpc("Configure", 25)
            await operator.demand(need(cpu=4))
            await world.until(lambda: world.state("idle-0") is S.CONFIGURING)
            await world.until(lambda: len(world.fake.calls(rpc="List")) >= 3)
            assert world.state("idle-0") is S.CONFIGURING  # though every listing says Idle
            await operator.until(lambda: operator.in_state(S.CONFIGURED) == ["idle-0"])
            assert len(world.fake.calls(rpc="Configure")) == 1

    run_virtual(story())


@pytest.mark.rule("shard#one-action-per-machine", "shard#queue", "shard#snapshot-raced")
def test_an_action_decided_on_a_snapshot_that_a_worker_has_overtaken_is_left_out() -> None:
    async def story() -> None:
        async with ObservedFleet((IDLE,), FakeOptions(sync=True)) as world:
            operator = await world.operator()
            await operator.demand(need(cpu=4))
            await operator.until(lambda: operator.in_state(S.CONFIGURED) == ["idle-0"])
            view = world.shard.last_cycle()
            assert view is not None
            (action,) = view.facts.dispatched  # decided when idle-0 was Idle
            before = world.metric("bigfleet_shard_actions_deduped_total")
            offered = await world.shard.dispatcher.offer([PendingAction(action, need(cpu=4))])
            assert (offered.queued, offered.deduped, offered.dropped) == ([], 1, 0)
            assert world.metric("bigfleet_shard_actions_deduped_total") == before + 1
            await world.cycles(2)
            assert len(world.fake.calls(rpc="Configure")) == 1

    run_virtual(story())


@pytest.mark.rule("shard#stale-listing")
def test_a_listing_asked_for_before_a_call_and_read_after_it_does_not_undo_the_call() -> None:
    async def story() -> None:
        async with ObservedFleet((IDLE,), transition_poll_interval_s=0) as world:
            operator = await world.operator()
            await world.cycles(1)
            listed = len(world.fake.calls(rpc="List"))
            world.fake.lie("stale-list", 3600)
            world.fake.pause_rpc("Configure", 12)
            world.fake.pause_rpc("List", 14)
            await world.pass_time(3)
            await operator.demand(need(cpu=4))
            # The call is under way when the listing is asked for, and over when the listing comes, which is older than it.
            await world.until(lambda: world.shard.dispatcher.in_flight == 1)
            await world.until(lambda: world.shard.dispatcher.in_flight == 0)
            assert [call.code for call in world.fake.calls(rpc="List")[listed:]] == [""]
            number = world.shard.loop.number
            await world.until(lambda: world.shard.last_cycle().number == number)  # type: ignore[union-attr]  # there is one
            assert world.state("idle-0") in (S.CONFIGURING, S.CONFIGURED)
            world.fake.honest()
            await operator.until(lambda: operator.in_state(S.CONFIGURED) == ["idle-0"])
            assert len(world.fake.calls(rpc="Configure")) == 1

    run_virtual(story())


@pytest.mark.rule("shard#steady-time", "shard#clock-jumps")
def test_a_jump_of_the_wall_clock_releases_nothing_early() -> None:
    async def story() -> None:
        async with ObservedFleet((pool("m", 1),), FakeOptions(sync=True)) as world:
            operator = await world.operator()
            await operator.demand(need(cpu=4))
            await operator.until(lambda: operator.in_state(S.CONFIGURED) == ["m-0"])
            await operator.demand()
            await world.until(lambda: world.state("m-0") is S.IDLE)
            world.run.process.clock.jump_wall(7200)
            await world.pass_time(300)
            assert world.state("m-0") is S.IDLE
            await world.until(lambda: world.real("m-0") is S.SPECULATIVE, within_s=400)

    run_virtual(story())


@pytest.mark.rule("shard#cycle-defect")
def test_a_defect_in_a_cycle_is_logged_and_survived_until_there_are_too_many() -> None:
    async def story() -> None:
        async with ObservedFleet((IDLE,), failed_cycles_in_a_row=3) as world:
            await world.cycles(1)
            broken = world.shard.reconciler

            async def fail() -> bool:
                raise RuntimeError("a defect")

            broken.reconcile = fail  # type: ignore[method-assign]  # a defect that no peer can bring about
            await world.pass_time(15)
            assert world.metric("bigfleet_shard_cycle_failures_total") == 1
            assert world.run.task is not None
            assert not world.run.task.done()
            await world.until(lambda: world.run.task is not None and world.run.task.done())
            assert "3 cycles in a row failed" in str(world.run.task.exception())

    run_virtual(story())


@pytest.mark.rule("shard#collection")
def test_a_cycle_decides_from_its_snapshot_to_its_end_also_when_it_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def story() -> None:
        async with ObservedFleet((IDLE,)) as world:
            loop = world.shard.loop
            seen: list[bool] = []
            plan = loop._planner.plan

            def watched(given: CycleInput) -> CyclePlan:
                seen.append(loop.deciding)
                if len(seen) == 2:
                    raise RuntimeError("a defect")
                return plan(given)

            monkeypatch.setattr(loop._planner, "plan", watched)
            world.fake.latency("list", "3s")
            for second in range(1, 26):
                await world.pass_time(1)
                assert not loop.deciding, second  # not while it waits for a listing either
            assert seen[:3] == [True, True, True]

    run_virtual(story())
