"""Every page in both themes looks as it did, coarsely (`dashboard#browser-tests`). `pytest --rewrite` takes the new
looks; explain them.

The test compares layout and darkness, in one font: see `coarse`.
"""

import os
from pathlib import Path
from typing import Any, Literal

import pytest

from tests.integration.dashboard.world import World
from tests.integration.dashboard_browser.coarse import (
    ALLOWED,
    FONTS,
    blocks_of,
    difference,
    font_is_there,
    read,
    write,
)
from tests.integration.dashboard_browser.tabs import PAGES, Browsing, Tab, file_name

pytestmark = pytest.mark.integration
Theme = Literal["light", "dark"]
KEPT = Path(__file__).parent / "pictures"
THEMES: tuple[Theme, ...] = ("light", "dark")
# A page is laid out for 1280 pixels and painted with a quarter of them: finer than the blocks, and quick.
SMALL: dict[str, Any] = {"bypass_csp": True, "device_scale_factor": 0.25}
HARMS = (
    "document.querySelector('link[rel=stylesheet]').remove()",
    "document.querySelector('main table').remove()",
    "document.querySelector('form.filters').remove()",
    "document.querySelector('.top').remove()",
)


async def look(tab: Tab, path: str, themes: tuple[Theme, ...] = THEMES) -> dict[str, str]:
    """The page as it is seen in each theme."""
    await tab.open(path)
    await tab.page.add_style_tag(content=FONTS)
    if not await font_is_there(tab.page):
        sentence = (
            "pictures are compared in DejaVu Sans; on Debian `apt-get install fonts-dejavu-core` brings it"
        )
        if os.environ.get("CI") == "true":
            pytest.fail(sentence, pytrace=False)
        pytest.skip(sentence)
    found = dict[str, str]()
    for theme in themes:
        await tab.page.emulate_media(color_scheme=theme)
        found[theme] = await blocks_of(tab.page, await tab.page.screenshot())
    return found


def test_every_page_looks_as_it_did(browsing: Browsing, pytestconfig: pytest.Config) -> None:
    async def story(world: World) -> None:
        other = dict[str, float]()
        async with browsing.tab(world, **SMALL, forgiven=("404 (Not Found)",)) as tab:
            for path in PAGES:
                file = KEPT / f"{file_name(path)}.txt"
                seen = await look(tab, path)
                if pytestconfig.getoption("--rewrite"):
                    write(file, seen)
                before = read(file)
                other |= {
                    f"{path} {theme}": round(difference(seen[theme], before[theme]), 3) for theme in THEMES
                }
        assert {name: part for name, part in other.items() if part > ALLOWED} == {}

    browsing.play(story)


def test_a_page_that_has_lost_something_is_noticed(browsing: Browsing) -> None:
    async def story(world: World) -> None:
        async with browsing.tab(world, **SMALL) as tab:
            for harm in HARMS:
                before = (await look(tab, "machines", ("light",)))["light"]
                await tab.page.evaluate(harm)
                after = await blocks_of(tab.page, await tab.page.screenshot())
                assert difference(before, after) > ALLOWED, harm

    browsing.play(story)
