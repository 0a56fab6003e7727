"""What ten open browsers on the dashboard beside a shard cost its cycles (dashboard 9, item 19).

`python -m scaletest.bench.dashboard_share MACHINES SECONDS` runs a shard with `--dashboard-addr`, lets a simulated cluster ask
for something else every few seconds, and measures stretches of so many seconds in turn: nobody looks, ten readers look. A
reader does what an open page does: it holds a stream and asks for its page again after every notice. Printed as JSON: cycle
times as the shard itself tells them, and the CPU of its process by cycle, which a busy machine disturbs less.
"""

import asyncio
import json
import os
import statistics
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import aiohttp
import yaml

from bigfleet.insight.v1 import insight_pb2 as pb
from bigfleet.testing.ports import free_ports
from bigfleet.transport.grpc_net import GrpcNet
from bigfleet.transport.shard_reading import LIST_CYCLES

READERS = 10
TURNS = 4
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


async def stretch(shard: str, pid: int, url: str, readers: int, seconds: float) -> dict[str, float]:
    """Measure one stretch with so many readers."""
    channel = GrpcNet().dial(shard)
    try:
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None)) as session:
            tasks = [asyncio.create_task(reader(session, url, PAGES[n % len(PAGES)])) for n in range(readers)]
            await asyncio.sleep(3)
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
    times = sorted(row.seconds * 1000 for row in rows)
    return {
        "readers": readers,
        "cycles": len(times),
        "p50_ms": round(statistics.median(times), 2),
        "p99_ms": round(times[int(0.99 * (len(times) - 1))], 2),
        "cpu_ms_by_cycle": round(1000 * spent_s / len(times), 1),
    }


async def cycles(channel: object, after: int) -> list[pb.ListCyclesResponse]:
    """The cycles that the shard remembers after a number."""
    request = pb.ListCyclesRequest(after=after)
    async with channel.server_stream(LIST_CYCLES, request, timeout_s=30.0) as frames:  # type: ignore[attr-defined]
        return [frame async for frame in frames]


async def measure(machines: int, seconds: float) -> dict[str, object]:
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
            found = [
                await stretch(listen, shard.pid, f"http://{dashboard}", (turn % 2) * READERS, seconds)
                for turn in range(TURNS)
            ]
        finally:
            for process in (cluster, shard):
                with suppress(ProcessLookupError):
                    process.terminate()
                await process.wait()
    return {"machines": machines, "seconds": seconds, "stretches": found}


if __name__ == "__main__":
    print(json.dumps(asyncio.run(measure(int(sys.argv[1]), float(sys.argv[2])))))
