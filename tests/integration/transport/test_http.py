import asyncio
import gc
import socket
from collections.abc import AsyncGenerator
from contextlib import suppress

import pytest
import pytest_asyncio
from prometheus_client import CollectorRegistry, Counter

from bigfleet.aio.net import ListenError
from bigfleet.obs.exposition import metrics_text
from bigfleet.transport.http import MAX_CONNECTIONS, HttpLimits, HttpServer
from bigfleet.transport.probes import serve_probes

pytestmark = [pytest.mark.integration, pytest.mark.asyncio]

SOON_S = 20.0


class Probes:
    """A running server, and the reasons it reads."""

    def __init__(self, server: HttpServer, reasons: list[str]) -> None:
        self.server, self.reasons = server, reasons

    async def send(self, data: bytes) -> bytes:
        """Send raw bytes and read until the server closes."""
        async with asyncio.timeout(SOON_S):
            reader, writer = await asyncio.open_connection("127.0.0.1", self.server.port)
            writer.write(data)
            try:
                return await reader.read()
            except ConnectionResetError:  # it closed before it had read all the garbage
                return b""
            finally:
                writer.transport.abort()

    async def get(self, path: str, headers: str = "", method: str = "GET") -> tuple[int, str, str]:
        """Return status, head and body."""
        answer = await self.send(f"{method} {path} HTTP/1.1\r\nHost: x\r\n{headers}\r\n".encode())
        head, _, body = answer.decode().partition("\r\n\r\n")
        return int(head.split(" ")[1]), head, body


@pytest_asyncio.fixture
async def probes() -> AsyncGenerator[Probes, None]:
    registry = CollectorRegistry()
    Counter("bigfleet_test", "A counter.", registry=registry).inc(3)
    reasons: list[str] = []
    server = await serve_probes(
        "127.0.0.1:0", metrics_text(registry), lambda: reasons, HttpLimits(request_s=0.3)
    )
    assert server is not None
    yield Probes(server, reasons)
    await server.stop()


async def test_healthz_answers_while_the_loop_does(probes: Probes) -> None:
    probes.reasons.append("not ready, but alive")
    assert (await probes.get("/healthz"))[0] == 200


async def test_healthz_fails_for_what_only_a_restart_mends() -> None:
    reasons: list[str] = []
    server = await serve_probes(
        "127.0.0.1:0", metrics_text(CollectorRegistry()), tuple, not_alive=lambda: reasons
    )
    assert server is not None
    probes = Probes(server, reasons)
    assert (await probes.get("/healthz"))[0] == 200
    reasons.append("the loop is wedged")
    status, _, body = await probes.get("/healthz")
    assert (status, body) == (503, "the loop is wedged\n")
    assert (await probes.get("/readyz"))[0] == 200
    await server.stop()


async def test_readyz_gives_one_reason_per_line(probes: Probes) -> None:
    assert (await probes.get("/readyz"))[0] == 200
    probes.reasons += ["first reconcile has not succeeded", "self-paused:\nfenced three times"]
    status, _, body = await probes.get("/readyz?verbose")
    assert status == 503
    assert body == "first reconcile has not succeeded\nself-paused: fenced three times\n"


async def test_metrics_come_in_the_format_the_scraper_accepts(probes: Probes) -> None:
    status, head, body = await probes.get("/metrics")
    assert (status, "bigfleet_test_total 3.0" in body) == (200, True)
    assert "Content-Type: text/plain; version=0.0.4" in head
    _, head, body = await probes.get("/metrics", "Accept: application/openmetrics-text; version=1.0.0\r\n")
    assert "application/openmetrics-text" in head
    assert body.endswith("# EOF\n")
    status, head, _ = await probes.get("/metrics", "Accept: application/openmetrics-text; version=x\r\n")
    assert (status, "text/plain" in head) == (200, True)


async def test_head_has_headers_only(probes: Probes) -> None:
    status, head, body = await probes.get("/healthz", method="HEAD")
    assert (status, body) == (200, "")
    assert "Content-Length: 3" in head


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "BREW"])
async def test_other_methods_are_not_allowed(probes: Probes, method: str) -> None:
    status, head, _ = await probes.get("/metrics", method=method)
    assert status == 405
    assert "Allow: GET, HEAD" in head


async def test_other_paths_are_not_found(probes: Probes) -> None:
    assert (await probes.get("/debug/pprof"))[0] == 404


@pytest.mark.parametrize(
    ("data", "status"),
    [
        pytest.param(b"\x16\x03\x01\x02\x00\x01\r\n\r\n", b"400", id="a TLS hello"),
        pytest.param(b"\r\n\r\n", b"400", id="empty lines"),
        pytest.param(b"GET /healthz\r\n\r\n", b"400", id="no version"),
        pytest.param(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"400", id="an HTTP/2 preface"),
        pytest.param(b"GET /healthz HTTP/1.1\r\nno colon\r\n\r\n", b"400", id="a header without a colon"),
        pytest.param(b"GET /healthz HTTP/1.1\r\nA: b\rC: d\r\n\r\n", b"400", id="a lone carriage return"),
        pytest.param(b"GET /healthz HTTP/1.1\r\n A: folded\r\n\r\n", b"400", id="a folded header"),
        pytest.param(b"GET /" + b"a" * 5000 + b" HTTP/1.1\r\n\r\n", b"431", id="a long line"),
        pytest.param(b"GET / HTTP/1.1\r\n" + b"A: bcdefgh\r\n" * 4000 + b"\r\n", b"431", id="many headers"),
        pytest.param(b"GET / HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello", b"413", id="a body"),
        pytest.param(b"GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", b"413", id="a chunked body"),
    ],
)
async def test_garbage_is_refused_and_harms_nobody(probes: Probes, data: bytes, status: bytes) -> None:
    answer = await probes.send(data)
    assert answer == b"" or answer.startswith(b"HTTP/1.1 " + status)  # empty: reset before all of it was read
    assert (await probes.get("/healthz"))[0] == 200


async def test_a_slow_loris_is_cut_off_and_others_are_served_meanwhile(probes: Probes) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", probes.server.port)
    writer.write(b"GET /healthz HTTP/1.1\r\nX-Slow: ")
    assert (await probes.get("/healthz"))[0] == 200
    async with asyncio.timeout(SOON_S):
        answer = await reader.read()
    assert answer.startswith(b"HTTP/1.1 408 ")
    writer.transport.abort()


async def test_a_peer_that_says_nothing_is_cut_off(probes: Probes) -> None:
    assert (await probes.send(b"")).startswith(b"HTTP/1.1 408 ")


@pytest.mark.rule("packaging#connection-limits")
async def test_slow_connections_beyond_the_limit_make_room_for_a_probe_the_oldest_first() -> None:
    slow: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []
    server = await serve_probes("127.0.0.1:0", metrics_text(CollectorRegistry()), tuple)
    assert server is not None
    probes = Probes(server, [])
    for _ in range(MAX_CONNECTIONS + 6):
        slow.append(await asyncio.open_connection("127.0.0.1", server.port))
        slow[-1][1].write(b"GET /heal")
    for _ in range(10):
        assert (await probes.get("/healthz"))[0] == 200
    async with asyncio.timeout(SOON_S):
        for reader, _ in slow[:6]:
            with suppress(ConnectionError):
                assert await reader.read() == b""
    # The last one is still there, and is answered once its request is whole.
    reader, writer = slow[-1]
    writer.write(b"thz HTTP/1.1\r\n\r\n")
    assert (await reader.read()).startswith(b"HTTP/1.1 200 ")
    for _, writer in slow:
        writer.transport.abort()
    await server.stop()


@pytest.mark.rule("packaging#connection-limits")
async def test_connections_that_end_leave_nothing_for_the_collector() -> None:
    """What is alive at the moment of a freeze is not looked at for an hour, so a cycle would be a leak."""
    server = await serve_probes(
        "127.0.0.1:0", metrics_text(CollectorRegistry()), tuple, HttpLimits(request_s=0.2)
    )
    assert server is not None

    def ask(request: bytes) -> bytes:
        # In a thread and without asyncio, whose own connections would be counted too.
        with socket.create_connection(("127.0.0.1", server.port), timeout=SOON_S) as connection:
            connection.sendall(request)
            with connection.makefile("rb") as answer:
                return answer.read()

    await asyncio.to_thread(ask, b"GET /healthz HTTP/1.1\r\n\r\n")
    gc.collect()
    gc.disable()
    try:
        before = cycles()
        for _ in range(20):
            assert b" 200 " in await asyncio.to_thread(ask, b"GET /healthz HTTP/1.1\r\n\r\n")
        for _ in range(3):
            assert b" 408 " in await asyncio.to_thread(ask, b"GET /hea")
        assert cycles() - before <= 2
    finally:
        gc.enable()
        await server.stop()


def cycles() -> int:
    """How many transports and requests of ended connections are alive."""
    return sum(
        type(each).__name__ in {"_SelectorSocketTransport", "HttpRequest"} for each in gc.get_objects()
    )


async def test_the_address_0_serves_nothing() -> None:
    assert await serve_probes("0", metrics_text(CollectorRegistry()), list) is None


async def test_a_port_in_use_is_one_clear_error(probes: Probes) -> None:
    with pytest.raises(ListenError, match="in use"):
        await serve_probes(f"127.0.0.1:{probes.server.port}", metrics_text(CollectorRegistry()), list)


async def test_a_failing_probe_is_an_internal_error_without_its_text() -> None:
    def broken() -> list[str]:
        raise ZeroDivisionError("the password is hunter2")

    server = await serve_probes("127.0.0.1:0", metrics_text(CollectorRegistry()), broken)
    assert server is not None
    status, _, body = await Probes(server, []).get("/readyz")
    assert status == 500
    assert "hunter2" not in body
    await server.stop()


async def test_a_stop_closes_what_is_open(probes: Probes) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", probes.server.port)
    writer.write(b"GET /hea")
    assert (await probes.get("/healthz"))[0] == 200
    async with asyncio.timeout(SOON_S):
        await probes.server.stop()
        with pytest.raises((ConnectionError, AssertionError)):
            assert await reader.read() != b""
    writer.transport.abort()
