"""Each flag of a limit, set to another value on a process, bites at that value.

Where another attack sets a flag already, it is not here: rows, bytes, ages, silent streams, documents, scrapes, hosts of shards. A
share of reading time shows in times alone, so that its test has virtual ones.
Rules: `packaging#connection-limits`, `shard#session-opening`, `providers#epoch-step`, `dashboard#connections`,
`dashboard#allowed-hosts`.
"""

import asyncio
import re
import socket
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from bigfleet.aio.clock import SystemClock
from bigfleet.aio.net import Code, RpcError
from bigfleet.demo.session_peer import SessionPeer
from bigfleet.provider.client import ProviderClient
from bigfleet.provider.kit.core.fence import FencingToken
from bigfleet.provider.kit.raw_client import RawProviderClient
from bigfleet.transport.grpc_net import GrpcNet
from tests.attack.raw_http import ask, connect
from tests.support.program import AwaitedProgram, RunningProgram, running

pytestmark = [pytest.mark.integration, pytest.mark.asyncio]

LISTEN = "--listen=127.0.0.1:0"
FREE = ("--metrics-addr=127.0.0.1:0", "--log-format=json")
PROGRAMS = {
    "shard": ("bigfleet", "shard", LISTEN, "--data-dir={}"),
    "coordinator": ("bigfleet", "coordinator", "--id=c-0", "--bootstrap", "--raft-bind=127.0.0.1:0", LISTEN, "--data-dir={}"),
    "fake provider": ("bigfleet-fake-provider", "--addr=127.0.0.1:0"),
}  # fmt: skip
SOON_S = 12.0
"""A deadline for facts, and shorter than any of the defaults."""


def flags_of(program: str, tmp_path: Path) -> tuple[str, ...]:
    return (*(word.replace("{}", str(tmp_path / "data")) for word in PROGRAMS[program]), *FREE)


async def counted(program: AwaitedProgram, series: str, wanted: float) -> None:
    """Wait until a metric of a process has a value, or more."""
    async with asyncio.timeout(SOON_S):
        while await program.metric(series) < wanted:  # noqa: ASYNC110  a fact of another process
            await asyncio.sleep(0.05)


async def ended(connection: socket.socket) -> None:
    """Wait until the other side has closed a connection."""
    connection.setblocking(False)
    async with asyncio.timeout(SOON_S):
        with suppress(ConnectionError):
            while await asyncio.get_running_loop().sock_recv(connection, 4096):
                pass


@pytest.mark.rule("packaging#connection-limits")
@pytest.mark.parametrize("program", PROGRAMS)
async def test_connections_of_a_grpc_port_and_the_time_of_a_handshake(program: str, tmp_path: Path) -> None:
    given = ("--max-connections=20", "--max-unproven-per-address=2", "--handshake-timeout=1h")
    async with running(*flags_of(program, tmp_path), *given) as process:
        assert await process.metric('bigfleet_connections_limit{listener="grpc"}') == 20
        place = ("127.0.0.1", process.ports["port"])
        with ExitStack() as stack:
            # Enough for the port to run full, and fewer than one address may have by default.
            for _ in range(16):
                stack.enter_context(socket.create_connection(place))
            await counted(process, 'bigfleet_connections_refused_total{listener="grpc",reason="address"}', 14)
    async with running(*flags_of(program, tmp_path), "--handshake-timeout=500ms") as process:
        with socket.create_connection(("127.0.0.1", process.ports["port"])) as silent:
            await ended(silent)


async def opened(program: AwaitedProgram, cluster: str) -> SessionPeer:
    peer = SessionPeer(GrpcNet().dial(f"127.0.0.1:{program.ports['port']}"), cluster, SystemClock())
    await peer.connect()
    await peer.until(lambda: peer.is_over or "hello" in peer.echoes())
    return peer


@pytest.mark.rule("shard#session-opening")
async def test_sessions_of_a_shard(tmp_path: Path) -> None:
    async with running(*flags_of("shard", tmp_path), "--max-sessions=1") as program:
        one, other = await opened(program, "one"), await opened(program, "other")
        assert not one.is_over
        assert other.ended is not None
        assert other.ended.code is Code.RESOURCE_EXHAUSTED
        assert await program.metric('bigfleet_shard_sessions_refused_total{reason="full"}') == 1
        await one.close()
        await other.close()


@pytest.mark.rule("providers#epoch-step")
async def test_the_step_of_an_epoch(tmp_path: Path) -> None:
    pools = tmp_path / "pools.yaml"
    pools.write_text("pools: [{name: m, count: 1, instance_type: t, zones: [a], resources: {cpu: 4}}]\n")
    given = (f"--inventory={pools}", "--max-epoch-step=5")
    async with running(*flags_of("fake provider", tmp_path), *given) as program:
        target = f"127.0.0.1:{program.ports['port']}"
        right = ProviderClient(GrpcNet().dial(target), shard_id="shard-0", epoch=3)
        await right.list()
        channel = GrpcNet().dial(target)
        caller = RawProviderClient(channel)
        machine = (await caller.list()).machines[0]
        # One below the highest that the shard itself may announce, which is 3 + 5.
        with pytest.raises(RpcError, match="found 8, allowed for shard-0 is at most 7"):
            await caller.create(machine.id, FencingToken("shard-0", 8, 1))
        await caller.create(machine.id, FencingToken("shard-0", 7, 1))
        await channel.close()
        await right.close()


@pytest.mark.rule("dashboard#connections", "dashboard#allowed-hosts")
async def test_hosts_connections_and_times_of_a_dashboard(tmp_path: Path) -> None:
    given = ("--allowed-host=fleet.example", "--max-connections=3", "--request-timeout=1s")
    with RunningProgram("bigfleet", "dashboard", LISTEN, *given, log=tmp_path / "log") as program:

        def address() -> list[str]:
            return re.findall(r"http://127.0.0.1:(\d+)/", program.text())

        port = int((await asyncio.to_thread(program.wait, "it prints its address", address))[0])
        assert (await ask(port, host="fleet.example")).status == 200
        assert (await ask(port, host="other.example")).status == 421
        slow = await connect(port)
        await slow.send(b"GET / HTTP/1.1\r\nHost: loc")
        async with asyncio.timeout(SOON_S):
            assert await slow.ended() == b""
        silent = [await connect(port) for _ in range(4)]
        async with asyncio.timeout(SOON_S):
            assert await silent[0].ended() == b""
        # Some refusals are counted a moment after their connection has ended.
        for reason in ("host", "slow", "connections"):
            counted = rf'requests_refused_total{{reason="{reason}"}} [1-9]'
            for _ in range(100):
                if re.search(counted, (await ask(port, "/metrics")).text):
                    break
                await asyncio.sleep(0.1)
            else:
                raise AssertionError(f"not counted: {reason}")
        for each in silent:
            each.abort()
