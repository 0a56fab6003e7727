"""The dashboard under attack over a real socket: hosts, credentials, requests that are none, connections that stay.

Routes come from the application's own router, so a new page or export is attacked without a change here.
Rules: `dashboard#allowed-hosts`, `dashboard#connections`, `dashboard#transport-security`, `dashboard#who-may-read`.
"""

import asyncio
import http.client
import json
import re
import socket
import ssl
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pytest
from structlog.testing import capture_logs

from bigfleet.aio.identity import READONLY
from bigfleet.dashboard.guard import HEADERS, Admission
from tests.attack.raw_http import RawAnswer, ask, connect
from tests.integration.dashboard.world import World, dashboard_world
from tests.support.certificates import Authority
from tests.support.program import RunningProgram

pytestmark = pytest.mark.integration
EVIL: Final = "evil.example"
QUESTION: Final = b'{"shard": "shard-0", "edits": []}'
# A part of a path that varies, and what stands for it. A new name has to be thought of here.
PARTS: Final = {
    "{pod}": "shard-0",
    "{id}": "web",
    "{shard}": "shard-0",
    "{table}": "machines",
    "{form}": "csv",
    "{digest}": "x",
    "{name}": "app.css",
    "{rest}": "shards/shard-0",
}


def run(story: Any, **options: Any) -> None:  # Any: a coroutine function of the world
    async def play() -> None:
        async with dashboard_world(**options) as world:
            await story(world)

    asyncio.run(play())


def port_of(world: World) -> int:
    return world.dashboard.port


def targets(world: World) -> list[str]:
    """A target for every route of the application."""
    found = []
    for route in sorted(world.dashboard.routes):
        path = re.sub(r"\{\w+\}", lambda part: PARTS[part[0]], route)
        found.append(f"{path or '/'}?shard=shard-0")
    assert len(found) > 40
    return found


async def refused(world: World, reason: str) -> float:
    """How many requests or connections were refused for a reason."""
    text = (await ask(port_of(world), "/metrics")).text
    (value,) = re.findall(
        rf'^bigfleet_dashboard_requests_refused_total{{reason="{reason}"}} (\S+)$', text, re.MULTILINE
    )
    return float(value)


def assert_complete(answer: RawAnswer) -> None:
    """Every answer has the security headers, and names no version of anything."""
    expected = {name.lower(): value for name, value in HEADERS.items()}
    assert expected.items() <= answer.headers.items()
    assert answer.headers["server"] == "bigfleet"
    assert "strict-transport-security" not in answer.headers  # plain HTTP
    assert "cache-control" in answer.headers


@pytest.mark.rule("dashboard#allowed-hosts")
def test_no_route_answers_a_host_that_is_not_of_this_server() -> None:
    async def story(world: World) -> None:
        before = await refused(world, "host")
        for target in targets(world):
            for method in ("GET", "HEAD", "POST", "PUT"):
                answer = await ask(port_of(world), target, method=method, host=EVIL)
                assert answer.status == 421, (method, target)
                assert_complete(answer)
            assert "shard-0" not in answer.text, target
            assert json.loads(answer.text)["error"].startswith("this dashboard does not answer to that host")
        assert await refused(world, "host") == before + 4 * len(targets(world))

    run(story)


@pytest.mark.rule("dashboard#allowed-hosts")
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        (b"Host: localhost\r\n", 200),
        (b"Host: LocalHost.:1\r\n", 200),
        (b"Host: 127.0.0.1:65535\r\n", 200),
        (b"Host: [::1]:8760\r\n", 200),
        (b"Host: fleet.example:443\r\n", 200),
        (b"Host: fleet.example\r\nX-Forwarded-Host: evil.example\r\n", 200),
        (b"Host: evil.example\r\n", 421),
        (b"Host: evil.example\r\nX-Forwarded-Host: localhost\r\n", 421),
        (b"Host: localhost.evil.example\r\n", 421),
        (b"Host: 127.0.0.1.evil.example\r\n", 421),
        (b"Host: evil.example:80@localhost\r\n", 421),
        (b"Host: localhost/\r\n", 421),
        (b"Host: localhost evil.example\r\n", 421),
        (b"Host: \xff\xfe\r\n", 421),
        (b"Host: [::1\r\n", 421),
        (b"Host:\r\n", 421),
        (b"Host: " + b"a" * 8_000 + b"\r\n", 421),
        (b"Host: localhost\r\nHost: evil.example\r\n", 400),
        (b"Accept: */*\r\n", 400),
    ],
    ids=lambda value: ascii(value)[:40],
)
def test_the_host_of_a_request_decides_whether_it_is_answered(headers: bytes, status: int) -> None:
    async def story(world: World) -> None:
        answer = await ask(port_of(world), "/api/v1/x/status", headers=headers)
        assert answer.status == status
        assert_complete(answer)

    run(story, allowed_hosts=["fleet.example"], names=())


def test_a_host_in_the_target_counts_like_the_header() -> None:
    async def story(world: World) -> None:
        for target, status in ((f"http://{EVIL}/", 421), ("http://127.0.0.1/", 200), ("http://[::1]/", 200)):
            assert (await ask(port_of(world), target)).status == status, target

    run(story, names=())


@pytest.mark.rule("dashboard#who-may-read")
@pytest.mark.parametrize(
    ("credentials", "status"),
    [
        (b"", 401),
        (b"Authorization: Bearer wrong\r\n", 401),
        (b"Authorization: Bearer\r\n", 401),
        (b"Authorization: Bearer t\xc3\xb6ken\r\n", 401),
        (b"Authorization: Bearer \xff\xfe\x80\r\n", 401),
        (b"Authorization: Basic \xff\xfe\r\n", 401),
        (b"Authorization: Basic AAAA\xc3\xa9\r\n", 401),
        (b"Authorization: Basic //79\r\n", 401),
        (b"Authorization: \xff right\r\n", 401),
        (b"Cookie: bigfleet-token=\xff\xfe\r\n", 401),
        (b'Cookie: bigfleet-token="\\377\\012"; a=b\r\n', 401),
        (b"Authorization: Bearer " + b"x" * 8_000 + b"\r\n", 401),
        (b"Authorization: Bearer " + b"x" * 20_000 + b"\r\n", 431),
        (b"Authorization: Bearer right\r\n", 200),
    ],
    ids=lambda value: ascii(value)[:40],
)
def test_credentials_of_any_bytes_are_right_or_wrong_and_never_a_defect(
    credentials: bytes, status: int
) -> None:
    async def story(world: World) -> None:
        with capture_logs() as logged:
            answer = await ask(
                port_of(world), "/api/v1/x/status", headers=b"Host: localhost\r\n" + credentials
            )
        assert answer.status == status
        assert ("shards" in json.loads(answer.text)) == (status == 200)
        assert_complete(answer)
        assert not logged

    run(story, admission=Admission(token="right"), names=())


@pytest.mark.rule("dashboard#transport-security", "dashboard#read-only")
def test_every_answer_is_complete_streams_and_errors_included() -> None:
    async def story(world: World) -> None:
        seen = set[int]()
        for target in targets(world):
            for method in ("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "TRACE", "PATCH"):
                stream = "stream" in target
                answer = await ask(port_of(world), target, method=method, whole=not stream)
                assert_complete(answer)
                assert answer.status != 500, (method, target)
                assert method in {"GET", "HEAD", "POST"} or answer.status == 405, (method, target)
                seen.add(answer.status)
        assert {200, 400, 404, 405, 503} <= seen
        for target in (
            "/nothing",
            "/shards/nothing",
            "/api/v1/x/machines",
            "/api/v1/x/export/a.b",
            "/static/x/y",
        ):
            answer = await ask(port_of(world), target)
            assert answer.status in {400, 404}
            assert_complete(answer)
        unmet = await ask(port_of(world), headers=b"Host: localhost\r\nExpect: nonsense\r\n")
        assert unmet.status == 417
        assert_complete(unmet)

    run(story)


@pytest.mark.rule("dashboard#transport-security")
def test_over_https_browsers_are_told_to_stay_with_it(tmp_path: Path) -> None:
    files = Authority(tmp_path, datetime.now(UTC)).issue(READONLY, "own")
    own = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    own.load_cert_chain(files.cert, files.key)
    trust = ssl.create_default_context(cafile=str(files.ca))
    trust.check_hostname = False  # the certificates of the fleet name roles

    async def story(world: World) -> None:
        for target in ("/", "/nothing", "/api/v1/x/status", "/api/v1/x/stream"):
            connection = await connect(port_of(world), trust)
            await connection.send(f"GET {target} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
            answer = await connection.answer(whole=False)
            assert answer.headers["strict-transport-security"] == "max-age=31536000", target
            connection.abort()

    run(story, tls=own, names=())


@pytest.mark.rule("dashboard#connections")
@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 64 + b"\r\n\r\n", 400),
        (b"GET / HTTP/9.9\r\nHost: localhost\r\n\r\n", 400),
        (b"G\x00T / HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost localhost\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n", 400),
        (
            b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
            400,
        ),
        (b"GET /" + b"x" * 100_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n", 431),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 100_000 + b"\r\n\r\n", 431),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"X: y\r\n" * 10_000 + b"\r\n", 400),
    ],
    ids=[
        "TLS",
        "version",
        "NUL",
        "colon",
        "lengths",
        "length",
        "smuggling",
        "line",
        "field",
        "fields",
    ],
)
def test_what_is_no_request_gets_an_answer_in_our_form_and_no_line_in_the_log(
    request_: bytes, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(world: World) -> None:
        connection = await connect(port_of(world))
        await connection.send(request_)
        answer = await connection.answer()
        assert answer.status == status
        assert "error" in json.loads(answer.text)
        assert_complete(answer)
        connection.abort()
        assert await refused(world, "malformed") == 1
        assert not caplog.records

    run(story, names=())


@pytest.mark.rule("dashboard#read-only", "dashboard#connections")
def test_a_body_that_is_too_large_or_breaks_off_or_is_no_body_is_refused(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story(world: World) -> None:
        head = b"POST /api/v1/x/whatif HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        huge = b"Content-Length: 1048577\r\n\r\n" + b" " * 1_048_577
        chunks = b"Transfer-Encoding: chunked\r\n\r\n" + b"10000\r\n" + b" " * 65_536 + b"\r\n"
        broken = b"Transfer-Encoding: chunked\r\n\r\nnonsense\r\n"
        packed = b"Content-Encoding: gzip\r\nContent-Length: 9\r\n\r\nnonsense!"
        for sent, status, reason in (
            (huge, 413, "too_large"),
            (chunks + 17 * chunks.partition(b"\r\n\r\n")[2], 413, "too_large"),
            (broken, 400, "malformed"),
            (packed, 400, "malformed"),
        ):
            before = await refused(world, reason)
            connection = await connect(port_of(world))
            await connection.send(head + sent)
            answer = await connection.answer()
            assert (answer.status, await refused(world, reason)) == (status, before + 1), sent[:60]
            assert_complete(answer)
            connection.abort()
        for _ in range(5):
            connection = await connect(port_of(world))
            await connection.send(head + b"Content-Length: 1000\r\n\r\n" + QUESTION)
            connection.abort()
        await until(lambda: refused(world, "aborted"), 5)
        assert not caplog.records

    with capture_logs() as logged:
        run(story)
    assert [line for line in logged if line["log_level"] == "error"] == []


async def until(read: Callable[[], Any], wanted: float) -> None:
    """Wait until a figure has a value."""
    async with asyncio.timeout(30):
        while await read() != wanted:  # noqa: ASYNC110  # the fact is in another process or a metric, which has no event
            await asyncio.sleep(0.02)


@pytest.mark.rule("dashboard#connections")
def test_slow_heads_slow_bodies_and_idle_connections_end() -> None:
    async def story(world: World) -> None:
        slow_head, slow_body, idle = [await connect(port_of(world)) for _ in range(3)]
        await slow_head.send(b"GET / HTTP/1.1\r\nHost: loc")
        await slow_body.send(
            b"POST /api/v1/x/whatif HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Content-Length: 1000\r\n\r\n{"
        )
        assert (await slow_body.answer()).status == 408
        for connection in (slow_head, slow_body, idle):
            assert await connection.ended() == b""
        assert await refused(world, "slow") == 2

    # Long enough for the first bytes to arrive: a connection that has sent none counts as idle, not as slow.
    run(story, names=(), request_timeout_s=1.5)


@pytest.mark.rule("dashboard#connections")
def test_a_reader_is_answered_while_more_silent_connections_come_than_are_allowed() -> None:
    async def story(world: World) -> None:
        silent = [await connect(port_of(world)) for _ in range(40)]
        answer = await ask(port_of(world), "/api/v1/x/status")
        assert answer.status == 200
        assert await silent[0].ended() == b""
        assert await refused(world, "connections") >= 32
        for connection in silent:
            connection.abort()

    run(story, names=(), max_connections=8)


@pytest.mark.rule("dashboard#connections")
def test_a_request_under_way_is_not_closed_to_make_room() -> None:
    async def story(world: World) -> None:
        streams = []
        for _ in range(8):
            connection = await connect(port_of(world))
            await connection.send(b"GET /api/v1/x/stream HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert (await connection.answer(whole=False)).status == 200
            streams.append(connection)
        late = await connect(port_of(world))
        assert await late.ended() == b""
        streams.pop().abort()

        async def status() -> int:
            try:
                return (await ask(port_of(world), "/healthz")).status
            except (ConnectionError, asyncio.IncompleteReadError):
                return 0

        await until(status, 200)
        for connection in streams:
            connection.abort()

    run(story, names=(), max_connections=8)


def test_a_process_logs_no_traceback_whatever_readers_send(tmp_path: Path) -> None:
    """Everything at once against the program itself: its log is what fills a disk."""
    with RunningProgram("bigfleet", "dashboard", "--listen=127.0.0.1:0", log=tmp_path / "log") as program:
        (port,) = map(
            int,
            program.wait(
                "it prints its address", lambda: re.findall(r"http://127.0.0.1:(\d+)/", program.text())
            ),
        )
        before = len(program.text())
        for number in range(100):
            with socket.create_connection(("127.0.0.1", port), timeout=30) as attacker:
                attacker.sendall(
                    (
                        b"\x16\x03\x01nonsense\r\n\r\n",
                        b"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n",
                        b"POST /api/v1/x/whatif HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{",
                        b"GET / HTTP/1.1\r\nHost: localhost\r\nAuthorization: Basic \xff\r\n\r\n",
                    )[number % 4]
                )
        reader = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        reader.request("GET", "/metrics")
        text = reader.getresponse().read().decode()
        assert 'refused_total{reason="malformed"} 25.0' in text
        assert 'refused_total{reason="host"} 25.0' in text
        reader.close()
        assert program.end() == 0
        assert "Traceback" not in program.text()
        assert len(program.text()) < before + 1_000
