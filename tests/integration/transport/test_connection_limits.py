"""The limits of a gRPC listener over real sockets: how many connections it keeps, how long a handshake may take, who goes."""

import asyncio
import os
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

import pytest

from bigfleet.aio.connection_report import ConnectionReport
from bigfleet.aio.net import Call, DialOptions, RedialPolicy
from bigfleet.aio.service import ServiceSpec
from bigfleet.transport.connections import GrpcLimits
from bigfleet.transport.grpc_net import GrpcNet
from bigfleet.transport.grpc_server import GrpcServer
from bigfleet.transport.grpc_warden import connections_of, end_connection
from bigfleet.transport.keepalive import Keepalive
from bigfleet.v1alpha1 import provider_pb2

pytestmark = [
    pytest.mark.integration,
    pytest.mark.asyncio,
    pytest.mark.rule("packaging#connection-limits"),
]

PROVIDER = ServiceSpec(provider_pb2.DESCRIPTOR.services_by_name["CapacityProvider"])
GET = PROVIDER.unary("Get", provider_pb2.MachineRef, provider_pb2.Machine)
SOON_S = 30.0  # a deadline for facts, never a measure
LONG_S = 3600.0
EAGER = DialOptions(redial=RedialPolicy(first_s=0.1, ceiling_s=0.2))


class Service:
    async def get(self, request: provider_pb2.MachineRef, _call: Call) -> provider_pb2.Machine:
        return provider_pb2.Machine(id=request.id)

    list = create = configure = drain = delete = get


@asynccontextmanager
async def served(
    limits: GrpcLimits, report: ConnectionReport | None = None
) -> AsyncGenerator[GrpcServer, None]:
    # Without pings, which end a silent connection after a while too.
    net = GrpcNet(
        keepalive=Keepalive(after_s=LONG_S, answer_within_s=LONG_S),
        limits=limits,
        report=report or ConnectionReport(),
    )
    server = await net.serve("127.0.0.1:0", [PROVIDER.bind(Service())])
    try:
        yield server
    finally:
        await server.stop(0)


async def ask(server: GrpcServer) -> str:
    channel = GrpcNet().dial(f"127.0.0.1:{server.port}", EAGER)
    try:
        reply = await channel.unary(
            GET, provider_pb2.MachineRef(id="m-1"), timeout_s=SOON_S, wait_for_ready=True
        )
        return reply.message.id
    finally:
        await channel.close()


def silent(port: int, number: int) -> list[socket.socket]:
    return [socket.create_connection(("127.0.0.1", port)) for _ in range(number)]


async def ended(connection: socket.socket) -> None:
    """Wait until the other side has closed a connection."""
    connection.setblocking(False)
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(SOON_S):
        with suppress(ConnectionError):
            while await loop.sock_recv(connection, 4096):
                pass


async def test_a_connection_beyond_the_limit_is_closed_at_once_and_the_others_stay() -> None:
    refused: list[tuple[object, ...]] = []
    report = ConnectionReport(on_refused=lambda *what: refused.append(what))
    async with served(GrpcLimits(max_connections=8, handshake_s=LONG_S), report) as server:
        channels = [GrpcNet().dial(f"127.0.0.1:{server.port}", EAGER) for _ in range(8)]
        machine = provider_pb2.MachineRef(id="m-1")
        for channel in channels:
            await channel.unary(GET, machine, timeout_s=SOON_S, wait_for_ready=True)
        beyond = silent(server.port, 4)
        for each in beyond:
            await ended(each)
            each.close()
        assert refused == []  # the library itself closed them, before the warden looked
        for channel in channels:
            await channel.unary(GET, machine, timeout_s=SOON_S)  # would fail if the connection were gone
            await channel.close()


async def test_a_handshake_that_does_not_come_ends_at_its_deadline() -> None:
    async with served(GrpcLimits(handshake_s=0.5)) as server:
        nothing, half = silent(server.port, 2)
        half.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        for each in (nothing, half):
            await ended(each)
            each.close()
        assert await ask(server) == "m-1"


async def test_silent_connections_make_room_for_a_caller_and_a_caller_stays() -> None:
    refused: list[tuple[object, ...]] = []
    report = ConnectionReport(on_refused=lambda *what: refused.append(what))
    limits = GrpcLimits(max_connections=12, unproven_per_address=64, handshake_s=LONG_S)
    async with served(limits, report) as server:
        channel = GrpcNet().dial(f"127.0.0.1:{server.port}", EAGER)
        machine = provider_pb2.MachineRef(id="m-1")
        await channel.unary(GET, machine, timeout_s=SOON_S, wait_for_ready=True)
        strangers = silent(server.port, 30)
        assert await ask(server) == "m-1"  # waits for its turn; without the warden for an hour
        assert refused
        assert {what[2] for what in refused} == {"127.0.0.1"}
        for _ in range(3):
            await channel.unary(GET, machine, timeout_s=SOON_S)  # not ready again would be an error
        await channel.close()
        for each in strangers:
            each.close()


async def test_only_the_connection_of_that_peer_is_ended() -> None:
    async with served(GrpcLimits(handshake_s=LONG_S)) as server:
        one, other = silent(server.port, 2)
        places = {each: ("127.0.0.1", each.getsockname()[1]) for each in (one, other)}
        async with asyncio.timeout(SOON_S):
            while len(found := connections_of(server.port)) < 2:  # noqa: ASYNC110 - a fact of the library's threads
                await asyncio.sleep(0.01)
        assert set(found) == set(places.values())
        # A descriptor that has meanwhile become another connection, or no connection at all.
        assert not end_connection(found[places[other]], server.port, places[one])
        reading, writing = os.pipe()
        assert not end_connection(reading, server.port, places[one])
        os.close(reading)
        os.close(writing)
        assert end_connection(found[places[one]], server.port, places[one])
        await ended(one)
        assert places[other] in connections_of(server.port)
        one.close()
        other.close()
