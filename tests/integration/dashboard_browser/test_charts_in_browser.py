"""Charts in real Chromium: drawn by the library under the strict policy, one cross-hair, one range, a table each.

Rules: `dashboard#charts`, `dashboard#assets`, `dashboard#history-ranges`.
"""

import asyncio
import json

import pytest

from bigfleet.dashboard.core.history_sample import HistorySample, sample_of
from bigfleet.dashboard.core.history_steps import FINE
from tests.integration.dashboard.world import World
from tests.integration.dashboard_browser.tabs import Browsing, Tab

pytestmark = pytest.mark.integration
DRAWN = "document.querySelectorAll('.uplot canvas').length"
COLOURS = "[...document.querySelectorAll('figure[data-history=cost] .u-marker')].map((mark) => getComputedStyle(mark).borderColor)"


async def until(tab: Tab, expression: str) -> None:
    """Wait until an expression is true on the page; the policy forbids the polling that Playwright puts into it."""
    async with asyncio.timeout(30):
        while not await tab.page.evaluate(expression):  # noqa: ASYNC110 - the fact is in another process
            await asyncio.sleep(0.05)


async def an_hour(world: World) -> None:
    """Fill the history of the last hour with what the fleet is now, cost rising."""
    fleet = world.dashboard.fleet
    now = sample_of(fleet.picture, FINE.begin(fleet.now()), {})
    assert now is not None
    for back in range(360, 0, -1):
        figures = {"OnDemand": 8.0 + back / 100, "Spot": 2.0}
        fleet.history._store.append(
            HistorySample(
                now.at - 10 * back,
                {**now.fleet, "cost": figures, "actions": {"Bootstrap": 3.0}},
                now.clusters,
            )
        )


@pytest.mark.rule("dashboard#charts", "dashboard#assets")
def test_charts_are_drawn_with_one_cross_hair_and_a_table_each(browsing: Browsing) -> None:
    async def story(world: World) -> None:
        await an_hour(world)
        async with browsing.tab(world, color_scheme="light") as tab:
            await tab.open("cost")
            await until(tab, f"{DRAWN} === 3")
            await tab.picture("charts-light")
            over = tab.page.locator("figure[data-history=cost] .u-over")
            await over.hover(position={"x": 90, "y": 40})
            hairs = "[...document.querySelectorAll('.u-legend tr:first-child .u-value')].map((cell) => cell.textContent)"
            await until(tab, f"new Set({hairs}).size === 1 && {hairs}[0].length > 8")
            assert len(await tab.page.evaluate(hairs)) == 3
            figure = tab.page.locator("figure[data-history=cost]")
            await figure.locator("summary").click()
            head = await figure.locator("thead th").all_inner_texts()
            assert head == ["time", "OnDemand", "Spot"]
            assert await figure.locator("tbody tr").count() >= 12
            light = await tab.page.evaluate(COLOURS)
            await tab.page.emulate_media(color_scheme="dark")
            await until(tab, f"JSON.stringify({COLOURS}) !== JSON.stringify({json.dumps(light)})")
            await tab.picture("charts-dark")

    browsing.play(story)


@pytest.mark.rule("dashboard#charts", "dashboard#history-ranges")
def test_a_range_is_chosen_for_all_charts_and_kept_in_the_address(browsing: Browsing) -> None:
    async def story(world: World) -> None:
        await an_hour(world)
        async with browsing.tab(world) as tab:
            await tab.open("clusters/web")
            await tab.page.get_by_role("link", name="the last 24 hours").click()
            await tab.page.wait_for_url("**/clusters/web?range=24h")
            await until(tab, f"{DRAWN} === 3")
            assert await tab.page.locator("figure[data-range='24h']").count() == 3
            assert await tab.page.locator("nav.ranges [aria-current]").inner_text() == "24h"

    browsing.play(story)


@pytest.mark.rule("dashboard#charts", "dashboard#server-rendered")
def test_without_scripts_a_chart_is_a_drawing_and_a_table(browsing: Browsing) -> None:
    async def story(world: World) -> None:
        await an_hour(world)
        async with browsing.tab(world, java_script_enabled=False) as tab:
            await tab.open("cost")
            assert await tab.page.locator("figure[data-history] svg.chart").count() == 3
            await tab.page.locator("figure[data-history=cost] summary").click()
            assert await tab.page.locator("figure[data-history=cost] tbody tr").count() >= 12

    browsing.play(story)
