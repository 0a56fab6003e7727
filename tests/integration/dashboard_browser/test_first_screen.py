"""The first screen in real Chromium: navigation by width, what it says in five seconds, charts that live on.

Rules: `dashboard#six-answers`, `dashboard#layout`, `dashboard#trouble-in-one-look`, `dashboard#wording`.
"""

from typing import Any

import pytest
from playwright.async_api import expect

from bigfleet.dashboard.scraper import ScrapeTarget
from tests.integration.dashboard.test_api import exported
from tests.integration.dashboard.troubled import TroubledInsight
from tests.integration.dashboard.world import World
from tests.integration.dashboard_browser.tabs import Browsing
from tests.integration.dashboard_browser.test_charts_in_browser import DRAWN, an_hour, until

pytestmark = pytest.mark.integration
PHONE: Any = {"viewport": {"width": 390, "height": 844}}


@pytest.mark.rule("dashboard#layout")
def test_the_pages_are_at_the_side_and_on_a_phone_behind_one_button(browsing: Browsing) -> None:
    async def story(world: World) -> None:
        async with browsing.tab(world) as tab:
            await tab.open("")
            box = await tab.page.get_by_role("navigation", name="Pages").bounding_box()
            main = await tab.page.locator("main").bounding_box()
            assert box is not None
            assert main is not None
            assert box["x"] + box["width"] <= main["x"]
            await expect(tab.page.get_by_role("button", name="Menu")).to_be_hidden()
        async with browsing.tab(world, **PHONE) as tab:
            await tab.open("")
            pages = tab.page.get_by_role("navigation", name="Pages")
            await expect(pages).to_be_hidden()
            menu = tab.page.get_by_role("button", name="Menu")
            await menu.focus()
            await tab.page.keyboard.press("Enter")
            await expect(pages).to_be_visible()
            assert await menu.get_attribute("aria-expanded") == "true"
            await pages.get_by_role("link", name="Cost").click()
            await tab.page.wait_for_url("**/cost")
        async with browsing.tab(world, java_script_enabled=False, **PHONE) as tab:
            await tab.open("")
            await expect(tab.page.get_by_role("navigation", name="Pages")).to_be_visible()

    browsing.play(story)


@pytest.mark.rule("dashboard#six-answers", "dashboard#trouble-in-one-look")
def test_a_short_gang_is_in_the_first_line_and_first_in_the_table(browsing: Browsing) -> None:
    async def story(world: World) -> None:
        await an_hour(world)
        async with browsing.tab(world, viewport={"width": 1440, "height": 900}) as tab:
            await tab.open("")
            await expect(tab.page.locator(".state.bad")).to_contain_text(
                "2 needs of shard-0 miss 11 machines"
            )
            rows = tab.page.locator('[data-live="clusters"] tbody tr')
            assert [text.split()[0] for text in await rows.all_inner_texts()] == ["batch", "train", "web"]
            await expect(rows.nth(1)).to_contain_text("64 CPUs")
            await until(tab, f"{DRAWN} === 4")
            await tab.picture("first-screen-short")
            assert (await tab.size())[1] <= 900

    browsing.play(story)


@pytest.mark.rule("dashboard#trouble-in-one-look")
def test_a_dead_provider_is_said_first_with_its_age(browsing: Browsing) -> None:
    async def story(world: World) -> None:
        async with browsing.tab(world, **PHONE) as tab:
            await tab.open("")
            line = tab.page.locator(".state")
            assert (await line.inner_text()).startswith(
                "Provider provider.example:9000 of shard-0 unreachable for 12 s"
            )
            box = await line.bounding_box()
            assert box is not None
            assert box["y"] + box["height"] < 844 / 2
            await tab.picture("first-screen-provider-dead-phone")

    browsing.play(story, service=TroubledInsight)


@pytest.mark.rule("dashboard#charts", "dashboard#refresh")
def test_a_refresh_keeps_charts_and_does_not_send_them_again(browsing: Browsing) -> None:
    async def story(world: World) -> None:
        await an_hour(world)
        status, part, _ = await world.get("/", **{"X-Part": "main"})
        assert (status, "data-history" in part) == (200, False)
        async with browsing.tab(world) as tab:
            await tab.open("")
            await until(tab, f"{DRAWN} === 4")
            await tab.page.evaluate("document.querySelector('.uplot').dataset.kept = 'yes'")
            await tab.page.evaluate(
                "document.addEventListener('bigfleet:refreshed', () => (document.body.dataset.refreshed = 'yes'))"
            )
            world.complete()
            await world.look()
            await until(tab, "document.body.dataset.refreshed === 'yes'")
            assert await tab.page.evaluate("document.querySelector('.uplot').dataset.kept") == "yes"
            assert await tab.page.evaluate(DRAWN) == 4

    browsing.play(story, endpoints=[ScrapeTarget("shard-0", exported)])
