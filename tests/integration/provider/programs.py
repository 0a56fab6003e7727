"""Our providers as processes, for tests: started on free ports, asked over gRPC and HTTP, ended by their id."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import cached_property
from typing import Any

from bigfleet.aio.net import Code
from bigfleet.provider.kit.raw_client import RawProviderClient
from bigfleet.transport.grpc_net import GrpcNet
from tests.support.program import DEADLINE_S, AwaitedProgram, http_ask

MACHINES = 64
CALLERS = 32
POOLS = f"""
pools:
  - {{name: m, count: {MACHINES}, instance_type: m6i.large, zones: [zone-a, zone-b], resources: {{cpu: 2}}}}
"""


class ProviderProgram(AwaitedProgram):
    """A running provider, with a client of its six calls."""

    @cached_property
    def client(self) -> RawProviderClient:
        return RawProviderClient(GrpcNet().dial(f"127.0.0.1:{self.ports['port']}"))

    async def ask(self, method: str, path: str, body: object = None, **headers: str) -> tuple[int, Any]:
        """Ask its control; return status and JSON, or head and body where it is none."""
        return await http(self.ports["control_port"], method, path, body, **headers)


async def http(port: int, method: str, path: str, body: object = None, **headers: str) -> tuple[int, Any]:
    """Make one request; return status and JSON, or head and body where it is none."""
    status, head, text = await http_ask(port, method, path, body, **headers)
    try:
        return status, json.loads(text)
    except ValueError:
        return status, (head, text)


async def start(program: str, *flags: str) -> ProviderProgram:
    """Start a provider on free ports and wait until it listens."""
    usual = ("--addr", "127.0.0.1:0", "--metrics-addr", "127.0.0.1:0", "--log-format", "json")
    return await ProviderProgram.start(program, *usual, *flags)


@asynccontextmanager
async def running(program: str, *flags: str) -> AsyncIterator[ProviderProgram]:
    started = await start(program, *flags)
    try:
        yield started
    finally:
        started.running.kill()


GONE = (Code.UNAVAILABLE, Code.CANCELLED, Code.UNKNOWN, Code.DEADLINE_EXCEEDED)
"""How a call can end whose provider was killed, or whose connection was broken."""


async def until(fact: Callable[[], Awaitable[bool]]) -> None:
    """Wait for a fact, with a deadline; a provider that is away for the moment has not made it true yet."""
    async with asyncio.timeout(DEADLINE_S):
        while not await fact():  # noqa: ASYNC110  it comes true in another process
            await asyncio.sleep(0.01)
