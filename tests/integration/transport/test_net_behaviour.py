"""One suite for both forms of the network seam: what production code relies on holds on gRPC and in memory alike."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import pytest
import pytest_asyncio

from bigfleet.aio.net import (
    Call,
    Channel,
    ClosedError,
    Code,
    DialOptions,
    ListenError,
    Net,
    RpcError,
    RpcRefusedError,
    RpcServer,
    ServeOptions,
    ServerHooks,
    ServerStream,
)
from bigfleet.aio.service import ServiceSpec
from bigfleet.model.errors import BigFleetError, InvalidFieldError, UnknownMachineError
from bigfleet.testing.net.network import Network
from bigfleet.transport.grpc_net import GrpcNet
from bigfleet.v1alpha1 import provider_pb2, shard_pb2, shardread_pb2

pytestmark = [pytest.mark.integration, pytest.mark.asyncio]

PROVIDER = ServiceSpec(provider_pb2.DESCRIPTOR.services_by_name["CapacityProvider"])
GET = PROVIDER.unary("Get", provider_pb2.MachineRef, provider_pb2.Machine)
LIST = PROVIDER.unary("List", provider_pb2.ListFilter, provider_pb2.MachineList)
SHARD = ServiceSpec(shard_pb2.DESCRIPTOR.services_by_name["Shard"])
SESSION = SHARD.bidi("Session", shard_pb2.OperatorMessage, shard_pb2.ShardMessage)
READ = ServiceSpec(shardread_pb2.DESCRIPTOR.services_by_name["ShardRead"])
INSPECT = READ.server_stream(
    "InspectNeeds", shardread_pb2.InspectNeedsRequest, shardread_pb2.InspectNeedsResponse
)

MIB = 1024 * 1024
SERVE, DIAL = ServeOptions(), DialOptions()
SOON_S = 20.0  # a deadline for facts, never a measure: a busy machine may take seconds


class OwnError(BigFleetError):
    """An error of some process, with a row of its own."""


class Service:
    """Answers all three services, as the requests ask."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.ended = asyncio.Event()
        self.cancelled = asyncio.Event()
        self.go_on = asyncio.Event()
        self.gave_up = asyncio.Event()
        self.sent = 0
        self.remaining: float | None = None
        self.metadata: dict[str, str | bytes] = {}

    async def get(self, request: provider_pb2.MachineRef, call: Call) -> provider_pb2.Machine:
        self.begun.set()
        self.remaining = call.time_remaining_s()
        self.metadata = dict(call.metadata)
        match request.id:
            case "wait":
                try:
                    await self.go_on.wait()
                except asyncio.CancelledError:
                    self.cancelled.set()
                    raise
            case "refuse":
                call.set_trailing((("bigfleet-leader", "there:7790"),))
                raise RpcRefusedError(Code.FAILED_PRECONDITION, "not leader", (("bigfleet-last-term", "7"),))
            case "trail":
                call.set_trailing((("bigfleet-raft-state", "serving"), ("blob-bin", b"\x00\xff")))
            case "field":
                raise InvalidFieldError("machine.id", "", "not empty")
            case "unknown":
                raise UnknownMachineError("m-1")
            case "long":
                raise InvalidFieldError("rows", "ü" * 100_000, "fewer")
            case "own":
                raise OwnError("mine")
            case "defect":
                raise ZeroDivisionError("the password is hunter2")
            case "relayed":
                raise RpcError(Code.FAILED_PRECONDITION, "some third process said so")
        return provider_pb2.Machine(id=request.id)

    async def list(self, request: provider_pb2.ListFilter, call: Call) -> provider_pb2.MachineList:
        return provider_pb2.MachineList(revision=b"r" * request.max_results)

    async def create(self, request: Any, call: Call) -> bytes:
        return provider_pb2.TransitionAck(operation_id="encoded before").SerializeToString()

    configure = drain = delete = create

    async def inspect_needs(
        self, request: shardread_pb2.InspectNeedsRequest, call: Call
    ) -> AsyncIterator[shardread_pb2.InspectNeedsResponse]:
        self.begun.set()
        try:
            for number in range(request.limit):
                row = shardread_pb2.NeedView(cluster_id=request.cluster_id, arrival_unix_nanos=number)
                self.sent = number + 1
                yield shardread_pb2.InspectNeedsResponse(need=row)
            if request.cluster_id == "fails":
                raise RpcRefusedError(Code.ABORTED, "half way", (("seen", "yes"),))
            call.set_trailing((("rows", str(request.limit)),))
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        finally:
            self.ended.set()

    async def session(
        self, stream: ServerStream[shard_pb2.ShardMessage, shard_pb2.OperatorMessage], call: Call
    ) -> None:
        self.begun.set()
        try:
            async for frame in stream:
                if frame.hello.cluster_id == "stuck":
                    await self.go_on.wait()
                if frame.hello.cluster_id == "bye":
                    return
                if frame.hello.cluster_id == "impatient":
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(0.02):
                            await stream.receive()
                    self.gave_up.set()
                    continue
                echo = shard_pb2.Acknowledgement(echo=frame.hello.cluster_id)
                await stream.send(shard_pb2.ShardMessage(ack=echo))
            await stream.send(shard_pb2.ShardMessage(ack=shard_pb2.Acknowledgement(echo="half-closed")))
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        finally:
            self.ended.set()


@dataclass
class World:
    """One client, one server, on one form of the network."""

    kind: str
    client: Net
    server: Net
    service: Service = field(default_factory=Service)
    defects: list[BaseException] = field(default_factory=list)
    channels: list[Channel] = field(default_factory=list)
    servers: list[RpcServer] = field(default_factory=list)
    host: str = "127.0.0.1"

    async def serve(self, options: ServeOptions = SERVE, address: str | None = None) -> RpcServer:
        services = [PROVIDER.bind(self.service), SHARD.bind(self.service), READ.bind(self.service)]
        server = await self.server.serve(address or "127.0.0.1:0", services, options)
        self.servers.append(server)
        return server

    def dial(self, port: int, options: DialOptions = DIAL) -> Channel:
        channel = self.client.dial(f"{self.host}:{port}", options)
        self.channels.append(channel)
        return channel

    async def start(self, serve: ServeOptions = SERVE, dial: DialOptions = DIAL) -> Channel:
        return self.dial((await self.serve(serve)).port, dial)


@pytest_asyncio.fixture(params=["grpc", "memory"])
async def world(request: pytest.FixtureRequest) -> AsyncGenerator[World, None]:
    defects: list[BaseException] = []
    hooks = ServerHooks(lambda *_: None, lambda _method, error: defects.append(error))
    if request.param == "grpc":
        net = GrpcNet(hooks=hooks)
        made = World("grpc", net, net)
    else:
        network = Network()
        made = World(
            "memory", network.host("here", hooks=hooks), network.host("there", hooks=hooks), host="there"
        )
    made.defects = defects
    yield made
    for channel in made.channels:
        await channel.close()
    for server in made.servers:
        await server.stop(0)


async def happens(event: asyncio.Event) -> None:
    async with asyncio.timeout(SOON_S):
        await event.wait()


def hello(cluster: str) -> shard_pb2.OperatorMessage:
    return shard_pb2.OperatorMessage(hello=shard_pb2.Hello(cluster_id=cluster))


async def get(channel: Channel, machine_id: str, timeout_s: float = SOON_S) -> str:
    reply = await channel.unary(GET, provider_pb2.MachineRef(id=machine_id), timeout_s=timeout_s)
    return reply.message.id


async def refused(channel: Channel, machine_id: str, timeout_s: float = SOON_S) -> RpcError:
    with pytest.raises(RpcError) as caught:
        await get(channel, machine_id, timeout_s)
    return caught.value


# Unary calls


async def test_a_unary_call_is_answered_with_a_copy(world: World) -> None:
    channel = await world.start()
    asked = provider_pb2.MachineRef(id="m-1")
    reply = await channel.unary(
        GET, asked, timeout_s=SOON_S, metadata=(("x-note", "hi"), ("x-raw-bin", b"\x01"))
    )
    assert reply.message == provider_pb2.Machine(id="m-1")
    assert world.service.metadata["x-note"] == "hi"
    assert world.service.metadata["x-raw-bin"] == b"\x01"
    assert world.service.remaining is not None
    assert 0 < world.service.remaining <= SOON_S + 1  # the wire rounds a deadline up, by less than a second


async def test_trailing_metadata_travels_with_a_good_answer(world: World) -> None:
    channel = await world.start()
    reply = await channel.unary(GET, provider_pb2.MachineRef(id="trail"), timeout_s=SOON_S)
    assert reply.trailing == (("bigfleet-raft-state", "serving"), ("blob-bin", b"\x00\xff"))


async def test_a_refusal_carries_code_text_and_all_trailing_metadata(world: World) -> None:
    error = await refused(await world.start(), "refuse")
    assert (error.code, error.detail) == (Code.FAILED_PRECONDITION, "not leader")
    assert error.trailing == (("bigfleet-leader", "there:7790"), ("bigfleet-last-term", "7"))


@pytest.mark.parametrize(
    ("asked", "code", "text"),
    [
        pytest.param("field", Code.INVALID_ARGUMENT, "machine.id", id="invalid field"),
        pytest.param("unknown", Code.NOT_FOUND, "m-1", id="unknown machine"),
        pytest.param("own", Code.ABORTED, "mine", id="row of the process itself"),
    ],
)
async def test_foreseen_errors_become_their_codes(world: World, asked: str, code: Code, text: str) -> None:
    channel = await world.start(ServeOptions(statuses={OwnError: Code.ABORTED}))
    error = await refused(channel, asked)
    assert error.code is code
    assert text in error.detail
    assert world.defects == []


async def test_a_long_text_does_not_cost_the_code(world: World) -> None:
    error = await refused(await world.start(), "long")
    assert error.code is Code.INVALID_ARGUMENT
    assert error.detail.startswith("rows: found 'üü")
    assert len(error.detail) < 1100


@pytest.mark.parametrize("asked", ["defect", "relayed"])
async def test_the_text_of_an_unforeseen_error_stays_on_the_server(world: World, asked: str) -> None:
    error = await refused(await world.start(), asked)
    assert error.code is Code.INTERNAL
    assert "hunter2" not in str(error)
    assert "third" not in str(error)
    assert len(world.defects) == 1


async def test_a_handler_may_answer_with_bytes_that_are_encoded_already(world: World) -> None:
    channel = await world.start()
    create = PROVIDER.unary("Create", provider_pb2.CreateRequest, provider_pb2.TransitionAck)
    reply = await channel.unary(create, provider_pb2.CreateRequest(), timeout_s=SOON_S)
    assert reply.message.operation_id == "encoded before"


async def test_an_answer_reaches_a_reader_of_the_callers_own_as_bytes(world: World) -> None:
    channel = await world.start()
    raw = LIST.decoded_by(bytes)
    reply = await channel.unary(raw, provider_pb2.ListFilter(max_results=5), timeout_s=SOON_S)
    assert reply.message == provider_pb2.MachineList(revision=b"rrrrr").SerializeToString()


async def test_an_unknown_method_is_unimplemented(world: World) -> None:
    channel = await world.start()
    get_elsewhere = type(GET)("/bigfleet.v1alpha1.Coordinator/ListQuotas", GET.decode)
    with pytest.raises(RpcError) as caught:
        await channel.unary(get_elsewhere, provider_pb2.MachineRef(), timeout_s=SOON_S)
    assert caught.value.code is Code.UNIMPLEMENTED


async def test_a_request_that_is_no_message_is_refused_without_reaching_the_handler(world: World) -> None:
    channel = await world.start()
    untyped: Any = GET
    with pytest.raises(RpcError) as caught:
        await channel.unary(untyped, b"\xff\xff\xff", timeout_s=SOON_S)
    assert caught.value.code is Code.INTERNAL
    assert not world.service.begun.is_set()
    assert world.defects == []


async def test_an_answer_that_is_no_message_is_an_rpc_error(world: World) -> None:
    channel = await world.start()
    wrong = LIST.decoded_by(lambda _: provider_pb2.MachineList.FromString(b"\xff\xff\xff"))
    with pytest.raises(RpcError) as caught:
        await channel.unary(wrong, provider_pb2.ListFilter(), timeout_s=SOON_S)
    assert caught.value.code is Code.INTERNAL


# Limits


async def test_forty_mebibytes_pass_both_ways_under_the_default_limit(world: World) -> None:
    channel = await world.start()
    asked = provider_pb2.ListFilter(max_results=40 * MIB, since_revision=b"s" * (40 * MIB))
    reply = await channel.unary(LIST, asked, timeout_s=60)
    assert len(reply.message.revision) == 40 * MIB


@pytest.mark.parametrize(
    ("serve", "dial", "asked"),
    [
        pytest.param(
            ServeOptions(max_message_bytes=MIB), DialOptions(), "large request", id="server receives"
        ),
        pytest.param(ServeOptions(), DialOptions(max_message_bytes=MIB), "large request", id="client sends"),
        pytest.param(
            ServeOptions(), DialOptions(max_message_bytes=MIB), "large answer", id="client receives"
        ),
        pytest.param(ServeOptions(max_message_bytes=MIB), DialOptions(), "large answer", id="server sends"),
    ],
)
async def test_a_message_over_a_limit_is_resource_exhausted(
    world: World, serve: ServeOptions, dial: DialOptions, asked: str
) -> None:
    channel = await world.start(serve, dial)
    large = 2 * MIB
    request = provider_pb2.ListFilter(since_revision=b"s" * large)
    if asked == "large answer":
        request = provider_pb2.ListFilter(max_results=large)
    with pytest.raises(RpcError) as caught:
        await channel.unary(LIST, request, timeout_s=SOON_S)
    assert caught.value.code is Code.RESOURCE_EXHAUSTED
    assert await get(channel, "still usable") == "still usable"


# Deadlines and cancellation


async def test_a_deadline_ends_the_call_on_both_sides(world: World) -> None:
    channel = await world.start()
    error = await refused(channel, "wait", timeout_s=0.2)
    assert error.code is Code.DEADLINE_EXCEEDED
    if world.service.begun.is_set():
        await happens(world.service.cancelled)


async def test_a_cancelled_caller_cancels_the_handler(world: World) -> None:
    channel = await world.start()
    task = asyncio.create_task(get(channel, "wait"))
    await happens(world.service.begun)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await happens(world.service.cancelled)


async def test_a_closed_channel_fails_its_calls_and_takes_no_more(world: World) -> None:
    channel = await world.start()
    task = asyncio.create_task(refused(channel, "wait"))
    await happens(world.service.begun)
    await channel.close()
    assert (await task).code is Code.CANCELLED
    await happens(world.service.cancelled)
    with pytest.raises(ClosedError):
        await get(channel, "any")


async def test_nobody_listening_is_unavailable_at_once(world: World) -> None:
    server = await world.serve()
    await server.stop(0)
    assert (await refused(world.dial(server.port), "any")).code is Code.UNAVAILABLE


async def test_who_waits_for_ready_is_served_once_the_server_is_there(world: World) -> None:
    before = await world.serve()
    await before.stop(0)
    channel = world.dial(before.port)
    asked = channel.unary(GET, provider_pb2.MachineRef(id="m"), timeout_s=60, wait_for_ready=True)
    task = asyncio.create_task(asked)
    await world.serve(address=f"127.0.0.1:{before.port}")
    assert (await task).message.id == "m"


async def test_waiting_for_ready_ends_with_the_deadline(world: World) -> None:
    before = await world.serve()
    await before.stop(0)
    channel = world.dial(before.port)
    with pytest.raises(RpcError) as caught:
        await channel.unary(GET, provider_pb2.MachineRef(), timeout_s=0.3, wait_for_ready=True)
    assert caught.value.code is Code.DEADLINE_EXCEEDED


@pytest.mark.rule("wire#connectivity")
async def test_a_watched_channel_connects_and_connects_again_without_a_call(world: World) -> None:
    server = await world.serve()
    channel = world.dial(server.port)
    states = channel.connectivity()
    async with asyncio.timeout(60):
        assert await anext(states) is True
        await server.stop(0)
        assert await anext(states) is False
        await world.serve(address=f"127.0.0.1:{server.port}")
        assert await anext(states) is True
    assert await get(channel, "m") == "m"


@pytest.mark.rule("wire#connectivity")
async def test_a_dial_that_fails_is_reported_once_and_the_connection_that_follows(world: World) -> None:
    before = await world.serve()
    await before.stop(0)
    channel = world.dial(before.port)
    states = channel.connectivity()
    async with asyncio.timeout(60):
        assert await anext(states) is False
        await world.serve(address=f"127.0.0.1:{before.port}")
        assert await anext(states) is True


@pytest.mark.rule("wire#connectivity")
@pytest.mark.parametrize("listening", [True, False])
async def test_watching_ends_when_the_channel_is_closed(world: World, listening: bool) -> None:
    server = await world.serve()
    if not listening:
        await server.stop(0)
    channel = world.dial(server.port)
    seen: list[bool] = []
    known = asyncio.Event()

    async def watch() -> None:
        async for connected in channel.connectivity():
            seen.append(connected)
            known.set()

    watching = asyncio.create_task(watch())
    await happens(known)
    await channel.close()
    async with asyncio.timeout(SOON_S):
        await watching
    assert seen == [listening]
    assert [state async for state in channel.connectivity()] == []


# RpcServer streams


async def test_a_server_stream_arrives_in_order_with_its_trailing_metadata(world: World) -> None:
    channel = await world.start()
    asked = shardread_pb2.InspectNeedsRequest(cluster_id="a", limit=1000)
    async with channel.server_stream(INSPECT, asked, timeout_s=SOON_S) as answers:
        rows = [answer.need.arrival_unix_nanos async for answer in answers]
        assert await answers.trailing() == (("rows", "1000"),)
    assert rows == list(range(1000))


async def test_what_came_before_a_failure_is_still_read(world: World) -> None:
    channel = await world.start()
    asked = shardread_pb2.InspectNeedsRequest(cluster_id="fails", limit=3)
    stream = channel.server_stream(INSPECT, asked, timeout_s=SOON_S)
    for number in range(3):
        answer = await stream.receive()
        assert answer is not None
        assert answer.need.arrival_unix_nanos == number
    with pytest.raises(RpcError) as caught:
        await stream.receive()
    assert (caught.value.code, caught.value.detail) == (Code.ABORTED, "half way")
    assert caught.value.trailing == (("seen", "yes"),)


async def test_a_slow_reader_holds_the_sender_back(world: World) -> None:
    channel = await world.start()
    asked = shardread_pb2.InspectNeedsRequest(cluster_id="x" * 64 * 1024, limit=100_000)
    async with channel.server_stream(INSPECT, asked, timeout_s=None) as answers:
        await answers.receive()
        await stands_still(world.service)
        assert world.service.sent < 1000  # of 6 GiB; how much is buffered is the form's affair
    await happens(world.service.ended)


async def stands_still(service: Service) -> None:
    """Wait until the sender has made no progress for a while."""
    async with asyncio.timeout(SOON_S):
        before, quiet = service.sent, 0
        while quiet < 20:
            await asyncio.sleep(0.01)
            quiet = quiet + 1 if service.sent == before else 0
            before = service.sent


async def test_leaving_a_server_stream_cancels_its_handler(world: World) -> None:
    channel = await world.start()
    asked = shardread_pb2.InspectNeedsRequest(cluster_id="x" * 64 * 1024, limit=100_000)
    async with channel.server_stream(INSPECT, asked, timeout_s=None) as answers:
        await answers.receive()
    await happens(world.service.ended)
    assert world.service.sent < 1000


async def test_a_deadline_ends_a_stream(world: World) -> None:
    channel = await world.start()
    stream = channel.bidi(SESSION, timeout_s=0.3)
    with pytest.raises(RpcError) as caught:
        await stream.receive()
    assert caught.value.code is Code.DEADLINE_EXCEEDED


# Bidirectional streams


async def test_a_bidirectional_stream_carries_both_ways_and_half_closes(world: World) -> None:
    channel = await world.start()
    async with channel.bidi(SESSION) as stream:
        for name in ("a", "b"):
            await stream.send(hello(name))
            answer = await stream.receive()
            assert answer is not None
            assert answer.ack.echo == name
        await stream.done_sending()
        assert [frame.ack.echo async for frame in stream] == ["half-closed"]
        assert await stream.receive() is None
        with pytest.raises(ClosedError):
            await stream.send(hello("late"))
    await happens(world.service.ended)
    assert not world.service.cancelled.is_set()


async def test_a_peer_that_does_not_read_holds_the_sender_back(world: World) -> None:
    channel = await world.start()
    async with channel.bidi(SESSION) as stream:
        await stream.send(hello("stuck"))

        async def send_much() -> None:
            for _ in range(10_000):
                await stream.send(hello("y" * 64 * 1024))
                world.service.sent += 1

        sending = asyncio.create_task(send_much())
        await stands_still(world.service)
        assert world.service.sent < 1000
    with pytest.raises(RpcError):
        await sending


async def test_a_given_up_stream_raises_cancelled_and_cancels_the_handler(world: World) -> None:
    channel = await world.start()
    stream = channel.bidi(SESSION)
    await stream.send(hello("a"))
    await happens(world.service.begun)
    await stream.receive()
    reading = asyncio.create_task(stream.receive())
    await asyncio.sleep(0)
    stream.cancel()
    with pytest.raises(RpcError) as caught:
        await reading
    assert caught.value.code is Code.CANCELLED
    await happens(world.service.cancelled)


async def test_sending_on_a_stream_that_the_server_ended_is_an_rpc_error(world: World) -> None:
    channel = await world.start()
    async with channel.bidi(SESSION) as stream:
        await stream.send(hello("bye"))
        assert await stream.receive() is None
        with pytest.raises(RpcError) as caught:
            await stream.send(hello("anyone"))
    assert caught.value.code is Code.CANCELLED


async def test_a_client_that_gave_up_waiting_for_a_frame_loses_none(world: World) -> None:
    channel = await world.start()
    async with channel.bidi(SESSION) as stream:
        await stream.send(hello("a"))
        assert await stream.receive() is not None
        for _ in range(3):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.02):
                    await stream.receive()
        await stream.send(hello("b"))
        answer = await stream.receive()
        assert answer is not None
        assert answer.ack.echo == "b"


async def test_a_server_that_gave_up_waiting_for_a_frame_loses_none(world: World) -> None:
    channel = await world.start()
    async with channel.bidi(SESSION) as stream:
        await stream.send(hello("impatient"))
        await happens(world.service.gave_up)
        for name in ("b", "c"):
            await stream.send(hello(name))
            answer = await stream.receive()
            assert answer is not None
            assert answer.ack.echo == name


async def test_a_cancelled_send_ends_the_call(world: World) -> None:
    channel = await world.start()
    stream = channel.bidi(SESSION)
    await stream.send(hello("stuck"))

    async def send_much() -> None:
        while True:
            await stream.send(hello("y" * 64 * 1024))
            world.service.sent += 1

    sending = asyncio.create_task(send_much())
    await stands_still(world.service)
    sending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sending
    with pytest.raises(RpcError) as caught:
        await stream.receive()
    assert caught.value.code is Code.CANCELLED
    await happens(world.service.cancelled)


# Stopping


async def test_a_graceful_stop_lets_a_running_call_finish_and_takes_no_new_one(world: World) -> None:
    server = await world.serve()
    channel = world.dial(server.port)
    running = asyncio.create_task(get(channel, "wait"))
    await happens(world.service.begun)
    stopping = asyncio.create_task(server.stop(SOON_S))
    async with asyncio.timeout(SOON_S):
        while await code_of(channel) is Code.OK:
            continue
    assert await code_of(channel) is Code.UNAVAILABLE
    assert not stopping.done()
    world.service.go_on.set()
    assert await running == "wait"
    await stopping


async def code_of(channel: Channel) -> Code:
    try:
        await get(channel, "any")
    except RpcError as error:
        return error.code
    return Code.OK


async def test_a_stop_ends_what_outlasts_the_grace(world: World) -> None:
    server = await world.serve()
    channel = world.dial(server.port)
    running = asyncio.create_task(refused(channel, "wait"))
    await happens(world.service.begun)
    async with asyncio.timeout(SOON_S):
        await server.stop(0.1)
        assert (await running).code in (Code.UNAVAILABLE, Code.CANCELLED)
    await happens(world.service.cancelled)


async def test_a_port_in_use_is_one_clear_error(world: World) -> None:
    server = await world.serve()
    with pytest.raises(ListenError, match="in use") as caught:
        await world.serve(address=f"127.0.0.1:{server.port}")
    assert str(server.port) in str(caught.value)


async def test_one_connection_is_held_to_its_number_of_concurrent_calls() -> None:
    net, service = GrpcNet(), Service()  # not modelled in memory
    server = await net.serve("127.0.0.1:0", [PROVIDER.bind(service)], ServeOptions(max_concurrent_streams=1))
    channel = net.dial(f"127.0.0.1:{server.port}")
    first = asyncio.create_task(get(channel, "wait"))
    await happens(service.begun)
    assert (await refused(channel, "second", timeout_s=0.3)).code is Code.DEADLINE_EXCEEDED
    service.go_on.set()
    assert await first == "wait"
    assert await get(channel, "third") == "third"
    await channel.close()
    await server.stop(0)
