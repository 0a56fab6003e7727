"""Rounds of faults against real processes, while clients in their own processes write and read.

Why: the ordinary suite runs a tenth of the rounds, `make test-long` all of them.
Must never: pass over a lost acknowledged write or two replicas that differ.
Rules: `coordinator#leader-killed`, `coordinator#replicas-killed`, `coordinator#leader-cut-off`,
`coordinator#link-cut-idle`, `coordinator#link-cut-writing`, `coordinator#leader-paused`,
`coordinator#linearizable-reads`, `coordinator#throughput`.
"""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from bigfleet.aio.clock import SystemClock, monotonic_s
from bigfleet.aio.net import Channel, RpcError
from bigfleet.aio.rng import RandomStream
from bigfleet.aio.service import UnaryMethod
from bigfleet.transport.coordinator import LIST_DOMAIN_ASSIGNMENTS, REPORT_SHARD
from bigfleet.v1alpha1 import coordinator_pb2 as pb
from tests.support.coordinator.ack_writer import SHARD
from tests.support.coordinator.domain_history import RecordedCall, from_lines
from tests.support.coordinator.fork_server import fork_server
from tests.support.coordinator.history_client import SHARDS
from tests.support.coordinator.processes import PATIENCE_S, ProcessCluster

_CLOCK = SystemClock()
Request = TypeVar("Request")
Response = TypeVar("Response")


class LostWriteError(AssertionError):
    """An acknowledged write is lost."""


@dataclass
class FaultReport:
    """The counts of all rounds."""

    rounds: int = 0
    kills: int = 0
    acked: int = 0
    failovers_s: list[float] = field(default_factory=list)


@asynccontextmanager
async def clients(module: str, argument_lists: Sequence[Sequence[str]]) -> AsyncIterator[Callable[[], bool]]:
    """Run client processes within the context; yields a function that returns whether all of them run."""
    name = f"tests.support.coordinator.{module}"
    processes = [fork_server().start(name, each, Path(os.devnull)) for each in argument_lists]
    try:
        yield lambda: all(process.poll() is None for process in processes)
    finally:
        for process in processes:
            process.kill()
        for process in processes:
            await asyncio.to_thread(process.wait)


@asynccontextmanager
async def writers(cluster: ProcessCluster, count: int, callers: int) -> AsyncIterator[list[Path]]:
    """Run processes that write; yields the files in which each records what was acknowledged."""
    files = [cluster.directory / f"acked-{number}" for number in range(count)]
    addresses = [member.grpc_address for member in cluster.members]
    arguments = [[str(path), f"w{number}", str(callers), *addresses] for number, path in enumerate(files)]
    async with clients("ack_writer", arguments):
        yield files


def acked(files: Sequence[Path]) -> set[str]:
    """Return every value whose assignment was acknowledged so far."""
    found: set[str] = set()
    for path in files:
        if path.exists():
            lines = path.read_text().splitlines(keepends=True)
            found |= {line.split()[0] for line in lines if line.endswith("\n")}
    return found


async def register(cluster: ProcessCluster) -> None:
    """Register the shards that clients assign to."""
    for shard in sorted({SHARD, *SHARDS}):
        await _at_leader(cluster, REPORT_SHARD, pb.ShardReport(shard_id=shard))


async def listed(cluster: ProcessCluster) -> set[str]:
    """Read all domains from the serving leader."""
    reply = await _at_leader(cluster, LIST_DOMAIN_ASSIGNMENTS, pb.ListDomainAssignmentsRequest())
    return {row.topology_value for row in reply.assignments}


async def _at_leader(
    cluster: ProcessCluster, method: UnaryMethod[Request, Response], request: Request
) -> Response:
    """Call the serving leader until it answers; only for calls that may be repeated."""
    give_up_s = monotonic_s(_CLOCK) + PATIENCE_S
    while monotonic_s(_CLOCK) < give_up_s:
        channel: Channel = cluster.net.dial(cluster.members[await cluster.leader()].grpc_address)
        try:
            reply = await channel.unary(method, request, timeout_s=10.0)
        except RpcError:
            await _CLOCK.sleep(0.05)  # it lost leadership in between
        else:
            return reply.message
        finally:
            await channel.close()
    raise TimeoutError(f"no replica answered {method.path}: {cluster.tails()}")


async def kill_rounds(
    cluster: ProcessCluster,
    stream: RandomStream,
    rounds: int,
    files: Sequence[Path],
    report: FaultReport,
    *,
    pace: float = 1.0,
) -> None:
    """Kill one, two or all replicas at random moments under writes, again and again; nothing acknowledged may be lost.

    `pace` scales the times of writing and of being down.
    """
    for _ in range(rounds):
        await _CLOCK.sleep(pace * stream.uniform(0.2, 1.0))
        victims = stream.sample(range(len(cluster.members)), stream.randint(1, len(cluster.members)))
        await cluster.kill(*victims)
        await _CLOCK.sleep(pace * stream.choice((0.0, 0.0, 1.5)))
        before = acked(files)
        cluster.start_all()
        await more_acked(cluster, files, len(before))
        said = acked(files)
        rows = await listed(cluster)
        if said - rows:
            raise LostWriteError(f"lost {sorted(said - rows)[:5]} of {len(said)}\n{cluster.tails()}")
        report.rounds += 1
        report.kills += len(victims)
        report.acked = len(said)


async def more_acked(cluster: ProcessCluster, files: Sequence[Path], count: int) -> None:
    """Wait until more than `count` writes are acknowledged."""
    give_up_s = monotonic_s(_CLOCK) + PATIENCE_S
    while len(acked(files)) <= count:
        if monotonic_s(_CLOCK) > give_up_s:
            raise TimeoutError(f"nothing is acknowledged any more: {cluster.tails()}")
        await _CLOCK.sleep(0.02)


async def leader_kills(
    cluster: ProcessCluster, kills: int, files: Sequence[Path], report: FaultReport
) -> None:
    """Kill the leader repeatedly and record the time until the next acknowledged write."""
    for _ in range(kills):
        leader = await cluster.formed()
        await more_acked(cluster, files, len(acked(files)) + 20)
        started_s = monotonic_s(_CLOCK)
        await cluster.kill(leader)
        count = len(acked(files))
        await more_acked(cluster, files, count)
        report.failovers_s.append(monotonic_s(_CLOCK) - started_s)
        report.kills += 1
        cluster.start_all()
    said, rows = acked(files), await listed(cluster)
    report.acked = len(said)
    if said - rows:
        raise LostWriteError(f"lost {sorted(said - rows)[:5]} of {len(said)}\n{cluster.tails()}")


async def inject_fault(cluster: ProcessCluster, stream: RandomStream) -> str:
    """Inject one fault for a while, then heal it; return its name."""
    leader = await cluster.leader()
    others = [member.ordinal for member in cluster.members if member.ordinal != leader]
    name = stream.choice(("kill", "pause", "cut one link", "cut from both", "kill two"))
    match name:
        case "kill":
            await cluster.kill(leader)
        case "pause":
            cluster.signal(leader, signal.SIGSTOP)
        case "cut one link":
            cluster.cut(leader, stream.choice(others))
        case "cut from both":
            for other in others:
                cluster.cut(leader, other)
        case _:
            await cluster.kill(leader, stream.choice(others))
    await _CLOCK.sleep(stream.uniform(0.5, 4.0))
    cluster.heal()
    if cluster.members[leader].is_running:
        cluster.signal(leader, signal.SIGCONT)
    cluster.start_all()
    await cluster.leader()
    return name


def calls_of(files: Sequence[Path]) -> list[RecordedCall]:
    """Return every call that clients recorded."""
    return [call for path in files for call in from_lines(path.read_text().splitlines(keepends=True))]
