"""A small fleet of real processes on loopback, to be killed, paused, cut off and asked: one provider, its shards, their operators.

Why: what a fleet does when a part of it dies can only be shown by ending that part; tests and measurements share this.
Every part keeps its ports and directories when it is started again.
Must never: leave a process behind, end one that it did not start, or wait without a deadline.

    async with RealFleet(tmp_path, POOLS) as fleet:
        await fleet.start_provider()
        shard = await fleet.start_shard()
        async with fleet.operator(shard) as operator:
            await operator.demand(need(cpu=4))
"""

import asyncio
import json
import signal
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from bigfleet.aio.clock import SystemClock
from bigfleet.demo.session_peer import SessionPeer
from bigfleet.insight.v1 import insight_pb2
from bigfleet.transport.grpc_net import GrpcNet
from bigfleet.transport.shard_reading import GET_STATUS
from tests.support.coordinator.processes import settled_port
from tests.support.faulty_link import FaultyLink
from tests.support.program import DEADLINE_S, ROOT, RunningProgram, http_ask, http_get

MUTATING: Final = frozenset({"Create", "Configure", "Drain", "Delete"})
PROVIDER: Final = "bigfleet-fake-provider"
_POLL_S: Final = 0.02
_ASK_S: Final = 20.0

Document = dict[str, Any]  # Any: what JSON can say


@dataclass(slots=True)
class ShardProcess:
    """One shard: its place, and the process that runs there now."""

    program: RunningProgram
    port: int
    data: Path
    audit: Path

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def audited(self) -> list[Document]:
        """Return the records of its audit log so far."""
        return [json.loads(line) for line in self.audit.read_text().splitlines() if line.endswith("}")]


class RealFleet:
    """The processes, and ways to look at them; `link` is between shards and provider when it is asked for."""

    def __init__(
        self,
        directory: Path,
        pools: str,
        *provider_flags: str,
        linked: bool = False,
        tap: Callable[[bool, bytes], None] | None = None,
    ) -> None:
        self.directory, self._provider_flags = directory, provider_flags
        self._pools, self._state = directory / "pools.yaml", directory / "provider"
        self._pools.write_text(pools)
        self._provider_port, self.control_port = settled_port(), settled_port()
        self.link = FaultyLink(self._provider_port, tap) if linked else None
        self.provider: RunningProgram | None = None
        self.net = GrpcNet()
        self._programs: list[RunningProgram] = []

    async def __aenter__(self) -> Self:
        if self.link is not None:
            await self.link.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for program in reversed(self._programs):
            program.kill()
        if self.link is not None:
            await self.link.stop()

    # ---- parts come and go

    async def start_provider(self) -> RunningProgram:
        """Start the provider where it was, and return when it listens."""
        self.provider = self.run(
            PROVIDER,
            f"--inventory={self._pools}",
            f"--addr=127.0.0.1:{self._provider_port}",
            f"--control-addr=127.0.0.1:{self.control_port}",
            f"--state={self._state}",
            *self._provider_flags,
        )
        await self._listens(self.provider)
        return self.provider

    async def kill_provider(self) -> None:
        """End the provider with -9."""
        assert self.provider is not None
        await asyncio.to_thread(self.provider.kill)

    async def start_shard(
        self, *flags: str, before: ShardProcess | None = None, data: Path | None = None
    ) -> ShardProcess:
        """Start a shard, where one was `before` or on a data directory of its own, and return when it listens."""
        port = settled_port() if before is None else before.port
        where = data or (self.directory / "shard" if before is None else before.data)
        provider = self._provider_port if self.link is None else self.link.port
        audit = self.directory / f"{where.name}.audit.jsonl"
        program = self.run(
            "bigfleet",
            "shard",
            f"--listen=127.0.0.1:{port}",
            f"--provider-addr=127.0.0.1:{provider}",
            f"--data-dir={where}",
            f"--audit-log={audit}",
            *flags,
        )
        await self._listens(program)
        return ShardProcess(program, port, where, audit)

    def run(
        self, program: str, *flags: str, **more: Any
    ) -> RunningProgram:  # Any: as RunningProgram takes it
        """Start any other program, which ends with the fleet."""
        log = self.directory / f"{len(self._programs)}-{program}.log"
        usual = ("--metrics-addr=127.0.0.1:0", "--log-format=json")
        started = RunningProgram(program, *flags, *usual, log=log, **more)
        self._programs.append(started)
        return started

    def operator(self, shard: ShardProcess, cluster: str = "prod") -> SessionPeer:
        """Return an operator whose demand and drains a test plays itself."""
        return SessionPeer(self.net.dial(shard.address), cluster, SystemClock())

    async def _listens(self, program: RunningProgram) -> None:
        await self.until(
            f"{program.name} listens", lambda: bool(program.lines("listening")) or program.code is not None
        )
        assert program.code is None, f"{program.name} ended at its start:\n{program.text()}"

    # ---- looking

    async def status(self, shard: ShardProcess) -> insight_pb2.GetStatusResponse:
        """Return how a shard stands, asked over gRPC."""
        channel = self.net.dial(shard.address)
        try:
            asked = insight_pb2.GetStatusRequest()
            answer = await channel.unary(GET_STATUS, asked, timeout_s=_ASK_S, wait_for_ready=True)
        finally:
            await channel.close()
        return answer.message

    @staticmethod
    async def metrics(program: RunningProgram) -> dict[str, float]:
        """Return every series of a program's metrics page, by name and labels as written there."""
        _, page = await asyncio.to_thread(program.http, "/metrics")
        pairs = (line.rpartition(" ") for line in page.splitlines() if line and not line.startswith("#"))
        return {name: float(value) for name, _, value in pairs}

    async def total(self, program: RunningProgram, name: str) -> float:
        """Return the sum of a metric over all its labels."""
        found = await self.metrics(program)
        return sum(value for series, value in found.items() if series.partition("{")[0] == name)

    async def calls(self, *rpcs: str) -> list[Document]:
        """Return the calls that the running provider has received, of some kinds or of all that change something."""
        wanted = set(rpcs) or MUTATING
        return [call for call in await self._asked("/calls") if call["rpc"] in wanted]

    async def machines(self, **wanted: str) -> list[Document]:
        """Return the provider's own records, filtered by state, cluster, instance_type or id."""
        fields = "&".join(f"{name}={value}" for name, value in wanted.items())
        found: list[Document] = await self._asked(f"/machines?{fields}")
        return found

    async def control(self, verb: str, **fields: object) -> Document:
        """Let the provider do something, by the verbs of its control."""
        status, _, text = await http_ask(self.control_port, "POST", f"/{verb}", fields)
        assert status == 200, text
        answer: Document = json.loads(text)
        return answer

    async def _asked(self, path: str) -> Any:  # Any: what JSON can say
        status, text = await http_get(self.control_port, path)
        assert status == 200, text
        return json.loads(text)

    # ---- waiting

    async def until(
        self, what: str, fact: Callable[[], bool | Awaitable[bool]], seconds: float = DEADLINE_S
    ) -> float:
        """Wait for a fact and return how many seconds that took; a part that does not listen has not made it true yet."""
        began = time.monotonic()
        while True:
            with suppress(OSError):
                answer = fact()
                if answer if isinstance(answer, bool) else await answer:
                    return time.monotonic() - began
            if time.monotonic() - began > seconds:
                raise AssertionError(f"not in {seconds:g} s: {what}\n{self._tails()}")
            await asyncio.sleep(_POLL_S)

    def _tails(self) -> str:
        return "\n".join(
            f"--- {program.name} {program.code}\n{program.text()[-1500:]}" for program in self._programs
        )


def listens_since(program: RunningProgram) -> float:
    """Return when a program began to listen, by its own log, in seconds since 1970; one that waits for it learns that later."""
    (line,) = program.lines("listening")[:1]
    return datetime.fromisoformat(line["time"]).timestamp()


def pause(shard: ShardProcess) -> None:
    """Stop a process as a paused virtual machine is."""
    shard.program.send(signal.SIGSTOP)


def resume(shard: ShardProcess) -> None:
    """Let it go on."""
    shard.program.send(signal.SIGCONT)


async def bigfleet(*words: str) -> tuple[int, str]:
    """Run the command line; return its exit code and everything it printed."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "cmd/bigfleet", *words),
        cwd=ROOT,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    async with asyncio.timeout(DEADLINE_S):
        out, _ = await process.communicate()
    return process.returncode or 0, out.decode()
