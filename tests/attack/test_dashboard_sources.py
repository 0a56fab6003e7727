"""A dashboard process in front of a coordinator that lists hostile addresses, and of endpoints that answer what they like.

Rules: `dashboard#registered-addresses`, `dashboard#scraper`, `dashboard#prometheus`.
"""

import asyncio
import http.client
import json
import re
import zlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from bigfleet.aio.clock import SystemClock
from bigfleet.aio.identity import READONLY
from bigfleet.aio.net import Call
from bigfleet.dashboard.bounded_http import BoundedHttp, make_session
from bigfleet.dashboard.scraper import ScrapeTarget
from bigfleet.transport.gates import allow
from bigfleet.transport.grpc_net import GrpcNet
from bigfleet.v1alpha1 import coordinator_pb2 as pb
from tests.integration.dashboard.world import World, dashboard_world
from tests.support.program import RunningProgram
from tests.support.scripted_coordinator import ScriptedCoordinator

pytestmark = pytest.mark.integration
GOOD: Final = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"
METRIC: Final = b"bigfleet_shard_shortfalls 1\n"


class Trap:
    """A server that notes every request and gives one answer to all."""

    def __init__(self, answer: Callable[[asyncio.StreamWriter], Any]) -> None:
        self._answer = answer
        self.requests: list[str] = []
        self.connections = 0
        self.port = 0

    @asynccontextmanager
    async def serving(self) -> AsyncIterator["Trap"]:
        """Serve on a port of its own until the block ends."""
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            line = await reader.readline()
            self.requests.append(line.decode("latin-1").strip())
            await self._answer(writer)
            await writer.drain()
        except ConnectionError:
            pass
        finally:
            writer.close()


class Registry(ScriptedCoordinator):
    """Lists shards at the addresses that a test names."""

    def __init__(self, addresses: dict[str, str]) -> None:
        super().__init__(SystemClock())
        self._addresses = addresses

    @allow(READONLY)
    async def list_shards(self, _request: pb.ListShardsRequest, _call: Call) -> pb.ListShardsResponse:  # type: ignore[override]
        rows = [
            pb.ShardRegistryEntry(shard_id=name, address=address) for name, address in self._addresses.items()
        ]
        return pb.ListShardsResponse(shards=rows)

    @allow(READONLY)
    async def list_domain_assignments(  # type: ignore[override]
        self, _request: pb.ListDomainAssignmentsRequest, _call: Call
    ) -> pb.ListDomainAssignmentsResponse:
        return pb.ListDomainAssignmentsResponse()

    @allow(READONLY)
    async def list_shard_reports(  # type: ignore[override]
        self, _request: pb.ListShardReportsRequest, _call: Call
    ) -> pb.ListShardReportsResponse:
        return pb.ListShardReportsResponse()


async def nothing(_writer: asyncio.StreamWriter) -> None:
    return None


@asynccontextmanager
async def dashboard(directory: Path, *flags: str) -> AsyncIterator[Callable[[str], Any]]:
    """A dashboard process; yields a function that reads a path of it."""
    with RunningProgram(
        "bigfleet", "dashboard", "--listen=127.0.0.1:0", *flags, log=directory / "log"
    ) as program:

        def address() -> list[str]:
            return re.findall(r"http://127.0.0.1:(\d+)/", program.text())

        (port,) = await asyncio.to_thread(program.wait, "it prints its address", address)

        async def read(path: str) -> Any:
            return await asyncio.to_thread(_read, int(port), path)

        yield read


def _read(port: int, path: str) -> Any:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request("GET", path)
        text = connection.getresponse().read().decode()
        return json.loads(text) if path.startswith("/api") else text
    finally:
        connection.close()


async def until(read: Callable[[], Any], holds: Callable[[Any], object]) -> Any:
    """Read until a fact holds; return what was read then."""
    async with asyncio.timeout(60):
        while not holds(found := await read()):  # noqa: ASYNC110  # the fact is in another process
            await asyncio.sleep(0.05)
    return found


@asynccontextmanager
async def in_front_of(addresses: dict[str, str], **options: Any) -> AsyncIterator[World]:
    """A dashboard that scrapes what a registry lists, as the program does."""
    server = await GrpcNet().serve("127.0.0.1:0", [Registry(addresses).bound()])
    async with make_session() as session:
        http = BoundedHttp(session, SystemClock(), max_bytes=65_536, refused=lambda _reason: None)

        def find(pod: str, place: str) -> ScrapeTarget:
            return ScrapeTarget(pod, partial(http.get, f"http://{place}/metrics", 5.0))

        given = {"coordinator": [f"127.0.0.1:{server.port}"], "find_endpoint": find, **options}
        try:
            async with dashboard_world(names=(), **given) as world:
                await world.look()
                await world.dashboard.scrape()
                yield world
        finally:
            await server.stop(0)


@pytest.mark.rule("dashboard#registered-addresses")
def test_a_registered_address_makes_the_dashboard_ask_no_url() -> None:
    async def play() -> None:
        async with Trap(nothing).serving() as trap:
            here = f"127.0.0.1:{trap.port}"
            addresses = {
                "path": f"{here}/latest/meta-data?x=:1",
                "fragment": f"{here}/#:1",
                "user": f"user@{here}/:1",
                "url": f"http://{here}/:1",
                "socket": "unix:/run/any.sock",
            }
            async with in_front_of(addresses) as world:
                shards = (await world.json("/api/v1/x/shards"))["shards"]
                assert {row["shardId"] for row in shards} == set(addresses)
                for row in shards:
                    assert "is not used; allowed is host:port" in row["error"], row
                assert trap.requests == []
                status, text, _ = await world.get("/api/v1/x/machines?shard=path")
                assert (status, "is not read: its registered address" in text) == (502, True)
                counted = (await world.get("/metrics"))[1]
                assert re.search(r'reads_refused_total{reason="address"} [1-9]', counted)
                reply = await world.json("/api/v1/x/status")
                assert (reply["state"], reply["shardsWithoutCurrentNumbers"]) == ("degraded", 5)

    asyncio.run(play())


@pytest.mark.rule("dashboard#registered-addresses")
@pytest.mark.parametrize(("allowed", "connected"), [("*.fleet.example", False), ("127.0.0.0/8", True)])
def test_a_host_outside_the_list_is_not_connected_to(allowed: str, connected: bool) -> None:
    async def play() -> None:
        async with Trap(nothing).serving() as trap:
            addresses = {"s": f"127.0.0.1:{trap.port}"}
            async with in_front_of(addresses, allowed_shard_hosts=[allowed]) as world:
                (shard,) = (await world.json("/api/v1/x/shards"))["shards"]
                assert ("--allowed-shard-host does not allow it" in shard["error"]) != connected
                assert bool(trap.connections) == connected

    asyncio.run(play())


async def redirect(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 302 Found\r\nLocation: /secret\r\nContent-Length: 0\r\n\r\n")


async def endless(writer: asyncio.StreamWriter) -> None:
    writer.write(GOOD)
    while True:  # until the dashboard has enough
        writer.write(METRIC * 4_096)
        await writer.drain()


async def declared(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000000\r\n\r\n")
    await endless(writer)


async def packed(writer: asyncio.StreamWriter) -> None:
    body = zlib.compress(METRIC * 1_000_000)
    head = f"HTTP/1.1 200 OK\r\nContent-Encoding: deflate\r\nContent-Length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)


@pytest.mark.rule("dashboard#scraper")
@pytest.mark.parametrize(
    ("answer", "reason"),
    [(redirect, "redirect"), (endless, "too_large"), (declared, "too_large"), (packed, "encoded")],
)
def test_an_endpoint_is_read_without_redirects_and_within_bounds(
    tmp_path: Path, answer: Callable[[asyncio.StreamWriter], Any], reason: str
) -> None:
    async def play() -> None:
        async with Trap(answer).serving() as trap:
            flags = (f"--scrape=s=http://127.0.0.1:{trap.port}/metrics", "--scrape-max-bytes=64KiB")
            async with dashboard(tmp_path, *flags) as read:
                counted = f'reads_refused_total{{reason="{reason}"}} 1.0'
                await until(lambda: read("/metrics"), lambda text: counted in text)
                assert set(trap.requests) == {"GET /metrics HTTP/1.1"}
                assert "bigfleet_dashboard_series 0.0" in await read("/metrics")

    asyncio.run(play())


@pytest.mark.rule("dashboard#prometheus")
def test_a_prometheus_is_asked_without_redirects_too(tmp_path: Path) -> None:
    async def play() -> None:
        async with (
            Trap(redirect).serving() as trap,
            dashboard(tmp_path, f"--prometheus-url=http://127.0.0.1:{trap.port}") as read,
        ):
            found = await read("/api/v1/fleet/overview")
            assert "redirects are not followed" in found["error"]
            assert all(request.startswith("POST /api/v1/query ") for request in trap.requests)

    asyncio.run(play())
