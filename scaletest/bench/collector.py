"""A decision in a process that collects garbage as a shard does, beside one that collects none.

    python -m scaletest.bench.collector [PROFILE ROUNDS]

prints one JSON object. Three ways take turns, so that they meet the same machine: the collector off, as in `make bench`; rounds
that wait for the end of the decision, as in `bigfleet shard`; and rounds beside Python's own collections, as shards had before.
Times are those of the deciding thread, in CPU.
"""

import asyncio
import gc
import json
import statistics
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from bigfleet.aio.clock import SystemClock
from bigfleet.aio.rng import SeededRng
from bigfleet.app.garbage import EVERY_S, freeze_live_objects
from bigfleet.bench.measured_world import MeasuredWorld
from bigfleet.bench.meter import percentile
from bigfleet.bench.plans import plan_named
from bigfleet.workload.worlds import settled_world, unbound_world

SEED: Final = 1
PROFILE: Final = "50k"
ROUNDS: Final = 20
WAYS: Final = ("collector off", "as in a shard", "Python's own")


class _Collections:
    """How often and for how long the collector ran."""

    def __init__(self) -> None:
        self.count, self.seconds, self._began_s = 0, 0.0, 0.0

    def __call__(self, phase: str, _info: dict[str, int]) -> None:
        if phase == "start":
            self._began_s = time.perf_counter()
        else:
            self.count += 1
            self.seconds += time.perf_counter() - self._began_s


async def measure(profile: str, rounds: int) -> dict[str, Any]:
    """Decide in every way, turn by turn."""
    plan, source = plan_named(profile), SeededRng(SEED)
    settled = MeasuredWorld(settled_world(plan.profile, source))
    unbound = MeasuredWorld(unbound_world(plan.profile, source))
    works: dict[str, Callable[[], object]] = {
        "full pass": settled.full_pass,
        "cold bring-up": unbound.full_pass,
    }
    found: dict[str, Any] = {"profile": profile, "rounds": rounds, "decisions": {}}
    for name, work in works.items():
        times: dict[str, list[float]] = {way: [] for way in WAYS}
        collections = {way: _Collections() for way in WAYS}
        for _ in range(rounds):
            for way in WAYS:
                times[way].append(await _one(way, work, collections[way]))
        ways = {way: _figures(times[way], collections[way], rounds) for way in WAYS}
        found["decisions"][name] = {"ways": ways, **_times_as_long(times)}
        print(f"{name}: {found['decisions'][name]}", file=sys.stderr, flush=True)
    return found


async def _one(way: str, work: Callable[[], object], collections: _Collections) -> float:
    """Decide once, after a round of collection; return the milliseconds."""
    deciding = False
    gc.collect()
    task = None
    if way == WAYS[0]:
        gc.freeze()
    else:
        rounds = freeze_live_objects(SystemClock(), None if way == WAYS[2] else lambda: deciding)
        task = asyncio.ensure_future(rounds)
        await asyncio.sleep(1.1 * EVERY_S)

    def timed() -> float:
        began_s = time.thread_time()
        work()
        return (time.thread_time() - began_s) * 1000

    if task is None:
        gc.disable()
    gc.callbacks.append(collections)
    deciding = True
    try:
        return await asyncio.to_thread(timed)
    finally:
        deciding = False
        gc.callbacks.remove(collections)
        gc.enable()
        if task is not None:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        gc.unfreeze()


def _figures(times_ms: list[float], collections: _Collections, rounds: int) -> dict[str, float]:
    return {
        "p50_ms": round(percentile(times_ms, 50), 1),
        "p99_ms": round(percentile(times_ms, 99), 1),
        "collections": round(collections.count / rounds, 1),
        "collecting_ms": round(collections.seconds / rounds * 1000, 1),
    }


def _times_as_long(times: dict[str, list[float]]) -> dict[str, float]:
    """How long a shard takes in times of the benchmark: in the 99th percentile, and in the median of turns."""
    alone, shard, before = (times[way] for way in WAYS)
    return {
        "p99_times": round(percentile(shard, 99) / percentile(alone, 99), 3),
        "median_times": round(statistics.median(map(float.__truediv__, shard, alone)), 3),
        "median_times_before": round(statistics.median(map(float.__truediv__, before, alone)), 3),
    }


if __name__ == "__main__":
    chosen, turns = (*sys.argv[1:], *(PROFILE, str(ROUNDS))[len(sys.argv) - 1 :])
    print(json.dumps(asyncio.run(measure(chosen, int(turns)))))
