import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest
import pytest_asyncio
from grpc_health.v1 import health_pb2  # type: ignore[import-untyped]  # ships no type marker
from grpc_reflection.v1alpha import reflection_pb2  # type: ignore[import-untyped]  # ships no type marker

from bigfleet.aio.net import Call, Channel, Code, Net, RpcError, RpcServer, ServeOptions
from bigfleet.aio.service import ServiceSpec
from bigfleet.testing.net.network import Network
from bigfleet.transport.grpc_net import GrpcNet
from bigfleet.transport.health import CHECK, HEALTH, WATCH
from bigfleet.v1alpha1 import shard_pb2

pytestmark = [pytest.mark.integration, pytest.mark.asyncio]

SHARD = ServiceSpec(shard_pb2.DESCRIPTOR.services_by_name["Shard"])
REFLECTION = ServiceSpec(reflection_pb2.DESCRIPTOR.services_by_name["ServerReflection"])
INFO = REFLECTION.bidi(
    "ServerReflectionInfo", reflection_pb2.ServerReflectionRequest, reflection_pb2.ServerReflectionResponse
)
LIST = HEALTH.unary("List", health_pb2.HealthListRequest, health_pb2.HealthListResponse)
SOON_S = 20.0
STATUS = health_pb2.HealthCheckResponse
READINESS = "bigfleet.v1alpha1.Shard"


class Silent:
    async def session(self, stream: object, call: Call) -> None:
        return


@pytest_asyncio.fixture(params=["grpc", "memory"])
async def served(request: pytest.FixtureRequest) -> AsyncGenerator[tuple[RpcServer, Channel], None]:
    net: Net = GrpcNet() if request.param == "grpc" else Network().host("here")
    server = await net.serve("127.0.0.1:0", [SHARD.bind(Silent())])
    channel = net.dial(f"127.0.0.1:{server.port}")
    yield server, channel
    await channel.close()
    await server.stop(0)


async def check(channel: Channel, service: str) -> int:
    reply = await channel.unary(CHECK, health_pb2.HealthCheckRequest(service=service), timeout_s=SOON_S)
    return int(reply.message.status)


async def test_a_new_server_serves(served: tuple[RpcServer, Channel]) -> None:
    _, channel = served
    assert await check(channel, "") == STATUS.SERVING
    assert await check(channel, READINESS) == STATUS.SERVING


async def test_a_service_is_set_apart_from_liveness(served: tuple[RpcServer, Channel]) -> None:
    server, channel = served
    server.health.set_serving(READINESS, False)
    assert await check(channel, READINESS) == STATUS.NOT_SERVING
    assert await check(channel, "") == STATUS.SERVING
    listed = await channel.unary(LIST, health_pb2.HealthListRequest(), timeout_s=SOON_S)
    assert {name: one.status for name, one in listed.message.statuses.items()} == {"": 1, READINESS: 2}


async def test_an_unknown_service_is_not_found(served: tuple[RpcServer, Channel]) -> None:
    with pytest.raises(RpcError) as caught:
        await check(served[1], "bigfleet.v1alpha1.Nothing")
    assert caught.value.code is Code.NOT_FOUND


async def test_a_watcher_sees_changes_and_the_end(served: tuple[RpcServer, Channel]) -> None:
    server, channel = served
    watch = channel.server_stream(WATCH, health_pb2.HealthCheckRequest(service="later"), timeout_s=SOON_S)
    first: Any = await watch.receive()
    server.health.set_serving("later", True)
    second: Any = await watch.receive()
    async with asyncio.timeout(SOON_S / 2):
        await server.stop(SOON_S)  # a watch does not use up the grace
    seen = [first.status, second.status, *[answer.status async for answer in watch]]
    assert seen == [STATUS.SERVICE_UNKNOWN, STATUS.SERVING, STATUS.NOT_SERVING]


async def names(options: ServeOptions) -> list[str]:
    net = GrpcNet()
    server = await net.serve("127.0.0.1:0", [SHARD.bind(Silent())], options)
    channel = net.dial(f"127.0.0.1:{server.port}")
    try:
        async with channel.bidi(INFO, timeout_s=SOON_S) as stream:
            await stream.send(reflection_pb2.ServerReflectionRequest(list_services="*"))
            answer: Any = await stream.receive()
            return [service.name for service in answer.list_services_response.service]
    finally:
        await channel.close()
        await server.stop(0)


async def test_reflection_is_off_unless_asked_for() -> None:
    with pytest.raises(RpcError) as caught:
        await names(ServeOptions())
    assert caught.value.code is Code.UNIMPLEMENTED


async def test_reflection_lists_the_services() -> None:
    listed = await names(ServeOptions(reflection=True))
    assert {READINESS, "grpc.health.v1.Health"} < set(listed)
