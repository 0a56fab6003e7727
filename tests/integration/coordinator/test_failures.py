"""Failure scenarios with three real processes (`coordinator#failures`); every test breaks and heals one shared cluster.

The same scenarios run under virtual time in tests/unit/coordinator/raft/test_failures.py, where every moment can be
had; here it is shown that processes, sockets and signals behave as that world does. Kills, cuts and pauses under load:
`tests/integration/coordinator/test_fault_rounds.py`.
"""

import asyncio
import resource
import shutil
import signal
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pytest

from bigfleet.aio.clock import SystemClock, monotonic_s
from bigfleet.aio.net import Code, RpcError
from bigfleet.transport.coordinator import (
    ASSIGN_DOMAIN,
    LIST_DOMAIN_ASSIGNMENTS,
    LIST_SHARD_REPORTS,
    REMOVE_SHARD,
    REPORT_SHARD,
)
from bigfleet.v1alpha1 import coordinator_pb2 as pb
from tests.support.coordinator.fault_rounds import register
from tests.support.coordinator.processes import PATIENCE_S, ProcessCluster

pytestmark = pytest.mark.integration

T = TypeVar("T")
CLOCK = SystemClock()
ROOT = Path(__file__).resolve().parents[3]
EVIDENCE = "coordinator-faults.jsonl"
Keep = Callable[[str, Mapping[str, object]], None]


class World:
    """A formed cluster that lives on between tests."""

    def __init__(self, directory: Path, runner: asyncio.Runner) -> None:
        self.cluster, self._runner = ProcessCluster(directory), runner
        self.directory = directory

    def run(self, scenario: Callable[[ProcessCluster], Awaitable[T]]) -> T:
        async def whole() -> T:
            self.cluster.heal()
            self.cluster.start_all()
            await self.cluster.formed()
            return await scenario(self.cluster)

        return self._runner.run(whole())

    def begin(self) -> None:
        async def enter() -> None:
            await self.cluster.__aenter__()
            self.cluster.start_all()
            await self.cluster.formed()
            await register(self.cluster)

        self._runner.run(enter())

    def end(self) -> None:
        self._runner.run(self.cluster.__aexit__())


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with asyncio.Runner() as runner:
        made = World(tmp_path_factory.mktemp("coordinators"), runner)
        try:
            made.begin()
            yield made
        finally:
            made.end()


async def assign(cluster: ProcessCluster, ordinal: int, value: str, timeout_s: float = 10.0) -> Code:
    """Write at one replica; returns how it ended."""
    channel = cluster.net.dial(cluster.members[ordinal].grpc_address)
    request = pb.AssignDomainRequest(topology_key="row", topology_value=value, shard_id="shard-0")
    try:
        await channel.unary(ASSIGN_DOMAIN, request, timeout_s=timeout_s)
    except RpcError as error:
        return error.code
    finally:
        await channel.close()
    return Code.OK


async def read(cluster: ProcessCluster, ordinal: int, timeout_s: float = 10.0) -> set[str] | Code:
    """Read at one replica: what it lists, or how it refused."""
    channel = cluster.net.dial(cluster.members[ordinal].grpc_address)
    try:
        reply = await channel.unary(
            LIST_DOMAIN_ASSIGNMENTS, pb.ListDomainAssignmentsRequest(), timeout_s=timeout_s
        )
    except RpcError as error:
        return error.code
    finally:
        await channel.close()
    return {row.topology_value for row in reply.message.assignments}


def others(cluster: ProcessCluster, leader: int) -> list[int]:
    return [member.ordinal for member in cluster.members if member.ordinal != leader]


async def not_serving(cluster: ProcessCluster, ordinal: int) -> None:
    async with asyncio.timeout(PATIENCE_S):
        # Polled, since a process announces nothing to the outside.
        while (facts := await cluster.facts(ordinal)) is None or facts.raft_state == "serving":  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def asked_behind_a_cut(cluster: ProcessCluster, name: str, times: int) -> list[Code]:
    """Cut the leader off, write to it again and again, heal; every OK is in the tables afterwards and nothing else is.

    Returns how the writes behind the cut ended. The proxies count what they hand on, so that the cut is known to have been in force.
    """
    old = await cluster.leader()
    before = [f"{name}-before-{number}" for number in range(3)]
    assert [await assign(cluster, old, value) for value in before] == [Code.OK] * 3
    for other in others(cluster, old):
        cluster.cut(old, other)
    passed = [cluster.passed(old, other) for other in others(cluster, old)]
    ends = [await assign(cluster, old, f"{name}-behind-{number}", timeout_s=3.0) for number in range(times)]
    assert not isinstance(await read(cluster, old, timeout_s=3.0), set), "a read without a majority"
    await not_serving(cluster, old)
    fresh = await cluster.leader(among=others(cluster, old))
    assert await assign(cluster, fresh, f"{name}-fresh") is Code.OK
    assert await read(cluster, old) is Code.FAILED_PRECONDITION
    assert [cluster.passed(old, other) for other in others(cluster, old)] == passed, (
        "the cut was not in force"
    )
    cluster.heal()
    rows = await read(cluster, await cluster.formed())
    assert isinstance(rows, set)
    assert {*before, f"{name}-fresh"} <= rows
    said = {f"{name}-behind-{number}" for number, end in enumerate(ends) if end is Code.OK}
    assert {row for row in rows if row.startswith(f"{name}-behind")} == said
    return ends


REFUSED = {Code.UNAVAILABLE, Code.FAILED_PRECONDITION, Code.DEADLINE_EXCEEDED}


@pytest.mark.rule("coordinator#leader-cut-off")
def test_a_leader_cut_from_both_acknowledges_nothing_and_adopts_the_rest_when_healed(
    world: World,
) -> None:
    ends = world.run(lambda cluster: asked_behind_a_cut(cluster, "row-5", 8))
    assert set(ends) <= REFUSED


@pytest.mark.rule("coordinator#leader-cut-off")
@pytest.mark.long
def test_fifty_cuts_and_never_an_ok_from_behind_one(world: World, evidence: Keep) -> None:
    ends: Counter[str] = Counter()
    for number in range(50):
        name = f"row-5-{number}"
        found = world.run(partial(asked_behind_a_cut, name=name, times=8))
        ends.update(end.name for end in found)
    evidence(
        EVIDENCE,
        {
            "test": "writes to a leader that is cut off from both, the cut confirmed by the proxies' own count of bytes",
            "cuts": 50,
            "writes_behind_the_cut": sum(ends.values()),
            "ended": dict(sorted(ends.items())),
            "lost": 0,
        },
    )
    assert set(ends) <= {code.name for code in REFUSED}


@pytest.mark.rule("coordinator#link-cut-idle")
def test_with_one_link_cut_on_an_idle_cluster_the_old_leader_answers_nothing_stale(
    world: World,
) -> None:
    async def scenario(cluster: ProcessCluster) -> None:
        old = await cluster.leader()
        cluster.cut(old, others(cluster, old)[0])
        for number in range(10):
            leader = await cluster.leader()
            if await assign(cluster, leader, f"row-6-{number}") is not Code.OK:
                continue
            for ordinal in range(3):
                rows = await read(cluster, ordinal)
                assert not isinstance(rows, set) or f"row-6-{number}" in rows, f"stale read at {ordinal}"
            await asyncio.sleep(0.2)

    world.run(scenario)


async def paused(cluster: ProcessCluster, seconds: float) -> Code:
    """Pause the leader with a write on its way to it; returns how that write ended once it was resumed."""
    old, name = await cluster.leader(), f"row-8-{seconds:g}"
    assert await assign(cluster, old, f"{name}-before") is Code.OK
    resume_s = monotonic_s(CLOCK) + seconds
    cluster.signal(old, signal.SIGSTOP)
    late = asyncio.ensure_future(assign(cluster, old, f"{name}-late", timeout_s=seconds + 20))
    fresh = await cluster.leader(among=others(cluster, old)) if seconds > 1 else None
    if fresh is not None:
        assert await assign(cluster, fresh, f"{name}-fresh") is Code.OK
    await CLOCK.sleep(max(0.0, resume_s - monotonic_s(CLOCK)))
    cluster.signal(old, signal.SIGCONT)
    rows = await read(cluster, old)
    assert not isinstance(rows, set) or fresh is None or f"{name}-fresh" in rows, "a stale read"
    ended = await late
    rows = await read(cluster, await cluster.formed())
    assert isinstance(rows, set)
    assert f"{name}-before" in rows
    if fresh is not None:
        assert f"{name}-fresh" in rows
        assert ended is not Code.OK, "a leader that was deposed acknowledged a write"
        assert f"{name}-late" not in rows, "the late write of a deposed leader took effect"
    elif ended is Code.OK:
        assert f"{name}-late" in rows
    return ended


@pytest.mark.rule("coordinator#leader-paused")
@pytest.mark.parametrize("seconds", [0.2, 4.0], ids=lambda seconds: f"{seconds:g} s")
def test_a_leader_paused_and_resumed_serves_nothing_stale(world: World, seconds: float) -> None:
    world.run(lambda cluster: paused(cluster, seconds))


@pytest.mark.rule("coordinator#leader-paused")
@pytest.mark.long
def test_a_leader_paused_for_40_s_serves_nothing_stale_and_its_late_write_is_refused(
    world: World, evidence: Keep
) -> None:
    ended = world.run(lambda cluster: paused(cluster, 40.0))
    evidence(
        EVIDENCE,
        {
            "test": "leader stopped for 40 s with a write on its way",
            "late_write": ended.name,
            "stale_reads": 0,
        },
    )


@pytest.mark.rule("coordinator#follower-paused")
def test_a_follower_paused_for_six_seconds_causes_at_most_one_election(world: World) -> None:
    async def scenario(cluster: ProcessCluster) -> None:
        leader = await cluster.leader()
        before = await cluster.facts(leader)
        follower = others(cluster, leader)[0]
        cluster.signal(follower, signal.SIGSTOP)
        await asyncio.sleep(6)
        cluster.signal(follower, signal.SIGCONT)
        after = await cluster.facts(await cluster.formed())
        assert before is not None
        assert after is not None
        # One election may need several rounds of candidates; what may not happen is that they go on and on.
        assert after.last_term - before.last_term <= 4

    world.run(scenario)


@pytest.mark.rule("coordinator#quorum-lost")
def test_with_two_followers_gone_reads_and_writes_are_refused(world: World) -> None:
    async def scenario(cluster: ProcessCluster) -> None:
        leader = await cluster.leader()
        await cluster.kill(*others(cluster, leader))
        await not_serving(cluster, leader)
        assert await read(cluster, leader) is Code.FAILED_PRECONDITION
        assert await assign(cluster, leader, "row-10") is Code.FAILED_PRECONDITION

    world.run(scenario)


@pytest.mark.rule("coordinator#damaged-files", "coordinator#preflight")
def test_a_damaged_journal_is_exit_71_and_the_others_serve_on(world: World) -> None:
    async def scenario(cluster: ProcessCluster) -> None:
        leader = await cluster.leader()
        for number in range(5):
            assert await assign(cluster, leader, f"row-11-{number}") is Code.OK
        victim = others(cluster, leader)[0]
        member = cluster.members[victim]
        await cluster.kill(victim)
        journal = member.data_dir / "journal"
        good = journal.read_bytes()
        bad = bytearray(good)
        bad[len(bad) // 2] ^= 2
        journal.write_bytes(bytes(bad))
        cluster.start(victim)
        assert await cluster.exit_code(victim) == 71
        assert str(journal) in member.log_text()
        assert journal.read_bytes() == bytes(bad)
        assert await assign(cluster, await cluster.leader(), "row-11-on") is Code.OK
        journal.write_bytes(good)

    world.run(scenario)


@pytest.mark.rule("coordinator#disk-error", "coordinator#fatal-errors")
def test_a_full_disk_is_exit_74_and_the_entry_is_not_acknowledged(world: World) -> None:
    async def scenario(cluster: ProcessCluster) -> None:
        leader = await cluster.leader()
        process = cluster.members[leader].process
        assert process is not None
        # The kernel refuses to let any file of the process grow: what a full disk does.
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (4096, 4096))
        ends = [await assign(cluster, leader, f"row-12-{number}", timeout_s=5.0) for number in range(40)]
        assert ends[-1] is not Code.OK
        assert await cluster.exit_code(leader) == 74
        fresh = await cluster.leader(among=others(cluster, leader))
        rows = await read(cluster, fresh)
        assert isinstance(rows, set)
        assert {f"row-12-{number}" for number, end in enumerate(ends) if end is Code.OK} <= rows

    world.run(scenario)


@pytest.mark.rule("coordinator#replica-wiped", "coordinator#ordinal-0-wiped")
@pytest.mark.parametrize("ordinal", [0, 1])
def test_a_wiped_replica_comes_back_into_the_old_cluster(world: World, ordinal: int) -> None:
    async def scenario(cluster: ProcessCluster) -> None:
        before = await cluster.facts(await cluster.leader())
        assert await assign(cluster, await cluster.leader(), f"row-13-{ordinal}") is Code.OK
        await cluster.kill(ordinal)
        shutil.rmtree(cluster.members[ordinal].data_dir)
        cluster.start(ordinal)
        after = await cluster.facts(await cluster.formed())
        assert before is not None
        assert after is not None
        assert before.cluster_id == after.cluster_id
        rows = await read(cluster, await cluster.leader())
        assert isinstance(rows, set)
        assert f"row-13-{ordinal}" in rows

    world.run(scenario)


@pytest.mark.rule(
    "coordinator#directory-used-twice", "coordinator#directory-lock", "coordinator#identity-file"
)
def test_a_second_process_on_one_directory_ends_at_once(world: World) -> None:
    async def scenario(cluster: ProcessCluster) -> None:
        leader = await cluster.leader()
        holder = cluster.members[leader]
        flags = ["--data-dir", str(holder.data_dir), "--bootstrap", "--listen", "127.0.0.1:0"]
        flags += ["--raft-bind", "127.0.0.1:0", "--metrics-addr", "0"]
        program = [sys.executable, str(ROOT / "cmd" / "bigfleet"), "coordinator", "--id", holder.node_id]
        second = await asyncio.create_subprocess_exec(*program, *flags, stderr=asyncio.subprocess.PIPE)
        _, said = await asyncio.wait_for(second.communicate(), PATIENCE_S)
        assert second.returncode == 1
        assert b"another process uses this directory" in said
        assert b"Traceback" not in said
        assert await assign(cluster, leader, "row-18") is Code.OK

    world.run(scenario)


async def report(cluster: ProcessCluster, ordinal: int, **fields: Any) -> pb.ReportAck:
    channel = cluster.net.dial(cluster.members[ordinal].grpc_address)
    try:
        summary = pb.ShardSummary(total_machines=1)
        request = pb.ShardReport(shard_id="reporting", shard_epoch=1, summary=summary, **fields)
        return (await channel.unary(REPORT_SHARD, request, timeout_s=10.0)).message
    finally:
        await channel.close()


async def reported(cluster: ProcessCluster, ordinal: int) -> dict[str, int]:
    """Return who has reported to a leader, with how many shortfalls."""
    channel = cluster.net.dial(cluster.members[ordinal].grpc_address)
    try:
        reply = await channel.unary(LIST_SHARD_REPORTS, pb.ListShardReportsRequest(), timeout_s=10.0)
        return {row.shard_id: len(row.shortfalls) for row in reply.message.reports}
    finally:
        await channel.close()


@pytest.mark.rule(
    "coordinator#failover-with-instructions", "coordinator#empty-shortfalls", "coordinator#live-shard-removed"
)
def test_soft_state_is_replaced_purged_and_gone_with_its_leader(world: World) -> None:
    async def scenario(cluster: ProcessCluster) -> None:
        leader = await cluster.leader()
        await report(cluster, leader, cycle=1, shortfalls=[pb.Shortfall(priority=1)])
        assert (await reported(cluster, leader))["reporting"] == 1
        await report(cluster, leader, cycle=2)  # an empty list clears
        assert (await reported(cluster, leader))["reporting"] == 0
        request = pb.AssignDomainRequest(topology_key="row", topology_value="row-24", shard_id="reporting")
        channel = cluster.net.dial(cluster.members[leader].grpc_address)
        await channel.unary(ASSIGN_DOMAIN, request, timeout_s=10.0)
        first = await report(cluster, leader, cycle=3)
        assert [item.assign_domain.topology_value for item in first.instructions] == ["row-24"]
        await cluster.kill(leader)  # with the instruction pending
        fresh = await cluster.leader(among=others(cluster, leader))
        assert await reported(cluster, fresh) == {}
        again = await report(cluster, fresh, cycle=4)
        assert [item.assign_domain.topology_value for item in again.instructions] == ["row-24"]
        assert again.coordinator_term > first.coordinator_term
        assert again.instructions[0].instruction_id != first.instructions[0].instruction_id
        await channel.close()
        channel = cluster.net.dial(cluster.members[fresh].grpc_address)
        await channel.unary(REMOVE_SHARD, pb.RemoveShardRequest(shard_id="reporting"), timeout_s=10.0)
        assert await reported(cluster, fresh) == {}  # purged, and registered again by its next report
        assert not (await report(cluster, fresh, cycle=5)).instructions
        assert "reporting" in await reported(cluster, fresh)
        await channel.close()

    world.run(scenario)


@pytest.mark.rule("coordinator#caller-timeout")
def test_a_caller_that_times_out_is_told_that_the_outcome_is_unknown_and_may_repeat(
    world: World,
) -> None:
    async def scenario(cluster: ProcessCluster) -> None:
        leader = await cluster.leader()
        for other in others(cluster, leader):
            cluster.signal(other, signal.SIGSTOP)
        unknown = await assign(cluster, leader, "row-20")
        assert unknown in (Code.UNAVAILABLE, Code.FAILED_PRECONDITION)
        for other in others(cluster, leader):
            cluster.signal(other, signal.SIGCONT)
        assert await assign(cluster, await cluster.leader(), "row-20") is Code.OK

    world.run(scenario)


@pytest.mark.rule("coordinator#leader-terminated", "coordinator#shutdown")
def test_a_rolling_restart_hands_the_leadership_over_and_exits_0(world: World) -> None:
    async def scenario(cluster: ProcessCluster) -> None:
        leader = await cluster.leader()
        cluster.signal(leader, signal.SIGTERM)
        fresh = await cluster.leader(among=others(cluster, leader))
        assert await assign(cluster, fresh, "row-33") is Code.OK
        assert await cluster.exit_code(leader) == 0

    world.run(scenario)
