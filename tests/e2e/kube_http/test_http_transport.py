"""The transport over real sockets: answers, streams, tokens, certificates, and servers that misbehave."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from bigfleet.aio.clock import SystemClock
from bigfleet.aio.system_disk import SystemDisk
from bigfleet.kube.client import KubeClient, Selection
from bigfleet.kube.errors import (
    ConflictError,
    GoneError,
    LoginError,
    MalformedAnswerError,
    ServerError,
    ThrottledError,
    UnauthorizedError,
    UnreachableError,
)
from bigfleet.kube.http_transport import HttpTransport, run_plugin
from bigfleet.kube.kubeconfig import Material, Target
from bigfleet.kube.limiter import RateLimiter
from bigfleet.kube.login import Login
from bigfleet.kube.resources import CAPACITY_REQUESTS, NODES, ObjectKey
from bigfleet.kube.transport import ApiCall
from tests.support.kube_api.api import InMemoryApi
from tests.support.kube_api.http import HttpFault, HttpFront
from tests.support.kube_api.world import capacity_request

pytestmark = [pytest.mark.integration, pytest.mark.asyncio]

NODES_SELECTION = Selection(NODES)


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


class Wire:
    """A client, a server on loopback, and the cluster in memory behind it."""

    def __init__(self, api: InMemoryApi, front: HttpFront, login: Login) -> None:
        self.api, self.front = api, front
        self.transport = HttpTransport(login)
        self.client = KubeClient(self.transport, RateLimiter(SystemClock(), qps=1000, burst=1000))


@asynccontextmanager
async def wire(**target: str) -> AsyncIterator[Wire]:
    clock = SystemClock()
    api = InMemoryApi(clock)
    async with HttpFront(api.transport()).serving() as front:
        login = Login(Target(front.url, **target), SystemDisk(), clock)  # type: ignore[arg-type]  # texts all
        made = Wire(api, front, login)
        try:
            yield made
        finally:
            await made.client.close()


async def follow(w: Wire, version: str, seen: list[str]) -> None:
    """Collect the names of the objects in a watch until it ends."""
    async with w.client.watch(NODES_SELECTION, resource_version=version, timeout_s=300) as lines:
        async for line in lines:
            seen.append(json.loads(line)["object"]["metadata"]["name"])  # noqa: PERF401  seen by others meanwhile


async def test_calls_and_refusals_come_through() -> None:
    async with wire() as w:
        created = await w.client.create(CAPACITY_REQUESTS, capacity_request("a"))
        key = ObjectKey("shop", "a")
        after = await w.client.merge_patch(
            CAPACITY_REQUESTS, key, {"status": {"phase": "Pending"}}, subresource="status"
        )
        assert after["status"] == {"phase": "Pending"}
        with pytest.raises(ConflictError):
            await w.client.replace(CAPACITY_REQUESTS, created)
        listed = await w.client.list_all(Selection(CAPACITY_REQUESTS, labels="a in (b, c),!d"))
        assert listed == []
        await w.client.delete(CAPACITY_REQUESTS, key, uid=created["metadata"]["uid"])
        assert await w.client.list_all(Selection(CAPACITY_REQUESTS)) == []


async def test_a_watch_gives_lines_as_they_come() -> None:
    async with wire() as w:
        version = str(w.api.objects.version)
        async with w.client.watch(NODES_SELECTION, resource_version=version, timeout_s=30) as lines:
            iterator = aiter(lines)
            for number in range(50):
                await w.client.create(
                    NODES, {"metadata": {"name": f"n{number}"}, "spec": {"note": "x" * 3000}}
                )
            names = [json.loads(await anext(iterator))["object"]["metadata"]["name"] for _ in range(50)]
        assert names == [f"n{number}" for number in range(50)]


async def test_an_expired_version_is_told_on_the_stream() -> None:
    async with wire() as w:
        w.api.objects.compact()
        async with w.client.watch(NODES_SELECTION, resource_version="1", timeout_s=30) as lines:
            event = json.loads(await anext(aiter(lines)))
        assert (event["type"], event["object"]["code"]) == ("ERROR", 410)


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        pytest.param(HttpFault(status=429, body="slow down"), ThrottledError, id="C1 429 as text"),
        pytest.param(
            HttpFault(status=503, body="<html>", content_type="text/html"), ServerError, id="C2 page"
        ),
        pytest.param(HttpFault(status=500), ServerError, id="empty 500"),
        pytest.param(HttpFault(status=410, body='{"reason":"Expired"}', times=2), GoneError, id="C4 410"),
        pytest.param(HttpFault(status=200, body="<html>"), MalformedAnswerError, id="a page for an answer"),
        pytest.param(HttpFault("cut", times=2), UnreachableError, id="connection cut"),
    ],
)
async def test_a_bad_answer_has_its_error(fault: HttpFault, error: type[Exception]) -> None:
    async with wire() as w:
        w.front.faults.append(fault)
        with pytest.raises(error) as caught:
            await w.client.list_all(NODES_SELECTION)
        assert type(caught.value) is error
        assert await w.client.list_all(NODES_SELECTION) == []


async def test_the_patience_asked_for_arrives() -> None:
    async with wire() as w:
        w.front.faults.append(
            HttpFault(status=429, body="slow down", headers={"Retry-After": "7"}, watch=True)
        )
        with pytest.raises(ThrottledError) as caught:
            async with w.client.watch(NODES_SELECTION, resource_version="1", timeout_s=30):
                pass
        assert caught.value.retry_after_s == 7


@pytest.mark.parametrize("what", ["cut-lines", "half-line"])
async def test_a_stream_that_breaks_gives_whole_lines_and_then_the_error(what: str) -> None:
    async with wire() as w:
        version = str(w.api.objects.version)
        for number in range(3):
            await w.client.create(NODES, {"metadata": {"name": f"n{number}"}})
        w.front.faults.append(HttpFault(what, watch=True, after_lines=2))  # type: ignore[arg-type]  # one of both
        seen: list[str] = []
        with pytest.raises(UnreachableError):
            await follow(w, version, seen)
        assert seen == ["n0", "n1"]


async def test_a_server_that_says_nothing_is_left_at_the_deadline() -> None:
    async with wire() as w:
        w.front.faults.append(HttpFault("silence", times=10))
        with pytest.raises(UnreachableError, match="no answer in time"):
            await w.client.call(ApiCall("GET", "/api/v1/nodes", deadline_s=0.2))


async def test_a_port_without_a_server_is_unreachable() -> None:
    transport = HttpTransport(Login(Target("http://127.0.0.1:1"), SystemDisk(), SystemClock()))
    with pytest.raises(UnreachableError, match="GET /x"):
        await transport.send(ApiCall("GET", "/x"))
    await transport.close()


@pytest.mark.rule("operator#c7", "operator#c8")
async def test_a_rotated_token_costs_no_failed_call(tmp_path: Path) -> None:  # `operator#c7`, `operator#c8`
    token = tmp_path / "token"
    token.write_text("first\n")
    async with wire(token_file=str(token)) as w:
        w.front.tokens = {"first"}
        await w.client.list_all(NODES_SELECTION)
        token.write_text("second\n")
        w.front.tokens = {"second"}  # the first has expired before its minute is over
        await w.client.list_all(NODES_SELECTION)
        assert len(w.front.requests) == 3
        token.write_text("")
        await w.client.list_all(NODES_SELECTION)
        w.front.tokens = set()
        with pytest.raises(UnauthorizedError) as caught:
            await w.client.list_all(NODES_SELECTION)
        assert "second" not in str(caught.value)


async def test_a_login_that_cannot_be_read_is_told_as_one(tmp_path: Path) -> None:
    async with wire(token_file=str(tmp_path / "missing")) as w:
        with pytest.raises(UnauthorizedError, match="missing"):
            await w.client.list_all(NODES_SELECTION)
        assert w.front.requests == []


async def test_an_account_may_act_as_another(tmp_path: Path) -> None:
    seen: dict[str, str] = {}

    async def handle(request: web.Request) -> web.Response:
        seen.update(request.headers)
        return web.json_response({"metadata": {}, "items": []})

    application = web.Application()
    application.router.add_route("*", "/{path:.*}", handle)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    target = Target(f"http://127.0.0.1:{runner.addresses[0][1]}", token="t", impersonate="jane")
    transport = HttpTransport(Login(target, SystemDisk(), SystemClock()))
    await transport.send(ApiCall("GET", "/api/v1/nodes"))
    await transport.close()
    await runner.cleanup()
    assert (seen["Authorization"], seen["Impersonate-User"]) == ("Bearer t", "jane")
    assert seen["User-Agent"].startswith("bigfleet/")


async def test_a_certificate_that_does_not_load_is_told_and_leaves_no_file(tmp_path: Path) -> None:
    target = Target("https://127.0.0.1:1", cert=Material(data=b"no"), key=Material(data=b"pem"))
    transport = HttpTransport(Login(target, SystemDisk(), SystemClock()))
    with pytest.raises(UnauthorizedError, match="certificates do not load"):
        await transport.send(ApiCall("GET", "/x"))
    await transport.close()


async def test_a_plugin_is_run_and_its_failure_told(tmp_path: Path) -> None:
    script = tmp_path / "login.py"
    script.write_text(
        "import json, os, sys\n"
        "info = json.loads(os.environ['KUBERNETES_EXEC_INFO'])\n"
        "status = {'token': os.environ['WHO'] + sys.argv[1]}\n"
        "print(json.dumps({'apiVersion': info['apiVersion'], 'kind': 'ExecCredential', 'status': status}))\n"
    )
    plugin = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": sys.executable,
        "args": [str(script), "-token"],
        "env": [{"name": "WHO", "value": "jane"}],
    }
    assert await run_plugin(plugin) == {"token": "jane-token"}
    with pytest.raises(LoginError, match="process returned"):
        await run_plugin({**plugin, "args": ["-c", "raise SystemExit(3)"]})
    with pytest.raises(LoginError, match="no-such-program"):
        await run_plugin({**plugin, "command": str(tmp_path / "no-such-program")})


async def test_a_post_is_never_sent_twice() -> None:
    async with wire() as w:
        w.front.faults.append(HttpFault("cut", times=2))
        with pytest.raises(UnreachableError):
            await w.client.create(NODES, {"metadata": {"name": "n"}})
        assert len(w.front.requests) == 1


@pytest.mark.rule("operator#c9")
async def test_closing_leaves_nothing_open() -> None:  # C9: warnings are errors
    async with wire() as w:
        version = str(w.api.objects.version)
        await w.client.create(NODES, {"metadata": {"name": "n0"}})
        seen: list[str] = []
        watching = asyncio.ensure_future(follow(w, version, seen))
        async with asyncio.timeout(10):
            while not seen:
                await asyncio.wait({watching}, timeout=0.01)
        watching.cancel()
        with pytest.raises(asyncio.CancelledError):
            await watching
