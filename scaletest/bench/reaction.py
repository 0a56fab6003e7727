"""From the creation of a pod to the provider's Create call, with everything real: API server, pod controller, operator, shard, provider.

    python -m scaletest.bench.reaction [SINGLES BURST REQUESTS ON_ORDER]

prints one JSON object: pods one at a time, a burst, pods one at a time beside many requests that change all the time, and machines on
order until their Configure call (`scaletest.bench.on_order`); a size of 0 leaves its part out. Without the binary of `make testbed` it
says so, and only the last part is measured. Times are wall-clock of this machine and all processes share it,
so each part has its hops: what the API server took is not ours.
"""

import asyncio
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from random import Random
from typing import Any, Final

from bigfleet.kube import resources
from bigfleet.kube.resources import ObjectKey
from scaletest.bench import on_order
from scaletest.bench.histograms import histogram_quantiles
from scaletest.bench.operator_demand import TYPES, ZONES, request_document
from scaletest.bench.reaction_world import (
    CreateCalls,
    Hops,
    ProcessorShare,
    ReactionWorld,
    probe_pool,
    reaction_world,
)
from tests.support.control_plane import build
from tests.support.control_plane.errors import BinaryMissingError

ROOT: Final = Path(__file__).resolve().parents[2]
SINGLES: Final = 60
BURST: Final = 1000
REQUESTS: Final = 50_000
CHANGES_PER_S: Final = 10
WRITERS: Final = 32
SET_UP: Final = ("--qps=5000", "--burst=5000", "--ack-concurrency=64")
"""Flags of the operator that acknowledges all requests before anything is measured."""
_PAUSE_S: Final = (0.5, 1.5)
"""Between a Create call and the next pod; drawn, so that pods do not keep step with anything."""
_SET_UP_S: Final = 1800.0


async def measure(singles: int, burst: int, requests: int, ordered: int) -> dict[str, Any]:
    """Return the figures of all parts."""
    found: dict[str, Any] = {}
    if ordered:
        found["on_order"] = _shown("on order", await on_order.measure(ordered))
    try:
        binary = build.find(ROOT / "tests" / "testbed", os.environ)
    except BinaryMissingError as error:
        return {"not_measured": str(error), **found}
    found["hops"] = Hops.document()
    creates = CreateCalls()
    if singles or burst:
        with tempfile.TemporaryDirectory() as directory:
            pools = probe_pool(singles + burst + 10)
            async with reaction_world(binary, Path(directory), pools, creates) as world:
                await world.start_operator()
                await world.start_controller()
                if singles:
                    found["single"] = _shown("single", await _one_at_a_time(world, creates, singles))
                if burst:
                    found["burst"] = _shown("burst", await _all_at_once(world, creates, burst))
    if requests:
        with tempfile.TemporaryDirectory() as directory:
            creates = CreateCalls()
            pools = _full_pools() + probe_pool(singles + 10)
            async with reaction_world(binary, Path(directory), pools, creates) as world:
                found["many"] = _shown("many", await _beside_many(world, creates, singles, requests))
    return found


async def _one_at_a_time(world: ReactionWorld, creates: CreateCalls, count: int) -> dict[str, Any]:
    pauses, ways = Random(18), []
    known = len(creates.first_s)
    for number in range(count):
        name = f"single{number:04d}"
        asked_s, answered_s = await world.add_pod(name)
        ways.append((name, Hops(asked_s, answered_s, await creates.reach(known + number + 1))))
        await asyncio.sleep(pauses.uniform(*_PAUSE_S))
    written, cycles_s = world.requests_written(), await world.cycles_s()
    parts = [way.parts(written.get(name), world, cycles_s) for name, way in ways]
    return {
        "pods": count,
        "total_s": _percentiles([way.total_s for _, way in ways]),
        "hops_s": {
            hop: _percentiles([each[hop] for each in parts if hop in each])
            for hop in Hops.NAMES
            if any(hop in each for each in parts)
        },
    }


async def _all_at_once(world: ReactionWorld, creates: CreateCalls, count: int) -> dict[str, Any]:
    known, began_s = len(creates.first_s), time.time()
    numbers = iter(range(count))

    async def write() -> float:
        answered_s = began_s
        for number in numbers:
            _, answered_s = await world.add_pod(f"burst{number:04d}")
        return answered_s

    last_pod_s = max(await asyncio.gather(*(write() for _ in range(WRITERS))))
    last_call_s = await creates.reach(known + count, 600)
    written = {name: times for name, times in world.requests_written().items() if name.startswith("burst")}
    last_request_s = max(stored_s for _, stored_s in written.values())
    rollups = [moment_s for moment_s in world.rollups_s if began_s < moment_s <= last_call_s]
    whole_s = next((moment_s for moment_s in rollups if moment_s > last_request_s), None)
    return {
        "pods": count,
        "pods_written_s": round(last_pod_s - began_s, 2),
        "last_create_after_last_pod_s": round(last_call_s - last_pod_s, 2),
        "last_request_after_last_pod_s": round(last_request_s - last_pod_s, 2),
        "whole_roll_up_after_last_request_s": None if whole_s is None else round(whole_s - last_request_s, 2),
        "last_create_after_whole_roll_up_s": None if whole_s is None else round(last_call_s - whole_s, 2),
        "roll_ups": len(rollups),
    }


async def _beside_many(
    world: ReactionWorld, creates: CreateCalls, singles: int, requests: int
) -> dict[str, Any]:
    began_s = time.monotonic()
    await _fill(world, requests)
    filled_s = time.monotonic() - began_s
    setting_up = await world.start_operator(*SET_UP)

    async def all_acknowledged() -> bool:
        return await world.fleet.total(setting_up, "bigfleet_operator_acknowledged_total") >= requests

    await world.fleet.until("all requests are acknowledged", all_acknowledged, _SET_UP_S)
    await asyncio.to_thread(setting_up.end)
    operator = await world.start_operator()
    await world.start_controller()
    await _settled(world)
    changing = asyncio.get_running_loop().create_task(_change(world, requests))
    share, before = ProcessorShare(operator), await world.fleet.metrics(operator)
    shard_share = ProcessorShare(world.shard.program)
    rollups = len(world.rollups_s)
    found = await _one_at_a_time(world, creates, singles)
    after = await world.fleet.metrics(operator)
    changing.cancel()
    await asyncio.wait([changing])
    if (error := None if changing.cancelled() else changing.exception()) is not None:
        raise error
    spent = {series: value - before.get(series, 0.0) for series, value in after.items()}
    return {
        "requests": requests,
        "changes_per_s": CHANGES_PER_S,
        "created_per_s": round(requests / filled_s),
        **found,
        "operator_cpu_percent": round(share.percent(), 1),
        "shard_cpu_percent": round(shard_share.percent(), 1),
        "roll_ups": len(world.rollups_s) - rollups,
        "rollup_s": histogram_quantiles(spent, "bigfleet_operator_rollup_duration_seconds"),
        "rollup_delay_s": histogram_quantiles(spent, "bigfleet_operator_rollup_delay_seconds"),
    }


async def _fill(world: ReactionWorld, requests: int) -> None:
    numbers = iter(range(requests))

    async def write() -> None:
        for number in numbers:
            await world.client.create(resources.CAPACITY_REQUESTS, _request(number))

    await asyncio.gather(*(write() for _ in range(WRITERS)))


def _request(number: int) -> dict[str, Any]:
    document = request_document(number)
    del document["metadata"][
        "labels"
    ]  # no pod has it, and the pod controller would delete what a missing pod owned
    return document


async def _settled(world: ReactionWorld) -> None:
    """Wait until the shard has nothing left to do for the requests."""

    async def at_rest() -> bool:
        status = await world.fleet.status(world.shard)
        return bool(status.needs) and not status.queue_depth and not status.in_flight

    await world.fleet.until("the shard is at rest", at_rest, _SET_UP_S)


async def _change(world: ReactionWorld, requests: int) -> None:
    """Replace requests by others of the same profile: half of the changes delete, half create."""
    began_s, turn = time.monotonic(), 0
    while True:
        number = turn // 2
        document = _request(number % requests)
        if turn % 2 == 0:
            generation = number // requests
            name = document["metadata"]["name"] + (f"-{generation}" if generation else "")
            key = ObjectKey(document["metadata"]["namespace"], name)
            await world.client.delete(resources.CAPACITY_REQUESTS, key)
        else:
            document["metadata"]["name"] += f"-{number // requests + 1}"
            await world.client.create(resources.CAPACITY_REQUESTS, document)
        turn += 1
        await asyncio.sleep(max(began_s + turn / CHANGES_PER_S - time.monotonic(), 0.0))


def _full_pools() -> str:
    """Return machines that serve all requests already, so that only pods lead to calls."""
    size = "{cpu: 128, memory: 512Gi}"
    return "".join(
        f"  - {{name: full-{kind}-{zone}, count: 6, state: Configured, cluster: reaction-cluster, instance_type: {kind},"
        f" zones: [{zone}], resources: {size}}}\n"
        for kind in TYPES
        for zone in ZONES
    )


def _percentiles(values: list[float]) -> dict[str, float]:
    ordered = sorted(values)
    last = len(ordered) - 1
    return {
        "p50": round(ordered[round(last * 0.5)], 3),
        "p99": round(ordered[round(last * 0.99)], 3),
        "max": round(ordered[-1], 3),
    }


def _shown(name: str, figures: dict[str, Any]) -> dict[str, Any]:
    print(f"{name}: {figures}", file=sys.stderr, flush=True)
    return figures


if __name__ == "__main__":
    sizes = [int(word) for word in sys.argv[1:]] or [SINGLES, BURST, REQUESTS, on_order.MACHINES]
    print(json.dumps(asyncio.run(measure(*sizes))))
