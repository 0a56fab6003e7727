"""The fake provider as a program with many machines: what it holds, what listings and deltas cost it, how soon it answers.

Processor time and memory are the program's own, read from the system's accounting, so the caller's share of the machine is
not in them; waits of callers are wall-clock on whatever machine this is, and are reported, never judged.

    python -m scaletest.bench.providers --machines 1000000 --json figures.json
"""

import argparse
import asyncio
import json
import os
import platform
import signal
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final
from urllib.request import Request, urlopen

from bigfleet.aio.net import Channel, Code, DialOptions, RpcError
from bigfleet.model.machine import MachineState as S
from bigfleet.provider.contract import STATES
from bigfleet.provider.kit.raw_client import RawProviderClient
from bigfleet.provider.methods import LIST
from bigfleet.transport.grpc_net import GrpcNet
from bigfleet.v1alpha1 import provider_pb2 as pb

Figures = dict[str, Any]  # Any: numbers by name, as JSON has them

ROOT: Final = Path(__file__).resolve().parents[2]
USUAL_LIMIT: Final = 256 << 20
RAISED_LIMIT: Final = 1 << 30
CHANGED: Final = 1000
DELTAS: Final = 20
START_S: Final = 600.0
CALL_S: Final = 300.0
_PER_CLUSTER: Final = 326  # what gang floors make of 250
_RECORD_TAG: Final = (
    pb.MachineList.MACHINES_FIELD_NUMBER << 3 | 2
)  # a field with a length; one byte, as it is below 16
_TICKS: Final = os.sysconf("SC_CLK_TCK")


class Program:
    """A running fake provider, seen from outside."""

    def __init__(
        self, process: asyncio.subprocess.Process, ports: dict[str, int], reading: "asyncio.Task[None]"
    ) -> None:
        self.process, self.ports, self._reading = process, ports, reading
        self.target = f"127.0.0.1:{ports['port']}"

    @property
    def cpu_s(self) -> float:
        """Processor time that it has used so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS

    def memory_mb(self, name: str) -> float:
        """Its memory by the system's name for it: VmRSS at present, VmHWM at most so far."""
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        (line,) = (line for line in lines if line.startswith(f"{name}:"))
        return round(int(line.split()[1]) / 1000, 1)

    async def measured(
        self, work: Awaitable[Any]
    ) -> tuple[Any, float, float]:  # Any: whatever the work returns
        """Return what the work returns, the program's processor time for it, and the wall-clock time."""
        cpu_s, wall_s = self.cpu_s, time.perf_counter()
        result = await work
        return result, self.cpu_s - cpu_s, time.perf_counter() - wall_s

    async def control(self, verb: str, body: object) -> None:
        """Do something to it."""
        url = f"http://127.0.0.1:{self.ports['control_port']}/{verb}"
        request = Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
        with await asyncio.to_thread(urlopen, request, timeout=60):
            pass

    async def end(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        await self.process.wait()
        await self._reading


async def start(machines: int, state: str) -> Program:
    """Start it with about so many machines: a fifth bound, a tenth idle, a tenth spot, the rest on-demand slots."""
    seeding = {
        "catalog": "realistic",
        "idle": machines // 10,
        "spot": machines // 10,
        "speculative": machines * 6 // 10,
        "configured-per-cluster": 250,
        "clusters": max(machines // 5 // _PER_CLUSTER, 1),
        "addr": "127.0.0.1:0",
        "metrics-addr": "0",
        "control-addr": "127.0.0.1:0",
        "log-format": "json",
        "log-level": "info",
        "state": state,
    }
    flags = [f"--{name}={value}" for name, value in seeding.items()]
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(ROOT / "cmd" / "bigfleet-fake-provider"),
        *flags,
        cwd=ROOT,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr is not None
    stream = process.stderr
    async with asyncio.timeout(START_S):
        while True:
            line = await stream.readline()
            if not line:
                raise RuntimeError("the fake provider ended before it listened")
            told = json.loads(line)
            if told["event"] == "listening":
                break

    async def read_on() -> None:  # a full pipe would stop the program
        async for _ in stream:
            pass

    ports = {name: value for name, value in told.items() if name.endswith("port")}
    return Program(process, ports, asyncio.get_running_loop().create_task(read_on()))


async def listings(program: Program, channel: Channel, figures: Figures) -> None:
    """List everything: in one answer, and state by state under the usual limit (`shard#large-listings`)."""

    async def size(channel: Channel, request: pb.ListFilter) -> tuple[int, int]:
        return (await channel.unary(LIST.decoded_by(_size), request, timeout_s=CALL_S)).message

    (machines, length), cpu_s, wall_s = await program.measured(size(channel, pb.ListFilter()))
    figures["full_list"] = {"machines": machines, "bytes": length, "cpu_s": cpu_s, "wall_s": wall_s}
    usual = GrpcNet().dial(program.target, DialOptions(max_message_bytes=USUAL_LIMIT))
    try:
        await size(usual, pb.ListFilter())
        figures["under_usual_limit"] = "fits"
    except RpcError as error:
        if error.code is not Code.RESOURCE_EXHAUSTED:
            raise
        figures["under_usual_limit"] = error.code.name
    parts = {}
    begin_s = time.perf_counter()
    for state in STATES:
        request = pb.ListFilter(states=[pb.MachineState.ValueType(int(state))])
        parts[state.label] = await size(usual, request)
    figures["state_by_state"] = {
        "machines": sum(machines for machines, _ in parts.values()),
        "largest_bytes": max(length for _, length in parts.values()),
        "machines_by_state": {name: machines for name, (machines, _) in parts.items()},
        "wall_s": time.perf_counter() - begin_s,
    }
    await usual.close()


async def paced(call: Callable[[str], Awaitable[object]], ids: list[str], per_second: float) -> Figures:
    """Make calls at a steady rate, whether or not earlier ones were answered, and return how long answers took."""
    waits: list[float] = []

    async def timed(machine_id: str) -> None:
        begin_s = time.perf_counter()
        await call(machine_id)
        waits.append(time.perf_counter() - begin_s)

    start_s = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for number, machine_id in enumerate(ids):
            await asyncio.sleep(max(start_s + number / per_second - time.perf_counter(), 0))
            group.create_task(timed(machine_id))
    waits.sort()
    at = {"p50_ms": 0.5, "p99_ms": 0.99, "max_ms": 1.0}
    told = {
        name: round(waits[min(int(len(waits) * share), len(waits) - 1)] * 1000, 2)
        for name, share in at.items()
    }
    return {"calls": len(ids), "per_second": round(len(ids) / (time.perf_counter() - start_s), 1), **told}


async def deltas(program: Program, client: RawProviderClient, slots: list[str], figures: Figures) -> None:
    """Change a thousand machines and ask for what changed, again and again."""
    before = (await client.list(at_most=1)).revision
    await asyncio.gather(*map(client.create, slots))
    while (await client.list([S.CREATING])).machines:  # noqa: ASYNC110  it comes true in another process
        await asyncio.sleep(0.1)
    cpu_s = []
    for _ in range(DELTAS):
        delta, used_s, _ = await program.measured(client.list(since=before))
        cpu_s.append(used_s)
    figures["delta"] = {
        "machines": len({machine.id for machine in delta.machines}),
        "cpu_ms_mean": round(1000 * sum(cpu_s) / DELTAS, 2),
        "times": DELTAS,
    }


async def measure(machines: int) -> Figures:
    """Run all of it against one program."""
    with tempfile.TemporaryDirectory() as folder:
        begin_s = time.perf_counter()
        program = await start(machines, f"{folder}/state")
        try:
            figures: Figures = {"start": {"wall_s": time.perf_counter() - begin_s, "cpu_s": program.cpu_s}}
            figures["resident_mb"] = program.memory_mb("VmRSS")
            channel = GrpcNet().dial(program.target, DialOptions(max_message_bytes=RAISED_LIMIT))
            client = RawProviderClient(channel, CALL_S)
            await listings(program, channel, figures)
            free = [
                machine.id for machine in (await client.list([S.SPECULATIVE], at_most=3 * CHANGED)).machines
            ]
            await deltas(program, client, free[:CHANGED], figures)
            calls = min(CHANGED, machines // 20)
            figures["create_acks"] = await paced(client.create, free[CHANGED : CHANGED + calls], 500)
            await program.control("latency", {"kind": "create", "spec": "10s"})
            figures["create_acks_of_a_slow_backend"] = await paced(client.create, free[-calls:], 200)
            figures["peak_mb"] = program.memory_mb("VmHWM")
            await channel.close()
        finally:
            await program.end()
    return figures


def _size(answer: bytes) -> tuple[int, int]:
    """Return the records and the bytes of a listing without making a message of each."""
    records = place = 0
    while place < len(answer):
        records += answer[place] == _RECORD_TAG
        place += 1
        length = shift = 0
        while True:
            byte = answer[place]
            place += 1
            length |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        place += length
    return records, len(answer)


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="bench.providers", description=__doc__)
    parser.add_argument(
        "--machines", type=int, default=1_000_000, help="about how many (default %(default)s)"
    )
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    options = parser.parse_args()
    figures = {
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
        "load_average_before": os.getloadavg()[0],
        "asked": options.machines,
        **asyncio.run(measure(options.machines)),
    }
    text = json.dumps(figures, indent=2) + "\n"
    if options.json:
        options.json.write_text(text)
    print(text, end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
