"""In front of a shard that serves its needs and no more, as the original's do.

Rules: `dashboard#approximate`, `dashboard#original-fleet`.
"""

import asyncio
from html import unescape
from urllib.parse import quote

import pytest

from bigfleet.dashboard.pages.pages import PAGES
from tests.integration.dashboard.world import NEEDS, World, dashboard_world

pytestmark = pytest.mark.integration


@pytest.mark.rule("dashboard#approximate")
def test_data_from_needs_is_shown_and_every_guess_is_called_approximate() -> None:
    async def story(world: World) -> None:
        reply = await world.json("/api/v1/x/status")
        assert (reply["needs"], reply["needsShort"]) == (len(NEEDS), 2)
        assert (reply["machines"], reply["costPerHour"]) == (None, None)
        need = (await world.json("/api/v1/needs?shard=shard-0&cluster=batch"))["needs"][0]
        where = f"shard=shard-0&cluster=batch&fingerprint={quote(need['profileFingerprint'], safe='')}"
        guess = await world.json(f"/api/v1/x/explain/need?{where}")
        assert guess["approximate"] is True
        assert guess["explanation"]["sentence"].startswith("Approximate: short cpu=368 of cpu=400")
        assert [row["cluster"] for row in guess["explanation"]["competitors"]] == ["web", "train"]
        _, text, _ = await world.get(f"/explain?{where}")
        assert "this explanation is approximate" in text
        assert guess["explanation"]["sentence"] in unescape(text)
        status, text, _ = await world.get(
            "/api/v1/x/explain/need?shard=shard-0&cluster=batch&fingerprint=none"
        )
        assert status == 404

    asyncio.run(play(story))


@pytest.mark.rule("dashboard#approximate")
def test_every_page_loads_and_machines_say_that_the_shard_does_not_report_them() -> None:
    async def story(world: World) -> None:
        for page in PAGES:
            assert (await world.get(f"/{page}"))[0] == 200, page
        assert "shard shard-0 does not offer this" in (await world.get("/machines"))[1]
        assert (await world.get("/api/v1/x/machines?shard=shard-0"))[0] == 502

    asyncio.run(play(story))


async def play(story: object) -> None:
    async with dashboard_world(insight=False) as world:
        await story(world)  # type: ignore[operator]  # a coroutine function of the world
