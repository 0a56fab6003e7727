"""What a tab over a large fleet takes: memory and frames (`dashboard#budgets`, `dashboard#answer-cost`). Figures are
recorded, memory is held."""

from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import expect

from bigfleet.model.need import Need
from bigfleet.model.profile import Profile
from tests.integration.dashboard.world import MACHINES, World, situation
from tests.integration.dashboard_browser.tabs import Browsing
from tests.support.builders import amounts

pytestmark = [pytest.mark.integration, pytest.mark.long]
MOST_BYTES = 150 * 1024**2
NEEDS = tuple(Need(f"c-{n % 40:02}", Profile(priority=20_000 - n), amounts(cpu=1)) for n in range(20_000))
SCROLL = """async () => {
  let frames = 0, going = true;
  const count = () => { frames += 1; if (going) requestAnimationFrame(count); };
  requestAnimationFrame(count);
  const begin = performance.now(), down = document.documentElement.scrollHeight;
  while (performance.now() - begin < 3000) {
    scrollTo(0, ((performance.now() - begin) / 3000) * down);
    await new Promise(requestAnimationFrame);
  }
  going = false;
  return frames / ((performance.now() - begin) / 1000);
}"""


def private_bytes(pid: int) -> int:
    """Memory that is this process's own, as the system's task manager counts it."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Private_"))


@pytest.mark.rule("dashboard#answer-cost")
def test_a_tab_over_twenty_thousand_needs_stays_small(browsing: Browsing, record_property: Any) -> None:
    async def story(world: World) -> None:
        world.complete(given=situation(MACHINES, NEEDS))
        async with browsing.tab(world) as tab:
            for page in range(1, 21):  # whatever a page leaves behind would add up
                await tab.open(f"needs?shard=shard-0&page={page}")
            await expect(tab.page.locator("caption")).to_contain_text("20,000 needs")
            record_property("frames_per_s", round(await tab.page.evaluate(SCROLL)))
            session = await browsing.browser.new_browser_cdp_session()
            reply = await session.send("SystemInfo.getProcessInfo")
            renderers = [row["id"] for row in reply["processInfo"] if row["type"] == "renderer"]
            largest = max(map(private_bytes, renderers))
            record_property("tab_mb", round(largest / 1024**2))
            assert largest < MOST_BYTES

    browsing.play(story)
