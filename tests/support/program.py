"""One of our programs as a real process, its log read as lines of JSON.

Why: exit codes, signals, ports and what is left behind can only be seen from outside of a process. `RunningProgram` blocks
while it waits; `AwaitedProgram` is for tests that serve something in their own event loop.
Must never: outlive its runner (the kernel ends it with the thread that started it), use a fixed port, wait without a
deadline, or signal what it did not start.
"""

import asyncio
import atexit
import http.client
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import cache
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from bigfleet.model.errors import BigFleetError

T = TypeVar("T")
ROOT: Final = Path(__file__).resolve().parents[2]
DEADLINE_S: Final = 60.0
_POLL_S: Final = 0.02
_SHOWN: Final = 4_000
# Asks the kernel to end the program with its runner. A first program does so and then becomes the one wanted: Python code
# between fork and exec crashes now and then in a runner with threads, such as those of gRPC.
_LEASH: Final = (
    (
        sys.executable,
        "-IS",
        "-c",
        f"import ctypes,os,sys;ctypes.CDLL(None).prctl(1,{int(signal.SIGKILL)});os.execv(sys.argv[1],sys.argv[1:])",
    )
    if sys.platform == "linux"
    else ()
)


class ProgramError(BigFleetError):
    """A program did not do what a test waited for; the text has the end of its log."""


@cache
def _logs() -> Path:
    """Return a directory for logs that no test named a place for."""
    directory = TemporaryDirectory(prefix="bigfleet-programs-")
    atexit.register(directory.cleanup)
    return Path(directory.name)


_started = count()


class RunningProgram:
    """A program of `cmd/`, started at once; used as a context it is killed at the end unless it ended before."""

    def __init__(
        self,
        program: str,
        *flags: str,
        log: Path | None = None,
        environ: Mapping[str, str] = os.environ,
        python: tuple[str, ...] = (),
        root: Path = ROOT,
    ) -> None:
        """`root` is the checkout whose program it is; another one than ours has to be on PYTHONPATH too."""
        self.name = program
        self.log = log or _logs() / f"{next(_started)}.log"
        with self.log.open("ab") as stream:
            self._process = subprocess.Popen(
                (*_LEASH, sys.executable, *python, str(root / "cmd" / program), *flags),
                cwd=root,
                env=dict(environ),
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=stream,
            )

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    @property
    def code(self) -> int | None:
        """The exit code; None while it runs, negative for a signal."""
        return self._process.poll()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    def lines(self, event: str = "") -> list[dict[str, Any]]:
        """Return what it has logged so far, all of it or one kind of event."""
        found = []
        for line in self.log.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("{") and line.endswith("}"):
                entry = json.loads(line)
                if not event or entry.get("event") == event:
                    found.append(entry)
        return found

    def text(self) -> str:
        """Return the end of everything it wrote."""
        return self.log.read_text(encoding="utf-8", errors="replace")[-_SHOWN:]

    def wait(self, what: str, condition: Callable[[], T], seconds: float = DEADLINE_S) -> T:
        """Return the first true answer of a condition; raise when the program ends or none comes in time."""
        end = time.monotonic() + seconds
        while True:
            if answer := condition():
                return answer
            if self.code is not None:
                raise ProgramError(f"{self.name} ended with {self.code} before {what}:\n{self.text()}")
            if time.monotonic() > end:
                raise ProgramError(f"{self.name}: not in {seconds:g} s: {what}:\n{self.text()}")
            time.sleep(_POLL_S)

    def port(self, name: str = "metrics_port") -> int:
        """Return a port that it logged when it began to listen."""
        (line,) = self.wait("it listens", lambda: self.lines("listening")[:1])
        return int(line[name])

    def http(self, path: str) -> tuple[int, str]:
        """Ask its HTTP port for a page; return status and text."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port(), timeout=DEADLINE_S)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def send(self, number: signal.Signals) -> None:
        """Send a signal unless it has ended."""
        if self.code is None:
            self._process.send_signal(number)

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Send a signal, wait for the end and return the exit code."""
        self.send(number)
        return self.ended()

    def ended(self) -> int:
        """Wait for its own end and return the exit code."""
        try:
            return self._process.wait(DEADLINE_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise ProgramError(f"{self.name} did not end:\n{self.text()}") from None

    def kill(self) -> None:
        """End it as a crash would."""
        if self.code is None:
            self._process.kill()
            self._process.wait()


class AwaitedProgram:
    """A running program whose facts and end are awaited."""

    def __init__(self, program: str, *flags: str) -> None:
        self.running = RunningProgram(program, *flags)

    @classmethod
    async def start(cls, program: str, *flags: str) -> Self:
        """Start a program and wait until it listens."""
        started = cls(program, *flags)
        await started.until(lambda: bool(started.lines("listening")))
        return started

    @property
    def ports(self) -> dict[str, int]:
        """The ports it logged when it began to listen."""
        (line,) = self.lines("listening")[:1]
        return {name: value for name, value in line.items() if name.endswith("port")}

    def lines(self, event: str) -> list[dict[str, Any]]:
        """Return the log lines of one event so far."""
        return self.running.lines(event)

    async def until(self, fact: Callable[[], bool]) -> None:
        """Wait until something is true; looked at often."""
        async with asyncio.timeout(DEADLINE_S):
            while not fact():
                if self.running.code is not None and not fact():
                    raise ProgramError(
                        f"{self.running.name} ended with {self.running.code}:\n{self.running.text()}"
                    )
                await asyncio.sleep(_POLL_S)

    async def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Send a signal, wait for the end and return the exit code."""
        self.running.send(number)
        return await self.ended()

    async def ended(self) -> int:
        """Wait for its own end and return the exit code."""
        return await asyncio.to_thread(self.running.ended)

    async def get(self, path: str) -> tuple[int, str]:
        """Ask its probes; return status and body."""
        return await http_get(self.ports["metrics_port"], path)

    async def metric(self, series: str) -> float:
        """Return the value of one series as `/metrics` writes it, 0 when it is not there."""
        _, text = await self.get("/metrics")
        values = [line.rpartition(" ")[2] for line in text.splitlines() if line.rpartition(" ")[0] == series]
        return float(values[0]) if values else 0.0


@asynccontextmanager
async def running(program: str, *flags: str) -> AsyncIterator[AwaitedProgram]:
    """A program that listens, killed at the latest when the block ends."""
    started = await AwaitedProgram.start(program, *flags)
    try:
        yield started
    finally:
        started.running.kill()


async def outcome(program: str, *flags: str) -> tuple[int, str]:
    """Run a program that ends by itself; return its exit code and the end of what it wrote."""
    with RunningProgram(program, *flags) as started:
        return await asyncio.to_thread(started.ended), started.text()


async def http_get(port: int, path: str) -> tuple[int, str]:
    """Make one request with nothing but a socket; return status and body."""
    status, _, body = await http_ask(port, "GET", path)
    return status, body


async def http_ask(
    port: int, method: str, path: str, body: object = None, **headers: str
) -> tuple[int, str, str]:
    """Make one request, with a body of JSON unless it is None; return status, head and body."""
    data = b"" if body is None else json.dumps(body).encode()
    sent = {
        "Host": f"127.0.0.1:{port}",
        "Content-Type": "application/json",
        "Content-Length": str(len(data)),
        **{name.replace("_", "-"): value for name, value in headers.items()},
    }
    lines = "".join(f"{name}: {value}\r\n" for name, value in sent.items() if value)
    async with asyncio.timeout(DEADLINE_S):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(f"{method} {path} HTTP/1.1\r\n{lines}\r\n".encode() + data)
        answer = await reader.read()
        writer.close()
    head, _, text = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), head.decode(), text.decode()
