"""The channel inside a process: what callers rely on holds as on a network (`shard#in-process-fake`, ADR-0101)."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from bigfleet.aio.clock import Clock, monotonic_s
from bigfleet.aio.identity import Identity
from bigfleet.aio.net import Call, Channel, ClosedError, Code, Peer, RpcError, RpcRefusedError, ServeOptions
from bigfleet.aio.service import ServiceSpec
from bigfleet.model.errors import BigFleetError
from bigfleet.testing.loop import run_virtual
from bigfleet.testing.process import virtual_process
from bigfleet.transport.inside import InsideChannel
from bigfleet.transport.status import GENERIC_DETAIL
from bigfleet.v1alpha1 import provider_pb2 as pb
from bigfleet.v1alpha1 import shard_pb2, shardread_pb2

PROVIDER = ServiceSpec(pb.DESCRIPTOR.services_by_name["CapacityProvider"])
GET = PROVIDER.unary("Get", pb.MachineRef, pb.Machine)
LIST = PROVIDER.unary("List", pb.ListFilter, pb.MachineList)
CREATE = PROVIDER.unary("Create", pb.CreateRequest, pb.TransitionAck)
READ = ServiceSpec(shardread_pb2.DESCRIPTOR.services_by_name["ShardRead"])
SHARD = ServiceSpec(shard_pb2.DESCRIPTOR.services_by_name["Shard"])


class OwnError(BigFleetError):
    """An error with a row of its own."""


class Service:
    """Answers as the requests ask."""

    def __init__(self) -> None:
        self.peer = Peer("nobody")
        self.remaining: float | None = None
        self.cancelled = 0

    async def get(self, request: pb.MachineRef, call: Call) -> pb.Machine:
        self.peer, self.remaining = call.peer, call.time_remaining_s()
        match request.id:
            case "wait":
                try:
                    await asyncio.get_running_loop().create_future()
                except asyncio.CancelledError:
                    self.cancelled += 1
                    raise
            case "refuse":
                call.set_trailing((("said", "before"),))
                raise RpcRefusedError(Code.FAILED_PRECONDITION, "fenced", (("term", "7"),))
            case "own":
                raise OwnError("mine")
            case "defect":
                raise ZeroDivisionError("the password is hunter2")
        call.set_trailing((("said", "well"),))
        return pb.Machine(id=request.id)

    async def list(self, request: pb.ListFilter, _call: Call) -> bytes:
        return pb.MachineList(revision=b"r" * request.max_results).SerializeToString()

    async def create(self, _request: object, _call: Call) -> bytes:
        return pb.TransitionAck(operation_id="op").SerializeToString()

    configure = drain = delete = create


Scene = Callable[[InsideChannel, Service, Clock], Awaitable[None]]


def play(scene: Scene, *, identity: Identity | None = None, options: ServeOptions | None = None) -> None:
    async def scene_on_virtual_time() -> None:
        service, clock = Service(), virtual_process("here").clock
        channel = InsideChannel(
            [PROVIDER.bind(service)], clock, identity=identity, options=options or ServeOptions()
        )
        await scene(channel, service, clock)
        await channel.close()

    run_virtual(scene_on_virtual_time())


async def ask(channel: Channel, machine_id: str, timeout_s: float = 5.0) -> RpcError:
    with pytest.raises(RpcError) as refused:
        await channel.unary(GET, pb.MachineRef(id=machine_id), timeout_s=timeout_s)
    return refused.value


def test_an_answer_comes_back_with_its_trailing_metadata_and_bytes_go_through_as_they_are() -> None:
    async def scene(channel: InsideChannel, service: Service, _clock: Clock) -> None:
        reply = await channel.unary(GET, pb.MachineRef(id="m-1"), timeout_s=5)
        assert (reply.message, reply.trailing) == (pb.Machine(id="m-1"), (("said", "well"),))
        assert service.remaining == pytest.approx(5)
        assert (await channel.unary(CREATE, pb.CreateRequest(), timeout_s=5)).message.operation_id == "op"
        size = await channel.unary(LIST.decoded_by(len), pb.ListFilter(max_results=100), timeout_s=5)
        assert size.message == 102

    play(scene)


@pytest.mark.parametrize(
    ("asked", "code", "detail"),
    [
        ("refuse", Code.FAILED_PRECONDITION, "fenced"),
        ("own", Code.ABORTED, "mine"),
        ("defect", Code.INTERNAL, GENERIC_DETAIL),
    ],
)
def test_errors_become_their_codes_and_defects_tell_nothing(asked: str, code: Code, detail: str) -> None:
    async def scene(channel: InsideChannel, _service: Service, _clock: Clock) -> None:
        error = await ask(channel, asked)
        assert (error.code, error.detail) == (code, detail)
        if asked == "refuse":
            assert error.trailing == (("said", "before"), ("term", "7"))

    play(scene, options=ServeOptions(statuses={OwnError: Code.ABORTED}))


def test_a_deadline_ends_the_call_and_its_handler() -> None:
    async def scene(channel: InsideChannel, service: Service, clock: Clock) -> None:
        begin_s = monotonic_s(clock)
        assert (await ask(channel, "wait", 7.0)).code is Code.DEADLINE_EXCEEDED
        assert monotonic_s(clock) - begin_s == pytest.approx(7)
        await clock.sleep(0)
        assert service.cancelled == 1

    play(scene)


def test_a_caller_who_gives_up_ends_the_handler() -> None:
    async def scene(channel: InsideChannel, service: Service, clock: Clock) -> None:
        call = asyncio.ensure_future(channel.unary(GET, pb.MachineRef(id="wait"), timeout_s=60))
        await clock.sleep(1)
        call.cancel()
        await clock.sleep(1)
        assert (call.cancelled(), service.cancelled) == (True, 1)

    play(scene)


def test_calls_that_are_broken_off_are_unavailable_and_the_next_one_is_served() -> None:
    async def scene(channel: InsideChannel, service: Service, clock: Clock) -> None:
        call = asyncio.ensure_future(ask(channel, "wait"))
        await clock.sleep(1)
        await channel.break_off("the connection was reset")
        error = await call
        assert (error.code, error.detail) == (Code.UNAVAILABLE, "the connection was reset")
        assert service.cancelled == 1
        assert (await channel.unary(GET, pb.MachineRef(id="m"), timeout_s=5)).message.id == "m"

    play(scene)


@pytest.mark.rule("wire#connectivity")
def test_the_channel_is_connected_until_it_is_closed_and_loses_the_connection_when_calls_are_broken_off() -> (
    None
):
    async def scene(channel: InsideChannel, _service: Service, _clock: Clock) -> None:
        states = channel.connectivity()
        assert await anext(states) is True
        lost = asyncio.ensure_future(anext(states))
        await asyncio.sleep(1)
        assert not lost.done()
        await channel.break_off("the connection was reset")
        assert await lost is False
        assert await anext(states) is True
        await channel.close()
        assert [state async for state in states] == []

    play(scene)


def test_limits_hold_in_both_directions() -> None:
    async def scene(channel: InsideChannel, _service: Service, _clock: Clock) -> None:
        for request in (pb.MachineRef(id="x" * 101),):
            with pytest.raises(RpcError, match="the request takes 103 bytes, the message limit is 100 bytes"):
                await channel.unary(GET, request, timeout_s=5)
        with pytest.raises(RpcError, match="the answer takes 202 bytes") as refused:
            await channel.unary(LIST, pb.ListFilter(max_results=199), timeout_s=5)
        assert refused.value.code is Code.RESOURCE_EXHAUSTED

    play(scene, options=ServeOptions(max_message_bytes=100))


@pytest.mark.parametrize("identity", [None, Identity.shard("a")], ids=["plain", "a shard"])
def test_a_handler_sees_who_calls(identity: Identity | None) -> None:
    async def scene(channel: InsideChannel, service: Service, _clock: Clock) -> None:
        await channel.unary(GET, pb.MachineRef(id="m"), timeout_s=5)
        assert (service.peer.secured, service.peer.identity) == (identity is not None, identity)

    play(scene, identity=identity)


def test_what_is_not_served_here_is_unimplemented_and_a_closed_channel_says_so() -> None:
    async def scene(channel: InsideChannel, _service: Service, _clock: Clock) -> None:
        refusals = []
        for call in (
            lambda: channel.server_stream(
                READ.server_stream(
                    "InspectNeeds", shardread_pb2.InspectNeedsRequest, shardread_pb2.InspectNeedsResponse
                ),
                shardread_pb2.InspectNeedsRequest(),
                timeout_s=5,
            ),
            lambda: channel.bidi(SHARD.bidi("Session", shard_pb2.OperatorMessage, shard_pb2.ShardMessage)),
        ):
            with pytest.raises(RpcError) as refused:
                call()
            refusals.append(refused.value.code)
        assert refusals == [Code.UNIMPLEMENTED] * 2
        await channel.close()
        with pytest.raises(ClosedError):
            await channel.unary(GET, pb.MachineRef(id="m"), timeout_s=5)

    play(scene)
