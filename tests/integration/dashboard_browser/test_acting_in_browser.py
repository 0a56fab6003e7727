"""What a reader does with the pages, in real Chromium, mostly by keyboard.

Rules: `dashboard#budgets`, `dashboard#look`, `dashboard#browser-tests`, `dashboard#optional-sources`,
`dashboard#what-if-difference`, `dashboard#accessibility`, `dashboard#hostile-names`, `dashboard#exports`.
"""

import csv
from dataclasses import replace

import pytest
from playwright.async_api import Page, expect

from bigfleet.model.machine import MachineState as S
from bigfleet.model.need import Need
from bigfleet.model.profile import Profile
from tests.integration.dashboard.troubled import CalmInsight
from tests.integration.dashboard.world import MACHINES, NEEDS, World, situation
from tests.integration.dashboard_browser.tabs import DARK, LIGHT, PAPER, Browsing
from tests.support.builders import amounts, machine, shape

pytestmark = pytest.mark.integration
COVERED = "All 3 needs are covered."
HOSTILE = '<img src=x onerror="document.title=1"><script>document.title=1</script>\u202e"\'&' + "x" * 10_000


async def focused_key(page: Page) -> str | None:
    """Which row of a table has the focus."""
    key: str | None = await page.evaluate("document.activeElement.dataset.key || null")
    return key


@pytest.mark.rule("dashboard#accessibility")
def test_a_row_is_explained_by_keyboard_and_the_focus_returns(browsing: Browsing) -> None:
    async def story(world: World) -> None:
        async with browsing.tab(world) as tab:
            page = tab.page
            await tab.open("needs")
            rows = page.locator("tbody tr[data-open]")
            await rows.first.focus()
            await page.keyboard.press("ArrowDown")
            await page.keyboard.press("ArrowDown")
            batch = await focused_key(page)
            assert batch is not None
            assert batch.startswith("batch|")
            await page.keyboard.press("Home")
            assert str(await focused_key(page)).startswith("train|")
            await page.keyboard.press("End")
            await page.keyboard.press("Enter")
            drawer = page.get_by_role("dialog", name="Details")
            await expect(drawer).to_contain_text("Refused machines, by reason")
            await expect(drawer).to_contain_text("Short")
            assert await page.evaluate("document.getElementById('drawer').contains(document.activeElement)")
            await tab.picture("needs-drawer")
            await page.keyboard.press("Escape")
            await expect(drawer).to_be_hidden()
            assert await focused_key(page) == batch

    browsing.play(story)


@pytest.mark.rule("dashboard#accessibility")
def test_the_skip_link_is_the_first_stop_and_leads_to_the_content(browsing: Browsing) -> None:
    async def story(world: World) -> None:
        async with browsing.tab(world) as tab:
            await tab.open("machines")
            await tab.page.keyboard.press("Tab")
            assert await tab.page.evaluate("document.activeElement.textContent") == "Skip to content"
            await tab.page.keyboard.press("Enter")
            assert await tab.page.evaluate("document.activeElement.id") == "content"

    browsing.play(story)


def test_filters_are_in_the_address_and_survive_a_reload(browsing: Browsing) -> None:
    async def story(world: World) -> None:
        async with browsing.tab(world) as tab:
            page = tab.page
            await tab.open("needs")
            async with page.expect_navigation():
                await page.get_by_label("Status").select_option("short")
            assert "status=short" in page.url
            await expect(page.locator("caption")).to_contain_text("2 of 3 needs, 0 covered, 2 short")
            await page.reload()
            assert await page.get_by_label("Status").input_value() == "short"
            await tab.open("machines")
            async with page.expect_navigation():
                await page.get_by_role("link", name="price").click()
            assert "sort=price" in page.url
            await expect(page.locator("th[aria-sort]")).to_contain_text("price")

    browsing.play(story)


def test_a_cycle_refreshes_the_open_page_and_marks_what_changed(browsing: Browsing) -> None:
    async def story(world: World) -> None:
        async with browsing.tab(world) as tab:
            page = tab.page
            async with page.expect_request("**/x/stream"):
                await tab.open("needs")
            await expect(page.locator("caption")).to_contain_text("Cycle 1: 3 needs")
            await page.locator("tbody tr[data-open]").nth(1).focus()
            world.complete(given=situation(MACHINES, NEEDS[:2]))
            await expect(page.locator("caption")).to_contain_text("Cycle 2: 2 needs", timeout=30_000)
            assert str(await focused_key(page)).startswith("web|")

    browsing.play(story)


@pytest.mark.rule("dashboard#base-path")
def test_behind_a_prefix_links_lead_on_and_the_page_is_refreshed(browsing: Browsing) -> None:
    async def story(world: World) -> None:
        async with browsing.tab(world) as tab:
            page = tab.page
            await tab.open("fleet/")
            async with page.expect_request("**/fleet/api/v1/x/stream"):
                await page.get_by_role("link", name="Needs", exact=True).click()
            assert page.url.startswith(f"{tab.url}/fleet/needs")
            await expect(page.locator("caption")).to_contain_text("Cycle 1: 3 needs")
            world.complete(given=situation(MACHINES, NEEDS[:2]))
            await expect(page.locator("caption")).to_contain_text("Cycle 2: 2 needs", timeout=30_000)

    browsing.play(story, base="/fleet/")


@pytest.mark.rule("dashboard#optional-sources")
def test_a_lost_shard_and_its_return_are_shown(browsing: Browsing) -> None:
    async def story(world: World) -> None:
        async with browsing.tab(world) as tab:
            page = tab.page
            await tab.open("")
            await expect(page.locator(".state")).to_have_text(COVERED)
            await world.lose("shard-0")
            await world.look()
            await expect(page.locator(".state.bad")).to_contain_text(
                "Shard shard-0 has not answered", timeout=30_000
            )
            await expect(page.get_by_role("link", name="Shard shard-0 has not answered")).to_be_visible()
            await tab.picture("overview-lost-shard")
            await tab.open("machines")
            await expect(page.get_by_role("alert").filter(has_text="does not answer")).to_be_visible()
            await tab.open("")
            await world.bring_back("shard-0")
            await world.look()
            await expect(page.locator(".state.good")).to_have_text(COVERED, timeout=30_000)
            await expect(page.locator(".screen")).to_contain_text("answers again")

    browsing.play(story, service=CalmInsight)


def test_a_dashboard_that_ends_leaves_a_banner_with_the_age_of_what_is_seen(browsing: Browsing) -> None:
    async def story(world: World) -> None:
        async with browsing.tab(world, forgiven=("console: Failed to load resource",)) as tab:
            async with tab.page.expect_request("**/x/stream"):
                await tab.open("needs")
            await tab.page.route("**/needs", lambda route: route.abort())
            world.complete()
            await expect(tab.page.locator("#stale")).to_contain_text("does not answer", timeout=30_000)

    browsing.play(story)


def test_the_theme_follows_the_system_until_the_reader_chooses(browsing: Browsing) -> None:
    async def story(world: World) -> None:
        async with browsing.tab(world, color_scheme="dark") as tab:
            page = tab.page
            await tab.open("")
            assert await page.evaluate(PAPER) == DARK
            await page.get_by_role("button", name="Light theme").click()
            assert await page.evaluate(PAPER) == LIGHT
            await tab.open("needs")
            assert await page.evaluate(PAPER) == LIGHT

    browsing.play(story)


def test_nothing_moves_for_a_reader_who_asked_for_that(browsing: Browsing) -> None:
    async def story(world: World) -> None:
        mark = "(() => { const cell = document.querySelector('dd'); cell.classList.add('changed'); return getComputedStyle(cell).transitionDuration })()"
        for wish, expected in (("reduce", "0s"), ("no-preference", "0.6s")):
            async with browsing.tab(world, reduced_motion=wish) as tab:
                await tab.open("")
                assert await tab.page.evaluate(mark) == expected

    browsing.play(story)


@pytest.mark.rule("dashboard#hostile-names")
def test_hostile_names_do_nothing_and_stretch_nothing(browsing: Browsing) -> None:
    """Rules: `dashboard#hostile-names`."""
    needs = (*NEEDS, Need(HOSTILE, Profile(priority=50), amounts(cpu=4), group=HOSTILE))
    machines = (*MACHINES, machine("h-0", S.FAILED, shape=shape(HOSTILE), last_error=HOSTILE))

    async def story(world: World) -> None:
        world.complete(given=replace(situation(machines, needs)))
        await world.look()
        async with browsing.tab(world) as tab:
            for path in (
                "",
                "needs",
                "machines?q=h-0",
                "clusters",
                "shards/shard-0",
                "explain?shard=shard-0&machine=h-0",
            ):
                await tab.open(path)
                assert "BigFleet" in await tab.page.title(), path
                assert await tab.page.locator("main img, main script").count() == 0, path
                assert (await tab.size())[0] <= 1280, path
            await tab.picture("explain-hostile")

    browsing.play(story)


@pytest.mark.rule("dashboard#what-if-difference")
def test_a_question_is_built_asked_undone_and_kept_in_the_address(browsing: Browsing) -> None:
    """Rules: `dashboard#what-if-difference`."""

    async def story(world: World) -> None:
        async with browsing.tab(world) as tab:
            page = tab.page
            await tab.open("whatif")
            ask = page.get_by_role("button", name="Try it")
            await ask.click()
            await expect(page.locator("#result h2")).to_have_text("No difference", timeout=60_000)
            await page.get_by_label("how many").fill("100")
            await page.get_by_label("like machine or type").fill("i-0")
            await page.get_by_role("button", name="Add: Add machines").click()
            await ask.click()
            await expect(page.locator("#result h2")).to_have_text("The difference", timeout=60_000)
            await expect(page.locator("#result")).to_contain_text("becomes satisfied")
            await tab.picture("whatif-difference")
            assert "add_machines" in page.url
            await page.reload()
            await page.get_by_label("Look at").select_option("quiet")
            await ask.click()
            await expect(page.locator("#result")).to_contain_text("changed, it rests after", timeout=60_000)
            why = page.get_by_role("button", name="Explain batch in the changed world")
            await why.focus()
            await page.keyboard.press("Enter")
            drawer = page.get_by_role("dialog", name="Details")
            await expect(drawer).to_contain_text("Covered: cpu=400", timeout=60_000)
            await tab.picture("whatif-explained")
            await page.keyboard.press("Escape")
            await expect(why).to_be_focused()
            assert "until=quiet" in page.url
            await page.reload()
            assert await page.get_by_label("Look at").input_value() == "quiet"
            assert "add_machines" in await page.get_by_label("Edits, as a JSON list").input_value()
            await page.get_by_role("button", name="Undo the last edit").click()
            assert await page.get_by_label("Edits, as a JSON list").input_value() == "[]"
            await page.get_by_label("Edits, as a JSON list").fill("[{")
            await ask.click()
            await expect(page.get_by_role("alert").filter(has_text="Edits:")).to_be_visible()

    browsing.play(story)


@pytest.mark.rule("dashboard#exports")
def test_the_exported_table_is_the_one_that_is_seen(browsing: Browsing) -> None:
    """Rules: `dashboard#exports`."""

    async def story(world: World) -> None:
        async with browsing.tab(world) as tab:
            page = tab.page
            await tab.open("machines?shard=shard-0&state=Idle&sort=-id")
            seen = await page.locator("tbody td:first-child").all_inner_texts()
            async with page.expect_download() as waiting:
                await page.get_by_role("link", name="as CSV").click()
            download = await waiting.value
            text = (await download.path()).read_text()
            assert [row["id"] for row in csv.DictReader(text.splitlines())] == seen
            assert len(seen) == 5

    browsing.play(story)


@pytest.mark.rule("dashboard#answer-cost")
def test_twenty_thousand_needs_are_paged_filtered_and_walked(browsing: Browsing) -> None:
    """`dashboard#answer-cost`, the browser's part: a page holds 200 rows whatever the fleet asks for."""
    needs = tuple(Need(f"c-{n % 40:02}", Profile(priority=20_000 - n), amounts(cpu=1)) for n in range(20_000))

    async def story(world: World) -> None:
        world.complete(given=situation(MACHINES, needs))
        async with browsing.tab(world) as tab:
            page = tab.page
            await tab.open("needs?shard=shard-0")
            await expect(page.locator("caption")).to_contain_text("20,000 needs")
            assert await page.locator("tbody tr[data-open]").count() == 200
            assert await page.evaluate("document.querySelectorAll('*').length") < 10_000
            await tab.picture("needs-big")
            await page.get_by_role("link", name="last", exact=True).click()
            await expect(page.locator("nav.pages")).to_contain_text("page 100 of 100")
            await page.locator("tbody tr[data-open]").first.focus()
            await page.keyboard.press("End")
            assert str(await focused_key(page)).startswith("c-39|")
            await tab.open("needs?shard=shard-0&cluster=c-07&status=satisfied")
            await expect(page.locator("caption")).to_contain_text("covered, 0 short")

    browsing.play(story)
