"""What operators can do to a shard: the operator rows of `shard#failures`, and sessions (`shard#node-state`,
`shard#sessions`), on virtual time."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest

from bigfleet.aio.identity import Identity
from bigfleet.aio.net import Code, RpcError
from bigfleet.demo.session_peer import SessionPeer, good_blob
from bigfleet.demo.virtual_fleet import SHARD_HOST, SHARD_PORT
from bigfleet.model.machine import MachineState
from bigfleet.model.profile import INSTANCE_TYPE_KEY, Requirement, RequirementOperator
from bigfleet.provider.fake.options import FakeOptions
from bigfleet.testing.loop import run_virtual
from bigfleet.v1alpha1 import capacity_pb2, shard_pb2
from tests.support.blob_answers import blob_error, no_blob
from tests.support.builders import need
from tests.support.fake_provider import bound, pool
from tests.support.observed_fleet import ObservedFleet

S = MachineState
IDLE = pool("idle", 4, state=S.IDLE)
SYNC = FakeOptions(sync=True)

Story = Callable[[ObservedFleet], Awaitable[None]]


def play(story: Story, *pools: Any, **options: Any) -> None:
    """Tell a story about a shard over these pools."""

    async def tell() -> None:
        async with ObservedFleet(pools or (IDLE,), **{"fake": SYNC, **options}) as world:
            await story(world)

    run_virtual(tell())


async def serving(world: ObservedFleet, machines: int = 1) -> SessionPeer:
    operator = await world.operator("prod")
    await operator.demand(need(cpu=4 * machines))
    await operator.until(lambda: len(operator.in_state(S.CONFIGURED)) == machines)
    return operator


def outcome(world: ObservedFleet, kind: str, label: str) -> float:
    return world.metric("bigfleet_shard_action_execute_outcomes_total", kind=kind, outcome=label)


# Opening and replacing


@pytest.mark.rule("shard#first-frame-wrong")
def test_the_first_frame_must_be_hello_with_a_cluster() -> None:
    async def story(world: ObservedFleet) -> None:
        nameless = await world.operator("", host="nobody")
        await nameless.until(lambda: nameless.is_over)
        assert nameless.ended is not None
        assert nameless.ended.code is Code.INVALID_ARGUMENT
        assert len(world.shard.sessions) == 0

    play(story)


def test_hello_is_acked_with_epoch_and_term_and_again_when_repeated() -> None:
    async def story(world: ObservedFleet) -> None:
        world.shard.term.raise_to(9)
        operator = await world.operator()
        await operator.until(lambda: bool(operator.acks))
        assert (operator.acks[0].shard_epoch, operator.acks[0].coordinator_term) == (1, 9)
        hello = shard_pb2.OperatorMessage(hello=shard_pb2.Hello(cluster_id="prod"))
        await operator.send(hello)
        await operator.until(lambda: operator.echoes().count("hello") == 2)
        await operator.send(shard_pb2.OperatorMessage(hello=shard_pb2.Hello(cluster_id="other")))
        await operator.until(lambda: operator.is_over)
        assert operator.ended is not None
        assert operator.ended.code is Code.INVALID_ARGUMENT

    play(story)


@pytest.mark.rule("shard#wrong-certificate")
def test_a_wrong_certificate_is_refused_counted_and_touches_nothing() -> None:
    async def story(world: ObservedFleet) -> None:
        net = world.network.host("intruder", Identity.cluster("other"))
        peer = SessionPeer(net.dial(f"{SHARD_HOST}:{SHARD_PORT}"), "prod", world.clock)
        await peer.connect()
        await peer.until(lambda: peer.is_over)
        assert peer.ended is not None
        assert peer.ended.code is Code.PERMISSION_DENIED
        assert world.metric("bigfleet_shard_session_identity_rejected_total") == 1
        assert world.lines("session_identity_rejected")
        assert len(world.shard.sessions) == 0
        admin = world.network.host("admin", Identity.parse("bigfleet://admin"))
        other = SessionPeer(admin.dial(f"{SHARD_HOST}:{SHARD_PORT}"), "prod", world.clock)
        await other.connect()
        await other.until(lambda: other.is_over)
        assert world.metric("bigfleet_shard_session_identity_rejected_total") == 2
        rightful = await world.operator("prod")
        await rightful.until(lambda: "hello" in rightful.echoes())
        await peer.close()
        await other.close()

    play(story, secured=True)


@pytest.mark.rule("shard#second-connection")
def test_a_second_connection_replaces_the_first_and_is_told_everything_anew() -> None:
    async def story(world: ObservedFleet) -> None:
        first = await serving(world)
        await first.until(lambda: bool(first.hints))
        second = await world.operator("prod", host="elsewhere")
        await first.until(lambda: first.is_over)
        assert first.ended is not None
        assert first.ended.code is Code.ABORTED
        await second.until(lambda: second.echoes() == ["hello", "resync"])
        assert len(second.in_state(S.CONFIGURED)) == 1
        await second.until(lambda: bool(second.hints))
        assert len(world.shard.sessions) == 1
        assert world.metric("bigfleet_shard_session_lifecycle_total", event="replaced") == 1

    play(story)


@pytest.mark.rule("shard#resync")
def test_a_resync_names_the_bound_machines_of_its_cluster_only_and_ends_with_its_mark() -> None:
    async def story(world: ObservedFleet) -> None:
        await world.cycles(1)
        operator = await world.operator("prod")
        await operator.until(lambda: operator.echoes() == ["hello", "resync"])
        assert sorted(update.machine_id for update in operator.updates) == ["p-0", "p-1", "p-2"]
        assert {update.cluster_id for update in operator.updates} == {"prod"}

    others = bound("o", 2, cluster="other")
    play(story, bound("p", 3), others, pool("m", 2), IDLE)


@pytest.mark.rule("shard#resync")
def test_no_end_mark_is_sent_before_the_first_full_listing() -> None:
    async def story(world: ObservedFleet) -> None:
        world.fake.pause_rpc("List", 35)
        operator = await world.operator("prod")
        await operator.until(lambda: operator.echoes() == ["hello"])
        await world.pass_time(20)
        assert operator.echoes() == ["hello"]
        await operator.until(lambda: operator.echoes() == ["hello", "resync"])
        assert len(operator.in_state(S.CONFIGURED)) == 3

    play(story, bound("p", 3))


@pytest.mark.rule("shard#resync", "shard#updates-missed")
def test_departures_during_an_absence_show_by_their_absence_from_the_resync() -> None:
    async def story(world: ObservedFleet) -> None:
        first = await serving(world, 2)
        before = first.in_state(S.CONFIGURED)
        await first.demand(need(cpu=4))
        await first.close()
        await world.until(lambda: len(world.shard.inventory.bound_to("prod")) == 1, within_s=2000)
        again = await world.operator("prod")
        await again.until(lambda: "resync" in again.echoes())
        assert len({update.machine_id for update in again.updates} & set(before)) == 1

    play(story)


# Roll-ups


@pytest.mark.rule("shard#rollup-malformed")
def test_a_malformed_roll_up_is_refused_whole_without_an_ack_and_the_session_lives() -> None:
    async def story(world: ObservedFleet) -> None:
        operator = await serving(world)
        rows = [
            capacity_pb2.CapacityNeed(aggregate_resources={"cpu": "4"}),
            capacity_pb2.CapacityNeed(aggregate_resources={"cpu": "12x"}),
        ]
        rollup = capacity_pb2.ClusterCapacityNeeds(cluster_id="prod", needs=rows)
        await operator.send(shard_pb2.OperatorMessage(rollup=rollup))
        await world.until(lambda: world.metric("bigfleet_shard_rollups_rejected_total", cluster="prod") == 1)
        assert len(world.shard.intake.needs) == 1
        assert operator.echoes().count("rollup") == 1
        await operator.demand(need(cpu=8))
        await operator.until(lambda: operator.echoes().count("rollup") == 2)

    play(story)


@pytest.mark.rule("shard#first-rollup-gate")
@pytest.mark.parametrize(
    "row",
    [
        pytest.param(capacity_pb2.CapacityNeed(interruption_penalty_bucket=28), id="bucket 28"),  # type: ignore[arg-type]  # out of range on purpose
        pytest.param(
            capacity_pb2.CapacityNeed(
                requirements=[capacity_pb2.NodeSelectorRequirement(key="k", operator=6)]  # type: ignore[arg-type]  # as above
            ),
            id="operator 6",
        ),
        pytest.param(capacity_pb2.CapacityNeed(min_unit={"cpu": "12x"}), id="quantity 12x"),
    ],
)
def test_a_refused_roll_up_does_not_open_the_gate(row: capacity_pb2.CapacityNeed) -> None:
    async def story(world: ObservedFleet) -> None:
        operator = await world.operator("prod")
        rollup = capacity_pb2.ClusterCapacityNeeds(needs=[row])
        await operator.send(shard_pb2.OperatorMessage(rollup=rollup))
        await world.until(lambda: world.metric("bigfleet_shard_rollups_rejected_total", cluster="") == 1)
        await world.cycles(3)
        assert not world.shard.intake.reported
        assert not operator.instructions

    play(story, bound("p", 3))


@pytest.mark.rule("shard#metrics")
def test_metrics_name_a_cluster_only_once_a_roll_up_of_it_was_accepted() -> None:
    """Without TLS a peer may say any name, and each name would be a series that stays."""

    async def story(world: ObservedFleet) -> None:
        for number in range(20):
            operator = await world.operator(f"invented-{number}")
            rows = [capacity_pb2.CapacityNeed(min_unit={"cpu": "12x"})]
            rollup = capacity_pb2.ClusterCapacityNeeds(needs=rows)
            await operator.send(shard_pb2.OperatorMessage(rollup=rollup))
        await world.until(lambda: world.metric("bigfleet_shard_rollups_rejected_total", cluster="") == 20)
        assert world.metric("bigfleet_shard_rollups_rejected_total", cluster="invented-7") == 0

    play(story)


@pytest.mark.rule("shard#rollup-other-cluster")
def test_a_roll_up_in_anothers_name_is_refused() -> None:
    async def story(world: ObservedFleet) -> None:
        operator = await world.operator("prod")
        rollup = capacity_pb2.ClusterCapacityNeeds(cluster_id="other")
        await operator.send(shard_pb2.OperatorMessage(rollup=rollup))
        await world.until(lambda: world.metric("bigfleet_shard_rollups_rejected_total", cluster="") == 1)
        assert not world.shard.intake.reported

    play(story)


@pytest.mark.rule("shard#first-rollup-gate", "shard#rollup-empty-first")
def test_an_empty_first_roll_up_opens_the_gate_of_its_cluster_and_of_no_other() -> None:
    async def story(world: ObservedFleet) -> None:
        silent = await world.operator("other")
        operator = await world.operator("prod")
        await world.cycles(3)
        assert not operator.instructions
        await operator.demand()
        await world.until(lambda: bool(operator.instructions))
        await world.cycles(3)
        assert not silent.instructions
        assert len(world.shard.inventory.bound_to("other")) == 2

    play(story, bound("p", 3), bound("o", 2, cluster="other"))


@pytest.mark.rule("shard#rollup-guard", "shard#rollup-near-empty", "shard#rollup-forged")
def test_a_sudden_near_empty_roll_up_is_held_twice_then_released_five_percent_at_a_time() -> None:
    async def story(world: ObservedFleet) -> None:
        operator = await world.operator("prod")
        rows = [need(priority=place, cpu=4) for place in range(40)]
        await operator.demand(*rows)
        await operator.until(lambda: len(operator.in_state(S.CONFIGURED)) == 40)
        for held in (1, 2):
            await operator.demand()
            await operator.until(lambda held=held: operator.echoes().count("rollup") == 1 + held)  # type: ignore[misc]  # bound now
            assert world.metric("bigfleet_shard_rollup_quarantined", cluster="prod") == held
        await world.cycles(3)
        assert not operator.instructions
        await operator.demand()
        await operator.until(lambda: operator.echoes().count("rollup") == 4)
        assert world.metric("bigfleet_shard_rollup_quarantined", cluster="prod") == 0
        await world.until(lambda: bool(operator.instructions))
        assert len(operator.instructions) == 2  # five percent of forty
        assert {item.grace_period_seconds for item in operator.instructions} == {600}
        assert world.metric("bigfleet_shard_reclaims_capped_total") == 38

    play(
        story,
        pool("idle", 40, state=S.IDLE),
        empty_rollup_guard=True,
        reclaim_cap_fraction=0.05,
        execute_concurrency=8,
    )


@pytest.mark.rule("shard#reclaim-cap", "shard#mass-drain")
def test_cycles_release_at_most_the_sum_of_their_caps() -> None:
    async def story(world: ObservedFleet) -> None:
        operator = await world.operator("prod")
        await operator.demand()
        for cycle in range(1, 5):
            await world.cycles(1)
            assert len(operator.instructions) <= cycle + 1
        await world.until(lambda: len(operator.instructions) == 5)
        assert [item.nodes[0] for item in operator.instructions] == [f"p-{place}" for place in range(5)]

    play(story, bound("p", 5), reclaim_cap_fraction=0.05)


@pytest.mark.rule("shard#unknown-frame")
def test_a_frame_without_payload_is_warned_about_and_ignored() -> None:
    async def story(world: ObservedFleet) -> None:
        operator = await world.operator("prod")
        await operator.send(shard_pb2.OperatorMessage())
        await world.until(lambda: bool(world.lines("frame_without_payload")))
        await operator.demand(need(cpu=4))
        await operator.until(lambda: "rollup" in operator.echoes())

    play(story)


# Blobs


@pytest.mark.rule("shard#operator-disconnects")
def test_without_an_operator_a_bootstrap_is_held_off_and_demand_and_machines_stay() -> None:
    async def story(world: ObservedFleet) -> None:
        operator = await serving(world)
        await operator.demand(need(cpu=8))
        await operator.close()
        await world.until(lambda: world.metric("bigfleet_shard_actions_held_off", reason="no-session") == 1)
        counts = world.shard.inventory.count_by_state()
        assert (counts[S.CONFIGURED], counts[S.IDLE]) == (1, 3)
        assert len(world.shard.intake.needs) == 1
        again = await world.operator("prod")
        await again.until(lambda: len(again.in_state(S.CONFIGURED)) == 2)

    play(story)


@pytest.mark.rule("shard#operator-gone-in-blob-wait")
def test_a_disconnect_during_a_blob_wait_rolls_back_at_once() -> None:
    async def story(world: ObservedFleet) -> None:
        operator = await world.operator("prod", answer=no_blob)
        await operator.demand(need(cpu=4))
        await operator.until(lambda: bool(operator.requests))
        asked = world.clock.monotonic_ns()
        await operator.close()
        await world.until(lambda: outcome(world, "Bootstrap", "ctx_canceled") == 1)
        assert world.clock.monotonic_ns() - asked < 2_000_000_000
        assert world.shard.inventory.count_by_state()[S.IDLE] == 4

    play(story)


@pytest.mark.rule("shard#blob-slow")
def test_a_slow_blob_is_waited_for_thirty_seconds_and_holds_up_nobody_else() -> None:
    async def story(world: ObservedFleet) -> None:
        slow = await world.operator("slow", answer=no_blob)
        await slow.demand(need("slow", cpu=4))
        await slow.until(lambda: bool(slow.requests))
        asked = world.clock.monotonic_ns()
        quick = await world.operator("quick")
        await quick.demand(need("quick", cpu=4))
        await quick.until(lambda: len(quick.in_state(S.CONFIGURED)) == 1)
        assert world.clock.monotonic_ns() - asked < 5_000_000_000
        await world.until(lambda: outcome(world, "Bootstrap", "ctx_canceled") == 1)
        assert 29e9 < world.clock.monotonic_ns() - asked < 32e9
        slow.answer = good_blob
        await slow.until(lambda: len(slow.in_state(S.CONFIGURED)) == 1)

    play(story, execute_concurrency=4)


@pytest.mark.rule("shard#blob-back-off", "shard#blob-error")
def test_a_blob_error_rolls_back_holds_off_shows_as_shortfall_and_burns_no_machine() -> None:
    async def story(world: ObservedFleet) -> None:
        broken = await world.operator("prod", answer=blob_error("template broken"))
        await broken.demand(need(cpu=8))
        await world.until(lambda: outcome(world, "Bootstrap", "blob_error") >= 1)
        await world.pass_time(60)
        assert len(broken.requests) <= 6  # two at first, then one after 5, 10, 20 and 40 seconds
        assert world.shard.inventory.count_by_state()[S.IDLE] == 4
        view = world.shard.last_cycle()
        assert view is not None
        assert [entry.error for entry in view.bootstrap_backoffs.values()] == ["template broken"]
        assert view.shortfalls
        healthy = await world.operator("other")
        await healthy.demand(need("other", cpu=4))
        await healthy.until(lambda: len(healthy.in_state(S.CONFIGURED)) == 1)
        broken.answer = good_blob
        await broken.until(lambda: len(broken.in_state(S.CONFIGURED)) == 2, within_s=400)
        await world.cycles(1)
        view = world.shard.last_cycle()
        assert view is not None
        assert not view.bootstrap_backoffs

    play(story, execute_concurrency=2)


@pytest.mark.rule("shard#blob-back-off")
def test_a_blob_error_holds_off_provisions_too() -> None:
    async def story(world: ObservedFleet) -> None:
        broken = await world.operator("prod", answer=blob_error("template broken"))
        await broken.demand(need(cpu=12))
        await world.until(lambda: outcome(world, "Provision", "blob_error") >= 1)
        await world.pass_time(120)
        assert len(world.fake.calls(rpc="Create")) <= 6

    play(story, pool("m", 20))


@pytest.mark.rule("shard#blob-late")
def test_late_and_second_blob_responses_are_ignored() -> None:
    async def story(world: ObservedFleet) -> None:
        operator = await serving(world)
        (request,) = operator.requests
        for _ in range(3):
            await operator.send(shard_pb2.OperatorMessage(bootstrap_response=good_blob(request)))
        unknown = shard_pb2.BootstrapBlobResponse(request_id="never asked", user_data=b"x")
        await operator.send(shard_pb2.OperatorMessage(bootstrap_response=unknown))
        await operator.demand(need(cpu=8))
        await operator.until(lambda: len(operator.in_state(S.CONFIGURED)) == 2)

    play(story)


@pytest.mark.rule("shard#own-additions")
def test_a_bootstrap_request_names_requirements_cluster_and_machine() -> None:
    async def story(world: ObservedFleet) -> None:
        operator = await world.operator("prod")
        pinned = Requirement(INSTANCE_TYPE_KEY, RequirementOperator.IN, ("m6i.large",))
        await operator.demand(need("prod", pinned, cpu=4))
        await operator.until(lambda: bool(operator.requests))
        request = operator.requests[0]
        assert (request.cluster_id, request.machine_id) == ("prod", "idle-0")
        assert request.requirements[0].values == ["m6i.large"]
        assert len(request.request_id) == 16
        configured = world.fake.machines()[0]
        assert configured.id == "idle-0"

    play(story)


# Drains


@pytest.mark.rule("shard#operator-disconnects")
def test_a_drain_goes_on_without_its_operator_and_says_so() -> None:
    async def story(world: ObservedFleet) -> None:
        operator = await serving(world)
        await operator.demand()
        await operator.until(lambda: operator.echoes().count("rollup") == 2)
        await operator.close()
        await world.until(lambda: world.shard.inventory.count_by_state()[S.CONFIGURED] == 0)
        assert world.lines("reclaim_without_operator") or operator.instructions

    play(story)


@pytest.mark.rule("shard#operator-never-connects", "shard#everything-down")
def test_an_operator_that_never_comes_back_keeps_its_machines() -> None:
    async def story(world: ObservedFleet) -> None:
        await world.pass_time(300)
        assert len(world.shard.inventory.bound_to("prod")) == 3

    play(story, bound("p", 3))


@pytest.mark.rule("shard#reclaim-instruction")
def test_a_reclaim_names_machine_and_host() -> None:
    async def story(world: ObservedFleet) -> None:
        operator = await serving(world)
        (machine_id,) = operator.in_state(S.CONFIGURED)
        host = world.machine(machine_id).host.ref
        await operator.demand()
        await operator.until(lambda: bool(operator.instructions))
        instruction = operator.instructions[0]
        assert list(instruction.nodes) == [machine_id]
        assert (instruction.targets[0].machine_id, instruction.targets[0].provider_id) == (machine_id, host)

    play(story)


# Reading slowly


@pytest.mark.rule("shard#outbox", "shard#operator-stops-reading", "shard#reclaim-ack-missing")
def test_an_operator_that_does_not_read_delays_neither_cycle_nor_others() -> None:
    async def story(world: ObservedFleet) -> None:
        deaf = await world.operator("deaf", reads=False)
        rows = [need("deaf", priority=place, cpu=4) for place in range(50)]
        await deaf.demand(*rows)
        await world.cycles(2)
        operator = await world.operator("prod")
        began = world.clock.monotonic_ns()
        await operator.demand(need(priority=99, cpu=4))
        await operator.until(lambda: len(operator.in_state(S.CONFIGURED)) == 1)
        assert world.clock.monotonic_ns() - began < 5_000_000_000

    play(story, pool("idle", 60, state=S.IDLE), execute_concurrency=1)


@pytest.mark.rule("shard#operator-never-answers")
def test_an_operator_that_never_answers_blobs_leaves_the_workers_to_others() -> None:
    async def story(world: ObservedFleet) -> None:
        hanging = await world.operator("hanging", answer=no_blob)
        await hanging.demand(need("hanging", priority=100, cpu=4 * 20))
        await world.until(lambda: len(hanging.requests) >= 2)
        operator = await world.operator("prod")
        began = world.clock.monotonic_ns()
        await operator.demand(need(cpu=8))
        await operator.until(lambda: len(operator.in_state(S.CONFIGURED)) == 2)
        assert world.clock.monotonic_ns() - began < 5_000_000_000
        assert len(hanging.requests) <= 4  # of one cluster no more than the queue is long wait at once

    play(story, pool("idle", 30, state=S.IDLE), execute_concurrency=1)


@pytest.mark.rule("shard#outbox", "shard#operator-stops-reading")
def test_an_outbox_that_overflows_ends_its_session_alone() -> None:
    async def story(world: ObservedFleet) -> None:
        deaf = await world.operator("deaf", reads=False)
        hello = shard_pb2.OperatorMessage(hello=shard_pb2.Hello(cluster_id="deaf"))
        operator = await world.operator("prod")
        while world.metric("bigfleet_shard_session_overflows_total") == 0:
            with suppress(RpcError):  # the session may end between two of them
                for _ in range(200):
                    await deaf.send(hello)
            await world.pass_time(0.01)
            if world.shard.sessions.get("deaf") is None:
                break
        await world.until(lambda: world.metric("bigfleet_shard_session_overflows_total") == 1)
        assert world.lines("session_overflowed")
        assert world.shard.sessions.get("prod") is not None
        await operator.demand(need(cpu=4))
        await operator.until(lambda: len(operator.in_state(S.CONFIGURED)) == 1)

    play(story, outbox_limit=64)
