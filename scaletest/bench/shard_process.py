"""The shard of the benchmark as a process of its own, with a finer look at its event loop than its metrics have.

    python -m scaletest.bench.shard_process PROVIDER_PORT CONCURRENCY INCREMENTAL

prints its port; then for each line `mark NAME` on standard input one JSON object with what was measured since the line
before: loop lag from raw samples every 10 ms, cycles, memory, CPU. Ends with standard input.
"""

import asyncio
import gc
import json
import resource
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

from prometheus_client import CollectorRegistry

from bigfleet.aio.proc import SystemProc
from bigfleet.aio.seams import system_seams
from bigfleet.aio.system_disk import SystemDisk
from bigfleet.app.garbage import freeze_live_objects
from bigfleet.app.shard.build import listening_shard
from bigfleet.app.shard.command import ShardSettings
from bigfleet.app.switch_interval import short_switch_interval
from bigfleet.obs.logs import build_logger
from bigfleet.obs.metrics import Metrics
from bigfleet.shard.core.views import CycleFacts
from bigfleet.shard.epoch import open_data_directory
from bigfleet.shard.metrics import SHARD_METRICS
from bigfleet.shard.shard import Shard
from bigfleet.transport.address import ListenAddress
from bigfleet.transport.grpc_net import GrpcNet
from scaletest.bench.shard_fleet import SHARD

_EVERY_S = 0.01


class _Watch:
    """What happened since the last mark."""

    def __init__(self, shard: Shard, registry: CollectorRegistry) -> None:
        self._shard, self._registry = shard, registry
        self._lags: list[float] = []
        self._cycles: list[CycleFacts] = []  # never whole views: each holds its snapshot
        self._collected: list[tuple[int, float]] = []
        gc.callbacks.append(self._note_collection)
        self._began, self._cpu = time.monotonic(), time.process_time()

    def _note_collection(self, phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            self._collecting = time.monotonic()
        else:
            self._collected.append((info["generation"], time.monotonic() - self._collecting))

    async def sample(self) -> None:
        seen = 0
        while True:
            asked = time.monotonic()
            await asyncio.sleep(_EVERY_S)
            self._lags.append(time.monotonic() - asked - _EVERY_S)
            view = self._shard.last_cycle()
            if view is not None and view.number != seen:
                seen = view.number
                self._cycles.append(view.facts)

    def mark(self, name: str) -> dict[str, object]:
        lags, cycles = sorted(self._lags), self._cycles
        took_s, cpu_s = time.monotonic() - self._began, time.process_time() - self._cpu
        self._lags, self._cycles = [], []
        self._began, self._cpu = time.monotonic(), time.process_time()
        durations = sorted(facts.duration_s for facts in cycles)
        phases: dict[str, list[float]] = {}
        for facts in cycles:
            for phase, seconds in facts.phases_s.items():
                phases.setdefault(phase, []).append(seconds)
        collected, self._collected = self._collected, []
        counts = self._shard.inventory.count_by_state()
        return {
            "name": name,
            "seconds": round(took_s, 2),
            "cpu_share": round(cpu_s / took_s, 3),
            "lag_ms": {key: _ms(lags, share) for key, share in (("p50", 0.5), ("p99", 0.99), ("max", 1.0))},
            "lag_samples": len(lags),
            "cycles": len(cycles),
            "cycle_ms": {"p50": _ms(durations, 0.5), "max": _ms(durations, 1.0)},
            "phase_ms": {
                phase: {"p50": _ms(sorted(each), 0.5), "max": _ms(sorted(each), 1.0)}
                for phase, each in sorted(phases.items())
            },
            "collections": {
                f"generation {number}": {
                    "count": len(each),
                    "total_ms": round(sum(each) * 1000),
                    "max_ms": _ms(each, 1.0),
                }
                for number in range(3)
                if (each := sorted(took for generation, took in collected if generation == number))
            },
            "machines": {state.label: count for state, count in counts.items() if count},
            "sessions": len(self._shard.sessions),
            "rss_mb": round(_rss_mb()),
            "peak_rss_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
            "configure_s": self._histogram("bigfleet_shard_configure_phase_seconds"),
            "outcomes": self._outcomes(),
        }

    def _histogram(self, name: str) -> dict[str, float]:
        """The p99 of a histogram as its upper bucket edge, and how many samples there are."""
        family = self._registry.restricted_registry([f"{name}_bucket"])
        samples = [sample for metric in family.collect() for sample in metric.samples]
        buckets = [
            (float(each.labels["le"]), each.value) for each in samples if each.name == f"{name}_bucket"
        ]
        total = max((count for _, count in buckets), default=0.0)
        edge = next((bound for bound, count in sorted(buckets) if count >= 0.99 * total), 0.0)
        return {"count": total, "p99_at_most": edge}

    def _outcomes(self) -> dict[str, float]:
        family = self._registry.restricted_registry(["bigfleet_shard_action_execute_outcomes_total"])
        found = [sample for metric in family.collect() for sample in metric.samples]
        return {
            f"{each.labels['kind']} {each.labels['outcome']}": each.value
            for each in found
            if each.value and each.name.endswith("_total")
        }


def _ms(values: list[float], share: float) -> float:
    if not values:
        return 0.0
    return round(values[min(len(values) - 1, int(len(values) * share))] * 1000, 2)


def _rss_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / (1 << 20)


async def _serve(port: int, concurrency: int, incremental: bool) -> None:
    settings = ShardSettings(
        id=SHARD,
        listen=ListenAddress("127.0.0.1", 0),
        provider_addr=f"127.0.0.1:{port}",
        execute_concurrency=concurrency,
        incremental_reconcile=incremental,
    )
    seams = system_seams(GrpcNet(), SystemProc())
    registry = CollectorRegistry()
    metrics = Metrics(SHARD_METRICS, registry, version="bench", commit="bench")
    log = build_logger(level="error", form="json", stream=sys.stderr, now=lambda: datetime.now(UTC))
    with tempfile.TemporaryDirectory() as directory:
        data = open_data_directory(SystemDisk(), directory)
        async with listening_shard(settings, seams, data=data, metrics=metrics, log=log) as running:
            watch = _Watch(running.shard, registry)
            loop = asyncio.get_running_loop()
            tasks = [loop.create_task(running.shard.run()), loop.create_task(watch.sample())]
            tasks.append(
                loop.create_task(freeze_live_objects(seams.clock, lambda: running.shard.loop.deciding))
            )
            print(running.server.port, flush=True)
            while line := await asyncio.to_thread(sys.stdin.readline):
                print(json.dumps(watch.mark(line.strip())), flush=True)
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)


if __name__ == "__main__":
    provider_port, workers, deltas = sys.argv[1:]
    with short_switch_interval():
        asyncio.run(_serve(int(provider_port), int(workers), deltas == "1"))
