"""Faults of the in-memory network, on virtual time; what it shares with gRPC is held by the behaviour suite."""

import asyncio
from dataclasses import dataclass

import pytest

from bigfleet.aio.identity import READONLY, Identity
from bigfleet.aio.net import (
    PROVIDER_REDIAL,
    BidiStream,
    Call,
    Channel,
    Code,
    DialOptions,
    ListenError,
    RedialPolicy,
    RpcError,
    RpcServer,
    ServerStream,
)
from bigfleet.aio.service import ServiceSpec
from bigfleet.testing.loop import run_virtual
from bigfleet.testing.net.links import RefusingLink, SteadyLink
from bigfleet.testing.net.network import MemoryNet, Network
from bigfleet.transport.gates import require
from bigfleet.transport.keepalive import NOTICED_AFTER_S
from bigfleet.v1alpha1 import provider_pb2, shard_pb2

SHARD = ServiceSpec(shard_pb2.DESCRIPTOR.services_by_name["Shard"])
SESSION = SHARD.bidi("Session", shard_pb2.OperatorMessage, shard_pb2.ShardMessage)
PROVIDER = ServiceSpec(provider_pb2.DESCRIPTOR.services_by_name["CapacityProvider"])
GET = PROVIDER.unary("Get", provider_pb2.MachineRef, provider_pb2.Machine)

Session = BidiStream[shard_pb2.OperatorMessage, shard_pb2.ShardMessage]


class Service:
    def __init__(self) -> None:
        self.ended: list[tuple[str, float]] = []
        self.frames: list[str] = []

    async def get(self, request: provider_pb2.MachineRef, call: Call) -> provider_pb2.Machine:
        await asyncio.sleep(float(request.id or 0))
        return provider_pb2.Machine(id=request.id)

    list = create = configure = drain = delete = get

    async def session(
        self, stream: ServerStream[shard_pb2.ShardMessage, shard_pb2.OperatorMessage], call: Call
    ) -> None:
        try:
            async for frame in stream:
                self.frames.append(frame.hello.cluster_id)
                ack = shard_pb2.Acknowledgement(echo=frame.hello.cluster_id)
                await stream.send(shard_pb2.ShardMessage(ack=ack))
        except asyncio.CancelledError:
            self.ended.append(("cancelled", now()))
            raise


class GatedService(Service):
    async def session(
        self, stream: ServerStream[shard_pb2.ShardMessage, shard_pb2.OperatorMessage], call: Call
    ) -> None:
        first = await stream.receive()
        assert first is not None
        require(call.peer, Identity.cluster(first.hello.cluster_id))
        await stream.send(shard_pb2.ShardMessage(ack=shard_pb2.Acknowledgement(echo=first.hello.cluster_id)))


@dataclass
class World:
    network: Network
    here: MemoryNet
    there: MemoryNet
    service: Service
    server: RpcServer
    channel: Channel


def now() -> float:
    return asyncio.get_running_loop().time()


async def make(network: Network | None = None, service: Service | None = None) -> World:
    network, service = network or Network(), service or Service()
    here, there = network.host("here", Identity.cluster("a")), network.host("there")
    server = await there.serve(":7780", [SHARD.bind(service), PROVIDER.bind(service)])
    return World(network, here, there, service, server, here.dial("there:7780"))


def hello(cluster: str) -> shard_pb2.OperatorMessage:
    return shard_pb2.OperatorMessage(hello=shard_pb2.Hello(cluster_id=cluster))


async def echo(stream: Session, text: str) -> str:
    await stream.send(hello(text))
    answer = await stream.receive()
    assert answer is not None
    return answer.ack.echo


async def get(channel: Channel, seconds: str = "", timeout_s: float = 5.0, *, wait: bool = False) -> Code:
    try:
        request = provider_pb2.MachineRef(id=seconds)
        await channel.unary(GET, request, timeout_s=timeout_s, wait_for_ready=wait)
    except RpcError as error:
        return error.code
    return Code.OK


def test_a_delay_is_paid_once_for_the_connection_and_once_each_way() -> None:
    async def run() -> list[float]:
        world = await make(Network(policy=SteadyLink(0.25)))
        times = []
        for _ in range(2):
            assert await get(world.channel) is Code.OK
            times.append(now())
        return times

    assert run_virtual(run()) == [1.0, 1.5]


def test_the_deadline_counts_the_way() -> None:
    async def run() -> tuple[Code, float]:
        world = await make(Network(policy=SteadyLink(0.25)))
        return await get(world.channel, "0.2", timeout_s=1.1), now()

    assert run_virtual(run()) == (Code.DEADLINE_EXCEEDED, 1.1)


def test_frames_of_a_connection_keep_their_order_whatever_the_delays() -> None:
    class Shrinking(SteadyLink):
        delays = iter(range(1000, 0, -1))

        def delay_s(self, size: int) -> float:
            return next(self.delays) / 1000

    async def run() -> list[str]:
        world = await make()
        world.network.set_policy("here", "there", Shrinking())
        async with world.channel.bidi(SESSION) as stream:
            for number in range(50):
                await stream.send(hello(str(number)))
            await stream.done_sending()
            return [frame.ack.echo async for frame in stream]

    assert run_virtual(run()) == [str(number) for number in range(50)]


def test_a_reset_ends_streams_on_both_sides_and_the_next_call_reconnects() -> None:
    async def run() -> None:
        world = await make()
        stream = world.channel.bidi(SESSION)
        assert await echo(stream, "a") == "a"
        world.network.reset("here", "there")
        with pytest.raises(RpcError) as caught:
            await stream.receive()
        assert caught.value.code is Code.UNAVAILABLE
        await asyncio.sleep(0)
        assert world.service.ended == [("cancelled", 0.0)]
        assert await get(world.channel) is Code.OK

    run_virtual(run())


def test_a_policy_may_reset_in_the_middle_of_a_stream() -> None:
    class Fragile(SteadyLink):
        def resets(self, size: int) -> bool:
            return size > 1000

    async def run() -> None:
        world = await make()
        world.network.set_policy("there", "here", Fragile())
        stream = world.channel.bidi(SESSION)
        assert await echo(stream, "small") == "small"
        await stream.send(hello("x" * 2000))
        with pytest.raises(RpcError) as caught:
            await stream.receive()
        assert caught.value.code is Code.UNAVAILABLE
        assert world.service.frames[-1] == "x" * 2000  # the answer was lost after acceptance

    run_virtual(run())


def test_a_short_silence_is_not_noticed_and_loses_nothing() -> None:
    async def run() -> float:
        world = await make()
        stream = world.channel.bidi(SESSION)
        assert await echo(stream, "a") == "a"
        world.network.partition(["here"], ["there"])
        asyncio.get_running_loop().call_later(NOTICED_AFTER_S - 1, world.network.heal)
        assert await echo(stream, "b") == "b"
        assert world.service.ended == []
        return now()

    assert run_virtual(run()) == NOTICED_AFTER_S - 1


@pytest.mark.rule("wire#keepalive")
@pytest.mark.parametrize("silent", [("here", "there"), ("there", "here")])
def test_a_long_silence_of_either_direction_is_noticed_by_both_ends(silent: tuple[str, str]) -> None:
    async def run() -> None:
        world = await make()
        stream = world.channel.bidi(SESSION)
        assert await echo(stream, "a") == "a"
        world.network.link(*silent).silence()
        with pytest.raises(RpcError) as caught:
            await stream.receive()
        assert caught.value.code is Code.UNAVAILABLE
        assert now() == NOTICED_AFTER_S == 15
        await asyncio.sleep(0)
        assert world.service.ended == [("cancelled", NOTICED_AFTER_S)]

    run_virtual(run())


def test_one_direction_may_be_silent_alone() -> None:
    async def run() -> None:
        world = await make()
        stream = world.channel.bidi(SESSION)
        assert await echo(stream, "a") == "a"
        world.network.link("there", "here").silence()
        await stream.send(hello("b"))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):
                await stream.receive()
        assert world.service.frames == ["a", "b"]  # it arrived, only the answer did not

    run_virtual(run())


def test_a_call_into_silence_ends_with_its_deadline() -> None:
    async def run() -> tuple[Code, float]:
        world = await make()
        assert await get(world.channel) is Code.OK
        world.network.partition(["here"], ["there"])
        return await get(world.channel, timeout_s=7), now()

    assert run_virtual(run()) == (Code.DEADLINE_EXCEEDED, 7.0)


def test_connecting_into_silence_times_out() -> None:
    async def run() -> tuple[Code, float]:
        world = await make()
        world.network.partition(["here"], ["there"])
        return await get(world.channel, timeout_s=60), now()

    assert run_virtual(run()) == (Code.UNAVAILABLE, RedialPolicy().connect_timeout_s)


@pytest.mark.rule("shard#provider-reconnect")
@pytest.mark.parametrize("away", ["crashed", "cut off"])
def test_a_watched_provider_is_connected_within_two_seconds_of_its_return_however_long_it_was_away(
    away: str,
) -> None:
    async def run() -> float:
        world = await make()
        channel = world.here.dial("there:7780", DialOptions(redial=PROVIDER_REDIAL))
        states = channel.connectivity()
        assert await anext(states) is True
        if away == "crashed":
            world.network.crash("there")
        else:
            world.network.partition(["here"], ["there"])
            world.network.reset("here", "there")
        assert await anext(states) is False
        again = asyncio.ensure_future(anext(states))
        await asyncio.sleep(150)
        assert not again.done()
        returned_s = now()
        if away == "crashed":
            await world.there.serve(":7780", [SHARD.bind(world.service)])
        else:
            world.network.heal()
        assert await again is True
        await channel.close()
        return now() - returned_s

    assert run_virtual(run()) <= 2.0


@pytest.mark.rule("wire#redial")
def test_other_channels_dial_ever_more_rarely_up_to_every_thirty_seconds() -> None:
    dialled: list[float] = []

    class Counting(RefusingLink):
        def accepts(self) -> bool:
            dialled.append(now())
            return False

    async def run() -> None:
        world = await make()
        world.network.set_policy("here", "there", Counting())
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(100):
                assert [state async for state in world.channel.connectivity()] == [False]

    run_virtual(run())
    assert dialled == [0, 0.5, 1.5, 3.5, 7.5, 15.5, 31.5, 61.5, 91.5]


def test_a_refusing_link_refuses_new_connections_and_keeps_the_old() -> None:
    async def run() -> None:
        world = await make()
        assert await get(world.channel) is Code.OK
        world.network.set_policy("here", "there", RefusingLink())
        assert await get(world.here.dial("there:7780")) is Code.UNAVAILABLE
        assert await get(world.channel) is Code.OK

    run_virtual(run())


def test_who_waits_for_ready_backs_off_until_the_server_comes() -> None:
    async def run() -> tuple[Code, float]:
        network = Network()
        channel = network.host("here").dial("there:7780")
        calling = asyncio.create_task(get(channel, timeout_s=60, wait=True))
        await asyncio.sleep(3)
        await network.host("there").serve(":7780", [PROVIDER.bind(Service())])
        return await calling, now()

    assert run_virtual(run()) == (Code.OK, 3.5)  # tried at 0, 0.5, 1.5, 3.5


def test_a_crashed_host_drops_its_calls_and_its_ports() -> None:
    async def run() -> None:
        world = await make()
        calling = asyncio.create_task(get(world.channel, "100", timeout_s=200))
        await asyncio.sleep(1)
        world.network.crash("there")
        assert await calling is Code.UNAVAILABLE
        assert now() == 1
        assert await get(world.channel) is Code.UNAVAILABLE
        await world.network.host("there").serve(":7780", [PROVIDER.bind(Service())])
        assert await get(world.channel) is Code.OK

    run_virtual(run())


def test_a_name_resolves_anew_for_each_connection() -> None:
    async def run() -> None:
        world = await make()
        channel = world.here.dial("shard.example:7780")
        assert await get(channel) is Code.UNAVAILABLE
        world.network.add_name("shard.example", "there")
        assert await get(channel) is Code.OK

    run_virtual(run())


def test_loopback_is_each_hosts_own() -> None:
    async def run() -> None:
        world = await make()
        assert await get(world.there.dial("127.0.0.1:7780")) is Code.OK
        assert await get(world.here.dial("127.0.0.1:7780")) is Code.UNAVAILABLE

    run_virtual(run())


def test_two_listeners_of_a_host_need_two_ports() -> None:
    async def run() -> None:
        world = await make()
        with pytest.raises(ListenError, match="in use"):
            await world.there.serve("127.0.0.1:7780", [])
        first, second = await world.there.serve(":0", []), await world.there.serve(":0", [])
        assert first.port != second.port
        await world.server.stop(0)
        await world.there.serve("127.0.0.1:7780", [])

    run_virtual(run())


@pytest.mark.parametrize(
    ("secured", "identity", "code"),
    [
        pytest.param(True, Identity.cluster("a"), None, id="right identity"),
        pytest.param(True, Identity.cluster("b"), Code.PERMISSION_DENIED, id="another cluster"),
        pytest.param(True, READONLY, Code.PERMISSION_DENIED, id="another role"),
        pytest.param(True, None, Code.PERMISSION_DENIED, id="no identity"),
        pytest.param(False, None, None, id="plaintext"),
        pytest.param(False, READONLY, None, id="plaintext carries no identity"),
    ],
)
def test_the_dialling_host_is_who_it_was_made(
    secured: bool, identity: Identity | None, code: Code | None
) -> None:
    async def run() -> Code | None:
        network = Network(secured=secured)
        await make(network, GatedService())
        stream = network.host("other", identity).dial("there:7780").bidi(SESSION)
        try:
            assert await echo(stream, "a") == "a"
        except RpcError as error:
            return error.code
        return None

    assert run_virtual(run()) is code


def test_two_runs_are_the_same_run() -> None:
    async def run() -> list[tuple[float, str]]:
        world = await make(Network(policy=SteadyLink(0.01)))
        story: list[tuple[float, str]] = []

        async def talk(name: str) -> None:
            async with world.here.dial("there:7780").bidi(SESSION) as stream:
                for number in range(5):
                    heard = await echo(stream, f"{name}-{number}")
                    story.append((now(), heard))

        await asyncio.gather(*(talk(name) for name in "abc"))
        return story

    stories = [run_virtual(run()) for _ in range(2)]
    assert stories[0] == stories[1]
    assert len(stories[0]) == 15
