"""E11: many requests at a short interval, most of them acknowledged soon; and a roll-up as large as may be."""

import asyncio

import pytest

from bigfleet.aio.net import DialOptions
from bigfleet.testing.scripted_shard import ScriptedShard
from bigfleet.transport.grpc_net import GrpcNet
from bigfleet.transport.shard_session import SESSION
from bigfleet.v1alpha1 import capacity_pb2, shard_pb2
from tests.e2e.operator.harness import Bench

pytestmark = [pytest.mark.asyncio, pytest.mark.long]

REQUESTS = 1500
MIB = 2**20


async def test_e11_fifteen_hundred_requests_are_acknowledged(world: Bench) -> None:
    for number in range(REQUESTS):
        world.add_request(f"r{number:04d}", priority=number % 7)
    world.start("--ack-concurrency=64")
    await world.connected()
    series = "bigfleet_operator_acknowledged_total"
    await world.until("99 %", lambda: world.metric(series) >= 0.99 * REQUESTS, 120)
    assert len(world.shard.current.rollups[-1].needs) == 7


async def test_7_a_rollup_of_200_mib_passes_the_limits() -> None:
    shard = ScriptedShard()
    net = GrpcNet()
    server = await net.serve("127.0.0.1:0", [shard.bound()])
    rollup = capacity_pb2.ClusterCapacityNeeds(cluster_id="prod-1")
    for number in range(200):
        rollup.needs.add(group=f"{number:03d}" + "x" * (MIB - 64))
    frame = shard_pb2.OperatorMessage(rollup=rollup).SerializeToString()
    assert len(frame) > 199 * MIB
    channel = net.dial(f"127.0.0.1:{server.port}", DialOptions())
    try:
        async with channel.bidi(SESSION) as stream:
            hello = shard_pb2.OperatorMessage(hello=shard_pb2.Hello(cluster_id="prod-1"))
            await stream.send(hello.SerializeToString())
            await stream.send(frame)
            async with asyncio.timeout(120):
                while not shard.current.rollups if shard.sessions else True:
                    await stream.receive()
        assert len(shard.current.rollups[0].needs) == 200
    finally:
        await channel.close()
        await server.stop(0)
