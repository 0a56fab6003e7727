"""What a provider can do to a shard: the provider rows of `shard#failures`, on virtual time."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from bigfleet.aio.net import Code
from bigfleet.demo.session_peer import SessionPeer
from bigfleet.demo.virtual_fleet import FAKE_HOST, SHARD_HOST
from bigfleet.model.machine import MachineState
from bigfleet.provider.fake.injected_faults import FailureMode
from bigfleet.provider.fake.lies.registry import LIES
from bigfleet.provider.fake.options import FakeOptions
from bigfleet.provider.fake.selector import Selector
from bigfleet.provider.kit.core.fence import FencingToken
from bigfleet.testing.loop import run_virtual
from bigfleet.wire import metadata
from tests.support.builders import need
from tests.support.fake_provider import bound, pool, spot
from tests.support.observed_fleet import ObservedFleet

S = MachineState
IDLE = pool("idle", 4, state=S.IDLE)
ASYNC, SYNC = FakeOptions(), FakeOptions(sync=True)

Story = Callable[[ObservedFleet], Awaitable[None]]


def play(story: Story, *pools: Any, fake: FakeOptions | None = None, **options: Any) -> None:
    """Tell a story about a shard over these pools."""

    async def tell() -> None:
        async with ObservedFleet(pools or (IDLE,), fake, **options) as world:
            await story(world)

    run_virtual(tell())


async def serving(world: ObservedFleet, machines: int = 1) -> SessionPeer:
    """An operator that has been given so many machines."""
    operator = await world.operator("prod")
    await operator.demand(need(cpu=4 * machines))
    await operator.until(lambda: len(operator.in_state(S.CONFIGURED)) == machines)
    return operator


def outcome(world: ObservedFleet, kind: str, label: str) -> float:
    return world.metric("bigfleet_shard_action_execute_outcomes_total", kind=kind, outcome=label)


@pytest.mark.rule("shard#provider-unreachable-at-start")
def test_unreachable_at_start_the_process_runs_and_serves_and_is_not_ready() -> None:
    async def story(world: ObservedFleet) -> None:
        world.network.partition([SHARD_HOST], [FAKE_HOST])
        operator = await world.operator()
        await operator.demand(need(cpu=4))
        await operator.until(lambda: operator.echoes() == ["hello", "rollup"])
        await world.cycles(3)
        assert world.shard.not_ready() == ("the provider has not been listed yet",)
        assert len(world.lines("reconcile_failed")) + len(world.lines("listing_slow")) >= 2
        world.network.heal()
        await operator.until(lambda: len(operator.in_state(S.CONFIGURED)) == 1)
        assert world.shard.not_ready() == ()

    play(story)


@pytest.mark.rule("shard#provider-unreachable-later")
def test_unreachable_later_the_inventory_stays_and_no_machine_fails() -> None:
    async def story(world: ObservedFleet) -> None:
        operator = await serving(world)
        await world.fake.stop(0)
        await operator.demand(need(cpu=8))
        await world.cycles(3)
        assert outcome(world, "Bootstrap", "provider_error") == 0
        assert len(operator.in_state(S.FAILED)) == 0
        assert len(world.shard.inventory) == 4
        assert world.shard.not_ready() == ()
        await world.fake.start()
        await world.fake.listen(":9000")

    play(story, IDLE, fake=SYNC)


@pytest.mark.rule("shard#listing-slow", "providers#fault-injection", "shard#cycle-too-long")
def test_a_listing_slower_than_a_cycle_does_not_stop_cycles_and_is_applied_when_it_comes() -> None:
    async def story(world: ObservedFleet) -> None:
        await serving(world)
        listed = len(world.fake.calls(rpc="List"))
        world.fake.pause_rpc("List", 29)
        await world.fake.add([pool("late", 1, state=S.IDLE)])
        began = world.shard.loop.number
        await world.until(lambda: bool(world.lines("listing_slow")))
        await world.until(lambda: world.shard.loop.number >= began + 1)
        assert len(world.fake.calls(rpc="List")) == listed + 2  # late, so requested twice; not once per cycle
        await world.until(lambda: world.state("late-0") is S.IDLE)

    play(story)


@pytest.mark.rule("shard#listing-never-answered")
def test_a_listing_that_never_comes_is_cut_and_asked_for_again() -> None:
    async def story(world: ObservedFleet) -> None:
        await serving(world)
        world.fake.lose_answer("List", times=2)  # also that of the second request
        await world.fake.add([pool("late", 1, state=S.IDLE)])
        await world.until(lambda: bool(world.lines("reconcile_failed")))
        await world.until(lambda: world.state("late-0") is S.IDLE)

    play(story)


@pytest.mark.rule("shard#listing-guard", "shard#listing-truncated", "providers#fault-injection")
def test_an_empty_listing_is_held_twice_and_believed_the_third_time() -> None:
    async def story(world: ObservedFleet) -> None:
        await world.cycles(1)
        world.fake.lie("empty-list")
        await world.until(lambda: len(world.lines("listing_held")) == 2)
        assert world.metric("bigfleet_shard_listings_held") == 2
        assert len(world.shard.inventory) == 12
        await world.until(lambda: len(world.shard.inventory) == 0)
        world.fake.honest()
        await world.until(lambda: len(world.shard.inventory) == 12)
        assert world.metric("bigfleet_shard_listings_held") == 0

    play(story, bound("bound", 12))


@pytest.mark.rule("shard#rejected-records", "shard#configured-without-cluster")
def test_a_bound_record_without_a_cluster_is_refused_and_not_removed() -> None:
    async def story(world: ObservedFleet) -> None:
        operator = await serving(world, 2)
        served = operator.in_state(S.CONFIGURED)
        world.fake.lie("bound-without-cluster", 1.0)
        await world.restart()
        await world.cycles(2)
        assert world.metric("bigfleet_shard_machines_rejected_total", reason="structural") >= 2
        assert len(world.shard.inventory) == 2
        world.fake.honest()
        await world.until(lambda: [world.state(machine_id) for machine_id in served] == [S.CONFIGURED] * 2)
        world.fake.lie("bound-without-cluster", 1.0)
        await world.cycles(4)
        assert [world.state(machine_id) for machine_id in served] == [S.CONFIGURED] * 2

    play(story)


@pytest.mark.rule("shard#record-invalid")
@pytest.mark.parametrize("lie", ["nan-price", "bad-probability", "alien-state"])
def test_a_record_that_cannot_be_true_is_refused_alone_and_what_is_known_stays(lie: str) -> None:
    async def story(world: ObservedFleet) -> None:
        await serving(world, 2)
        world.fake.lie(lie, 1.0)
        await world.fake.fail(Selector(states=(S.CONFIGURED,)))
        await world.cycles(3)
        assert world.shard.inventory.count_by_state()[S.CONFIGURED] == 2
        reasons = {"nan-price": "price", "bad-probability": "interruption_probability"}
        assert world.metric("bigfleet_shard_machines_rejected_total", reason=reasons.get(lie, "structural"))
        world.fake.honest()
        await world.until(lambda: world.shard.inventory.count_by_state()[S.FAILED] == 2)

    play(story)


@pytest.mark.rule("shard#metadata-missing")
def test_a_machine_without_metadata_is_adopted_unprotected() -> None:
    async def story(world: ObservedFleet) -> None:
        await serving(world)
        world.fake.lie("forget-metadata")
        await world.restart()
        await world.until(lambda: world.shard.inventory.count_by_state()[S.CONFIGURED] == 1)
        (machine_id,) = world.shard.inventory.bound_to("prod")
        assert world.machine(machine_id).assigned.priority == 0
        assert world.machine(machine_id).assigned.fingerprint == ""

    play(story)


@pytest.mark.rule("shard#metadata-malformed")
def test_metadata_that_cannot_be_read_is_skipped_key_by_key_counted_and_told_once() -> None:
    written = {metadata.PRIORITY: "high", metadata.INTERRUPTION_PENALTY: "64", metadata.GROUP: "g"}

    async def story(world: ObservedFleet) -> None:
        await world.until(lambda: world.shard.inventory.count_by_state()[S.CONFIGURED] == 7)
        assigned = world.machine("odd-0").assigned
        assert (assigned.priority, assigned.interruption_penalty, assigned.group) == (0, 64.0, "g")
        told = world.lines("metadata_skipped")
        assert [(line["machine"], line["entry"], line["found"]) for line in told] == [
            (f"odd-{number}", metadata.PRIORITY, "high") for number in range(5)
        ]
        assert [line["machines"] for line in world.lines("more_metadata_skipped")] == [2]
        await world.cycles(3)
        await world.fake.fail(Selector(id="odd-6"))  # a changed record is read again
        await world.until(lambda: world.state("odd-6") is S.FAILED)
        skipped = world.metric("bigfleet_shard_metadata_skipped_total", key="assigned-priority")
        assert (skipped, len(world.lines("metadata_skipped"))) == (7, 5)
        assert world.metric("bigfleet_shard_machines_rejected_total", reason="structural") == 0

    play(story, bound("odd", 7, shard_metadata=written), cycle_interval_s=5)


@pytest.mark.rule("shard#create-refused", "providers#fault-injection")
@pytest.mark.parametrize("fake", [SYNC, ASYNC], ids=["synchronous", "asynchronous"])
def test_a_refused_create_fails_the_machine_and_the_next_cycle_takes_another(fake: FakeOptions) -> None:
    async def story(world: ObservedFleet) -> None:
        world.fake.refuse("Create", times=1, message="no quota")
        operator = await serving(world)
        assert world.machine("m-0").last_error.startswith("create: ")
        assert "no quota" in world.machine("m-0").last_error
        assert operator.in_state(S.CONFIGURED) == ["m-1"]

    play(story, pool("m", 3), fake=fake)


@pytest.mark.rule("shard#create-ack-bad-price")
def test_a_create_answered_with_a_bad_price_never_enters_the_inventory() -> None:
    async def story(world: ObservedFleet) -> None:
        await world.cycles(1)
        world.fake.lie("nan-price", 1.0)
        operator = await world.operator()
        await operator.demand(need(cpu=4))
        await world.until(lambda: world.state("m-0") is S.FAILED)
        assert world.machine("m-0").last_error.startswith("create: ack rejected: ")
        assert world.metric("bigfleet_shard_machines_rejected_total", reason="price") >= 1

    play(story, pool("m", 1), fake=SYNC)


@pytest.mark.rule("shard#create-never-finishes", "providers#fault-injection")
def test_a_create_that_never_finishes_counts_for_its_need_until_the_provider_gives_up() -> None:
    async def story(world: ObservedFleet) -> None:
        world.fake.hold(kind="create")
        operator = await world.operator()
        await operator.demand(need(cpu=4))
        await world.until(lambda: world.state("m-0") is S.CREATING)
        await world.cycles(5)
        assert world.shard.inventory.count_by_state()[S.CREATING] == 1  # not bought twice
        await world.until(lambda: world.state("m-0") is S.FAILED, within_s=600)
        world.fake.release()
        await operator.until(lambda: operator.in_state(S.CONFIGURED) == ["m-1"])

    play(story, pool("m", 3))


@pytest.mark.rule("shard#unanswered-calls", "shard#answer-lost", "providers#fault-injection")
@pytest.mark.parametrize("rpc", ["Create", "Configure", "Drain", "Delete"])
def test_an_answer_lost_after_acceptance_is_settled_by_reconcile(rpc: str) -> None:
    async def story(world: ObservedFleet) -> None:
        world.fake.lose_answer(rpc, times=1)
        operator = await world.operator()
        await operator.demand(need(cpu=4))
        await operator.until(lambda: operator.in_state(S.CONFIGURED) == ["m-0"])
        await operator.demand()
        await world.until(lambda: world.real("m-0") is S.SPECULATIVE, within_s=2000)
        await world.until(lambda: world.state("m-0") is S.SPECULATIVE)
        kind = {"Create": "Provision", "Configure": "Bootstrap", "Drain": "Reclaim", "Delete": "Delete"}[rpc]
        assert outcome(world, kind, "ctx_canceled") == 1
        assert not operator.in_state(S.FAILED)

    play(story, pool("m", 1))


@pytest.mark.rule("shard#unanswered-calls", "shard#call-lost")
@pytest.mark.parametrize("rpc", ["Create", "Configure", "Drain", "Delete"])
@pytest.mark.parametrize("incremental", [False, True], ids=["full listings", "deltas"])
def test_a_call_lost_before_the_provider_took_it_is_settled_too(rpc: str, incremental: bool) -> None:
    async def story(world: ObservedFleet) -> None:
        world.fake.refuse(rpc, times=1, code=Code.UNAVAILABLE, message="connection reset")
        operator = await world.operator()
        await operator.demand(need(cpu=4))
        await operator.until(lambda: operator.in_state(S.CONFIGURED) == ["m-0"], within_s=300)
        await operator.demand()
        await world.until(lambda: world.real("m-0") is S.SPECULATIVE, within_s=2000)
        await world.until(lambda: world.state("m-0") is S.SPECULATIVE)

    play(story, pool("m", 1), incremental_reconcile=incremental)


@pytest.mark.rule("shard#configure-refused", "providers#fault-injection")
def test_a_refused_configure_fails_the_machine_and_tells_its_operator() -> None:
    async def story(world: ObservedFleet) -> None:
        world.fake.refuse("Configure", times=1, message="no route")
        operator = await serving(world)
        failed = operator.in_state(S.FAILED)
        assert len(failed) == 1
        last = [update for update in operator.updates if update.machine_id == failed[0]][-1]
        assert "configure: INTERNAL: no route" in last.last_error

    play(story, IDLE, fake=SYNC)


@pytest.mark.rule("shard#applying-a-record")
def test_an_asynchronous_configure_is_told_once_by_reconcile_and_keeps_its_assignment() -> None:
    async def story(world: ObservedFleet) -> None:
        operator = await serving(world)
        (machine_id,) = operator.in_state(S.CONFIGURED)
        await world.cycles(3)
        assert operator.states(machine_id).count(S.CONFIGURED) == 1
        assert world.machine(machine_id).assigned.fingerprint == need().profile.fingerprint
        assert world.metric("bigfleet_shard_provisioning_latency_seconds_count") == 1

    play(story, IDLE, fake=ASYNC)


@pytest.mark.rule("shard#node-never-ready")
def test_a_node_that_never_gets_ready_stays_configuring_until_the_provider_gives_up() -> None:
    async def story(world: ObservedFleet) -> None:
        world.fake.hold(kind="configure")
        operator = await world.operator()
        await operator.demand(need(cpu=4))
        await world.until(lambda: len(operator.in_state(S.CONFIGURING)) == 1)
        (machine_id,) = operator.in_state(S.CONFIGURING)
        await world.until(lambda: world.state(machine_id) is S.FAILED, within_s=600)
        assert operator.last_state(machine_id) is S.FAILED
        world.fake.release()
        await operator.until(lambda: len(operator.in_state(S.CONFIGURED)) == 1)

    play(story)


@pytest.mark.rule("shard#drain-refused", "providers#fault-injection")
def test_after_a_refused_drain_the_operator_learns_that_the_machine_serves_again() -> None:
    async def story(world: ObservedFleet) -> None:
        operator = await serving(world)
        (machine_id,) = operator.in_state(S.CONFIGURED)
        world.fake.refuse("Drain", times=1, message="busy")
        seen = len(operator.states(machine_id))
        await operator.demand()
        await operator.until(lambda: operator.states(machine_id)[seen:] == [S.DRAINING, S.CONFIGURED])
        assert len(operator.instructions) == 1
        assert world.machine(machine_id).cluster == "prod"
        assert outcome(world, "Reclaim", "provider_error") == 1
        await operator.until(lambda: operator.last_state(machine_id) is S.IDLE)

    play(story)


@pytest.mark.rule("shard#drain", "shard#drain-slow")
def test_a_slow_drain_keeps_its_cluster_and_its_end_reaches_the_former_operator() -> None:
    async def story(world: ObservedFleet) -> None:
        operator = await serving(world)
        (machine_id,) = operator.in_state(S.CONFIGURED)
        world.fake.hold(kind="drain")
        await operator.demand()
        await world.until(lambda: world.state(machine_id) is S.DRAINING)
        await world.cycles(3)
        assert outcome(world, "Reclaim", "success") == 1
        assert world.machine(machine_id).cluster == "prod"
        world.fake.release()
        await operator.until(lambda: operator.last_state(machine_id) is S.IDLE)
        assert world.machine(machine_id).cluster == ""
        assert world.machine(machine_id).assigned.fingerprint == ""

    play(story)


@pytest.mark.rule("shard#delete-not-offered", "providers#fault-injection")
def test_a_delete_that_is_not_offered_fails_the_machine_and_is_counted() -> None:
    async def story(world: ObservedFleet) -> None:
        operator = await serving(world)
        await operator.demand()
        await world.until(lambda: outcome(world, "Delete", "provider_error") == 1, within_s=2000)
        assert world.state("m-0") is S.FAILED
        assert world.machine("m-0").last_error.startswith("delete: UNIMPLEMENTED")

    play(story, pool("m", 1), fake=FakeOptions(offer_delete=False))


@pytest.mark.rule("shard#disputed-states", "shard#drain-reverts")
def test_a_drain_that_reverts_is_adopted_at_the_third_sighting() -> None:
    async def story(world: ObservedFleet) -> None:
        operator = await serving(world)
        (machine_id,) = operator.in_state(S.CONFIGURED)
        world.fake.lie("drain-reverts")
        await operator.demand()
        await world.until(lambda: world.state(machine_id) is S.DRAINING)
        await world.until(lambda: bool(world.lines("report_adopted")))
        assert len(world.lines("report_disputed")) >= 2
        assert S.CONFIGURED in operator.states(machine_id)[2:]

    play(story)


@pytest.mark.rule("shard#reported-failure", "shard#configured-machine-dies")
@pytest.mark.parametrize("incremental", [False, True], ids=["full listings", "deltas"])
def test_a_configured_machine_that_dies_becomes_failed_and_its_demand_reopens(incremental: bool) -> None:
    async def story(world: ObservedFleet) -> None:
        operator = await serving(world)
        (lost,) = operator.in_state(S.CONFIGURED)
        await world.fake.fail(Selector(id=lost), "the host burnt down")
        await operator.until(lambda: operator.in_state(S.CONFIGURED) not in ([], [lost]))
        assert operator.last_state(lost) is S.FAILED
        assert world.metric("bigfleet_shard_adopted_reports_total") == 1
        assert world.lines("report_disputed") == []  # believed at once

    play(story, incremental_reconcile=incremental)


@pytest.mark.rule("shard#disputed-states", "shard#failed-machine-repaired")
@pytest.mark.parametrize("incremental", [False, True], ids=["full listings", "deltas"])
def test_a_failed_machine_that_was_repaired_comes_back(incremental: bool) -> None:
    async def story(world: ObservedFleet) -> None:
        await world.cycles(1)
        await world.fake.fail(Selector(id="idle-0"))
        await world.until(lambda: world.state("idle-0") is S.FAILED)
        await world.fake.repair("idle-0", S.IDLE)
        await world.until(lambda: world.state("idle-0") is S.IDLE)

    play(story, incremental_reconcile=incremental)


@pytest.mark.rule("shard#machine-vanishes", "providers#fault-injection")
def test_a_machine_that_vanishes_from_a_full_listing_is_removed_with_a_last_word() -> None:
    async def story(world: ObservedFleet) -> None:
        operator = await serving(world)
        (gone,) = operator.in_state(S.CONFIGURED)
        await world.fake.remove(gone, without_trace=True)
        await world.until(lambda: world.state(gone) is None)
        last = [update for update in operator.updates if update.machine_id == gone][-1]
        assert (last.state, last.last_error.startswith("removed:")) == (int(S.FAILED), True)

    play(story)


@pytest.mark.rule("shard#machine-vanishes-incremental")
def test_a_machine_that_vanishes_between_deltas_stays() -> None:
    async def story(world: ObservedFleet) -> None:
        await world.cycles(1)
        await world.fake.remove("idle-0", without_trace=True)
        await world.cycles(4)
        assert world.state("idle-0") is S.IDLE

    play(story, incremental_reconcile=True)


@pytest.mark.rule("shard#provider-restarts", "providers#fault-injection")
@pytest.mark.parametrize("forget", [False, True], ids=["with its state", "without"])
def test_a_provider_that_restarts_is_followed(forget: bool) -> None:
    async def story(world: ObservedFleet) -> None:
        operator = await serving(world)
        await world.fake.restart(forget=forget)
        await world.cycles(4)
        await operator.demand(need(cpu=8))
        await operator.until(lambda: len(operator.in_state(S.CONFIGURED)) >= 1)
        assert world.shard.not_ready() == ()

    play(story)


@pytest.mark.rule("shard#cursor-not-understood")
@pytest.mark.parametrize("cursor", ["none", "stale"])
def test_a_cursor_that_is_not_understood_or_old_changes_nothing(cursor: str) -> None:
    async def story(world: ObservedFleet) -> None:
        operator = await serving(world, 2)
        await operator.demand(need(cpu=4))
        await operator.until(lambda: len(operator.in_state(S.CONFIGURED)) == 1, within_s=1000)

    play(story, fake=FakeOptions(cursor=cursor), incremental_reconcile=True)


@pytest.mark.rule("shard#fenced", "shard#call-fenced")
def test_a_fenced_call_is_not_repeated_and_three_in_a_row_stop_the_shard() -> None:
    async def story(world: ObservedFleet) -> None:
        await world.cycles(1)
        world.fake.lie("fence-all")
        operator = await world.operator()
        await operator.demand(need(cpu=16))
        await world.until(lambda: world.shard.actuation.self_paused)
        assert outcome(world, "Bootstrap", "fenced") == 3
        calls = [call.machine_id for call in world.fake.calls(rpc="Configure")]
        assert len(calls) == len(set(calls)) == 3
        assert len(world.lines("fenced")) == 3
        assert world.metric("bigfleet_shard_self_paused") == 1
        assert "fenced 3 calls in a row" in world.shard.not_ready()[0]
        world.fake.honest()
        await world.cycles(3)
        assert len(world.fake.calls(rpc="Configure")) == 3
        assert world.metric("bigfleet_shard_actions_suppressed_total", kind="Bootstrap") >= 1

    play(story, IDLE, fake=SYNC)


@pytest.mark.rule("shard#fenced", "shard#calls-out-of-order")
def test_thirty_two_workers_of_one_live_shard_are_never_fenced() -> None:
    async def story(world: ObservedFleet) -> None:
        operator = await world.operator()
        await operator.demand(need(cpu=4 * 100))
        await operator.until(lambda: len(operator.in_state(S.CONFIGURED)) == 100)
        await operator.demand()
        await operator.until(lambda: len(operator.in_state(S.IDLE)) == 100, within_s=3000)
        for kind in ("Bootstrap", "Reclaim"):
            assert outcome(world, kind, "fenced") == 0
        calls = world.fake.calls(rpc="Configure")
        assert len({call.sequence for call in calls}) == len(calls) == 100

    play(story, pool("idle", 100, state=S.IDLE), fake=SYNC, execute_concurrency=32)


@pytest.mark.rule("providers#fault-injection", "shard#provider-lies")
@pytest.mark.parametrize("lie", sorted(LIES))
def test_every_lie_is_survived_and_the_truth_is_found_afterwards(lie: str) -> None:
    """`providers#fault-injection` and `providers#lies`: no crash, cycles go on, and no machine is owned twice."""

    async def story(world: ObservedFleet) -> None:
        operator = await world.operator()
        await operator.demand(need(cpu=8))
        await world.cycles(2)
        world.fake.lie(lie)
        await operator.demand(need(cpu=16))
        await world.pass_time(60)
        await operator.demand(need(cpu=4))
        await world.pass_time(60)
        number = world.shard.loop.number
        world.fake.honest()
        await world.cycles(5)
        assert world.shard.loop.number > number
        assert world.run.task is not None
        assert not world.run.task.done()
        assert world.metric("bigfleet_shard_cycle_failures_total") == 0
        truth = {machine.id: (machine.state, machine.cluster) for machine in world.fake.machines()}
        for machine_id in world.shard.inventory.bound_to("prod"):
            assert truth[machine_id][1] == "prod"

    play(story, pool("m", 6), pool("idle", 2, state=S.IDLE))


# Rows of `providers#fault-injection` that no test above uses (`providers#fault-injection`)


@pytest.mark.rule("shard#accepted-then-failed", "providers#fault-injection")
def test_an_operation_accepted_and_failed_later_is_told_and_another_machine_taken() -> None:
    async def story(world: ObservedFleet) -> None:
        world.fake.fail_next(kind="configure", message="kernel panic")
        operator = await serving(world)
        (failed,) = operator.in_state(S.FAILED)
        assert "kernel panic" in world.machine(failed).last_error

    play(story)


@pytest.mark.rule("shard#finished-after-timeout", "providers#fault-injection")
def test_an_operation_that_finishes_after_its_timeout_comes_back_as_a_repair_would() -> None:
    async def story(world: ObservedFleet) -> None:
        world.fake.fail_next(kind="create", how=FailureMode.LATE)
        operator = await world.operator()
        await operator.demand(need(cpu=4))
        await operator.until(lambda: operator.in_state(S.CONFIGURED) == ["m-1"], within_s=900)
        assert world.state("m-0") in (S.FAILED, S.IDLE)

    play(story, pool("m", 2))


@pytest.mark.rule("shard#connection-reset", "providers#fault-injection")
def test_a_connection_reset_in_the_middle_of_an_answer_is_settled_by_reconcile() -> None:
    async def story(world: ObservedFleet) -> None:
        world.fake.reset_during("Configure", times=1)
        operator = await serving(world, 2)
        assert outcome(world, "Bootstrap", "ctx_canceled") >= 1
        assert not operator.in_state(S.FAILED)

    play(story)


@pytest.mark.rule("shard#provider-unavailable-bursts", "providers#fault-injection")
def test_a_burst_of_unavailable_is_sat_out_and_moves_nothing() -> None:
    async def story(world: ObservedFleet) -> None:
        operator = await serving(world, 2)
        number, epoch = world.shard.loop.number, world.shard.epoch
        world.fake.refuse(code=Code.UNAVAILABLE, message="overloaded", seconds=60)
        await operator.demand(need(cpu=12))
        await world.until(lambda: world.shard.loop.number >= number + 3)
        assert not world.shard.status().provider.reachable
        assert len(operator.in_state(S.CONFIGURED)) == 2
        await operator.until(lambda: len(operator.in_state(S.CONFIGURED)) == 3, within_s=600)
        assert (world.shard.epoch, world.shard.not_ready()) == (epoch, ())

    play(story, pool("idle", 8, state=S.IDLE))


@pytest.mark.rule("shard#stock-out", "providers#fault-injection")
def test_a_stock_out_of_one_type_is_served_by_another() -> None:
    async def story(world: ObservedFleet) -> None:
        world.fake.stockout("m6i.large")
        operator = await world.operator()
        await operator.demand(need(cpu=4))
        await operator.until(lambda: len(operator.in_state(S.CONFIGURED)) == 1, within_s=600)
        (served,) = operator.in_state(S.CONFIGURED)
        assert world.machine(served).shape.instance_type == "m7i.large"

    play(story, pool("m", 2), pool("dear", 2, instance_type="m7i.large", price_per_hour=9.0))


@pytest.mark.rule("shard#stock-out", "providers#fault-injection")
@pytest.mark.parametrize("zone", ["zone-a", "*"], ids=["one zone", "total"])
def test_a_stock_out_is_served_from_elsewhere_or_stays_a_shortfall(zone: str) -> None:
    async def story(world: ObservedFleet) -> None:
        world.fake.stockout("m6i.large", zone)
        operator = await world.operator()
        await operator.demand(need(cpu=4))
        if zone == "*":
            await world.until(lambda: world.shard.inventory.count_by_state()[S.FAILED] == 4)
            await world.cycles(2)
            view = world.shard.last_cycle()
            assert view is not None
            assert len(view.shortfalls) == 1
        else:
            await operator.until(lambda: len(operator.in_state(S.CONFIGURED)) == 1)
            (served,) = operator.in_state(S.CONFIGURED)
            assert world.machine(served).shape.zone == "zone-b"

    play(story, pool("m", 4))


@pytest.mark.rule("shard#spot-loss", "providers#fault-injection")
def test_a_spot_loss_storm_of_one_zone_is_replaced_from_the_other() -> None:
    async def story(world: ObservedFleet) -> None:
        operator = await serving(world, 4)
        served = operator.in_state(S.CONFIGURED)
        lost = {machine_id for machine_id in served if world.machine(machine_id).shape.zone == "zone-a"}
        assert len(lost) == 2
        world.fake.stockout(zone="zone-a")
        await world.fake.fail(Selector(zone="zone-a", states=(S.CONFIGURED,)), "spot market")
        await operator.until(lambda: lost <= set(operator.in_state(S.FAILED)))
        await operator.until(lambda: len(operator.in_state(S.CONFIGURED)) == 4, within_s=900)
        left = operator.in_state(S.CONFIGURED)
        assert {world.machine(machine_id).shape.zone for machine_id in left} == {"zone-b"}

    play(story, spot("spot", 12))


@pytest.mark.rule("shard#price-jump", "providers#fault-injection")
def test_a_price_jump_changes_no_machine_that_is_bound() -> None:
    async def story(world: ObservedFleet) -> None:
        operator = await serving(world)
        (machine_id,) = operator.in_state(S.CONFIGURED)
        await world.fake.price(Selector(), price=50.0)
        await world.cycles(3)
        assert world.state(machine_id) is S.CONFIGURED
        assert not operator.instructions

    play(story)


@pytest.mark.rule("shard#two-shards-one-machine", "providers#fault-injection")
def test_two_shards_on_one_machine_have_marks_of_their_own() -> None:
    async def story(world: ObservedFleet) -> None:
        operator = await serving(world)
        (machine_id,) = operator.in_state(S.CONFIGURED)
        code, _ = await world.fake.call("Drain", machine_id, FencingToken("shard-9", 1, 1))
        assert code is Code.OK
        await world.until(lambda: world.state(machine_id) is not S.CONFIGURED)
        await operator.until(lambda: len(operator.in_state(S.CONFIGURED)) == 1)
        assert outcome(world, "Bootstrap", "fenced") == 0

    play(story)


@pytest.mark.rule("shard#large-listings", "shard#listing-too-large")
def test_a_listing_too_large_for_one_message_is_asked_for_state_by_state() -> None:
    async def story(world: ObservedFleet) -> None:
        await world.until(lambda: world.shard.reconciler.done_once)
        assert world.lines("listing_too_large")
        assert len(world.shard.inventory) == 40
        operator = await serving(world)
        await world.fake.remove("m-7", without_trace=True)
        await world.until(lambda: world.state("m-7") is None)
        assert [call.machine_id for call in world.fake.calls(rpc="Get")] == ["m-7"]
        assert len(operator.in_state(S.CONFIGURED)) == 1

    pools = (pool("m", 20), pool("idle", 20, state=S.IDLE))
    play(story, *pools, fake=FakeOptions(max_message_bytes=2800))
