"""Metrics from a Prometheus, custom resources from API servers, over real sockets.

Rules: `dashboard#sources`, `dashboard#compatible-routes`, `dashboard#metrics-contract`.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from bigfleet.aio.clock import SystemClock
from bigfleet.aio.system_disk import SystemDisk
from bigfleet.dashboard.cluster_reader import KubeClusters
from bigfleet.dashboard.prometheus import Prometheus
from bigfleet.dashboard.sources import SourceError
from bigfleet.kube.client import KubeClient
from bigfleet.kube.http_transport import HttpTransport
from bigfleet.kube.kubeconfig import Target
from bigfleet.kube.limiter import RateLimiter
from bigfleet.kube.login import Login
from bigfleet.kube.resources import AVAILABLE_CAPACITIES, CAPACITY_REQUESTS, UPCOMING_NODES
from tests.integration.dashboard.world import dashboard_world
from tests.support.kube_api.api import InMemoryApi
from tests.support.kube_api.http import HttpFault, HttpFront
from tests.support.kube_api.world import capacity_request

pytestmark = pytest.mark.integration
NOW = 1_893_456_015.0


def result(*rows: tuple[Mapping[str, str], Any], kind: str = "value") -> dict[str, Any]:
    return {
        "status": "success",
        "data": {"result": [{"metric": labels, kind: reply} for labels, reply in rows]},
    }


class StubPrometheus:
    """Answers queries from a table, and remembers what it was asked."""

    def __init__(self, answers: Mapping[str, Any]) -> None:
        self.answers, self.asked = answers, list[dict[str, str]]()

    @asynccontextmanager
    async def reader(self) -> AsyncIterator[Prometheus]:
        app = web.Application()
        app.router.add_post("/{path:.*}", self._answer)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        base = f"http://127.0.0.1:{runner.addresses[0][1]}"
        async with aiohttp.ClientSession() as session:

            async def ask(path: str, query: Mapping[str, str], timeout_s: float) -> bytes:
                try:
                    async with (
                        asyncio.timeout(timeout_s),
                        session.post(base + path, data=dict(query)) as answer,
                    ):
                        return await answer.read()
                except aiohttp.ClientError as error:
                    raise OSError(str(error)) from error

            yield Prometheus(ask, lambda: NOW)
        await runner.cleanup()

    async def _answer(self, request: web.Request) -> web.Response:
        query = {name: str(value) for name, value in (await request.post()).items()}
        self.asked.append({"path": request.path, **query})
        reply = self.answers.get(
            query["query"], {"status": "error", "error": f"no answer to {query['query']}"}
        )
        return web.Response(text=reply if isinstance(reply, str) else json.dumps(reply))


def test_figures_become_queries_and_what_is_not_a_number_is_unknown() -> None:
    stub = StubPrometheus(
        {
            'sum by (state) (m{pod="a\\"b"})': result(
                ({"state": "Idle"}, [NOW, "3"]), ({"state": "x"}, [NOW, "NaN"])
            ),
            "sum by () (m)": result(({}, [NOW, "7"])),
            "sum by (pod) (rate(m[120s]))": result(),
            "histogram_quantile(0.99, sum by (pod,le) (rate(h_bucket[300s])))": result(
                ({"pod": "s"}, [NOW, "0.25"])
            ),
        }
    )

    async def play() -> None:
        async with stub.reader() as reader:
            assert await reader.sums("m", ("state",), pod='a"b') == {("Idle",): 3.0}
            assert await reader.sums("m", ()) == {(): 7.0}
            assert await reader.rates("m", ("pod",), 120.0) == {}
            assert await reader.quantiles("h", ("pod",), 0.99) == {("s",): 0.25}
            with pytest.raises(SourceError, match="refused the query: no answer to"):
                await reader.sums("other", ())

    asyncio.run(play())


def test_a_trend_has_a_value_for_each_step_or_none() -> None:
    query = "sum by (kind) (rate(a[60s]))"
    stub = StubPrometheus(
        {query: result(({"kind": "Delete"}, [[NOW - 15, "1"], [NOW + 15, "2"]]), kind="values")}
    )

    async def play() -> None:
        async with stub.reader() as reader:
            trend = await reader.rate_trend("a", ("kind",), 60.0, 30.0)
        assert list(trend.times) == [NOW - 45, NOW - 15, NOW + 15]
        assert trend.values == {("Delete",): [None, 1.0, 2.0]}
        assert stub.asked == [
            {
                "path": "/api/v1/query_range",
                "query": query,
                "start": "1893455970",
                "end": "1893456030",
                "step": "30",
            }
        ]

    asyncio.run(play())


@pytest.mark.parametrize("reply", ["not JSON", "[]", '{"status": "success"}'])
def test_nonsense_from_a_prometheus_is_a_failed_source(reply: str) -> None:
    async def play() -> None:
        async with (
            StubPrometheus({"sum by () (m)": reply}).reader() as reader,
            dashboard_world(metrics=reader) as world,
        ):
            with pytest.raises(SourceError):
                await reader.sums("m", ())
            status, text, _ = await world.get("/api/v1/fleet/overview")
            assert (status, "the Prometheus refused the query" in text) == (502, True)
            assert (await world.get("/"))[0] == 200
            assert (await world.json("/api/v1/config"))["prometheusWired"] is True

    asyncio.run(play())


async def api_with_objects(clock: SystemClock) -> InMemoryApi:
    api = InMemoryApi(clock)
    client = KubeClient(api.transport(), RateLimiter(clock))
    for number in range(3):
        await client.create(CAPACITY_REQUESTS, capacity_request(f"cr-{number}"))
    await client.create(UPCOMING_NODES, {"metadata": {"name": "n-0"}, "spec": {"resources": {"cpu": "4"}}})
    hint = {"availability": "High", "availableCount": 5, "cost": "0.4", "resources": {"cpu": "4"}}
    await client.create(AVAILABLE_CAPACITIES, {"metadata": {"name": "m5"}, "spec": hint})
    return api


@pytest.mark.rule("dashboard#compatible-routes")
def test_clusters_are_counted_by_phase_and_the_row_of_a_broken_one_has_its_error() -> None:
    async def play() -> None:
        clock = SystemClock()
        api = await api_with_objects(clock)
        async with HttpFront(api.transport()).serving() as good, HttpFront(api.transport()).serving() as bad:
            bad.faults.append(HttpFault(status=500, body="out of order", times=100))
            reader = KubeClusters({"east": client_of(good, clock), "west": client_of(bad, clock)}, clock)
            async with dashboard_world(clusters=reader) as world:
                rows = (await world.json("/api/v1/clusters"))["clusters"]
                assert rows[0] == {
                    "id": "east",
                    "capacityRequests": 3,
                    "capacityRequestsPending": 3,
                    "upcomingNodes": 1,
                }
                assert (rows[1]["id"], "500" in rows[1]["error"]) == ("west", True)
                one = await world.json("/api/v1/clusters/east")
                assert (one["capacityRequestsByPhase"], one["upcomingNodesByPhase"]) == (
                    {"Pending": 3},
                    {"Provisioning": 1},
                )
                hints = (await world.json("/api/v1/available-capacity"))["clusters"]
                assert [(item["name"], item["availableCount"]) for item in hints[0]["items"]] == [("m5", 5)]
                assert "error" in hints[1]
                assert (await world.get("/api/v1/clusters/west"))[0] == 502
                status, text, _ = await world.get("/api/v1/clusters/north")
                assert (status, "known are: east, west" in text) == (404, True)
                for page in ("clusters", "clusters/east", "clusters/west", "capacity"):
                    assert (await world.get(f"/{page}"))[0] == 200, page
                assert not [request for request in good.requests + bad.requests if request[0] != "GET"]
            await reader.close()

    asyncio.run(play())


def client_of(front: HttpFront, clock: SystemClock) -> KubeClient:
    return KubeClient(HttpTransport(Login(Target(front.url), SystemDisk(), clock)), RateLimiter(clock))
