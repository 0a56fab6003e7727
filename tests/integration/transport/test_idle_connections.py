"""The server closes a connection without calls when its options say so; the client dials again when it needs one."""

import asyncio

import grpc
import pytest
from grpc_health.v1 import health_pb2  # type: ignore[import-untyped]  # ships no type marker

from bigfleet.aio.net import ServeOptions
from bigfleet.transport.grpc_net import GrpcNet

pytestmark = [pytest.mark.integration, pytest.mark.asyncio]

SOON_S = 30.0


async def test_a_connection_without_calls_is_closed_after_its_time_and_dialled_again() -> None:
    server = await GrpcNet().serve("127.0.0.1:0", [], ServeOptions(max_connection_idle_s=1.0))
    async with grpc.aio.insecure_channel(f"127.0.0.1:{server.port}") as channel:
        check = channel.unary_unary(
            "/grpc.health.v1.Health/Check",
            request_serializer=health_pb2.HealthCheckRequest.SerializeToString,
            response_deserializer=health_pb2.HealthCheckResponse.FromString,
        )
        await check(health_pb2.HealthCheckRequest(), timeout=SOON_S)
        assert channel.get_state() is grpc.ChannelConnectivity.READY
        await asyncio.wait_for(channel.wait_for_state_change(grpc.ChannelConnectivity.READY), SOON_S)
        assert channel.get_state() is grpc.ChannelConnectivity.IDLE
        await check(health_pb2.HealthCheckRequest(), timeout=SOON_S)
    await server.stop(0)
