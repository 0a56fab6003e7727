"""What ten open browsers on the dashboard beside a shard cost its cycles (`dashboard#ten-browsers`).

`python -m scaletest.bench.dashboard_share MACHINES SECONDS PAIRS` runs a shard with `--dashboard-addr`, lets a simulated cluster ask
for something else every few seconds, and measures pairs of short stretches: without readers, with ten readers, in turn first one
and first the other. A reader does what an open page does: it holds a stream and asks for its page again after every notice.

Why pairs: a machine is slower and faster for minutes at a time, by more than what is looked for. The two stretches of a pair lie
seconds apart, so that differences within pairs leave that out; their confidence comes from resampling the pairs many times.
Printed as JSON: for mean and p99 of the cycle, as the shard reports it, and for the CPU of its process by cycle, how
many per cent they are higher with readers, each as [2.5 %, middle, 97.5 %]. The budget holds where the last number of
`p99` is below 1, fails where the first is above, and is undecided otherwise: more pairs are needed. 20000 10 30 takes
less than twelve minutes.
"""

import asyncio
import json
import os
import random
import statistics
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import yaml

from bigfleet.insight.v1 import insight_pb2 as pb
from bigfleet.transport.grpc_net import GrpcNet
from bigfleet.transport.shard_reading import LIST_CYCLES
from tests.support.ports import free_ports

READERS = 10
SETTLE_S = 1.0
DRAWS = 2_000
PAGES = ("/", "/needs", "/machines", "/decisions", "/shards")
PROGRAM = ("-c", "import sys; from bigfleet.app.bigfleet import main; sys.exit(main(sys.argv[1:]))")
TICKS = os.sysconf("SC_CLK_TCK")


def demand(machines: int) -> str:
    """A cluster that asks for a third of the fleet, now more, now less."""
    steps = [{"at": 4 * step, "units": machines // 3 + (step % 2) * 40} for step in range(50)]
    row = {
        "name": "work",
        "need": {"priority": 1000, "unit": {"cpu": "1"}},
        "schedule": steps,
        "repeat_after": 200,
    }
    return yaml.safe_dump({"seed": 1, "rows": [row]})


def cpu_s(pid: int) -> float:
    """CPU that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


async def reader(session: aiohttp.ClientSession, url: str, page: str) -> None:
    """Do what an open page does, until cancelled."""
    async with session.get(f"{url}/api/v1/x/stream") as stream:
        async for line in stream.content:
            if line.startswith(b"event:"):
                async with session.get(url + page, headers={"X-Part": "main"}) as answer:
                    await answer.read()


@dataclass(frozen=True, slots=True)
class Stretch:
    """Cycle times of one stretch, and what the shard's process used for one cycle."""

    times_ms: tuple[float, ...]
    cpu_ms: float


async def stretch(shard: str, pid: int, url: str, readers: int, seconds: float) -> Stretch:
    """Measure one stretch with so many readers."""
    channel = GrpcNet().dial(shard)
    try:
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None)) as session:
            tasks = [asyncio.create_task(reader(session, url, PAGES[n % len(PAGES)])) for n in range(readers)]
            await asyncio.sleep(SETTLE_S)
            after = max((row.cycle.number for row in await cycles(channel, 0)), default=0)
            before_s = cpu_s(pid)
            await asyncio.sleep(seconds)
            spent_s = cpu_s(pid) - before_s
            rows = await cycles(channel, after)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
    finally:
        await channel.close()
    return Stretch(tuple(row.seconds * 1000 for row in rows), 1000 * spent_s / max(len(rows), 1))


def p99(times: Sequence[float]) -> float:
    """The time that one of a hundred exceeds."""
    return sorted(times)[int(0.99 * (len(times) - 1))]


def higher(pairs: Sequence[tuple[Stretch, Stretch]], of: Callable[[Sequence[Stretch]], float]) -> list[float]:
    """By how many per cent a figure is higher with readers: likely between the first and the last, the middle in between."""
    rng = random.Random(1)
    found = []
    for _ in range(DRAWS):
        drawn = rng.choices(pairs, k=len(pairs))
        without, with_readers = (of([pair[side] for pair in drawn]) for side in (0, 1))
        found.append(100 * (with_readers / without - 1))
    found.sort()
    return [round(found[int(part * (DRAWS - 1))], 2) for part in (0.025, 0.5, 0.975)]


def summary(pairs: Sequence[tuple[Stretch, Stretch]]) -> dict[str, object]:
    """The figures of all pairs."""

    def pooled(parts: Sequence[Stretch]) -> list[float]:
        return [time for part in parts for time in part.times_ms]

    quiet, busy = ([pair[side] for pair in pairs] for side in (0, 1))
    return {
        "cycles": [len(pooled(quiet)), len(pooled(busy))],
        "mean_ms": [round(statistics.mean(pooled(side)), 2) for side in (quiet, busy)],
        "p99_ms": [round(p99(pooled(side)), 2) for side in (quiet, busy)],
        "cpu_ms_by_cycle": [
            round(statistics.mean(part.cpu_ms for part in side), 1) for side in (quiet, busy)
        ],
        "higher_by_percent": {
            "mean": higher(pairs, lambda parts: statistics.mean(pooled(parts))),
            "p99": higher(pairs, lambda parts: p99(pooled(parts))),
            "cpu_by_cycle": higher(pairs, lambda parts: statistics.mean(part.cpu_ms for part in parts)),
        },
    }


async def cycles(channel: object, after: int) -> list[pb.ListCyclesResponse]:
    """The cycles that the shard remembers after a number."""
    request = pb.ListCyclesRequest(after=after)
    async with channel.server_stream(LIST_CYCLES, request, timeout_s=30.0) as frames:  # type: ignore[attr-defined]
        return [frame async for frame in frames]


async def measure(machines: int, seconds: float, count: int) -> dict[str, object]:
    """Run it once."""
    listen, dashboard = (f"127.0.0.1:{port}" for port in free_ports(2))
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "demand.yaml"
        file.write_text(demand(machines))
        shard = await asyncio.create_subprocess_exec(
            sys.executable, *PROGRAM, "shard", f"--listen={listen}", "--metrics-addr=0", f"--seed-machines={machines}",
            f"--data-dir={directory}/shard", "--cycle-interval=1s", f"--dashboard-addr={dashboard}", "--log-level=error",
        )  # fmt: skip
        cluster = await asyncio.create_subprocess_exec(
            sys.executable, *PROGRAM, "cluster-sim", "--cluster-id=work", f"--shard-addr={listen}", f"--demand={file}",
            "--log-level=error", stdout=asyncio.subprocess.DEVNULL,
        )  # fmt: skip
        try:
            await asyncio.sleep(20)  # until the fleet has settled
            pairs = []
            for turn in range(count):
                order = (0, READERS) if turn % 2 else (READERS, 0)
                measured = {
                    readers: await stretch(listen, shard.pid, f"http://{dashboard}", readers, seconds)
                    for readers in order
                }
                if all(part.times_ms for part in measured.values()):
                    pairs.append((measured[0], measured[READERS]))
        finally:
            for process in (cluster, shard):
                with suppress(ProcessLookupError):
                    process.terminate()
                await process.wait()
    return {"machines": machines, "seconds": seconds, "pairs": len(pairs), **summary(pairs)}


if __name__ == "__main__":
    print(json.dumps(asyncio.run(measure(int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])))))
