"""Silent and slow connections: no replica ends, probes are answered, writes go on.

Everything is on 127.0.0.1, so strangers and peers share an address; a stranger elsewhere has less effect.
Rules: `packaging#connection-limits`, `coordinator#raft-flood`.
"""

import asyncio
import json
import resource
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest

from bigfleet.aio.identity import ADMIN, Identity
from bigfleet.aio.net import Channel, Code, RpcError
from bigfleet.transport.coordinator import ASSIGN_DOMAIN, REPORT_SHARD, facts_of
from bigfleet.transport.grpc_net import GrpcNet
from bigfleet.transport.tls import TlsStore
from bigfleet.v1alpha1 import coordinator_pb2 as pb
from tests.support.certificates import Authority
from tests.support.connection_flood import ConnectionFlood
from tests.support.coordinator.processes import PATIENCE_S, ProcessCluster, settled_port
from tests.support.program import http_get, running

pytestmark = [pytest.mark.integration, pytest.mark.asyncio]

# The beginning of HTTP/2, which is also a frame of 0x20495250 bytes for Raft: closed at its fourth byte.
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
# The beginning of a TLS handshake that never becomes whole.
HELLO = bytes.fromhex("1603010200010001fc0303") + bytes(64)
SHARD = "shard-0"
ELSEWHERE = (Code.FAILED_PRECONDITION, Code.UNAVAILABLE, Code.DEADLINE_EXCEEDED, Code.CANCELLED)


class Writer:
    """Assigns one domain after another at whichever replica leads."""

    def __init__(self, cluster: ProcessCluster) -> None:
        self._channels: dict[str, Channel] = {
            member.grpc_address: cluster.net.dial(member.grpc_address) for member in cluster.members
        }
        self._address = next(iter(self._channels))
        self.acknowledged = 0

    async def write(self) -> None:
        """Return once one more write is acknowledged."""
        tried = 0
        value = f"written-{self.acknowledged}"
        request = pb.AssignDomainRequest(topology_key="zone", topology_value=value, shard_id=SHARD)
        async with asyncio.timeout(PATIENCE_S):
            while True:
                try:
                    await self._channels[self._address].unary(ASSIGN_DOMAIN, request, timeout_s=2.0)
                except RpcError as error:
                    if error.code not in ELSEWHERE:
                        raise
                    tried += 1
                    hint = facts_of(error.trailing).leader
                    others = list(self._channels)
                    self._address = hint if hint in self._channels else others[tried % len(others)]
                    await asyncio.sleep(0.05)
                else:
                    self.acknowledged += 1
                    return

    async def close(self) -> None:
        for channel in self._channels.values():
            await channel.close()


def times_led(cluster: ProcessCluster) -> int:
    """How often a replica began to serve as the leader so far."""
    lines = [line for member in cluster.members for line in member.log_text().splitlines()]
    return sum(json.loads(line).get("event") == "serving" for line in lines if line.startswith("{"))


async def withstands(
    cluster: ProcessCluster, flood: ConnectionFlood, goes_on: Callable[[], Awaitable[bool]]
) -> None:
    """Write during a flood until it need not go on; then every replica runs and leadership moved once at most."""
    writer = Writer(cluster)
    try:
        await writer.write()
        led = times_led(cluster)
        assert led
        with flood:
            while await goes_on():
                await writer.write()
                assert all(member.is_running for member in cluster.members), cluster.tails()
        assert times_led(cluster) <= led + 1, cluster.tails()
        assert writer.acknowledged > 1
    finally:
        await writer.close()


@asynccontextmanager
async def coordinators(
    directory: Path, *, descriptors: int, secured: bool
) -> AsyncGenerator[ProcessCluster, None]:
    """Three replicas that have formed, with a shard to assign domains to."""
    flags: list[str] = []
    net = shard_net = GrpcNet()
    if secured:
        authority = Authority(directory / "pki", datetime.now(UTC))
        own = authority.issue(ADMIN, "admin")
        flags = [f"--tls-cert={own.cert}", f"--tls-key={own.key}", f"--tls-ca={own.ca}"]
        net = GrpcNet(TlsStore(own, print))
        shard_net = GrpcNet(TlsStore(authority.issue(Identity.shard(SHARD), SHARD), print))
    async with ProcessCluster(
        directory, proxied=False, descriptors=descriptors, flags=flags, net=net
    ) as cluster:
        cluster.start_all()
        leader = cluster.members[await cluster.formed()]
        channel = shard_net.dial(leader.grpc_address)
        report = pb.ShardReport(shard_id=SHARD)
        await channel.unary(REPORT_SHARD, report, timeout_s=PATIENCE_S, wait_for_ready=True)
        await channel.close()
        yield cluster


def ports_of(cluster: ProcessCluster) -> list[int]:
    return [port for member in cluster.members for port in (member.grpc_port, member.raft_port)]


EDGES = pytest.mark.parametrize("secured", [False, True], ids=["plaintext", "TLS"])


@EDGES
@pytest.mark.rule("packaging#connection-limits", "coordinator#raft-flood")
async def test_coordinators_with_256_descriptors_write_on_under_silent_and_slow_connections(
    tmp_path: Path, *, secured: bool
) -> None:
    async with coordinators(tmp_path, descriptors=256, secured=secured) as cluster:
        dripped = HELLO if secured else PREFACE
        flood = ConnectionFlood(*ports_of(cluster), count=1200, per_second=600, dripped=dripped)

        async def goes_on() -> bool:
            # More than three processes of 256 descriptors could hold, all at the same time or one after the other.
            return flood.opened < 2400

        await withstands(cluster, flood, goes_on)
        # And strangers do not keep a newcomer out for good.
        fresh = Writer(cluster)
        with ConnectionFlood(*ports_of(cluster), count=1200, per_second=300) as again:
            while again.opened < 600:  # noqa: ASYNC110 - a fact of another thread
                await asyncio.sleep(0.05)
            await fresh.write()
        await fresh.close()


@EDGES
@pytest.mark.long
@pytest.mark.rule("packaging#connection-limits", "coordinator#raft-flood")
async def test_coordinators_with_1024_descriptors_withstand_5000_connections_for_two_minutes(
    tmp_path: Path, *, secured: bool
) -> None:
    async with coordinators(tmp_path, descriptors=1024, secured=secured) as cluster:
        dripped = HELLO if secured else PREFACE
        flood = ConnectionFlood(*ports_of(cluster), count=5000, per_second=2000, dripped=dripped)
        loop = asyncio.get_running_loop()
        until_s = loop.time() + 120

        async def goes_on() -> bool:
            return loop.time() < until_s

        await withstands(cluster, flood, goes_on)


@pytest.mark.rule("packaging#connection-limits")
async def test_probes_of_a_process_are_answered_under_slow_connections() -> None:
    flags = ["--addr=127.0.0.1:0", "--metrics-addr=127.0.0.1:0", "--log-format=json"]
    async with running("bigfleet-fake-provider", *flags) as provider:
        port = provider.ports["metrics_port"]
        with ConnectionFlood(port, count=400, per_second=300, dripped=b"GET /healthz HTTP/1.1\r\n") as flood:
            answered = 0
            while flood.opened < 900:
                assert (await http_get(port, "/readyz"))[0] == 200
                answered += 1
            assert flood.ended > 0
        assert answered > 20
        assert await provider.metric(
            'bigfleet_connections_refused_total{listener="http",reason="full"}'
        ) + await provider.metric('bigfleet_connections_refused_total{listener="http",reason="address"}')


@pytest.mark.rule("coordinator#raft-flood")
async def test_refused_connections_on_the_raft_port_leave_the_memory_as_it_was(tmp_path: Path) -> None:
    """Each used to keep 300 KB until a full collection an hour later; 600 are 180 MB."""
    files = Authority(tmp_path, datetime.now(UTC)).issue(ADMIN, "coordinator-0")
    secret = tmp_path / "secret"
    secret.write_bytes(b"s" * 32)
    raft, others = settled_port(), [settled_port() for _ in range(4)]
    peers = [f"coordinator-0@127.0.0.1:{raft}@127.0.0.1:{settled_port()}"]
    peers += [f"coordinator-{n}@127.0.0.1:{others[n - 1]}@127.0.0.1:{others[n + 1]}" for n in (1, 2)]
    flags = ["--id=coordinator-0", "--listen=127.0.0.1:0", f"--raft-bind=127.0.0.1:{raft}", "--replicas=3"]
    flags += [f"--peers={','.join(peers)}", f"--data-dir={tmp_path / 'data'}", f"--raft-secret-file={secret}"]
    flags += ["--metrics-addr=127.0.0.1:0", "--log-format=json", f"--tls-ca={files.ca}"]
    flags += [f"--tls-cert={files.cert}", f"--tls-key={files.key}"]

    def refused(number: int) -> None:
        for _ in range(number):
            with (
                socket.create_connection(("127.0.0.1", raft), timeout=PATIENCE_S) as stranger,
                suppress(ConnectionError),
            ):
                stranger.sendall(b"\x07" * 300)
                while stranger.recv(4096):
                    pass

    async with running("bigfleet", "coordinator", *flags) as coordinator:
        await asyncio.to_thread(refused, 50)
        before = resident_mb(coordinator.running.pid)
        await asyncio.to_thread(refused, 600)
        assert resident_mb(coordinator.running.pid) - before < 40
        # The last one may be counted after its connection ended.
        assert await coordinator.metric('bigfleet_coordinator_raft_rejected_total{reason="handshake"}') > 640
        assert len(coordinator.lines("raft_connection_refused")) <= 3


def resident_mb(pid: int) -> float:
    """Return the memory that a process holds."""
    pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize() / 1e6
