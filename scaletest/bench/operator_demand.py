"""The operator's demand measured by itself: from documents to views, and from views to a roll-up.

Run in a process of its own, so that nothing else is in its memory: `python -m scaletest.bench.operator_demand REQUESTS` prints one
JSON object. Times are wall-clock of this machine and are reported, never judged.
"""

import asyncio
import itertools
import json
import statistics
import sys
import time
from typing import Any

from prometheus_client import CollectorRegistry

from bigfleet.aio.clock import SystemClock
from bigfleet.aio.rng import SeededRng
from bigfleet.bench.memory import resident_bytes
from bigfleet.kube.client import KubeClient
from bigfleet.kube.events import EventRecorder
from bigfleet.kube.limiter import RateLimiter
from bigfleet.obs.metrics import Metrics
from bigfleet.operator.acknowledge import Acknowledger
from bigfleet.operator.caches import OperatorCaches
from bigfleet.operator.metrics import OPERATOR_METRICS
from bigfleet.operator.refused_rollups import RefusedRollups
from bigfleet.operator.rollup_loop import RollupCadence, RollupLoop
from bigfleet.operator.session.uplink import Uplink
from tests.support.kube_api.api import InMemoryApi

ROUNDS = 60
_VERSIONS = itertools.count(10**7)
PRIORITIES = (0, 100, 1000, 100_000, 1_000_000)
TYPES = tuple(f"m{number}.large" for number in range(14))
ZONES = ("a", "b", "c", "d", "e")


def request_document(number: int, namespace: str = "shop", *, acknowledged: bool = False) -> dict[str, Any]:
    """Return one of the requests: 350 profiles, some forty sizes, and the fields that a real one has."""
    kind, zone = TYPES[number % 14], ZONES[number // 14 % 5]
    document: dict[str, Any] = {
        "apiVersion": "bigfleet.lucy.sh/v1alpha1",
        "kind": "CapacityRequest",
        "metadata": {
            "name": f"cr-pod-web-{number:06d}",
            "namespace": namespace,
            "labels": {"bigfleet.lucy.sh/owned-by-pod": f"00000000-0000-4000-8000-{number:012x}"},
        },
        "spec": {
            "priority": PRIORITIES[number // 70 % 5],
            "requirements": [
                {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": [kind]},
                {"key": "topology.kubernetes.io/zone", "operator": "In", "values": [zone]},
            ],
            "resources": {"cpu": f"{number % 8 + 1}00m", "memory": f"{number % 5 + 1}Gi"},
            "interruptionPenalty": "250m",
        },
    }
    if acknowledged:
        document["metadata"] |= {"uid": f"uid-{number}", "resourceVersion": str(number + 1), "generation": 1}
        document["status"] = {"phase": "Acknowledged", "acknowledgedAt": "2026-01-01T00:00:00Z"}
    return document


async def measure(count: int) -> dict[str, Any]:
    """Fill a cache, build roll-ups, and look at how long the loop was held."""
    clock = SystemClock()
    client = KubeClient(InMemoryApi(clock).transport(), RateLimiter(clock))
    metrics = Metrics(OPERATOR_METRICS, CollectorRegistry(), version="0", commit="0")
    counts = metrics
    caches = OperatorCaches(client, clock, SeededRng(1))
    events = EventRecorder(client, "bench", clock=clock)
    acknowledger = Acknowledger(client, caches, events, clock=clock, metrics=counts, concurrency=16)
    rollups = RollupLoop(
        "bench",
        caches,
        acknowledger,
        RefusedRollups(events, acknowledger.mark, clock=clock, metrics=counts),
        clock=clock,
        metrics=counts,
        cadence=RollupCadence(10.0, 0.1, 1.0),
    )
    uplink = Uplink(clock, counts)
    lines = [json.dumps(request_document(number, acknowledged=True)) for number in range(count)]
    before = resident_bytes()
    began = time.perf_counter()
    caches.requests.begin_list()
    for line in lines:
        caches.requests.stage(json.loads(line))
    await caches.requests.finish_list(count + 1)
    filled_s = time.perf_counter() - began
    memory = resident_bytes() - before
    stalls: list[float] = []
    sampling = asyncio.ensure_future(_sample(stalls))
    builds = {}
    for name, changes in (("first", None), ("at_rest", 0), ("ten_changes", 10), ("all_changed", count)):
        builds[name] = await _build_times(
            rollups, uplink, caches, 1 if changes is None else ROUNDS, changes or 0
        )
    sampling.cancel()
    prepared = uplink._rollup
    assert prepared is not None
    return {
        "requests": count,
        "rows": prepared.rows,
        "rollup_bytes": len(prepared.frame),
        "fill_us_per_request": round(filled_s / count * 1e6, 1),
        "bytes_per_request": round(memory / count),
        "build_ms": builds,
        "longest_hold_of_the_loop_ms": round(max(stalls, default=0.0), 1),
    }


async def _build_times(
    rollups: RollupLoop, uplink: Uplink, caches: OperatorCaches, rounds: int, changes: int
) -> dict[str, float]:
    """Build roll-ups, each after so many requests changed their size; the changes themselves are not in the time."""
    times = []
    for turn in range(min(rounds, ROUNDS if changes <= 10 else 5)):
        for number in range(changes):
            document = request_document(number, acknowledged=True)
            document["spec"]["resources"]["cpu"] = f"{turn + 1}"
            document["metadata"]["resourceVersion"] = str(next(_VERSIONS))
            caches.requests.apply(document)
            if number % 64 == 63:  # as the reflector does
                await asyncio.sleep(0)
        began = time.perf_counter()
        await rollups._tick(uplink, first=False)
        times.append((time.perf_counter() - began) * 1000)
        await asyncio.sleep(0)
    return {"p50": round(statistics.median(times), 1), "longest": round(max(times), 1)}


async def _sample(stalls: list[float]) -> None:
    """Note how late a sleeper wakes that asked for nothing."""
    while True:
        began = time.perf_counter()
        await asyncio.sleep(0)
        stalls.append((time.perf_counter() - began) * 1000)


if __name__ == "__main__":
    print(json.dumps([asyncio.run(measure(int(size))) for size in sys.argv[1].split(",")]))
