"""Pings over real sockets: a silent peer is noticed, and a server with strict rules is not disturbed.

The keepalive of these tests is quicker than that of a process; one long test shows the real one.
"""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import grpc
import grpc.aio
import pytest

from bigfleet.aio.net import PROVIDER_REDIAL, Call, Code, DialOptions, RpcError, ServerStream
from bigfleet.aio.service import ServiceSpec
from bigfleet.transport.grpc_net import GrpcNet
from bigfleet.transport.keepalive import KEEPALIVE, NOTICED_AFTER_S, Keepalive
from bigfleet.v1alpha1 import provider_pb2, shard_pb2
from tests.support.silent_proxy import SilentProxy

pytestmark = [pytest.mark.integration, pytest.mark.asyncio, pytest.mark.rule("wire#keepalive")]

PROVIDER = ServiceSpec(provider_pb2.DESCRIPTOR.services_by_name["CapacityProvider"])
GET = PROVIDER.unary("Get", provider_pb2.MachineRef, provider_pb2.Machine)
SHARD = ServiceSpec(shard_pb2.DESCRIPTOR.services_by_name["Shard"])
SESSION = SHARD.bidi("Session", shard_pb2.OperatorMessage, shard_pb2.ShardMessage)

QUICK = Keepalive(after_s=0.5, answer_within_s=0.5)
SOON_S = 20.0  # a deadline for facts, never a measure
FOR_EVER_S = 3600.0


class Service:
    """Answers Get when it may, and records what happens to sessions."""

    def __init__(self) -> None:
        self.begun, self.go_on, self.ended = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def get(self, request: provider_pb2.MachineRef, _call: Call) -> provider_pb2.Machine:
        self.begun.set()
        await self.go_on.wait()
        return provider_pb2.Machine(id=request.id)

    list = create = configure = drain = delete = get

    async def session(
        self, stream: ServerStream[shard_pb2.ShardMessage, shard_pb2.OperatorMessage], _call: Call
    ) -> None:
        try:
            async for frame in stream:
                echo = shard_pb2.Acknowledgement(echo=frame.hello.cluster_id)
                await stream.send(shard_pb2.ShardMessage(ack=echo))
        finally:
            self.ended.set()


@asynccontextmanager
async def served(keepalive: Keepalive) -> AsyncGenerator[tuple[Service, SilentProxy, int], None]:
    service = Service()
    server = await GrpcNet(keepalive=keepalive).serve(
        "127.0.0.1:0", [PROVIDER.bind(service), SHARD.bind(service)]
    )
    proxy = SilentProxy(server.port)
    async with proxy.open() as port:
        yield service, proxy, port
    await server.stop(0)


async def happens(event: asyncio.Event) -> None:
    async with asyncio.timeout(SOON_S):
        await event.wait()


@pytest.mark.parametrize("answers_only", [False, True])
async def test_a_call_whose_answer_cannot_come_fails_long_before_its_deadline(answers_only: bool) -> None:
    async with served(Keepalive(FOR_EVER_S)) as (service, proxy, port):
        channel = GrpcNet(keepalive=QUICK).dial(f"127.0.0.1:{port}")
        asked = channel.unary(GET, provider_pb2.MachineRef(id="m"), timeout_s=FOR_EVER_S)
        call = asyncio.ensure_future(asked)
        await happens(service.begun)
        proxy.fall_silent(answers_only=answers_only)
        service.go_on.set()
        async with asyncio.timeout(SOON_S):
            with pytest.raises(RpcError) as caught:
                await call
        assert caught.value.code is Code.UNAVAILABLE
        await channel.close()


async def test_a_watched_channel_notices_without_a_call_and_connects_once_the_peer_is_back() -> None:
    async with served(Keepalive(FOR_EVER_S)) as (service, proxy, port):
        service.go_on.set()
        options = DialOptions(redial=PROVIDER_REDIAL)
        channel = GrpcNet(keepalive=QUICK).dial(f"127.0.0.1:{port}", options)
        states = channel.connectivity()
        async with asyncio.timeout(SOON_S):
            assert await anext(states) is True
            proxy.fall_silent()
            assert await anext(states) is False
            proxy.speak()
            assert await anext(states) is True
            await channel.unary(GET, provider_pb2.MachineRef(id="m"), timeout_s=SOON_S)
        await channel.close()


async def test_a_server_notices_a_client_that_vanished_and_ends_its_session() -> None:
    async with served(QUICK) as (service, proxy, port):
        channel = GrpcNet(keepalive=Keepalive(FOR_EVER_S)).dial(f"127.0.0.1:{port}")
        async with channel.bidi(SESSION) as stream:
            await stream.send(shard_pb2.OperatorMessage(hello=shard_pb2.Hello(cluster_id="a")))
            assert await stream.receive() is not None
            proxy.fall_silent()
            await happens(service.ended)
        await channel.close()


@pytest.mark.long
async def test_with_the_keepalive_of_a_process_both_ends_notice_within_twenty_seconds() -> None:
    assert NOTICED_AFTER_S == 15
    async with served(KEEPALIVE) as (service, proxy, port):
        channel = GrpcNet().dial(f"127.0.0.1:{port}")
        async with channel.bidi(SESSION) as stream:
            await stream.send(shard_pb2.OperatorMessage(hello=shard_pb2.Hello(cluster_id="a")))
            assert await stream.receive() is not None
            proxy.fall_silent()
            async with asyncio.timeout(NOTICED_AFTER_S + 5):
                with pytest.raises(RpcError):
                    await stream.receive()
                await service.ended.wait()
        await channel.close()


async def slow_answer_from(server_options: Sequence[tuple[str, int]], keepalive: Keepalive) -> Code:
    """Ask a server of the plain library for an answer that takes several pings, and return how the call ended."""

    async def slow(_request: bytes, _context: object) -> bytes:
        await asyncio.sleep(6 * keepalive.after_s)
        return b""

    server = grpc.aio.server(options=server_options)
    handler: grpc.RpcMethodHandler[Any, Any] = grpc.unary_unary_rpc_method_handler(slow)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(PROVIDER.name, {"Get": handler}),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    channel = GrpcNet(keepalive=keepalive).dial(f"127.0.0.1:{port}")
    try:
        await channel.unary(GET, provider_pb2.MachineRef(id="m"), timeout_s=SOON_S)
    except RpcError as error:
        return error.code
    else:
        return Code.OK
    finally:
        await channel.close()
        await server.stop(0)


class Eager(Keepalive):
    """Pings on and on, whether or not it has sent data."""

    __slots__ = ()

    def channel_options(self) -> list[tuple[str, int]]:
        return [*Keepalive.channel_options(self), ("grpc.http2.max_pings_without_data", 0)]


async def test_a_slow_call_ends_well_at_a_server_that_allows_a_ping_every_five_minutes_and_at_our_own() -> (
    None
):
    ours = Keepalive(after_s=1.0).server_options()
    ends = await asyncio.gather(
        slow_answer_from([], Keepalive(after_s=1.0)),
        slow_answer_from([], Eager(after_s=1.0)),  # shows that the server minds
        slow_answer_from(ours, Eager(after_s=1.0)),
    )
    assert tuple(ends) == (Code.OK, Code.UNAVAILABLE, Code.OK)
