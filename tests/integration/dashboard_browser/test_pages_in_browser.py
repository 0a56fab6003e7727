"""Every page in real Chromium: quiet console, own origin only, both themes, small screens.

Rules: `dashboard#look`, `dashboard#browser-tests`, `dashboard#assets`, `dashboard#accessibility`.
"""

from collections.abc import Sequence
from typing import Any

import pytest
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import ViewportSize

from bigfleet.dashboard.scraper import ScrapeTarget
from bigfleet.shard.read.insight_service import InsightService
from tests.integration.dashboard.test_api import exported
from tests.integration.dashboard.troubled import TroubledInsight
from tests.integration.dashboard.world import World
from tests.integration.dashboard_browser.tabs import DARK, PAGES, PAPER, Browsing, Tab, file_name

pytestmark = pytest.mark.integration
TROUBLED = ("", "needs", "machines", "clusters", "clusters/web", "shards", "shards/shard-0", "capacity")
ENDPOINTS = [ScrapeTarget("shard-0", exported)]
SCREENS: dict[str, ViewportSize] = {
    "320px": {"width": 320, "height": 640},
    "zoom-200": {"width": 640, "height": 360},
    "wide": {"width": 1280, "height": 720},
}
_MISSING = ("404 (Not Found)",)  # one of the pages is the one that does not exist
_AXE = {
    # What passes is not asked for: it is every node of the page, and takes longer to send than to find.
    "resultTypes": ["violations"],
    "runOnly": {
        "type": "tag",
        "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"],
    },
}
_CONTRAST = {"resultTypes": ["violations"], "runOnly": {"type": "rule", "values": ["color-contrast"]}}
_THERE = Axe("0")  # for a page into which axe has been put already


async def findings(tab: Tab, axe: Axe | None = None, options: dict[str, Any] | None = None) -> list[str]:
    """What axe finds serious or critical on the page that is open."""
    reply = (await (axe or Axe()).run(tab.page, options=options or _AXE)).response
    return [
        f"{tab.page.url} {row['id']}: {node['html'][:150]} {node['failureSummary']}"
        for row in reply["violations"]
        if row["impact"] in {"serious", "critical"}
        for node in row["nodes"]
    ]


@pytest.mark.rule("dashboard#accessibility")
def test_axe_notices_what_it_is_there_for(browsing: Browsing) -> None:
    async def story(world: World) -> None:
        async with browsing.tab(world) as tab:
            await tab.open("about")
            await tab.page.evaluate("document.querySelector('main').append(document.createElement('button'))")
            assert ["button-name" in found for found in await findings(tab)] == [True]
            # Words that are seen in the light theme and not in the dark one.
            await tab.page.evaluate("document.querySelector('h1').attributeStyleMap.set('color', '#222')")
            assert await findings(tab, _THERE, _CONTRAST) == []
            await tab.page.emulate_media(color_scheme="dark")
            assert ["color-contrast" in found for found in await findings(tab, _THERE, _CONTRAST)] == [True]

    browsing.play(story)


@pytest.mark.rule("dashboard#assets", "dashboard#accessibility")
@pytest.mark.parametrize(
    ("service", "pages", "prefix"),
    [
        pytest.param(InsightService, PAGES, "", id="every page"),
        pytest.param(TroubledInsight, TROUBLED, "trouble-", id="pages that show trouble"),
    ],
)
def test_pages_load_in_both_themes_and_all_widths_without_a_complaint(
    browsing: Browsing, service: type[InsightService], pages: Sequence[str], prefix: str
) -> None:
    """One load of each page: what axe and the browser say, the other theme, a narrow screen, a zoom of 200 %.

    A theme changes colours and nothing else, so the dark one needs only a second check of contrast. A zoom of 200 % halves the pixels
    that a page has to live in.
    """

    async def story(world: World) -> None:
        found: list[str] = []
        too_wide: list[tuple[str, str, int]] = []
        async with browsing.tab(world, color_scheme="light", forgiven=_MISSING) as tab:
            for path in pages:
                await tab.page.emulate_media(color_scheme="light")
                await tab.open(path)
                assert await tab.page.locator("h1").count() == 1, path
                await tab.picture(f"{prefix}{file_name(path)}-light")
                found += await findings(tab)
                await tab.page.emulate_media(color_scheme="dark")
                assert await tab.page.evaluate(PAPER) == DARK, path
                await tab.picture(f"{prefix}{file_name(path)}-dark")
                found += await findings(tab, _THERE, _CONTRAST)
                for name, view in SCREENS.items():
                    await tab.page.set_viewport_size(view)
                    await tab.picture(f"{prefix}{file_name(path)}-{name}")
                    if (width := (await tab.size())[0]) > view["width"]:
                        too_wide.append((path, name, width))
        assert found == []
        assert too_wide == []

    browsing.play(story, service=service, endpoints=ENDPOINTS)


@pytest.mark.parametrize(
    ("name", "options"),
    [("nothing", {"names": ()}), ("no-cycle", {"cycles": 0})],
    ids=["nothing wired", "no cycle yet"],
)
def test_every_page_shows_that_the_fleet_is_empty(
    browsing: Browsing, name: str, options: dict[str, Any]
) -> None:
    async def story(world: World) -> None:
        async with browsing.tab(world, forgiven=_MISSING) as tab:
            for path in PAGES:
                await tab.open(path)
                assert await tab.page.locator("h1").is_visible(), path
                if path in {"", "needs", "machines"}:
                    await tab.picture(f"{file_name(path)}-{name}")

    browsing.play(story, **options)


@pytest.mark.rule("dashboard#server-rendered")
def test_with_scripts_off_every_page_shows_current_data(browsing: Browsing) -> None:
    """Rules: `dashboard#server-rendered`."""

    async def story(world: World) -> None:
        async with browsing.tab(world, java_script_enabled=False, forgiven=_MISSING) as tab:
            for path in PAGES:
                await tab.open(path)
                assert await tab.page.locator("h1").is_visible(), path
            await tab.open("needs")
            assert "Cycle 1: 3 needs, 1 covered, 2 short" in await tab.page.locator("main").inner_text()
            world.complete()
            world.dashboard.fleet.answers.forget()
            await tab.page.reload()
            assert "Cycle 2:" in await tab.page.locator("main").inner_text()
            await tab.page.get_by_role("link", name="batch").click()
            assert "Short" in await tab.page.locator("article").inner_text()

    browsing.play(story)


def test_the_first_screen_fits_without_scrolling_however_much_is_wrong(browsing: Browsing) -> None:
    async def story(world: World) -> None:
        await world.lose("shard-1")
        world.shards["shard-0"].stand(
            dry_run=True, ready=False, not_ready=("the provider has not been listed",)
        )
        for _ in range(3):
            world.complete()
            await world.look()
        async with browsing.tab(world) as tab:
            await tab.open("")
            await tab.picture("overview-much-is-wrong")
            assert (await tab.size())[1] <= 720
            assert await tab.page.locator(".state").get_attribute("data-state") == "stopped"

    browsing.play(story, names=("shard-0", "shard-1"), service=TroubledInsight, endpoints=ENDPOINTS)
