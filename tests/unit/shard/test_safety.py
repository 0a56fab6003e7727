"""Kill switch, dry run, audit, readiness, stopping.

Rules: `shard#readiness`, `shard#audit-log`, `shard#pause-and-dry-run`, `shard#fenced`, `shard#stopping`,
`shard#in-process-fake`.
"""

import asyncio
from typing import Any

import pytest

from bigfleet.model.machine import MachineState
from bigfleet.provider.fake.options import FakeOptions
from bigfleet.testing.loop import run_virtual
from tests.support.blob_answers import no_blob
from tests.support.builders import need
from tests.support.fake_provider import bound, pool
from tests.support.observed_fleet import ObservedFleet

S = MachineState
IDLE = pool("idle", 4, state=S.IDLE)
SYNC = FakeOptions(sync=True)
MUTATING = ("Create", "Configure", "Drain", "Delete")


@pytest.mark.rule("shard#pause-and-dry-run", "shard#stop-everything", "shard#first-adoption")
@pytest.mark.parametrize(
    ("options", "outcome", "counter"),
    [
        ({"actuation_paused": True}, "suppressed", "bigfleet_shard_actions_suppressed_total"),
        ({"dry_run": True}, "dryrun", "bigfleet_shard_actions_dryrun_total"),
        (
            {"actuation_paused": True, "dry_run": True},
            "suppressed",
            "bigfleet_shard_actions_suppressed_total",
        ),
    ],
    ids=["paused", "dry run", "both count as paused"],
)
def test_provider_and_stream_see_nothing_counters_and_audit_do(
    options: dict[str, Any], outcome: str, counter: str
) -> None:
    async def story() -> None:
        async with ObservedFleet(
            (IDLE, bound("p", 2, cluster="old")), SYNC, audited=True, **options
        ) as world:
            operator = await world.operator()
            leaving = await world.operator("old")
            await leaving.demand()
            await operator.demand(need(cpu=8))
            await world.cycles(3)
            assert [call for call in world.fake.calls() if call.rpc in MUTATING] == []
            assert not operator.requests
            assert not leaving.instructions
            assert operator.hints  # observation goes on
            assert world.metric(counter, kind="Bootstrap") >= 2
            assert world.metric(counter, kind="Reclaim") >= 2
            assert world.metric("bigfleet_shard_actions_total", kind="Bootstrap") == 0
            records = world.audit()
            assert {record["outcome"] for record in records} == {outcome}
            assert world.metric("bigfleet_shard_actuation_paused") == float("actuation_paused" in options)
            assert world.shard.not_ready() == ()

    run_virtual(story())


def test_every_executed_action_has_exactly_one_audit_record() -> None:
    async def story() -> None:
        async with ObservedFleet((IDLE,), SYNC, audited=True) as world:
            operator = await world.operator()
            await operator.demand(need(cpu=8))
            await operator.until(lambda: len(operator.in_state(S.CONFIGURED)) == 2)
            await world.cycles(2)
            await operator.demand(need(cpu=4))
            await world.until(lambda: len(operator.instructions) == 1)
            await world.cycles(2)
            records = world.audit()
            found = sorted((record["kind"], record["machine"], record["outcome"]) for record in records)
            assert found == [
                ("Bootstrap", "idle-0", "success"),
                ("Bootstrap", "idle-1", "success"),
                ("Reclaim", operator.instructions[0].nodes[0], "success"),
            ]
            first = records[0]
            assert list(first) == [
                "time", "level", "msg", "cycle", "kind", "machine", "cluster", "reason", "grace_seconds", "outcome",
                "ended_cycle",
            ]  # fmt: skip
            assert (first["level"], first["msg"], first["reason"]) == ("INFO", "action", "phase1.idle")
            assert records[-1]["grace_seconds"] == 600

    run_virtual(story())


@pytest.mark.rule("shard#audit-log", "shard#audit-disk-full")
@pytest.mark.parametrize("strict", [False, True])
def test_a_full_audit_disk_is_shown_and_stops_actuation_only_if_strict(strict: bool) -> None:
    async def story() -> None:
        async with ObservedFleet((IDLE,), SYNC, audited=True, audit_strict=strict) as world:
            operator = await world.operator()
            await world.cycles(1)
            world.image.quota_bytes = 0
            for machines in (1, 2, 3):
                await operator.demand(need(cpu=4 * machines))
                await world.cycles(2)
            served = len(operator.in_state(S.CONFIGURED))
            assert served == (1 if strict else 3)
            assert world.metric("bigfleet_shard_audit_write_errors_total") >= 1
            assert world.shard.not_ready() == ()
            assert any("audit log cannot be written" in remark for remark in world.shard.remarks())
            assert len(world.lines("audit_lost")) == 1
            world.image.clear_faults()
            await operator.until(lambda: len(operator.in_state(S.CONFIGURED)) == 3, within_s=60)

    run_virtual(story())


@pytest.mark.rule("shard#readiness", "shard#coordinator-absent")
def test_readiness_is_503_then_200_for_ever_whatever_provider_and_coordinator_do() -> None:
    async def story() -> None:
        async with ObservedFleet((IDLE,)) as world:
            assert world.shard.not_ready() == ("the provider has not been listed yet",)
            await world.cycles(1)
            assert world.shard.not_ready() == ()
            await world.fake.stop(0)
            await world.cycles(3)
            assert world.shard.not_ready() == ()
            status = world.shard.status()
            assert (status.ready, status.epoch, status.shard_id) == (True, 1, "shard-0")
            await world.fake.start()

    run_virtual(story())


@pytest.mark.rule("shard#stopping")
def test_stopping_starts_nothing_new_and_rolls_back_what_waits_for_a_blob() -> None:
    async def story() -> None:
        async with ObservedFleet((IDLE,), SYNC) as world:
            operator = await world.operator(answer=no_blob)
            await operator.demand(need(cpu=8))
            await operator.until(lambda: bool(operator.requests))
            began = world.clock.monotonic_ns()
            await world.run.end(10.0)
            assert world.clock.monotonic_ns() - began < 1_000_000_000
            assert world.shard.inventory.count_by_state()[S.IDLE] == 4
            assert world.fake.calls(rpc="Configure") == []

    run_virtual(story())


@pytest.mark.rule("shard#stopping", "shard#sigterm")
@pytest.mark.parametrize(("takes_s", "settled"), [(5, True), (25, False)])
def test_stopping_awaits_calls_already_sent_within_its_grace(takes_s: int, settled: bool) -> None:
    async def story() -> None:
        async with ObservedFleet((IDLE,), SYNC) as world:
            operator = await world.operator()
            world.fake.pause_rpc("Configure", takes_s)
            await operator.demand(need(cpu=4))
            await world.until(lambda: bool(world.fake.calls(rpc="Configure")))
            began = world.clock.monotonic_ns()
            await world.run.end(10.0)
            assert world.clock.monotonic_ns() - began < 11_000_000_000
            state = world.shard.inventory.state_of("idle-0")
            assert state is (S.CONFIGURED if settled else S.CONFIGURING)

    run_virtual(story())


@pytest.mark.rule("shard#everything-down")
def test_stopping_ends_sessions_and_drains_nothing() -> None:
    async def story() -> None:
        async with ObservedFleet((IDLE,), SYNC) as world:
            operator = await world.operator()
            await operator.demand(need(cpu=8))
            await operator.until(lambda: len(operator.in_state(S.CONFIGURED)) == 2)
            await world.run.end(10.0)
            await operator.until(lambda: operator.is_over)
            assert world.fake.calls(rpc="Drain") == []
            assert sum(machine.state is S.CONFIGURED for machine in world.fake.machines()) == 2

    run_virtual(story())


@pytest.mark.rule("shard#call-hangs", "providers#fault-injection")
def test_a_hung_call_is_cut_by_the_deadline_and_its_slot_comes_back() -> None:
    async def story() -> None:
        async with ObservedFleet((IDLE,), SYNC, execute_concurrency=1) as world:
            operator = await world.operator()
            world.fake.lose_answer("Configure", times=1)
            await operator.demand(need(cpu=8))
            await operator.until(lambda: len(operator.in_state(S.CONFIGURED)) == 2, within_s=90)
            assert (
                world.metric(
                    "bigfleet_shard_action_execute_outcomes_total", kind="Bootstrap", outcome="ctx_canceled"
                )
                == 1
            )
            assert world.metric("bigfleet_shard_execute_inflight") == 0

    run_virtual(story())


def test_the_attribution_probe_speaks_every_twentieth_cycle_when_asked_to() -> None:
    async def story() -> None:
        async with ObservedFleet((IDLE,), SYNC, phase_attribution_log=True, cycle_interval_s=1.0) as world:
            operator = await world.operator()
            await operator.demand(need(cpu=4 * 6))
            await world.until(lambda: world.shard.loop.number >= 41)
            lines = world.lines("attribution")
            assert len(lines) == 2
            assert (lines[0]["needs"], lines[0]["short"]) == (1, 1)

    run_virtual(story())


@pytest.mark.rule("shard#in-process-fake")
def test_a_shard_without_a_provider_address_says_so() -> None:
    async def story() -> None:
        async with ObservedFleet((IDLE,), provider_address="") as world:
            await asyncio.sleep(0)
            assert "no machine is real" in world.shard.remarks()[0]

    run_virtual(story())
