"""Programs of ours as real processes, for tests: started on free ports, listened to, ended.

Why: kill -9, signals, exit codes and real sockets can be tested on a real process only.
Must never: leave a process behind, use a fixed port, or wait without a deadline.
"""

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DEADLINE_S = 60.0
ROOT = Path(__file__).parents[2]
_LISTENING = '"event": "listening"'


@dataclass
class Program:
    """A running program, the ports it told of, and what it wrote to standard error."""

    process: asyncio.subprocess.Process
    ports: dict[str, int]
    log: list[str]
    reading: "asyncio.Task[None]"

    async def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Send a signal and wait for the end; return the exit code."""
        if self.process.returncode is None:
            self.process.send_signal(number)
        return await self.ended()

    async def ended(self) -> int:
        """Wait for the program to end; return the exit code."""
        code = await asyncio.wait_for(self.process.wait(), DEADLINE_S)
        await self.reading
        return code

    def lines(self, event: str) -> list[dict[str, Any]]:
        """The log lines of one event so far."""
        found = [json.loads(line) for line in self.log if line.startswith("{")]
        return [line for line in found if line["event"] == event]

    async def until(self, fact: Callable[[], bool]) -> None:
        """Wait until something is true; looked at often."""
        async with asyncio.timeout(DEADLINE_S):
            while not fact():  # noqa: ASYNC110  what it waits for happens in another process
                await asyncio.sleep(0.02)

    async def get(self, path: str) -> tuple[int, str]:
        """Ask the probes; status and body."""
        return await http_get(self.ports["metrics_port"], path)

    async def metric(self, series: str) -> float:
        """The value of one series as `/metrics` writes it, 0 when it is not there."""
        _, text = await self.get("/metrics")
        values = [line.rpartition(" ")[2] for line in text.splitlines() if line.rpartition(" ")[0] == series]
        return float(values[0]) if values else 0.0


async def http_get(port: int, path: str) -> tuple[int, str]:
    """Make one request with nothing but a socket; return status and body."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
    answer = await asyncio.wait_for(reader.read(), DEADLINE_S)
    writer.close()
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), body.decode()


async def start(program: str, *arguments: str, cwd: Path = ROOT) -> Program:
    """Start a program and wait until it listens; one that ends before that is an `AssertionError` with its words."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(ROOT / "cmd" / program),
        *arguments,
        cwd=cwd,
        stdin=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    if process.stderr is None:
        raise RuntimeError("asked for a pipe and got none")
    stream, log = process.stderr, list[str]()
    async with asyncio.timeout(DEADLINE_S):
        while not (log and _LISTENING in log[-1]):
            line = (await stream.readline()).decode()
            if not line:
                raise AssertionError(f"{program} ended before it listened: {''.join(log)}")
            log.append(line)
    ports = {name: value for name, value in json.loads(log[-1]).items() if name.endswith("port")}

    async def read() -> None:
        async for more in stream:
            log.append(more.decode())

    return Program(process, ports, log, asyncio.get_running_loop().create_task(read()))


@asynccontextmanager
async def running(program: str, *arguments: str) -> AsyncIterator[Program]:
    """A program that is killed at the latest when the block ends."""
    started = await start(program, *arguments)
    try:
        yield started
    finally:
        await started.end(signal.SIGKILL)


async def outcome(program: str, *arguments: str) -> tuple[int, str]:
    """Run a program that is to end by itself; its exit code and what it wrote to standard error."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(ROOT / "cmd" / program),
        *arguments,
        cwd=ROOT,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        _, text = await asyncio.wait_for(process.communicate(), DEADLINE_S)
    except TimeoutError:
        process.kill()
        raise
    return process.returncode or 0, text.decode()
