"""The HTTP API against shards over real sockets (`dashboard#api`, `dashboard#budgets`, `dashboard#security`)."""

import asyncio
import csv
import io
import json
import re
from collections.abc import Mapping
from typing import Any

import pytest

from bigfleet.dashboard.api.routes import COMPATIBLE
from bigfleet.dashboard.guard import Admission
from bigfleet.dashboard.pages.pages import PAGES
from bigfleet.dashboard.scraper import ScrapeTarget
from bigfleet.model.need import Need
from bigfleet.model.profile import Profile
from bigfleet.transport import shard_reading as calls
from tests.integration.dashboard.world import MACHINES, NEEDS, World, dashboard_world, situation
from tests.support.builders import amounts

pytestmark = pytest.mark.integration

STREAM = "/fleet/api/v1/x/stream"
METRICS = b"""
# TYPE bigfleet_shard_inventory_machines gauge
bigfleet_shard_inventory_machines{state="Configured",capacity_type="Spot",interruption_penalty_bucket="pinned"} 2.0
bigfleet_shard_inventory_machines{state="Idle",capacity_type="OnDemand",interruption_penalty_bucket="0"} 3.0
# TYPE bigfleet_shard_active_sessions gauge
bigfleet_shard_active_sessions 2.0
# TYPE bigfleet_shard_shortfalls gauge
bigfleet_shard_shortfalls 1.0
# TYPE bigfleet_shard_demand_machines gauge
bigfleet_shard_demand_machines{interruption_penalty_bucket="pinned"} 4.0
# TYPE bigfleet_other_total counter
bigfleet_other_total 1.0
"""


async def exported() -> bytes:
    return METRICS


def run(story: Any, **options: Any) -> None:  # Any: a coroutine function of the world
    async def play() -> None:
        async with dashboard_world(**options) as world:
            await story(world)

    asyncio.run(play())


@pytest.mark.rule("dashboard#state-word", "dashboard#unknown-not-zero")
def test_status_reports_the_first_screen_and_null_for_unknown_values() -> None:
    async def story(world: World) -> None:
        reply = await world.json("/api/v1/x/status")
        assert reply["state"] == "degraded"  # never good beside a short need
        assert reply["verdict"].startswith("2 needs of shard-0 miss ")
        assert reply["machines"] == len(MACHINES)
        assert reply["needs"] == len(NEEDS)
        assert reply["needsShort"] == 2
        assert {row["reason"] for row in reply["oldestShortfalls"]} == {
            "TOPOLOGY_UNSATISFIABLE",
            "PRIORITY_STARVED",
        }

    run(story)

    async def nothing(world: World) -> None:
        reply = await world.json("/api/v1/x/status")
        assert reply["state"] == "degraded"
        assert reply["machines"] is None
        assert reply["costPerHour"] is None

    run(nothing, names=())


@pytest.mark.rule("dashboard#compatible-routes")
@pytest.mark.parametrize("prefix", ["/api", "/api/v1"])
def test_every_compatible_route_answers_or_names_the_flag_it_lacks(prefix: str) -> None:
    """`dashboard#openapi` and `dashboard#compatible-routes`: 200 with content, or 503 when its source is not wired."""

    async def story(world: World) -> None:
        for route in COMPATIBLE:
            path = route.path.replace("{pod}", "shard-0").replace("{id}", "web")
            query = "?shard=shard-0" if path == "/needs" else ""
            status, text, _ = await world.get(f"{prefix}{path}{query}")
            reply = json.loads(text)
            if path in {"/clusters", "/clusters/web", "/available-capacity"}:
                assert (status, "--kubeconfig" in reply["error"]) == (503, True), path
            elif path in {"/topology", "/shard-reports"}:
                assert (status, "--coordinator-addr" in reply["error"]) == (503, True), path
            else:
                assert status == 200, (path, text)
                assert reply["queriedAt"].endswith("Z")

    run(story, endpoints=[ScrapeTarget("shard-0", exported)])


@pytest.mark.rule("dashboard#compatible-routes")
def test_metrics_become_the_answers_of_the_original() -> None:
    async def story(world: World) -> None:
        fleet = await _until(world, "/api/v1/fleet/overview", lambda reply: reply["machines"] == 5)
        assert fleet["machinesByState"] == {"Configured": 2, "Idle": 3}
        assert (fleet["clusters"], fleet["shortfalls"]) == (2, 1)
        rows = (await world.json("/api/v1/shards"))["shards"]
        assert rows == [
            {"pod": "shard-0", "cycleP99Seconds": 0.0, "machines": 5, "shortfalls": 1, "activeSessions": 2}
        ]
        money = await world.json("/api/v1/finops/snapshot")
        assert money["totals"]["spotConfiguredFraction"] == 1.0
        assert [flag["severity"] for flag in money["redFlags"]] == ["critical"]

    run(story, endpoints=[ScrapeTarget("shard-0", exported)])


async def _until(world: World, path: str, holds: Any) -> Mapping[str, Any]:  # Any: a predicate on JSON
    async with asyncio.timeout(20):
        while True:
            reply: Mapping[str, Any] = await world.json(path)
            if holds(reply):
                return reply
            await world.dashboard.scrape()


@pytest.mark.rule("dashboard#openapi")
def test_needs_have_exactly_the_keys_of_the_contract() -> None:
    async def story(world: World) -> None:
        reply = await world.json("/api/v1/needs?shard=shard-0")
        assert set(reply) == {"shardId", "cycle", "computedAtUnixNanos", "totalNeeds", "needs", "queriedAt"}
        assert [row["clusterId"] for row in reply["needs"]] == ["train", "web", "batch"]
        gang = reply["needs"][0]
        assert gang["requirements"] == [{"key": "rack", "operator": "Same", "values": []}]
        assert gang["unmetReason"] == "TOPOLOGY_UNSATISFIABLE"
        assert set(gang) == {
            "clusterId", "priority", "aggregateResources", "minUnit", "group", "requirements", "spread",
            "interruptionPenaltyBucket", "reclamationPenaltyBucket", "satisfied", "residualDeficit",
            "claimedMachineCount", "bootstrapCount", "provisionCount", "sameDomain", "sameSatisfiable",
            "acquisitionParked", "parkedAgeCycles", "ageCyclesUnmet", "unmetReason", "arrivalUnixNanos",
            "profileFingerprint", "matchingSupply", "preemption", "sameCandidates",
        }  # fmt: skip

    run(story)


def test_machines_are_filtered_sorted_and_paged_by_the_shard() -> None:
    async def story(world: World) -> None:
        reply = await world.json("/api/v1/x/machines?shard=shard-0&state=Idle&sort=-id")
        assert [row["id"] for row in reply["rows"]] == [f"i-{n}" for n in range(4, -1, -1)]
        assert (reply["total"], reply["machines"]) == (5, len(MACHINES))
        one = await world.json("/api/v1/x/machines/shard-0/f-0")
        assert one["machine"]["lastError"] == "the disk is gone"

    run(story)


@pytest.mark.rule("dashboard#explain-classes")
def test_explanations_carry_the_document_of_the_command_line() -> None:
    async def story(world: World) -> None:
        need = (await world.json("/api/v1/needs?shard=shard-0&cluster=batch"))["needs"][0]
        fingerprint = need["profileFingerprint"].replace("=", "%3D").replace("|", "%7C")
        reply = await world.json(
            f"/api/v1/x/explain/need?shard=shard-0&cluster=batch&fingerprint={fingerprint}"
        )
        taken = sum(row["count"] for row in reply["explanation"]["chosen"])
        refused = sum(row["count"] for row in reply["explanation"]["refused"])
        assert taken + refused == len(MACHINES)  # `dashboard#explain-classes`
        reply = await world.json("/api/v1/x/explain/machine?shard=shard-0&id=m-01")
        assert reply["explanation"]["sentence"] == "Configured; kept for need 1 of web."

    run(story)


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("/api/v1/needs", 400, "shard: found '', allowed is any name; it is required"),
        ("/api/v1/needs?shard=nobody", 404, "no shard is called nobody; known are: shard-0"),
        (
            "/api/v1/x/machines?shard=shard-0&colour=red",
            400,
            "colour: found 'colour', allowed is capacity, cluster",
        ),
        ("/api/v1/x/machines?shard=shard-0&state=Asleep", 400, "state: found 'Asleep', allowed is one of"),
        ("/api/v1/x/machines?shard=shard-0&sort=size", 400, "sort: found 'size', allowed is one of"),
        ("/api/v1/x/machines/shard-0/nothing", 404, "NOT_FOUND"),
        ("/api/v1/x/decisions?kind=Explode", 400, "kind: found 'Explode', allowed is one of"),
        ("/api/v1/shards/UPPER", 400, "pod: found 'UPPER', allowed is letters a-z"),
        ("/api/v1/x/export/secrets.csv", 404, "Not Found"),
    ],
)
def test_the_answer_to_a_bad_request_names_the_mistake(path: str, status: int, words: str) -> None:
    async def story(world: World) -> None:
        found, text, _ = await world.get(path)
        assert (found, words in json.loads(text)["error"]) == (status, True), text

    run(story, endpoints=[ScrapeTarget("shard-0", exported)])


@pytest.mark.rule("dashboard#lenient-parameters")
@pytest.mark.parametrize(
    ("query", "seconds", "step"),
    [
        ("?duration=1h&step=30s", 3600, 30),
        ("?duration=99h", 86_400, 60),
        ("?duration=90m&step=5h", 5400, 3600),
        ("?duration=soon&step=-3s", 3600, 30),
        ("?duration=0s&step=", 3600, 30),
        ("?duration=10m&step=1ms", 600, 1),
        ("?theme=dark", 3600, 30),
    ],
)
@pytest.mark.parametrize("route", ["/api/v1/shards/shard-0/trends", "/api/fleet/actions"])
def test_a_trend_has_the_range_that_the_original_would_give(
    route: str, query: str, seconds: int, step: int
) -> None:
    async def story(world: World) -> None:
        await world.dashboard.scrape()
        times = (await world.json(route + query))["timestamps"]
        assert times[1] - times[0] == step
        assert times[-1] - times[0] == seconds // step * step

    run(story, endpoints=[ScrapeTarget("shard-0", exported)])


@pytest.mark.rule("dashboard#lenient-parameters")
@pytest.mark.parametrize(
    "route", [route.path for route in COMPATIBLE if "{id}" not in route.path], ids=lambda path: path[1:]
)
def test_a_compatible_route_ignores_parameters_that_it_does_not_know(route: str) -> None:
    async def story(world: World) -> None:
        await world.dashboard.scrape()
        path = "/api/v1" + route.replace("{pod}", "shard-0")
        plain, _, _ = await world.get(f"{path}?shard=shard-0")
        status, text, _ = await world.get(f"{path}?shard=shard-0&colour=red")
        assert (status, status in {200, 503}) == (plain, True), text

    run(story, endpoints=[ScrapeTarget("shard-0", exported)])


@pytest.mark.rule("dashboard#lenient-parameters")
@pytest.mark.parametrize(("limit", "rows"), [("2", 2), ("0", 3), ("-1", 3), ("many", 3), ("9" * 18, 3)])
def test_an_unreadable_limit_of_needs_is_the_default(limit: str, rows: int) -> None:
    async def story(world: World) -> None:
        assert len((await world.json(f"/api/v1/needs?shard=shard-0&limit={limit}"))["needs"]) == rows

    run(story)


def test_a_lost_shard_is_a_failed_source_and_an_event() -> None:
    async def story(world: World) -> None:
        await world.lose("shard-0")
        status, text, _ = await world.get("/api/v1/needs?shard=shard-0")
        assert (status, "shard shard-0 does not answer" in text) == (502, True)
        await world.look()
        reply = await world.json("/api/v1/x/events")
        assert [row["kind"] for row in reply["events"]] == ["shard_lost"]
        assert (await world.json("/api/v1/x/status"))["shardsWithoutCurrentNumbers"] == 1

    run(story)


@pytest.mark.rule("dashboard#read-only")
def test_nothing_but_reading_and_the_one_question_is_allowed() -> None:
    """Rules: `dashboard#read-only`."""

    async def story(world: World) -> None:
        for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS"):
            async with world.session.request(method, f"{world.url}/api/v1/x/status") as answer:
                assert answer.status == 405
        question = {"shard": "shard-0", "edits": []}
        foreign = {"Origin": "https://elsewhere.example"}
        async with world.session.post(
            f"{world.url}/api/v1/x/whatif", json=question, headers=foreign
        ) as answer:
            assert answer.status == 403
        async with world.session.post(f"{world.url}/api/v1/x/whatif", data="edits") as answer:
            assert answer.status == 400

    run(story)


@pytest.mark.rule("dashboard#who-may-read")
def test_with_a_token_configured_a_request_without_it_gets_nothing() -> None:
    """Rules: `dashboard#who-may-read`."""

    async def story(world: World) -> None:
        for path in ("/", "/api/v1/x/status", "/api/health", "/static/x/app.css"):
            status, text, _ = await world.get(path)
            assert (status, json.loads(text)) == (401, {"error": "a token is needed"})
            assert (await world.get(path, Authorization="Bearer wrong"))[0] == 401
        assert (await world.get("/api/v1/x/status", Authorization="Bearer right"))[0] == 200
        assert (await world.get("/healthz"))[0] == 200

    run(story, admission=Admission(token="right"))


def test_every_answer_carries_the_security_headers() -> None:
    async def story(world: World) -> None:
        for path in ("/", "/needs", "/nothing", "/api/v1/x/status", "/api/v1/needs"):
            _, _, headers = await world.get(path)
            assert headers["Content-Security-Policy"].startswith("default-src 'self'; frame-ancestors 'none'")
            assert headers["X-Content-Type-Options"] == "nosniff"
            assert headers["Referrer-Policy"] == "no-referrer"

    run(story)


@pytest.mark.rule("dashboard#exports")
def test_exports_equal_the_table_filters_included() -> None:
    """Rules: `dashboard#exports`."""

    async def story(world: World) -> None:
        _, text, headers = await world.get("/api/v1/x/export/needs.csv?shard=shard-0&status=short")
        rows = list(csv.DictReader(io.StringIO(text)))
        assert [row["clusterId"] for row in rows] == ["train", "batch"]
        assert headers["Content-Disposition"] == 'attachment; filename="needs.csv"'
        reply = await world.json("/api/v1/x/export/machines.json?shard=shard-0&state=Idle")
        assert [row["id"] for row in reply["machines"]] == [f"i-{n}" for n in range(5)]
        reply = await world.json("/api/v1/x/export/shortfalls.json")
        assert {row["reason"] for row in reply["shortfalls"]} == {
            "TOPOLOGY_UNSATISFIABLE",
            "PRIORITY_STARVED",
        }

    run(story)


def test_a_reader_who_has_the_answer_gets_nothing_but_that_word() -> None:
    async def story(world: World) -> None:
        status, _, headers = await world.get("/api/v1/x/export/shortfalls.json")
        again = await world.get("/api/v1/x/export/shortfalls.json", **{"If-None-Match": headers["ETag"]})
        assert (status, again[0], again[1]) == (200, 304, "")

    run(story)


class Counting:
    """A channel that counts what is asked through it."""

    def __init__(self, channel: Any) -> None:  # Any: it replaces every kind of call
        self._channel = channel
        self.asked: list[Any] = []

    def unary(self, method: Any, *args: Any, **given: Any) -> Any:
        self.asked.append(method)
        return self._channel.unary(method, *args, **given)

    def server_stream(self, method: Any, *args: Any, **given: Any) -> Any:
        self.asked.append(method)
        return self._channel.server_stream(method, *args, **given)

    async def close(self) -> None:
        await self._channel.close()


@pytest.mark.rule("dashboard#shared-answers")
def test_a_hundred_readers_cost_the_shard_one_call() -> None:
    """The test counts calls on the channel to the shard; polls by the dashboard's own timer do not count."""
    looks = (calls.GET_STATUS, calls.LIST_SHORTFALLS, calls.WATCH_CYCLES)
    wanted = {
        "/api/v1/needs?shard=shard-0": calls.LIST_NEEDS,
        "/needs?shard=shard-0&status=short": calls.LIST_NEEDS,
        "/api/v1/x/machines?shard=shard-0": calls.LIST_MACHINES,
        "/machines?shard=shard-0": calls.LIST_MACHINES,
        "/api/v1/x/explain/machine?shard=shard-0&id=m-01": calls.EXPLAIN_MACHINE,
        "/explain?shard=shard-0&machine=m-01": calls.EXPLAIN_MACHINE,
        "/api/v1/x/decisions?shard=shard-0": calls.LIST_DECISIONS,
        "/decisions?shard=shard-0": calls.LIST_DECISIONS,
    }

    async def story(world: World) -> None:
        reader = world.dashboard.fleet.shard("shard-0")
        reader._channel = channel = Counting(reader._channel)  # type: ignore[assignment]
        # The two seconds are held by a test on virtual time; here a slow machine must not make a second call of them.
        world.dashboard.fleet.answers.fresh_s = 3_600.0
        world.dashboard.fleet.watcher.on_news = lambda: None
        for path, call in wanted.items():
            channel.asked.clear()
            answers = await asyncio.gather(*(world.get(path) for _ in range(100)))
            assert {status for status, _, _ in answers} == {200}
            assert [one for one in channel.asked if one not in looks] == [call], path

    run(story)


@pytest.mark.rule("dashboard#answer-cost")
def test_the_needs_of_a_large_fleet_fit_into_a_megabyte() -> None:
    """`dashboard#budgets`: the answer cuts rows at a megabyte, and gives their total."""
    needs = [Need(f"c-{n % 40:02}", Profile(priority=20_000 - n), amounts(cpu=1)) for n in range(2_000)]

    async def story(world: World) -> None:
        world.complete(given=situation(needs=needs))
        status, text, _ = await world.get("/api/v1/needs?shard=shard-0")
        reply = json.loads(text)
        assert (status, reply["totalNeeds"]) == (200, 2_000)
        assert 900_000 < len(text.encode()) <= 1_000_000
        assert [row["priority"] for row in reply["needs"]] == [20_000 - n for n in range(len(reply["needs"]))]

    run(story)


def test_the_stream_announces_cycles_and_ends_with_the_server() -> None:
    async def story(world: World) -> None:
        async with world.session.get(f"{world.url}/api/v1/x/stream") as answer:
            assert answer.headers["Content-Type"] == "text/event-stream"
            world.complete()
            async with asyncio.timeout(20):
                async for line in answer.content:
                    if line.startswith(b"event: cycle"):
                        break

    run(story)


@pytest.mark.rule("dashboard#base-path")
def test_under_a_prefix_all_links_carry_it() -> None:
    """Rules: `dashboard#base-path`."""

    async def story(world: World) -> None:
        places = "href|src|action|data-open|data-ask|data-stream"
        for page in PAGES:
            status, text, _ = await world.get(f"/fleet/{page}")
            assert status == 200
            links = re.findall(rf' (?:{places})="([^"]*)"', text)
            assert [link for link in links if not link.startswith(("/fleet/", "#"))] == [], page
            assert f'data-stream="{STREAM}"' in text, page
        assert (await world.get("/fleet/api/v1/x/status"))[0] == 200
        assert (await world.get("/needs"))[0] == 404
        async with world.session.get(f"{world.url}{STREAM}") as answer, asyncio.timeout(20):
            world.complete()
            async for line in answer.content:
                if line.startswith(b"event: cycle"):
                    break

    run(story, base="/fleet/")
