"""A secured connection ends well at its age: no call is lost, streams live on, and it is no loss to a watcher."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from bigfleet.aio.clock import NANOSECONDS, SystemClock
from bigfleet.aio.identity import ADMIN, Identity
from bigfleet.aio.net import Call, Code, RpcError, ServeOptions, ServerStream
from bigfleet.aio.service import ServiceSpec
from bigfleet.transport.gates import allow
from bigfleet.transport.grpc_net import GrpcNet
from bigfleet.transport.tls import TlsStore
from bigfleet.v1alpha1 import coordinator_pb2, shard_pb2
from tests.support.certificates import Authority

pytestmark = [pytest.mark.integration, pytest.mark.asyncio]

COORDINATOR = ServiceSpec(coordinator_pb2.DESCRIPTOR.services_by_name["Coordinator"])
LIST = COORDINATOR.unary("ListShards", coordinator_pb2.ListShardsRequest, coordinator_pb2.ListShardsResponse)
SHARD = ServiceSpec(shard_pb2.DESCRIPTOR.services_by_name["Shard"])
SESSION = SHARD.bidi("Session", shard_pb2.OperatorMessage, shard_pb2.ShardMessage)
SOON_S = 20.0


class Served:
    """Answers every call, notes from which connection it came, and echoes on streams."""

    def __init__(self) -> None:
        self.addresses: dict[str, None] = {}

    @allow(ADMIN)
    async def list_shards(self, request: object, call: Call) -> bytes:
        self.addresses[call.peer.address] = None
        return b""

    async def snapshot_save(self, request: object, call: Call) -> AsyncIterator[object]:
        yield coordinator_pb2.SnapshotSaveChunk()

    assign_domain = unassign_domain = remove_shard = join_raft_cluster = report_shard = list_shards
    list_domain_assignments = list_shard_reports = list_shards

    async def session(
        self, stream: ServerStream[shard_pb2.ShardMessage, shard_pb2.OperatorMessage], call: Call
    ) -> None:
        async for frame in stream:
            ack = shard_pb2.Acknowledgement(echo=frame.hello.cluster_id)
            await stream.send(shard_pb2.ShardMessage(ack=ack))


class LateClock(SystemClock):
    """A system clock that may be set forward."""

    ahead_s = 0

    def wall_ns(self) -> int:
        return super().wall_ns() + self.ahead_s * NANOSECONDS


def store(authority: Authority, who: Identity, name: str) -> TlsStore:
    return TlsStore(authority.issue(who, name), lambda _problem: None)


@pytest.mark.rule("wire#tls-ended", "wire#connectivity")
async def test_an_aged_connection_is_replaced_without_a_lost_call_a_broken_stream_or_a_noticed_loss(
    tmp_path: Path,
) -> None:
    authority, served = Authority(tmp_path, datetime.now(UTC)), Served()
    services = [COORDINATOR.bind(served), SHARD.bind(served)]
    aged = ServeOptions(max_connection_age_s=0.5)
    server = await GrpcNet(store(authority, ADMIN, "server")).serve("127.0.0.1:0", services, aged)
    channel = GrpcNet(store(authority, ADMIN, "client")).dial(f"127.0.0.1:{server.port}")
    states = channel.connectivity()
    async with asyncio.timeout(SOON_S), channel.bidi(SESSION) as stream:
        assert await anext(states) is True
        change = asyncio.ensure_future(anext(states))
        while len(served.addresses) < 4:
            await channel.unary(LIST, coordinator_pb2.ListShardsRequest(), timeout_s=SOON_S)
        await stream.send(shard_pb2.OperatorMessage(hello=shard_pb2.Hello(cluster_id="a")))
        answer = await stream.receive()
        assert answer is not None
        assert answer.ack.echo == "a"
        assert not change.done()
    await server.stop(0)
    assert await asyncio.wait_for(change, SOON_S) is False
    await channel.close()


@pytest.mark.rule("wire#tls-ended")
async def test_a_call_with_a_certificate_that_ended_since_its_handshake_is_refused(tmp_path: Path) -> None:
    authority, served, clock = Authority(tmp_path, datetime.now(UTC)), Served(), LateClock()
    net = GrpcNet(store(authority, ADMIN, "server"), clock=clock)
    server = await net.serve("127.0.0.1:0", [COORDINATOR.bind(served)])
    channel = GrpcNet(store(authority, ADMIN, "client")).dial(f"127.0.0.1:{server.port}")
    await channel.unary(LIST, coordinator_pb2.ListShardsRequest(), timeout_s=SOON_S)
    clock.ahead_s = 3650 * 86_400
    with pytest.raises(RpcError) as refusal:
        await channel.unary(LIST, coordinator_pb2.ListShardsRequest(), timeout_s=SOON_S)
    assert refusal.value.code is Code.PERMISSION_DENIED
    assert "a certificate that ended at" in refusal.value.detail
    assert len(served.addresses) == 1
    await channel.close()
    await server.stop(0)
