"""Identity, gates and rotation over real sockets (`wire#identity`, `shard#tls`)."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import pytest_asyncio
from grpc_health.v1 import health_pb2  # type: ignore[import-untyped]  # ships no type marker

from bigfleet.aio.identity import ADMIN, READONLY, Identity, Role
from bigfleet.aio.net import (
    Call,
    Channel,
    Code,
    DialOptions,
    Net,
    Peer,
    RpcError,
    RpcServer,
    ServerHooks,
    ServerStream,
)
from bigfleet.aio.service import ServiceSpec
from bigfleet.transport.gates import allow, allow_exact, require
from bigfleet.transport.grpc_net import GrpcNet
from bigfleet.transport.health import CHECK
from bigfleet.transport.tls import TlsFiles, TlsStore
from bigfleet.v1alpha1 import coordinator_pb2, shard_pb2
from tests.support.certificates import Authority, replace_file, replace_pair

pytestmark = [pytest.mark.integration, pytest.mark.asyncio]

COORDINATOR = ServiceSpec(coordinator_pb2.DESCRIPTOR.services_by_name["Coordinator"])
REPORT = COORDINATOR.unary("ReportShard", coordinator_pb2.ShardReport, coordinator_pb2.ReportAck)
ASSIGN = COORDINATOR.unary(
    "AssignDomain", coordinator_pb2.AssignDomainRequest, coordinator_pb2.AssignDomainResponse
)
LIST = COORDINATOR.unary("ListShards", coordinator_pb2.ListShardsRequest, coordinator_pb2.ListShardsResponse)
SAVE = COORDINATOR.server_stream(
    "SnapshotSave", coordinator_pb2.SnapshotSaveRequest, coordinator_pb2.SnapshotSaveChunk
)
SHARD = ServiceSpec(shard_pb2.DESCRIPTOR.services_by_name["Shard"])
SESSION = SHARD.bidi("Session", shard_pb2.OperatorMessage, shard_pb2.ShardMessage)
SOON_S = 20.0


class Gated:
    """A coordinator and a shard with the gates of the contract and nothing behind them."""

    def __init__(self) -> None:
        self.peers: list[Peer] = []

    @allow_exact(Role.SHARD, lambda request: str(request.shard_id))
    async def report_shard(
        self, request: coordinator_pb2.ShardReport, call: Call
    ) -> coordinator_pb2.ReportAck:
        self.peers.append(call.peer)
        return coordinator_pb2.ReportAck()

    @allow(ADMIN)
    async def assign_domain(self, request: object, call: Call) -> bytes:
        return b""

    @allow(ADMIN, READONLY)
    async def list_shards(self, request: object, call: Call) -> bytes:
        return b""

    @allow(ADMIN)
    async def snapshot_save(self, request: object, call: Call) -> AsyncIterator[object]:
        yield coordinator_pb2.SnapshotSaveChunk()

    unassign_domain = remove_shard = join_raft_cluster = assign_domain
    list_domain_assignments = list_shard_reports = list_shards

    async def session(
        self, stream: ServerStream[shard_pb2.ShardMessage, shard_pb2.OperatorMessage], call: Call
    ) -> None:
        async for frame in stream:
            require(call.peer, Identity.cluster(frame.hello.cluster_id))
            ack = shard_pb2.Acknowledgement(echo=frame.hello.cluster_id)
            await stream.send(shard_pb2.ShardMessage(ack=ack))


class Fleet:
    """A gated server, and clients with any certificate."""

    def __init__(self, directory: Path) -> None:
        self.authority = Authority(directory / "ca", datetime.now(UTC))
        self.foreign = Authority(directory / "foreign", datetime.now(UTC))
        self.service = Gated()
        self.refusals: list[tuple[str, str]] = []
        self.problems: list[str] = []
        self.server_files = self.authority.issue(ADMIN, "server")
        self._channels: list[Channel] = []
        self._servers: list[RpcServer] = []

    def net(self, files: TlsFiles | None) -> GrpcNet:
        hooks = ServerHooks(lambda method, _peer, why: self.refusals.append((method, why)), lambda *_: None)
        return GrpcNet(TlsStore(files, self.problems.append) if files else None, hooks)

    async def serve(self, net: Net | None = None, address: str = "127.0.0.1:0") -> RpcServer:
        services = [COORDINATOR.bind(self.service), SHARD.bind(self.service)]
        server = await (net or self.net(self.server_files)).serve(address, services)
        self._servers.append(server)
        return server

    def dial(self, server: RpcServer, files: TlsFiles | None) -> Channel:
        channel = self.net(files).dial(f"127.0.0.1:{server.port}")
        self._channels.append(channel)
        return channel

    async def close(self) -> None:
        for channel in self._channels:
            await channel.close()
        for server in self._servers:
            await server.stop(0)


@pytest_asyncio.fixture
async def fleet(tmp_path: Path) -> AsyncGenerator[Fleet, None]:
    made = Fleet(tmp_path)
    yield made
    await made.close()


def hello(cluster: str) -> shard_pb2.OperatorMessage:
    return shard_pb2.OperatorMessage(hello=shard_pb2.Hello(cluster_id=cluster))


async def report(channel: Channel, shard_id: str) -> Code:
    return await code(channel.unary(REPORT, coordinator_pb2.ShardReport(shard_id=shard_id), timeout_s=SOON_S))


async def listing(channel: Channel) -> Code:
    return await code(channel.unary(LIST, coordinator_pb2.ListShardsRequest(), timeout_s=SOON_S))


async def assign(channel: Channel) -> Code:
    return await code(channel.unary(ASSIGN, coordinator_pb2.AssignDomainRequest(), timeout_s=SOON_S))


async def session(channel: Channel, cluster: str) -> Code:
    async def open_and_greet() -> None:
        async with channel.bidi(SESSION, timeout_s=SOON_S) as stream:
            await stream.send(hello(cluster))
            await stream.receive()

    return await code(open_and_greet())


async def code(call: Awaitable[object]) -> Code:
    try:
        await call
    except RpcError as error:
        return error.code
    return Code.OK


@pytest.mark.parametrize(
    ("identity", "passes"),
    [
        pytest.param(Identity.shard("a"), {"report"}, id="its own shard"),
        pytest.param(Identity.shard("b"), set(), id="another shard"),
        pytest.param(Identity.cluster("a"), {"session"}, id="its own cluster"),
        pytest.param(Identity.cluster("b"), set(), id="another cluster"),
        pytest.param(ADMIN, {"assign", "list"}, id="admin"),
        pytest.param(READONLY, {"list"}, id="readonly"),
    ],
)
async def test_each_role_passes_its_own_gates_and_no_other(
    fleet: Fleet, identity: Identity, passes: set[str]
) -> None:
    channel = fleet.dial(await fleet.serve(), fleet.authority.issue(identity, "client"))
    codes = {
        "report": await report(channel, "a"),
        "assign": await assign(channel),
        "list": await listing(channel),
        "session": await session(channel, "a"),
    }
    assert {call for call, code in codes.items() if code is Code.OK} == passes
    assert set(codes.values()) <= {Code.OK, Code.PERMISSION_DENIED}
    assert len(fleet.refusals) == 4 - len(passes)


async def test_a_gated_stream_is_refused_before_its_first_answer(fleet: Fleet) -> None:
    channel = fleet.dial(await fleet.serve(), fleet.authority.issue(READONLY, "client"))
    answers = channel.server_stream(SAVE, coordinator_pb2.SnapshotSaveRequest(), timeout_s=SOON_S)
    assert await code(answers.receive()) is Code.PERMISSION_DENIED


async def test_a_handler_learns_who_called(fleet: Fleet) -> None:
    channel = fleet.dial(await fleet.serve(), fleet.authority.issue(Identity.shard("a")))
    assert await report(channel, "a") is Code.OK
    [peer] = fleet.service.peers
    assert (peer.secured, peer.identity) == (True, Identity.shard("a"))


async def test_an_id_that_is_missing_is_an_invalid_argument_before_identity_is_looked_at(
    fleet: Fleet,
) -> None:
    channel = fleet.dial(await fleet.serve(), fleet.authority.issue(READONLY, "client"))
    assert await report(channel, "") is Code.INVALID_ARGUMENT
    assert await session(channel, "") is Code.INVALID_ARGUMENT


@pytest.mark.rule("shard#tls")
@pytest.mark.parametrize(
    "uris",
    [
        pytest.param([], id="none"),
        pytest.param(["bigfleet://admin", "bigfleet://readonly"], id="two"),
        pytest.param(["bigfleet://admin", "bigfleet://admin"], id="one twice"),
        pytest.param(["bigfleet://root"], id="unknown role"),
        pytest.param(["bigfleet://admin/"], id="trailing slash"),
        pytest.param(["BIGFLEET://admin"], id="odd spelling"),
        pytest.param(["spiffe://fleet/admin"], id="other scheme only"),
    ],
)
async def test_anything_but_exactly_one_identity_is_refused(fleet: Fleet, uris: list[str]) -> None:
    channel = fleet.dial(await fleet.serve(), fleet.authority.issue_uris("odd", uris))
    assert await listing(channel) is Code.PERMISSION_DENIED
    assert len(fleet.refusals) == 1


async def test_uris_of_other_schemes_are_ignored(fleet: Fleet) -> None:
    files = fleet.authority.issue_uris(
        "mixed", ["spiffe://fleet/x", "bigfleet://readonly", "https://example.org"]
    )
    assert await listing(fleet.dial(await fleet.serve(), files)) is Code.OK


async def test_health_is_not_gated(fleet: Fleet) -> None:
    channel = fleet.dial(await fleet.serve(), fleet.authority.issue_uris("nobody", []))
    reply = await channel.unary(CHECK, health_pb2.HealthCheckRequest(), timeout_s=SOON_S)
    assert reply.message.status == health_pb2.HealthCheckResponse.SERVING


async def test_a_certificate_of_a_foreign_authority_does_not_connect(fleet: Fleet) -> None:
    foreign = fleet.foreign.issue(ADMIN, "client")
    # Its own authority file is ours, so that it is the server who refuses.
    mixed = TlsFiles(foreign.cert, foreign.key, fleet.server_files.ca)
    assert await listing(fleet.dial(await fleet.serve(), mixed)) is Code.UNAVAILABLE


async def test_a_client_refuses_a_server_of_a_foreign_authority(fleet: Fleet) -> None:
    good = fleet.authority.issue(ADMIN, "client")
    suspicious = TlsFiles(good.cert, good.key, fleet.foreign.issue(ADMIN, "x").ca)
    assert await listing(fleet.dial(await fleet.serve(), suspicious)) is Code.UNAVAILABLE


async def test_a_plaintext_client_does_not_connect_to_a_secured_server(fleet: Fleet) -> None:
    assert await listing(fleet.dial(await fleet.serve(), None)) is Code.UNAVAILABLE


@pytest.mark.rule("coordinator#identity-gates")
async def test_plaintext_skips_every_gate(fleet: Fleet) -> None:
    channel = fleet.dial(await fleet.serve(fleet.net(None)), None)
    passed = [
        await report(channel, "a"),
        await assign(channel),
        await listing(channel),
        await session(channel, "a"),
    ]
    assert passed == [Code.OK] * 4
    assert fleet.refusals == []


async def test_a_server_name_may_stand_for_the_host_of_the_target(fleet: Fleet) -> None:
    server = await fleet.serve()
    net = fleet.net(fleet.authority.issue(ADMIN, "client"))
    good = net.dial(f"127.0.0.1:{server.port}", DialOptions(server_name="localhost"))
    assert await listing(good) is Code.OK
    bad = net.dial(f"127.0.0.1:{server.port}", DialOptions(server_name="elsewhere.example"))
    assert await listing(bad) is Code.UNAVAILABLE
    await good.close()
    await bad.close()


async def test_a_rotated_client_certificate_is_used_without_dropping_streams(fleet: Fleet) -> None:
    server = await fleet.serve()
    files = fleet.authority.issue(Identity.cluster("a"), "client")
    channel = fleet.dial(server, files)
    async with channel.bidi(SESSION) as stream:
        await stream.send(hello("a"))
        assert await code(stream.receive()) is Code.OK
        replace_pair(files, fleet.authority.issue(ADMIN, "next"))
        assert await assign(channel) is Code.OK  # the new identity, on a connection of its own
        await stream.send(hello("a"))
        assert await code(stream.receive()) is Code.OK  # the old one, undisturbed
    assert fleet.problems == []


@pytest.mark.rule("wire#connectivity")
async def test_a_rotated_certificate_is_no_loss_and_the_new_line_is_the_one_watched(fleet: Fleet) -> None:
    server, files = await fleet.serve(), fleet.authority.issue(Identity.shard("a"), "one")
    channel = fleet.dial(server, files)
    states = channel.connectivity()
    async with asyncio.timeout(SOON_S):
        assert await anext(states) is True
        change = asyncio.ensure_future(anext(states))
        replace_pair(files, fleet.authority.issue(Identity.shard("b"), "two"))
        assert await report(channel, "b") is Code.OK  # on a new line; the old one is closed
        await server.stop(0)
        assert await change is False
        assert await report(channel, "b") is Code.UNAVAILABLE
        again = await fleet.serve(address=f"127.0.0.1:{server.port}")
        assert again.port == server.port
        assert await anext(states) is True
        assert await report(channel, "b") is Code.OK


async def test_a_client_keeps_the_last_good_pair_while_the_files_do_not_fit(fleet: Fleet) -> None:
    server = await fleet.serve()
    files = fleet.authority.issue(READONLY, "client")
    channel = fleet.dial(server, files)
    assert await listing(channel) is Code.OK
    after = fleet.authority.issue(ADMIN, "next")
    replace_file(files.key, after.key)
    assert [await listing(channel), await assign(channel)] == [Code.OK, Code.PERMISSION_DENIED]
    assert len(fleet.problems) == 1
    replace_file(files.cert, after.cert)
    assert await assign(channel) is Code.OK


async def test_a_rotated_server_certificate_is_shown_to_new_connections_and_drops_no_stream(
    fleet: Fleet,
) -> None:
    server = await fleet.serve()
    client = fleet.authority.issue(Identity.cluster("a"), "client")
    async with fleet.dial(server, client).bidi(SESSION) as stream:
        await stream.send(hello("a"))
        assert await code(stream.receive()) is Code.OK
        # Signed by another authority, so that a new connection shows which one is served.
        replace_pair(fleet.server_files, fleet.foreign.issue(ADMIN, "next"))
        trusts_new = TlsFiles(client.cert, client.key, fleet.foreign.issue(ADMIN, "x").ca)
        assert await session(fleet.dial(server, trusts_new), "a") is Code.OK
        assert await session(fleet.dial(server, client), "a") is Code.UNAVAILABLE
        await stream.send(hello("a"))
        assert await code(stream.receive()) is Code.OK


@pytest.mark.rule("shard#certificate-expired")
async def test_with_an_expired_certificate_nobody_connects_and_running_streams_live_on(fleet: Fleet) -> None:
    server = await fleet.serve()
    client = fleet.authority.issue(Identity.cluster("a"), "client")
    gone = timedelta(minutes=-1)
    old = fleet.authority.issue_uris("old", [str(Identity.cluster("a"))], ends=gone)
    async with fleet.dial(server, client).bidi(SESSION) as stream:
        await stream.send(hello("a"))
        assert await code(stream.receive()) is Code.OK
        assert await session(fleet.dial(server, old), "a") is Code.UNAVAILABLE
        replace_pair(fleet.server_files, fleet.authority.issue_uris("older", [str(ADMIN)], ends=gone))
        assert await session(fleet.dial(server, client), "a") is Code.UNAVAILABLE
        await stream.send(hello("a"))
        assert await code(stream.receive()) is Code.OK


@pytest.mark.parametrize("damage", ["mismatched key", "missing key", "garbage"])
async def test_a_server_keeps_the_last_good_pair_while_the_files_are_of_no_use(
    fleet: Fleet, damage: str
) -> None:
    server = await fleet.serve()
    client = fleet.authority.issue(Identity.cluster("a"), "client")
    good_key = fleet.server_files.key.read_bytes()
    match damage:
        case "mismatched key":
            replace_file(fleet.server_files.key, client.key)
        case "missing key":
            fleet.server_files.key.unlink()
        case "garbage":
            fleet.server_files.cert.write_text("-----BEGIN")
    for _ in range(2):
        assert await session(fleet.dial(server, client), "a") is Code.OK
    assert len(fleet.problems) == 1
    assert good_key.decode().splitlines()[1] not in "".join(fleet.problems)


async def test_the_authority_bundle_is_read_once_unless_the_dial_asks_for_a_fresh_one(fleet: Fleet) -> None:
    server = await fleet.serve()
    files = fleet.authority.issue(ADMIN, "client")
    net = fleet.net(files)
    replace_file(files.ca, fleet.foreign.issue(ADMIN, "x").ca)
    target = f"127.0.0.1:{server.port}"
    as_before = net.dial(target)
    fresh = net.dial(target, DialOptions(fresh_ca=True))
    assert await listing(as_before) is Code.OK
    assert await listing(fresh) is Code.UNAVAILABLE
    await as_before.close()
    await fresh.close()


async def test_many_calls_during_rotations_all_succeed(fleet: Fleet) -> None:
    server = await fleet.serve()
    files = fleet.authority.issue(ADMIN, "client")
    pairs = [fleet.authority.issue(ADMIN, f"next-{number}") for number in range(4)]
    channel = fleet.dial(server, files)
    codes: list[Code] = []

    many = asyncio.Semaphore(0)

    async def keep_calling() -> None:
        for _ in range(60):
            made = await assign(channel)
            codes.append(made)
            many.release()

    callers = [asyncio.create_task(keep_calling()) for _ in range(4)]
    for pair in pairs:
        async with asyncio.timeout(SOON_S):
            for _ in range(30):
                await many.acquire()
        replace_pair(files, pair)
        replace_pair(fleet.server_files, pair)
    await asyncio.gather(*callers)
    assert codes == [Code.OK] * 240
