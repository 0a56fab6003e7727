"""Measures the coordinator on this machine: three synced replicas, clients in processes of their own, all over gRPC.

Bars: `coordinator#throughput`. Times are of the wall, so they are worth what the machine is worth while it measures; the
processor time per committed command is printed beside them, since that does not depend on other processes.
"""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import quantiles
from typing import Any

from tests.support.coordinator.fault_rounds import listed, more_acked, register, writers
from tests.support.coordinator.processes import ProcessCluster

WARM_S = 3.0
SECONDS = 15.0
CLIENTS = 64
CLIENT_PROCESSES = 4
LONE_WRITES = 400
_TICKS = os.sysconf("SC_CLK_TCK")


def processor_s(pid: int) -> float:
    """Return the processor time that a process has used so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


async def many_clients(directory: Path) -> dict[str, float]:
    """Return committed commands a second with 64 clients, and what each costs in processor time."""
    async with ProcessCluster(directory, proxied=False, forked=False) as cluster:
        cluster.start_all()
        leader = await cluster.formed()
        await register(cluster)
        asking = [asyncio.create_task(_clients(cluster, leader, f"w{n}")) for n in range(CLIENT_PROCESSES)]
        await asyncio.sleep(WARM_S + 1.0)
        pids = cluster.pids()
        used = {ordinal: processor_s(pid) for ordinal, pid in pids.items()}
        await asyncio.sleep(SECONDS - 2.0)
        spent = {ordinal: processor_s(pid) - used[ordinal] for ordinal, pid in pids.items()}
        said = [await each for each in asking]
        rows = await listed(cluster)
    named = [f"{name}.{n}" for each in said for name, count in each["acked"].items() for n in range(count)]
    if missing := set(named) - rows:
        raise AssertionError(f"{len(missing)} of {len(named)} acknowledged domains are not there")
    latencies = [latency for each in said for latency in each["latencies"]]
    per_s = sum(each["answers"] / each["seconds"] for each in said)
    measured = per_s * (SECONDS - 2.0)
    return {
        "commands_per_s": per_s,
        "p50_ms": _percentile(latencies, 50),
        "p99_ms": _percentile(latencies, 99),
        "leader_us_per_command": spent[leader] / measured * 1e6,
        "follower_us_per_command": max(s for o, s in spent.items() if o != leader) / measured * 1e6,
        "client_us_per_command": sum(each["processor_s"] for each in said) / len(latencies) * 1e6,
        "refused": sum(each["refused"] for each in said),
    }


async def _clients(cluster: ProcessCluster, leader: int, name: str) -> Any:  # Any: what JSON can say
    command = [
        sys.executable,
        "-m",
        "scaletest.bench.coordinator_client",
        cluster.members[leader].grpc_address,
    ]
    command += [name, str(CLIENTS // CLIENT_PROCESSES), str(WARM_S), str(SECONDS)]
    process = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE)
    out, _ = await process.communicate()
    return json.loads(out)


async def lone_client(directory: Path) -> dict[str, float]:
    """Return how long one write after the other takes without other writers."""
    async with ProcessCluster(directory, proxied=False, forked=False) as cluster:
        cluster.start_all()
        await cluster.formed()
        await register(cluster)
        async with writers(cluster, count=1, callers=1) as files:
            await more_acked(cluster, files, LONE_WRITES)
        latencies = [ended - start for start, ended in _times(files[0])][50:]
        return {"p50_ms": _percentile(latencies, 50), "p99_ms": _percentile(latencies, 99)}


def _times(path: Path) -> list[tuple[int, int]]:
    lines = [line.split() for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")]
    return [(int(began), int(ended)) for _, began, ended in lines]


def _percentile(values: list[int], percent: int) -> float:
    return quantiles(values, n=100)[percent - 1] / 1e6


def main() -> None:
    """Print every figure as one JSON object."""
    with tempfile.TemporaryDirectory() as directory:
        base = Path(directory)
        figures = {}
        for name, measure in (("many", many_clients), ("lone", lone_client)):
            (base / name).mkdir()
            figures[name] = asyncio.run(measure(base / name))
            print(f"{name}: {figures[name]}", file=sys.stderr, flush=True)
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
