"""Refused connections on the Raft port leave nothing in memory, and a lack of descriptors is no dead Raft."""

import asyncio
import gc
import os
import resource
import socket
import ssl
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from bigfleet.aio.connection_report import ConnectionReport
from bigfleet.aio.identity import ADMIN, Identity, Role
from bigfleet.coordinator.log import FatalLogError
from bigfleet.coordinator.raft import raft_gate as raft_gate_module
from bigfleet.coordinator.raft import relays as relays_module
from bigfleet.coordinator.raft.certificates import RaftTls
from bigfleet.coordinator.raft.raft_gate import LIMITS, RaftGate
from bigfleet.coordinator.raft.relays import Relays
from bigfleet.coordinator.raft.replica import Replica
from bigfleet.transport.address import ListenAddress
from bigfleet.transport.connections import BookLimits
from bigfleet.transport.tls import TlsFiles, TlsStore
from tests.support.certificates import Authority
from tests.support.coordinator.local_cluster import LocalCluster

pytestmark = [pytest.mark.integration, pytest.mark.rule("coordinator#raft-flood")]

SOON_S = 30.0
HELD = {"SSLProtocol", "_SSLProtocolTransport", "_SelectorSocketTransport", "PipeEnd", "SSLObject"}


def held() -> Counter[str]:
    return Counter(name for each in gc.get_objects() if (name := type(each).__name__) in HELD)


@contextmanager
def without_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def client(files: TlsFiles | None) -> ssl.SSLContext:
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    made.check_hostname = False
    made.verify_mode = ssl.CERT_NONE
    if files is not None:
        made.load_cert_chain(files.cert, files.key)
    return made


def stranger(port: int, kind: str, shard: TlsFiles) -> None:
    """Connect as a stranger would, until the other side closes; blocking, so that no loop of the test holds anything."""
    with socket.create_connection(("127.0.0.1", port), timeout=SOON_S) as raw, suppress(OSError):
        if kind == "plain bytes":
            raw.sendall(b"\x07" * 300)
            raw.recv(100)
        elif kind == "gone at once":
            return
        else:
            context = client(None if kind == "no certificate" else shard)
            with context.wrap_socket(raw) as secured:
                secured.recv(100)


@pytest.mark.parametrize(
    "kind",
    [
        "plain bytes",
        "gone at once",
        "no certificate",
        "a shard's certificate",
        "a replica without the secret",
    ],
)
def test_a_refused_connection_leaves_nothing_for_the_collector(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(raft_gate_module, "HANDSHAKE_S", 0.5)
    ours = Authority(tmp_path, datetime.now(UTC))
    replica = ours.issue(ADMIN, "replica")
    files = replica if "replica" in kind else ours.issue(Identity(Role.SHARD, "shard-0"), "shard")
    reasons: list[str] = []

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        library = await loop.create_server(asyncio.Protocol, "127.0.0.1", 0)
        gate = RaftGate(
            ListenAddress("127.0.0.1", 0),
            RaftTls(TlsStore(replica, print)),
            on_refused=lambda reason, _detail: reasons.append(reason),
        )
        port = gate.listen()
        gate.target = library.sockets[0].getsockname()[1]

        async def refused(number: int) -> None:
            for _ in range(number):
                before = len(reasons)
                await asyncio.to_thread(stranger, port, kind, files)
                async with asyncio.timeout(SOON_S):
                    while len(reasons) == before:  # noqa: ASYNC110 - callbacks of the gate wake nothing
                        await asyncio.sleep(0.01)

        number = 4 if "replica" in kind else 12
        await refused(2)
        with without_collector():
            before = held()
            await refused(number)
            for _ in range(10):
                await asyncio.sleep(0.01)
            after = held()
        await gate.close()
        library.close()
        # One may be on its way out; what is kept would be one of each kind per connection.
        assert all(after[name] - before[name] <= 2 for name in HELD), (before, after)

    asyncio.run(scenario())


def test_more_connections_than_the_limit_are_ended_the_oldest_first(tmp_path: Path) -> None:
    ours = Authority(tmp_path, datetime.now(UTC))
    replica = ours.issue(ADMIN, "replica")

    async def scenario() -> None:
        refused: list[object] = []
        counts: list[int] = []
        report = ConnectionReport(
            on_refused=lambda *what: refused.append(what),
            on_open=lambda _listener, count, _limit: counts.append(count),
        )
        gate = RaftGate(
            ListenAddress("127.0.0.1", 0),
            RaftTls(TlsStore(replica, print)),
            on_refused=lambda _reason, _detail: None,
            report=report,
        )
        port = gate.listen()
        opened = [
            await asyncio.open_connection("127.0.0.1", port) for _ in range(LIMITS.unproven_per_address + 5)
        ]
        async with asyncio.timeout(SOON_S):
            for reader, _ in opened[:5]:
                with suppress(ConnectionError):
                    assert await reader.read() == b""
        assert len(refused) == 5
        assert max(counts) <= LIMITS.unproven_per_address
        await gate.close()
        for _, writer in opened:
            writer.transport.abort()

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("secured", "sent"),
    [
        pytest.param(True, b"", id="no handshake"),
        pytest.param(False, b"", id="silent"),
        pytest.param(False, b"\x04\x00\x00\x00ping", id="no secret"),
    ],
)
def test_a_connection_that_proves_nothing_ends_at_its_deadline(
    tmp_path: Path, secured: bool, sent: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(raft_gate_module, "HANDSHAKE_S", 0.3)
    store = TlsStore(Authority(tmp_path, datetime.now(UTC)).issue(ADMIN, "replica"), print)
    reasons: list[str] = []

    async def scenario() -> None:
        # A Raft that reads and does not answer, as it does for a peer without the secret.
        library = await asyncio.get_running_loop().create_server(asyncio.Protocol, "127.0.0.1", 0)
        gate = RaftGate(
            ListenAddress("127.0.0.1", 0),
            RaftTls(store) if secured else None,
            on_refused=lambda reason, _detail: reasons.append(reason),
        )
        port = gate.listen()
        gate.target = library.sockets[0].getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)) as stranger:
            stranger.sendall(sent)
            await asyncio.to_thread(wait_closed, stranger)
        await gate.close()
        library.close()

    asyncio.run(scenario())
    assert reasons == ["handshake" if secured else "secret"]


def test_a_connection_that_made_room_leaves_nothing_for_the_collector(tmp_path: Path) -> None:
    """It is cancelled in the middle of its handshake, with the TLS buffers in its frames."""
    replica = Authority(tmp_path, datetime.now(UTC)).issue(ADMIN, "replica")
    places = 4

    async def scenario() -> None:
        counts: list[int] = []
        gate = RaftGate(
            ListenAddress("127.0.0.1", 0),
            RaftTls(TlsStore(replica, print)),
            on_refused=lambda _reason, _detail: None,
            report=ConnectionReport(on_open=lambda _listener, count, _limit: counts.append(count)),
            limits=BookLimits(places, places, places),
        )
        port = gate.listen()
        with without_collector():
            before = held()
            silent = [
                await asyncio.to_thread(socket.create_connection, ("127.0.0.1", port)) for _ in range(24)
            ]
            async with asyncio.timeout(SOON_S):
                for each in silent[: -2 * places]:
                    await asyncio.to_thread(wait_closed, each)
            after = held()
        await gate.close()
        for each in silent:
            each.close()
        assert all(after[name] - before[name] <= 2 * places + 2 for name in HELD), (before, after)

    asyncio.run(scenario())


def wait_closed(connection: socket.socket) -> None:
    """Read until the other side has closed."""
    connection.settimeout(SOON_S)
    with suppress(ConnectionError):
        while connection.recv(4096):
            pass


def test_a_lack_of_descriptors_is_no_dead_raft(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relays_module, "PROBE_S", 0.05)
    monkeypatch.setattr(relays_module, "REBIND_S", 0.05)
    dead: list[FatalLogError] = []
    short = threading.Event()
    report = ConnectionReport(on_shortage=lambda _listener, _error: short.set())

    async def scenario() -> None:
        relays = Relays(
            ListenAddress("127.0.0.1", 0),
            {},
            None,
            on_refused=lambda _reason, _detail: None,
            on_dead=dead.append,
            report=report,
        )
        await relays.start()
        raft = await asyncio.start_server(lambda _reader, writer: writer.close(), "127.0.0.1", 0)
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        try:
            relays.set_target(raft.sockets[0].getsockname()[1])
            resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free(), hard))
            assert await asyncio.to_thread(short.wait, SOON_S)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert dead == []
        # A port that really is gone still is the end.
        raft.close()
        await raft.wait_closed()
        async with asyncio.timeout(SOON_S):
            while not dead:  # noqa: ASYNC110 - a fact of another thread
                await asyncio.sleep(0.02)
        await relays.stop()

    asyncio.run(scenario())


def test_a_port_that_the_library_gave_up_is_bound_again(tmp_path: Path) -> None:
    """As it does at the first accept that finds no descriptor; its own tick binds the port only once."""

    async def scenario() -> None:
        cluster = LocalCluster(tmp_path)
        try:
            nodes = [await cluster.start(ordinal) for ordinal in range(3)]
            runner = nodes[0].log._status.runner
            assert runner is not None
            async with asyncio.timeout(SOON_S):
                while runner.replica is None:  # noqa: ASYNC110 - formation announces nothing
                    await asyncio.sleep(0.02)

            def server(replica: Replica) -> Any:  # Any: the library has no types
                return replica._raft._SyncObj__transport._server

            def port(replica: Replica) -> int:
                return int(server(replica)._TcpServer__port)

            where = await runner.on_thread(port)
            await runner.on_thread(lambda replica: server(replica).unbind())
            async with asyncio.timeout(SOON_S):
                while True:
                    with suppress(OSError):
                        _, writer = await asyncio.open_connection("127.0.0.1", where)
                        writer.close()
                        break
                    await asyncio.sleep(0.02)
        finally:
            await cluster.stop_all()

    asyncio.run(scenario())


def lowest_free() -> int:
    """Return the number of the lowest free descriptor; with it as the limit none can be had."""
    descriptor = os.open("/dev/null", os.O_RDONLY)
    os.close(descriptor)
    return descriptor
