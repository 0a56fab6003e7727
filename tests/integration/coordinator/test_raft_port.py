"""The Raft port: strangers are closed and counted, nothing they send is executed; replicas find each other by certificate and secret.

Rules: `coordinator#pod-ip-changed`, `coordinator#wrong-secret`, `coordinator#stranger-on-raft-port`,
`coordinator#certificate-rotated`, `coordinator#fixed-membership`, `coordinator#raft-gate`, `coordinator#raft-tls`,
`coordinator#raft-secret`.
"""

import asyncio
import os
import pickle
import ssl
import struct
import zlib
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest

from bigfleet.aio.identity import ADMIN, Identity, Role
from bigfleet.coordinator.log import Membership
from bigfleet.coordinator.raft.certificates import RaftTls
from bigfleet.transport.tls import TlsFiles, TlsStore
from tests.support.certificates import Authority, replace_file, replace_pair
from tests.support.coordinator.local_cluster import LocalCluster, Node
from tests.support.coordinator.pairs import put

pytestmark = pytest.mark.integration

PATIENCE_S = 60.0


class Trap:
    """What a stranger would like to have unpickled."""

    def __init__(self, marker: Path) -> None:
        self._marker = marker

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (str(self._marker),)


def framed(message: object) -> bytes:
    """Return a message in the library's form, without any encryption."""
    data = zlib.compress(pickle.dumps(message), 3)
    return struct.pack("i", len(data)) + data


def strange(marker: Path) -> dict[str, bytes]:
    return {
        "random bytes": b"\x07" + os.urandom(300),
        "an HTTP request": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "a pickle": framed(Trap(marker)),
        "a bare pickle": pickle.dumps(Trap(marker)),
        "readonly": framed("readonly"),
        "a utility message": framed(["status"]),
        "a huge length": struct.pack("i", 1 << 30) + b"x" * 5000,
        "a negative length": struct.pack("i", -5) + b"x" * 100,
    }


async def until(fact: Callable[[], object]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not fact():  # noqa: ASYNC110 - a fact of other threads, which announce nothing
            await asyncio.sleep(0.02)


async def formed(cluster: LocalCluster) -> Node:
    for ordinal in range(3):
        if ordinal not in cluster.nodes:
            await cluster.start(ordinal)

    def whole() -> bool:
        statuses = [node.log.status() for node in cluster.nodes.values()]
        return cluster.serving() is not None and all(
            status.membership is Membership.FULL and not status.waiting for status in statuses
        )

    await until(whole)
    leader = cluster.serving()
    assert leader is not None
    return leader


def run(cluster: LocalCluster, scenario: Callable[[], Awaitable[None]]) -> None:
    async def with_clean_up() -> None:
        try:
            await scenario()
        finally:
            await cluster.stop_all()

    asyncio.run(with_clean_up())


def refused(node: Node) -> float:
    reasons = ("secret", "frame", "handshake", "identity", "broken")
    return sum(node.counted("raft_rejected_total", reason=reason) for reason in reasons)


def counted(node: Node, number: int) -> bool:
    return refused(node) >= number


async def closed_after(port: int, data: bytes, context: ssl.SSLContext | None = None) -> bool:
    """Send something and wait for the other side to close; what comes back does not matter."""
    name = "localhost" if context else None
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname=name)
    except (OSError, ssl.SSLError):
        return True
    try:
        writer.write(data)
        async with asyncio.timeout(PATIENCE_S):
            while await reader.read(4096):
                pass
    except (OSError, ssl.SSLError):
        pass
    finally:
        writer.close()
    return True


def port_of(cluster: LocalCluster, ordinal: int) -> int:
    return int(cluster.members[ordinal].raft_address.rpartition(":")[2])


@pytest.mark.rule("coordinator#stranger-on-raft-port", "coordinator#raft-gate")
def test_without_tls_strangers_are_closed_and_counted_and_nothing_is_executed(tmp_path: Path) -> None:
    cluster = LocalCluster(tmp_path)
    marker = tmp_path / "executed"

    async def scenario() -> None:
        leader = await formed(cluster)
        for number, (name, data) in enumerate(strange(marker).items(), start=1):
            assert await closed_after(port_of(cluster, 1), data), name
            await until(partial(counted, cluster.nodes[1], number))
        assert not marker.exists()
        await leader.log.propose(put("a", 1))

    run(cluster, scenario)


def authority(tmp_path: Path) -> Authority:
    (tmp_path / "ca").mkdir(parents=True)
    return Authority(tmp_path / "ca", datetime.now(UTC))


def context(files: TlsFiles | None) -> ssl.SSLContext:
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    made.check_hostname = False
    made.verify_mode = ssl.CERT_NONE
    if files is not None:
        made.load_cert_chain(files.cert, files.key)
    return made


@pytest.mark.rule("coordinator#stranger-on-raft-port", "coordinator#raft-gate")
def test_with_tls_only_replicas_get_through(tmp_path: Path) -> None:
    ours, foreign = authority(tmp_path / "ours"), authority(tmp_path / "foreign")
    files = [ours.issue(ADMIN, f"replica-{n}") for n in range(3)]
    cluster = LocalCluster(tmp_path, tls=lambda n: RaftTls(TlsStore(files[n], print)))
    marker = tmp_path / "executed"
    shard = ours.issue(Identity(Role.SHARD, "shard-0"), "shard")
    callers: dict[str, ssl.SSLContext | None] = {
        "plain bytes": None,
        "no certificate": context(None),
        "a foreign CA": context(foreign.issue(ADMIN, "foreign")),
        "a shard's certificate": context(shard),
        "two identities": context(ours.issue_uris("two", ["bigfleet://admin", "bigfleet://readonly"])),
        "a replica's certificate and no secret": context(files[0]),
    }

    async def scenario() -> None:
        leader = await formed(cluster)
        number = 0
        for name, caller in callers.items():
            whole = strange(marker)
            for data in whole.values() if "replica" in name else [whole["a pickle"]]:
                number += 1
                assert await closed_after(port_of(cluster, 2), data, caller), name
                await until(partial(counted, cluster.nodes[2], number))
        assert not marker.exists()
        await leader.log.propose(put("a", 1))
        assert all(node.log.status().membership is Membership.FULL for node in cluster.nodes.values())

    run(cluster, scenario)


@pytest.mark.rule("coordinator#certificate-rotated")
def test_a_rotated_certificate_is_used_for_new_links_and_half_a_pair_harms_nobody(
    tmp_path: Path,
) -> None:
    ours = authority(tmp_path / "ours")
    files = [ours.issue(ADMIN, f"replica-{n}") for n in range(3)]
    fresh = ours.issue(ADMIN, "fresh")
    stores = [TlsStore(each, lambda _problem: None) for each in files]
    cluster = LocalCluster(tmp_path, tls=lambda n: RaftTls(stores[n]))

    async def scenario() -> None:
        leader = await formed(cluster)
        half = ssl.PEM_cert_to_DER_cert(files[2].cert.read_text())
        replace_pair(files[1], fresh)
        replace_file(files[2].cert, fresh.cert)  # and its key not yet: the last good pair stays
        assert await leaf_of(port_of(cluster, 1), files[0]) == ssl.PEM_cert_to_DER_cert(
            fresh.cert.read_text()
        )
        assert await leaf_of(port_of(cluster, 2), files[0]) == half
        # Existing links stay, new ones use the new certificate.
        await leader.log.propose(put("a", 1))
        other = next(n for n, node in cluster.nodes.items() if node is not leader)
        if other != 2:
            await cluster.stop(other)
            back = await cluster.start(other)
            await until(lambda: back.state_machine.pairs.get("a") == 1)

    run(cluster, scenario)


async def leaf_of(port: int, caller: TlsFiles) -> bytes:
    """Return the certificate that a Raft port presents, in DER."""
    _, writer = await asyncio.open_connection(
        "127.0.0.1", port, ssl=context(caller), server_hostname="localhost"
    )
    try:
        found = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    finally:
        writer.close()
    assert isinstance(found, bytes)
    return found


@pytest.mark.rule("coordinator#wrong-secret")
def test_a_replica_with_another_secret_never_gets_in(tmp_path: Path) -> None:
    cluster = LocalCluster(tmp_path, secrets={2: b"another secret of thirty-two bytes!"})

    async def scenario() -> None:
        for ordinal in range(3):
            await cluster.start(ordinal)
        await until(lambda: sum(refused(cluster.nodes[n]) for n in (0, 1)) > 0)
        await until(
            lambda: (leader := cluster.serving()) and leader.log.status().membership is Membership.FULL
        )
        odd = cluster.nodes[2].log.status()
        assert odd.waiting
        assert odd.applied_index <= 1

    run(cluster, scenario)


@pytest.mark.rule("coordinator#pod-ip-changed", "coordinator#fixed-membership")
def test_a_moved_peer_is_found_again_without_a_membership_write(tmp_path: Path) -> None:
    ports: dict[int, int] = {}

    async def resolve(host: str, port: int) -> tuple[str, int]:
        return host, ports.get(port, port)

    cluster = LocalCluster(tmp_path, resolve=resolve)

    async def scenario() -> None:
        leader = await formed(cluster)
        follower = next(n for n, node in cluster.nodes.items() if node is not leader)
        voters = leader.log.status().voters
        await cluster.stop(follower)
        old = port_of(cluster, follower)
        ports[old] = new = cluster.move(follower)
        assert new != old
        node = await cluster.start(follower)
        await leader.log.propose(put("a", 1))
        await until(lambda: node.state_machine.pairs.get("a") == 1)
        assert leader.log.status().voters == voters

    run(cluster, scenario)
