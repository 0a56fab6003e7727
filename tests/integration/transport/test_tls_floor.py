"""What the gRPC library lets pass below TLS 1.3, found with the standard library's TLS at the other end (`shard#tls`).

A process that imports `bigfleet.transport` before gRPC speaks TLS 1.3 only. The other order, which a test suite cannot
exclude, leaves the library's own floor. As the floor is set once per process, each case runs in a process of its own.
"""

import asyncio
import json
import os
import socket
import ssl
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from bigfleet.aio.identity import ADMIN
from bigfleet.transport.tls import TlsFiles
from tests.support.certificates import Authority

pytestmark = pytest.mark.integration

SERVE = """
import asyncio, sys
{first}
from pathlib import Path
import bigfleet.transport
from bigfleet.transport.grpc_net import GrpcNet
from bigfleet.transport.tls import TlsFiles, TlsStore

async def main():
    files = TlsFiles(*(Path(path) for path in sys.argv[1:4]))
    server = await GrpcNet(TlsStore(files, print)).serve("127.0.0.1:0", [])
    print(server.port, bigfleet.transport.TLS_FLOOR, flush=True)
    await asyncio.to_thread(sys.stdin.read)
    await server.stop(0)

asyncio.run(main())
"""

CALL = """
import asyncio, sys
from pathlib import Path
from bigfleet.aio.net import RpcError
from bigfleet.transport.grpc_net import GrpcNet
from bigfleet.transport.health import CHECK
from bigfleet.transport.tls import TlsFiles, TlsStore
from grpc_health.v1 import health_pb2

async def main():
    files = TlsFiles(*(Path(path) for path in sys.argv[1:4]))
    channel = GrpcNet(TlsStore(files, print)).dial("127.0.0.1:" + sys.argv[4])
    try:
        await channel.unary(CHECK, health_pb2.HealthCheckRequest(), timeout_s=2)
    except RpcError as error:
        print(error.code.name)
    await channel.close()

asyncio.run(main())
"""

NON_AEAD = "ECDHE-ECDSA-AES128-SHA:ECDHE-ECDSA-AES256-SHA384:ECDHE-RSA-AES128-SHA:AES128-SHA"


@pytest.fixture
def files(tmp_path: Path) -> TlsFiles:
    return Authority(tmp_path / "ca", datetime.now(UTC)).issue(ADMIN)


def arguments(files: TlsFiles) -> list[str]:
    return [str(files.cert), str(files.key), str(files.ca)]


def context(
    files: TlsFiles, newest: ssl.TLSVersion, ciphers: str = "", *, shows: bool = True
) -> ssl.SSLContext:
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    made.load_verify_locations(files.ca)
    if shows:
        made.load_cert_chain(files.cert, files.key)
    made.maximum_version = newest
    made.set_alpn_protocols(["h2"])
    if ciphers:
        made.set_ciphers(ciphers)
    return made


def greeted(port: int, tls: ssl.SSLContext) -> str:
    """Return the version spoken once the server has sent its first HTTP/2 byte; empty when it refused."""
    try:
        with (
            socket.create_connection(("127.0.0.1", port), timeout=20) as plain,
            tls.wrap_socket(plain, server_hostname="localhost") as secured,
        ):
            return str(secured.version()) if secured.recv(1) else ""
    except (ssl.SSLError, ConnectionError):
        return ""


@pytest.mark.parametrize(
    ("first", "floor", "accepts"),
    [
        pytest.param("", "TLS 1.3", {"TLS 1.3"}, id="our package first"),
        pytest.param("import grpc", "TLS 1.2 with AEAD suites", {"TLS 1.3", "TLS 1.2 AEAD"}, id="grpc first"),
    ],
)
def test_a_server_speaks_nothing_below_its_floor(
    files: TlsFiles, first: str, floor: str, accepts: set[str]
) -> None:
    command = [sys.executable, "-c", SERVE.format(first=first), *arguments(files)]
    clean = {name: value for name, value in os.environ.items() if name != "GRPC_SSL_CIPHER_SUITES"}
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=clean) as process:
        try:
            assert process.stdout is not None
            port, _, claimed = process.stdout.readline().strip().partition(" ")
            assert claimed == floor
            offers = {
                "TLS 1.3": context(files, ssl.TLSVersion.TLSv1_3),
                "TLS 1.2 AEAD": context(files, ssl.TLSVersion.TLSv1_2),
                "TLS 1.2 CBC": context(files, ssl.TLSVersion.TLSv1_2, NON_AEAD),
                "no certificate": context(files, ssl.TLSVersion.TLSv1_3, shows=False),
            }
            assert {name for name, tls in offers.items() if greeted(int(port), tls)} == accepts
        finally:
            process.kill()


@pytest.mark.parametrize(
    ("newest", "spoken"),
    [
        pytest.param(ssl.TLSVersion.TLSv1_3, ["TLSv1.3"], id="a server of TLS 1.3"),
        pytest.param(ssl.TLSVersion.TLSv1_2, [], id="a server of TLS 1.2"),
    ],
)
def test_a_channel_speaks_nothing_below_tls_1_3(
    files: TlsFiles, newest: ssl.TLSVersion, spoken: list[str]
) -> None:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(files.cert, files.key)
    tls.maximum_version = newest
    tls.set_alpn_protocols(["h2"])
    seen: list[str] = []

    async def accept(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(writer.get_extra_info("ssl_object").version())
        writer.close()

    async def run() -> str:
        server = await asyncio.start_server(accept, "127.0.0.1", 0, ssl=tls)
        port = server.sockets[0].getsockname()[1]
        command = [sys.executable, "-c", CALL, *arguments(files), str(port)]
        process = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE)
        output, _ = await process.communicate()
        server.close()
        return output.decode().strip()

    assert asyncio.run(run()) in {
        "UNAVAILABLE",
        "DEADLINE_EXCEEDED",
    }  # no HTTP/2 follows the handshake
    assert seen[:1] == spoken


def test_a_value_from_outside_does_not_weaken_the_floor() -> None:
    code = "import os, json, bigfleet.transport as t; print(json.dumps([t.TLS_FLOOR, os.environ['GRPC_SSL_CIPHER_SUITES']]))"
    environment = {"GRPC_SSL_CIPHER_SUITES": "ALL", "PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    answer: Any = json.loads(done.stdout)
    assert answer[0] == "TLS 1.3"
    assert "PSK" in answer[1]
