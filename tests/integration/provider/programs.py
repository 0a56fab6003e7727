"""Our providers as processes, for tests: started on free ports, asked over gRPC and HTTP, ended by their id."""

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bigfleet.aio.net import Code
from bigfleet.provider.kit.raw_client import RawProviderClient
from bigfleet.transport.grpc_net import GrpcNet

ROOT = Path(__file__).resolve().parents[3]
MACHINES = 64
CALLERS = 32
DEADLINE_S = 60.0
POOLS = f"""
pools:
  - {{name: m, count: {MACHINES}, instance_type: m6i.large, zones: [zone-a, zone-b], resources: {{cpu: 2}}}}
"""


@dataclass
class Program:
    """A running program and the ports it told of."""

    process: asyncio.subprocess.Process
    ports: dict[str, int]
    log: list[str]
    reading: "asyncio.Task[None]"
    client: RawProviderClient

    async def end(self, number: signal.Signals) -> int:
        if self.process.returncode is None:
            self.process.send_signal(number)
        code = await asyncio.wait_for(self.process.wait(), DEADLINE_S)
        await self.reading
        return code

    async def ask(self, method: str, path: str, body: object = None, **headers: str) -> tuple[int, Any]:
        return await http(self.ports["control_port"], method, path, body, **headers)


async def http(port: int, method: str, path: str, body: object = None, **headers: str) -> tuple[int, Any]:
    """Make one request with nothing but a socket; return status and JSON, or text where it is none."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    data = b"" if body is None else json.dumps(body).encode()
    head = {
        "Host": f"127.0.0.1:{port}",
        "Content-Type": "application/json",
        "Content-Length": str(len(data)),
        **{name.replace("_", "-"): value for name, value in headers.items()},
    }
    lines = "".join(f"{name}: {value}\r\n" for name, value in head.items() if value)
    writer.write(f"{method} {path} HTTP/1.1\r\n{lines}\r\n".encode() + data)
    answer = await asyncio.wait_for(reader.read(), DEADLINE_S)
    writer.close()
    top, _, content = answer.partition(b"\r\n\r\n")
    status = int(top.split()[1])
    try:
        return status, json.loads(content)
    except ValueError:
        return status, (top.decode(), content.decode())


async def start(program: str, *flags: str) -> Program:
    """Start a program on free ports and wait until it listens."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(ROOT / "cmd" / program),
        *("--addr", "127.0.0.1:0", "--metrics-addr", "127.0.0.1:0", "--log-format", "json"),
        *flags,
        cwd=ROOT,
        stdin=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr is not None
    stream, log = process.stderr, list[str]()
    async with asyncio.timeout(DEADLINE_S):
        while True:
            line = (await stream.readline()).decode()
            assert line, f"the program ended: {log}"
            log.append(line)
            if '"event": "listening"' in line:
                break
    ports = {name: value for name, value in json.loads(log[-1]).items() if name.endswith("port")}

    async def read() -> None:
        log.extend([more.decode() async for more in stream])

    reading = asyncio.get_running_loop().create_task(read())
    client = RawProviderClient(GrpcNet().dial(f"127.0.0.1:{ports['port']}"))
    return Program(process, ports, log, reading, client)


@asynccontextmanager
async def running(program: str, *flags: str) -> AsyncIterator[Program]:
    started = await start(program, *flags)
    try:
        yield started
    finally:
        await started.end(signal.SIGKILL)


GONE = (Code.UNAVAILABLE, Code.CANCELLED, Code.UNKNOWN, Code.DEADLINE_EXCEEDED)
"""How a call can end whose provider was killed, or whose connection was broken."""


async def until(fact: Callable[[], Awaitable[bool]]) -> None:
    """Wait for a fact, with a deadline; a provider that is away for the moment has not made it true yet."""
    async with asyncio.timeout(DEADLINE_S):
        while not await fact():  # noqa: ASYNC110  it comes true in another process
            await asyncio.sleep(0.01)
