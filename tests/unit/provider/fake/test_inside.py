"""The fake without a port: the same calls and faults through a channel inside the process.

Rules: `shard#in-process-fake`; ADR-0101.
"""

import asyncio

import pytest

from bigfleet.aio.identity import Identity
from bigfleet.aio.net import Channel, Code, RpcError
from bigfleet.model.machine import MachineState as S
from bigfleet.provider.fake.options import FakeOptions
from bigfleet.provider.kit.core.fence import FencingToken
from bigfleet.provider.kit.raw_client import RawProviderClient
from bigfleet.testing.loop import run_virtual
from tests.support.fake_provider import VirtualFake, code_of, pool

POOLS = (pool("m", 6),)


def test_a_machine_walks_its_way_through_a_channel_inside_the_process() -> None:
    async def scene() -> None:
        async with VirtualFake(POOLS) as world:
            channel: Channel = world.fake.channel()  # what a shard's client takes
            client = RawProviderClient(channel)
            assert (await client.create("m-0", FencingToken("a", 1, 1))).operation_id
            assert await world.settled("m-0") is S.IDLE
            assert (
                await code_of(client.configure("m-0", "prod", FencingToken("a", 1, 1)))
                is Code.FAILED_PRECONDITION
            )
            await client.configure("m-0", "prod", FencingToken("a", 1, 2), blob=b"b", metadata={"k": "v"})
            assert await world.settled("m-0") is S.CONFIGURED
            inside, outside = await client.list(), await world.client.list()
            assert inside == outside
            assert {call.rpc for call in world.fake.calls()} == {"Create", "Configure", "List"}

    run_virtual(scene())


def test_faults_of_the_wire_befall_calls_from_inside_too() -> None:
    async def scene() -> None:
        async with VirtualFake(POOLS) as world:
            client = RawProviderClient(world.fake.channel(), timeout_s=5)
            world.fake.lose_answer("Create", times=1)
            assert await code_of(client.create("m-0")) is Code.DEADLINE_EXCEEDED
            world.fake.refuse("Create", code=Code.UNAVAILABLE, times=1)
            assert await code_of(client.create("m-1")) is Code.UNAVAILABLE
            world.fake.reset_during("Create", times=1)
            assert await code_of(client.create("m-2")) is Code.UNAVAILABLE
            assert await world.settled("m-0") is S.IDLE
            assert await world.settled("m-2") is S.IDLE
            assert world.machine("m-1").state is S.SPECULATIVE

    run_virtual(scene())


def test_a_channel_outlives_a_restart_and_fails_after_the_end() -> None:
    async def scene() -> None:
        async with VirtualFake(POOLS) as world:
            client = RawProviderClient(world.fake.channel(), timeout_s=60)
            world.fake.pause_rpc("Get", 30)
            waiting = asyncio.ensure_future(code_of(client.get("m-0")))
            await world.pass_time(1)
            await world.fake.restart()
            assert await waiting is Code.UNAVAILABLE
            assert (await client.list()).machines
            await world.fake.stop(0)
            assert await code_of(client.list()) is Code.UNAVAILABLE

    run_virtual(scene())


def test_a_shard_inside_may_move_machines_in_its_own_name_only() -> None:
    async def scene() -> None:
        async with VirtualFake(POOLS, FakeOptions(require_shard_san=True)) as world:
            client = RawProviderClient(world.fake.channel(Identity.shard("a")))
            assert await code_of(client.create("m-0", FencingToken("b", 1, 1))) is Code.PERMISSION_DENIED
            assert await code_of(client.create("m-0", FencingToken("a", 1, 1))) is Code.OK

    run_virtual(scene())


def test_a_listing_that_is_too_large_is_refused_with_both_numbers() -> None:
    async def scene() -> None:
        async with VirtualFake(POOLS, FakeOptions(max_message_bytes=300)) as world:
            client = RawProviderClient(world.fake.channel())
            with pytest.raises(RpcError, match="the message limit is 300 bytes") as refused:
                await client.list()
            assert refused.value.code is Code.RESOURCE_EXHAUSTED

    run_virtual(scene())
