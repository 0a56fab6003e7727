"""How long the calls of a coordinator wait while a snapshot of 100,000 domains is taken, listed or exported.

A real replica starts from an archive with that many rows. A client asks its health every few milliseconds, which needs the
event loop and nothing else, while another takes snapshots; the longest wait of an answer is the longest pause of the loop, plus
what the machine does besides. Of several rounds the one with the shortest longest wait is reported as the pause, all of them as
they were. Prints JSON.
"""

import asyncio
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from grpc_health.v1 import health_pb2  # type: ignore[import-untyped]  # the package ships no type marker

from bigfleet.aio.ids import SystemIds
from bigfleet.aio.net import Channel
from bigfleet.aio.system_disk import SystemDisk
from bigfleet.coordinator.archive import make_archive
from bigfleet.coordinator.core import commands
from bigfleet.coordinator.core.state_machine import CoordinatorStateMachine
from bigfleet.coordinator.log import Snapshot
from bigfleet.coordinator.offline import restore
from bigfleet.transport.coordinator import LIST_DOMAIN_ASSIGNMENTS, SNAPSHOT_SAVE
from bigfleet.transport.health import CHECK
from bigfleet.v1alpha1 import coordinator_pb2 as pb
from tests.support.coordinator.processes import ProcessCluster

DOMAINS, SHARDS, ROUNDS = 100_000, 200, 5
EVERY_S = 0.002
QUIET_S = 2.0


def tables() -> dict[str, Any]:
    """The tables of a coordinator at full scale."""
    state_machine = CoordinatorStateMachine()
    state_machine.apply(json.dumps({"v": 1, "epoch": 0, "items": [commands.begin_epoch(1, "n", "bench")]}))
    text = state_machine.dump()
    text["shards"] = {f"shard-{n:03}": (f"shard-{n:03}:7780", n) for n in range(SHARDS)}
    text["domains"] = {
        "topology.kubernetes.io/rack": {f"rack-{n:06}": f"shard-{n % SHARDS:03}" for n in range(DOMAINS)}
    }
    return text


async def watched(channel: Channel, work: Any) -> float:
    """Do some work and return the longest wait, in seconds, of a client that asks for the health meanwhile."""
    task = asyncio.ensure_future(work)
    longest = 0.0
    while not task.done():
        asked = time.perf_counter()
        await channel.unary(CHECK, health_pb2.HealthCheckRequest(), timeout_s=30)
        longest = max(longest, time.perf_counter() - asked)
        await asyncio.sleep(EVERY_S)
    await task
    return longest


async def save(channel: Channel) -> int:
    size = 0
    async with channel.server_stream(SNAPSHOT_SAVE, pb.SnapshotSaveRequest(), timeout_s=60) as chunks:
        async for chunk in chunks:
            size += len(chunk.data)
    return size


async def list_all(channel: Channel) -> None:
    # Its bytes are not decoded here: the client's own work must not be taken for the server's.
    raw = LIST_DOMAIN_ASSIGNMENTS.decoded_by(len)
    await channel.unary(raw, pb.ListDomainAssignmentsRequest(), timeout_s=60)


async def measure(directory: Path) -> dict[str, Any]:
    cluster = ProcessCluster(directory, replicas=1, proxied=False)
    archive = make_archive(Snapshot(tables(), 10, 1), ("coordinator-0",), time.time_ns())
    member = cluster.members[0]
    restore(SystemDisk(), archive, member.data_dir, node_id=member.node_id, ids=SystemIds(), force=False)
    async with cluster:
        cluster.start(0)
        await cluster.leader()
        asking, working = (cluster.net.dial(member.grpc_address) for _ in range(2))
        await watched(asking, asyncio.sleep(0.2))  # the first call also connects
        waits = {
            "idle": [await watched(asking, asyncio.sleep(QUIET_S)) for _ in range(ROUNDS)],
            "snapshot": [await watched(asking, save(working)) for _ in range(ROUNDS)],
            "listing": [await watched(asking, list_all(working)) for _ in range(ROUNDS)],
        }
        size = await save(working)
        await asking.close()
        await working.close()
    return {
        "domains": DOMAINS,
        "state_bytes": size,
        "longest_wait_ms": {name: [round(wait * 1000, 1) for wait in found] for name, found in waits.items()},
        "pause_ms": {name: round(min(found) * 1000, 1) for name, found in waits.items()},
    }


def main() -> int:
    """Measure and print."""
    with tempfile.TemporaryDirectory(prefix="bench-coordinator-") as directory:
        print(json.dumps(asyncio.run(measure(Path(directory)))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
