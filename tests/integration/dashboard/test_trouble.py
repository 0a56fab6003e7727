"""A dead provider and a stock-out: every page and route that shows them (`dashboard#trouble-in-one-look`, `dashboard#need-parts`)."""

import asyncio
import csv
import io
import re
from html import unescape
from typing import Any

import pytest
from jsonschema_rs import validator_for

from bigfleet.dashboard.api.routes import OWN
from tests.integration.dashboard.test_contract import answer_schema
from tests.integration.dashboard.troubled import DamagedInsight, TroubledInsight
from tests.integration.dashboard.world import NEEDS, World, dashboard_world

pytestmark = pytest.mark.integration
VERDICT = (
    "Provider provider.example:9000 of shard-0 unreachable for 12 s: UNAVAILABLE: connection refused; "
    "3 needs of shard-0 miss 6 machines (cpu=24); g8 Spot in zone-b out of stock at shard-0, tried again in 40 s"
)


def run(story: Any, **options: Any) -> None:  # Any: a coroutine function of the world
    async def play() -> None:
        async with dashboard_world(**{"service": TroubledInsight, **options}) as world:
            await story(world)

    asyncio.run(play())


def words(text: str) -> str:
    """The text of a page without its markup."""
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]*>", " ", text)))


@pytest.mark.rule("dashboard#trouble-in-one-look")
def test_the_overview_opens_with_the_trouble_in_red() -> None:
    async def story(world: World) -> None:
        text = (await world.get("/"))[1]
        line = re.search(r'<p class="state bad" data-state="blind">([^<]*)</p>', text)
        assert line is not None
        assert unescape(line[1]) == VERDICT
        said = words(text)
        assert "all of" not in said
        assert "acting blind" not in said
        assert "provider ■ unreachable for 12 s; 6 actions held off; tried again in 4 s" in said
        assert "running 3 wanted 6" in said
        assert "■ missing cpu=24" in said

    run(story)


@pytest.mark.rule("dashboard#ages")
def test_the_shard_page_gives_ages_of_the_shards_own_clock() -> None:
    async def story(world: World) -> None:
        said = words((await world.get("/shards/shard-0"))[1])
        assert "last listed 17 s ago" in said
        assert "last error UNAVAILABLE: connection refused" in said
        assert not re.search(r"-\d+ (s|min|h)", said)

    run(story)


@pytest.mark.rule("dashboard#need-parts")
@pytest.mark.parametrize(
    ("page", "shown"),
    [
        ("/needs", "■ held off: the provider is unreachable, for 11 s 1 0 0 2 cpu=8"),
        ("/clusters", "1 0 0 2 ■ cpu=8"),
        ("/clusters/web", "running 1 wanted 2 ■ missing cpu=8"),
        ("/shards/shard-0", "running 3 wanted 6 ■ missing cpu=24"),
        ("/machines", "■ 1 offering out of stock"),
        ("/machines", "g8 Spot in zone-b in 40 s 2 6 no capacity for g8 in zone-b"),
        ("/capacity", "Out of stock at shard-0"),
    ],
)
def test_a_page_shows_how_far_machines_are_and_what_is_out_of_stock(page: str, shown: str) -> None:
    async def story(world: World) -> None:
        said = words((await world.get(page))[1])
        assert shown in said, said

    run(story)


@pytest.mark.rule("dashboard#need-parts", "dashboard#trouble-in-one-look")
def test_our_routes_carry_coverage_problems_provider_and_cool_offs() -> None:
    async def story(world: World) -> None:
        status = await world.json("/api/v1/x/status")
        assert (status["state"], status["verdict"], status["needsShort"]) == ("blind", VERDICT, 3)
        assert status["coverage"] == {
            "running": 3, "joining": 0, "onOrder": 0, "wanted": 6, "missing": {"cpu": "24"},
        }  # fmt: skip
        (shard,) = (await world.json("/api/v1/x/shards"))["shards"]
        assert shard["provider"]["reachable"] is False
        assert shard["provider"]["secondsSinceListing"] == 17
        assert [row["kind"] for row in shard["problems"]] == ["provider_unreachable", "shortfalls"]
        assert shard["coolOffs"][0]["nextAttemptInSeconds"] == 40
        assert {row["cluster"]: row["coverage"]["wanted"] for row in shard["clusters"]}["web"] == 2
        needs = await world.json("/api/v1/x/needs?shard=shard-0")
        assert [row["coverage"]["heldOff"] for row in needs["rows"]] == ["provider-unreachable"] * len(NEEDS)
        for route in OWN:
            query = "?shard=shard-0" if "shard" in route.parameters else ""
            if route.path in {"/status", "/shards", "/needs", "/decisions"}:
                answer = await world.json(f"/api/v1/x{route.path}{query}")
                validator_for(answer_schema(f"/api/v1/x{route.path}", 200)).validate(answer)

    run(story)


@pytest.mark.rule("dashboard#compatible-routes")
def test_the_compatible_needs_keep_the_keys_of_the_original() -> None:
    async def story(world: World) -> None:
        rows = (await world.json("/api/v1/needs?shard=shard-0"))["needs"]
        assert rows
        assert all("coverage" not in row for row in rows)
        text = (await world.get("/api/v1/x/export/needs.csv?shard=shard-0"))[1]
        exported = list(csv.DictReader(io.StringIO(text)))
        assert [(row["running"], row["wanted"], row["missing"]) for row in exported] == [
            ("1", "2", "cpu=8")
        ] * 3

    run(story)


@pytest.mark.rule("dashboard#original-fleet")
def test_an_older_shard_that_reports_none_of_it_is_shown_as_before() -> None:
    async def story(world: World) -> None:
        (shard,) = (await world.json("/api/v1/x/shards"))["shards"]
        assert (shard["provider"], shard["coverage"]) == (None, None)
        for page in (
            "/",
            "/needs",
            "/machines",
            "/clusters",
            "/clusters/web",
            "/shards",
            "/shards/shard-0",
            "/capacity",
        ):
            assert (await world.get(page))[0] == 200, page

    run(story, insight=False)


def test_a_status_that_cannot_be_read_is_a_failed_source() -> None:
    async def story(world: World) -> None:
        reply = await world.json("/api/v1/x/status")
        assert [row["kind"] for row in reply["reasons"]] == ["shard_lost"]
        assert "[cpu]" in reply["verdict"]

    run(story, service=DamagedInsight)
