# ruff: noqa: N802 the names of the calls are contract
"""The generated services over a real socket: every path answers, and a path that the contract does not name does not.

The servicers below are also the proof that strict typing accepts implementations of the generated services.
Rules: `wire#conventions`, `wire#nine-calls`.
"""

from collections.abc import AsyncIterator
from typing import Any, TypeAlias

import grpc
import pytest
import pytest_asyncio
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message_factory import GetMessageClass

from bigfleet.v1alpha1 import coordinator_pb2 as c
from bigfleet.v1alpha1 import coordinator_pb2_grpc, provider_pb2_grpc, shard_pb2_grpc, shardread_pb2_grpc
from bigfleet.v1alpha1 import provider_pb2 as p
from bigfleet.v1alpha1 import shard_pb2 as s
from bigfleet.v1alpha1 import shardread_pb2 as r
from tests.support.messages import CONTRACT

pytestmark = [pytest.mark.integration, pytest.mark.asyncio]

Context: TypeAlias = grpc.aio.ServicerContext[Any, Any]  # `Any`: one name for the contexts of all calls
DEADLINE_S = 20
METHODS: list[MethodDescriptor] = [
    method
    for module in CONTRACT
    for service in module.DESCRIPTOR.services_by_name.values()
    for method in service.methods
]


class Provider(provider_pb2_grpc.CapacityProviderServicer):
    async def Create(self, request: p.CreateRequest, context: Context) -> p.TransitionAck:
        return p.TransitionAck(operation_id="create", machine=p.Machine(id=request.machine_id))

    async def Configure(self, request: p.ConfigureRequest, context: Context) -> p.TransitionAck:
        return p.TransitionAck(operation_id="configure", machine=p.Machine(id=request.machine_id))

    async def Drain(self, request: p.DrainRequest, context: Context) -> p.TransitionAck:
        return p.TransitionAck(operation_id="drain", machine=p.Machine(id=request.machine_id))

    async def Delete(self, request: p.DeleteRequest, context: Context) -> p.TransitionAck:
        return p.TransitionAck(operation_id="delete", machine=p.Machine(id=request.machine_id))

    async def Get(self, request: p.MachineRef, context: Context) -> p.Machine:
        return p.Machine(id=request.id)

    async def List(self, request: p.ListFilter, context: Context) -> p.MachineList:
        return p.MachineList(revision=request.since_revision)


class Shard(shard_pb2_grpc.ShardServicer):
    async def Session(
        self, request_iterator: AsyncIterator[s.OperatorMessage], context: Context
    ) -> AsyncIterator[s.ShardMessage]:
        async for frame in request_iterator:
            yield s.ShardMessage(ack=s.Acknowledgement(echo=frame.WhichOneof("payload") or ""))


class ShardRead(shardread_pb2_grpc.ShardReadServicer):
    async def InspectNeeds(
        self, request: r.InspectNeedsRequest, context: Context
    ) -> AsyncIterator[r.InspectNeedsResponse]:
        yield r.InspectNeedsResponse(header=r.InspectNeedsHeader(total_needs=1))
        yield r.InspectNeedsResponse(need=r.NeedView(cluster_id=request.cluster_id))


class Coordinator(coordinator_pb2_grpc.CoordinatorServicer):
    async def ReportShard(self, request: c.ShardReport, context: Context) -> c.ReportAck:
        return c.ReportAck(acknowledged=True)

    async def AssignDomain(self, request: c.AssignDomainRequest, context: Context) -> c.AssignDomainResponse:
        return c.AssignDomainResponse()

    async def UnassignDomain(
        self, request: c.UnassignDomainRequest, context: Context
    ) -> c.UnassignDomainResponse:
        return c.UnassignDomainResponse()

    async def RemoveShard(self, request: c.RemoveShardRequest, context: Context) -> c.RemoveShardResponse:
        return c.RemoveShardResponse()

    async def ListShards(self, request: c.ListShardsRequest, context: Context) -> c.ListShardsResponse:
        return c.ListShardsResponse()

    async def ListDomainAssignments(
        self, request: c.ListDomainAssignmentsRequest, context: Context
    ) -> c.ListDomainAssignmentsResponse:
        return c.ListDomainAssignmentsResponse()

    async def ListShardReports(
        self, request: c.ListShardReportsRequest, context: Context
    ) -> c.ListShardReportsResponse:
        return c.ListShardReportsResponse()

    async def JoinRaftCluster(
        self, request: c.JoinRaftClusterRequest, context: Context
    ) -> c.JoinRaftClusterResponse:
        return c.JoinRaftClusterResponse()

    async def SnapshotSave(
        self, request: c.SnapshotSaveRequest, context: Context
    ) -> AsyncIterator[c.SnapshotSaveChunk]:
        yield c.SnapshotSaveChunk(meta_json=b"{}")
        yield c.SnapshotSaveChunk(data=b"piece")


@pytest_asyncio.fixture
async def channel() -> AsyncIterator[grpc.aio.Channel]:
    server = grpc.aio.server()
    provider_pb2_grpc.add_CapacityProviderServicer_to_server(Provider(), server)
    shard_pb2_grpc.add_ShardServicer_to_server(Shard(), server)
    shardread_pb2_grpc.add_ShardReadServicer_to_server(ShardRead(), server)
    coordinator_pb2_grpc.add_CoordinatorServicer_to_server(Coordinator(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as opened:
        yield opened
    await server.stop(grace=None)


async def empty_frames() -> AsyncIterator[bytes]:
    yield b""


async def call(channel: grpc.aio.Channel, path: str) -> bytes:
    """Call as a peer in another language would: by path, with bytes."""
    unary: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(path)
    return await unary(b"", timeout=DEADLINE_S)


async def call_stream(channel: grpc.aio.Channel, path: str, client_streaming: bool) -> list[bytes]:
    if client_streaming:
        both: grpc.aio.StreamStreamMultiCallable[bytes, bytes] = channel.stream_stream(path)
        return [answer async for answer in both(empty_frames(), timeout=DEADLINE_S)]
    one: grpc.aio.UnaryStreamMultiCallable[bytes, bytes] = channel.unary_stream(path)
    return [answer async for answer in one(b"", timeout=DEADLINE_S)]


@pytest.mark.parametrize(
    "method", METHODS, ids=lambda method: method.full_name.removeprefix("bigfleet.v1alpha1.")
)
async def test_every_call_answers_under_the_path_of_the_contract(
    channel: grpc.aio.Channel, method: MethodDescriptor
) -> None:
    path = f"/bigfleet.v1alpha1.{method.containing_service.name}/{method.name}"
    if method.server_streaming:
        answers = await call_stream(channel, path, method.client_streaming)
    else:
        answers = [await call(channel, path)]
    assert answers
    answer_class = GetMessageClass(method.output_type)
    assert [answer_class.FromString(answer).SerializeToString() for answer in answers] == answers


@pytest.mark.parametrize(
    "path",
    [
        pytest.param("/bigfleet.v1alpha1.Coordinator/ListQuotas", id="a retired call"),
        pytest.param("/bigfleet.v1alpha1.Coordinator/ListProviders", id="another retired call"),
        pytest.param("/fleet.v1alpha1.CapacityProvider/Get", id="the former package name"),
    ],
)
async def test_a_path_that_the_contract_does_not_name_answers_unimplemented(
    channel: grpc.aio.Channel, path: str
) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await call(channel, path)
    assert refused.value.code() is grpc.StatusCode.UNIMPLEMENTED


async def test_typed_stubs_carry_messages_both_ways(channel: grpc.aio.Channel) -> None:
    provider = provider_pb2_grpc.CapacityProviderStub(channel)
    ack = await provider.Create(
        p.CreateRequest(machine_id="m-1", shard_id="s-1", shard_epoch=1), timeout=DEADLINE_S
    )
    assert (ack.operation_id, ack.machine.id) == ("create", "m-1")

    async def hellos() -> AsyncIterator[s.OperatorMessage]:
        yield s.OperatorMessage(hello=s.Hello(cluster_id="blue"))
        yield s.OperatorMessage()

    session = shard_pb2_grpc.ShardStub(channel).Session(hellos(), timeout=DEADLINE_S)
    assert [frame.ack.echo async for frame in session] == ["hello", ""]
