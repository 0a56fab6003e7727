"""A real operator process before a real API server with many requests, and node states at a steady rate.

`python -m scaletest.bench.operator_live REQUESTS SECONDS` prints one JSON object; without the binary of `make testbed` it says so.
Figures are wall-clock of this machine, API server and shard on the same cores; reported, never judged.
"""

import asyncio
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bigfleet.aio.clock import SystemClock
from bigfleet.aio.system_disk import SystemDisk
from bigfleet.kube.client import KubeClient
from bigfleet.kube.crds.definitions import DEFINITIONS
from bigfleet.kube.http_transport import HttpTransport
from bigfleet.kube.limiter import RateLimiter
from bigfleet.kube.login import Login, find_target
from bigfleet.kube.resources import CAPACITY_REQUESTS, ObjectKey
from bigfleet.transport.grpc_net import GrpcNet
from scaletest.bench.histograms import histogram_quantiles
from scaletest.bench.operator_demand import request_document
from tests.support.control_plane import build
from tests.support.control_plane.cluster import Cluster
from tests.support.control_plane.errors import BinaryMissingError
from tests.support.control_plane.options import ClusterOptions
from tests.support.program import RunningProgram
from tests.support.scripted_shard import ScriptedShard, node_state

ROOT = Path(__file__).resolve().parents[2]
WRITERS = 32
EVENTS_PER_SECOND = 50
CHANGES_PER_SECOND = 10
MACHINES = 500
STATES = ("Configuring", "Configured", "Draining")


async def measure(requests: int, seconds: int) -> dict[str, Any]:
    """Fill the cluster, start the operator, look at its first roll-up, then let machines change."""
    try:
        binary = build.find(ROOT / "tests" / "testbed", os.environ)
    except BinaryMissingError as error:
        return {"not_measured": str(error)}
    options = ClusterOptions(scheduler=False, controllers=(), kwok=())
    with tempfile.TemporaryDirectory() as directory, Cluster(binary, options) as cluster:
        cluster.install_crds(definition.manifest() for definition in DEFINITIONS)
        cluster.make_namespace("shop")
        filled_s = await _fill(cluster, requests)
        shard = ScriptedShard()
        server = await GrpcNet().serve("127.0.0.1:0", [shard.bound()])
        program = RunningProgram(
            "bigfleet-operator",
            "--cluster-id=bench",
            f"--shard-addr=127.0.0.1:{server.port}",
            f"--kubeconfig={cluster.kubeconfig()}",
            "--metrics-addr=127.0.0.1:0",
            "--qps=200",
            "--burst=400",
            log=Path(directory) / "operator.log",
            environ={"PATH": os.environ["PATH"], "HOME": directory, "NO_PROXY": "127.0.0.1"},
        )
        with program:
            began = time.monotonic()
            while not (shard.is_connected and shard.current.rollups):
                await asyncio.sleep(0.05)
                if program.code is not None:
                    return {"failed": program.text()}
            first_s = time.monotonic() - began
            rows = len(shard.current.rollups[0].needs)
            at_start = await asyncio.to_thread(_metrics, program)
            settled = await _settled(program, requests)
            await _churn(cluster, requests, seconds)
            at_churned = await asyncio.to_thread(_metrics, program)
            await _change(shard, seconds)
            at_end = await asyncio.to_thread(_metrics, program)
        await server.stop(0)
    return {
        "requests": requests,
        "created_per_second": round(requests / filled_s),
        "first_rollup_after_start_s": round(first_s, 1),
        "rows": rows,
        "resident_mib_after_sync": round(at_start["process_resident_memory_bytes"] / 2**20),
        "resident_mib_at_end": round(at_end["process_resident_memory_bytes"] / 2**20),
        "acknowledged_meanwhile": int(at_end.get("bigfleet_operator_acknowledged_total", 0)),
        "request_changes": seconds * CHANGES_PER_SECOND,
        "cpu_share_while_requests_change": round(
            (at_churned["process_cpu_seconds_total"] - settled["process_cpu_seconds_total"]) / seconds, 3
        ),
        "rollup_delay_s": histogram_quantiles(at_churned, "bigfleet_operator_rollup_delay_seconds", settled),
        "rollup_s_while_requests_change": histogram_quantiles(
            at_churned, "bigfleet_operator_rollup_duration_seconds", settled
        ),
        "node_state_frames": seconds * EVENTS_PER_SECOND,
        "node_state_update_s": histogram_quantiles(
            at_end, "bigfleet_operator_node_state_update_duration_seconds"
        ),
        "rollup_s": histogram_quantiles(at_end, "bigfleet_operator_rollup_duration_seconds"),
        "loop_lag_s": histogram_quantiles(at_end, "bigfleet_event_loop_lag_seconds"),
    }


async def _fill(cluster: Cluster, requests: int) -> float:
    disk, clock = SystemDisk(), SystemClock()
    transport = HttpTransport(Login(find_target({}, disk, kubeconfig=str(cluster.kubeconfig())), disk, clock))
    client = KubeClient(transport, RateLimiter(clock, qps=1e6, burst=1000))
    numbers = iter(range(requests))
    began = time.monotonic()

    async def write() -> None:
        for number in numbers:
            await client.create(CAPACITY_REQUESTS, request_document(number))

    await asyncio.gather(*(write() for _ in range(WRITERS)))
    await client.close()
    return time.monotonic() - began


async def _settled(program: RunningProgram, requests: int) -> dict[str, float]:
    """Return the metrics once every request is acknowledged, so that only changes cost anything afterwards."""
    while True:
        found = await asyncio.to_thread(_metrics, program)
        if found.get("bigfleet_operator_acknowledged_total", 0) >= requests:
            return found
        await asyncio.sleep(2)


async def _churn(cluster: Cluster, requests: int, seconds: int) -> None:
    """Create and delete requests at a steady rate, one after the other."""
    disk, clock = SystemDisk(), SystemClock()
    transport = HttpTransport(Login(find_target({}, disk, kubeconfig=str(cluster.kubeconfig())), disk, clock))
    client = KubeClient(transport, RateLimiter(clock, qps=1e6, burst=1000))
    began = time.monotonic()
    for number in range(seconds * CHANGES_PER_SECOND):
        if number % 2:
            name = request_document(number // 2)["metadata"]["name"]
            await client.delete(CAPACITY_REQUESTS, ObjectKey("shop", name))
        else:
            await client.create(CAPACITY_REQUESTS, request_document(requests + number))
        ahead_s = (number + 1) / CHANGES_PER_SECOND - (time.monotonic() - began)
        if ahead_s > 0:
            await asyncio.sleep(ahead_s)
    await client.close()


async def _change(shard: ScriptedShard, seconds: int) -> None:
    """Report so many machines per second, each of which goes through its states."""
    began = time.monotonic()
    for number in range(seconds * EVENTS_PER_SECOND):
        machine, turn = number % MACHINES, number // MACHINES
        frame = node_state(
            f"m-{machine:04d}",
            STATES[turn % len(STATES)],
            labels={"topology.kubernetes.io/zone": "a"},
            resources={"cpu": "8", "memory": "32Gi"},
        )
        shard.send(frame)
        ahead_s = (number + 1) / EVENTS_PER_SECOND - (time.monotonic() - began)
        if ahead_s > 0:
            await asyncio.sleep(ahead_s)
    await asyncio.sleep(5)


def _metrics(program: RunningProgram) -> dict[str, float]:
    _, page = program.http("/metrics")
    pairs = (line.rpartition(" ") for line in page.splitlines() if line and not line.startswith("#"))
    return {name: float(value) for name, _, value in pairs}


if __name__ == "__main__":
    print(json.dumps(asyncio.run(measure(int(sys.argv[1]), int(sys.argv[2])))))
