"""Every page without scripts: complete, escaped, and clear about what is missing (dashboard 5, 11; items 10, 13, 22, 28)."""

import asyncio
import re
from dataclasses import replace
from html import unescape
from typing import Any
from urllib.parse import quote

import pytest

from bigfleet.cli.output import table
from bigfleet.dashboard.pages.book import PAGES
from bigfleet.dashboard.scraper import Endpoint
from bigfleet.explain.tables import machine_listings
from bigfleet.model.machine import MachineState as S
from bigfleet.model.need import Need
from bigfleet.model.profile import Profile
from bigfleet.testing.builders import amounts, machine, shape
from tests.integration.dashboard.test_api import exported
from tests.integration.dashboard.world import MACHINES, NEEDS, World, dashboard_world, situation

pytestmark = pytest.mark.integration
HOSTILE = "<script>alert(1)</script>\u202e\"'&" + "x" * 300


def run(story: Any, **options: Any) -> None:  # Any: a coroutine function of the world
    async def play() -> None:
        async with dashboard_world(**options) as world:
            await story(world)

    asyncio.run(play())


@pytest.mark.parametrize(
    "names", [(), ("shard-0",), ("shard-0", "shard-1")], ids=["nothing wired", "one", "two"]
)
def test_every_page_loads_whatever_is_wired(names: tuple[str, ...]) -> None:
    """Checklist item 10."""

    async def story(world: World) -> None:
        for page in PAGES:
            status, text, _ = await world.get(f"/{page}")
            assert status == 200, page
            assert text.count("<h1>") == 1, page
            assert text.count("<main") == 1, page
        if not names:
            for page, flag in (
                ("shards", "--shard-addr"),
                ("capacity", "--coordinator-addr"),
                ("clusters", "--kubeconfig"),
            ):
                assert flag in (await world.get(f"/{page}"))[1]

    run(story, names=names)


def test_an_unknown_page_is_a_page_with_navigation() -> None:
    async def story(world: World) -> None:
        for path in ("/nothing", "/shards/nobody", "/needs/17"):
            status, text, _ = await world.get(path)
            assert (status, "No such page" in text, 'href="/needs"' in text) == (404, True, True)

    run(story)


def test_the_main_part_alone_is_what_a_refresh_gets() -> None:
    async def story(world: World) -> None:
        status, text, _ = await world.get("/", **{"X-Part": "main"})
        assert (status, text.startswith("<main"), "<head>" in text) == (200, True, False)
        assert len(text) < 20_000  # dashboard 9, and that is before compression

    run(story)


def test_no_page_has_a_script_or_style_of_its_own() -> None:
    """Checklist item 2."""

    async def story(world: World) -> None:
        for page in PAGES:
            _, text, _ = await world.get(f"/{page}")
            assert not re.search(r"<script(?![^>]*\ssrc=)", text), page
            assert "<style" not in text, page
            assert " style=" not in text, page
            assert not re.search(r"""(?:src|href)=["']?(?:https?:)?//""", text), page

    run(story)


def test_needs_page_filters_and_draws_the_line_where_supply_ended() -> None:
    async def story(world: World) -> None:
        _, text, _ = await world.get("/needs?status=short&shard=shard-0")
        assert ">train<" in text
        assert ">batch<" in text
        assert ">web<" not in text.partition("<tbody>")[2]
        assert "2 of 3 needs, 0 covered, 2 short" in text

    run(story)


def test_before_the_first_cycle_the_page_says_so() -> None:
    async def story(world: World) -> None:
        for page in ("needs", "machines"):
            assert "No cycle yet" in (await world.get(f"/{page}"))[1]

    run(story, cycles=0)


def test_hostile_names_are_shown_harmlessly() -> None:
    """Checklist item 22."""
    needs = (*NEEDS, Need(HOSTILE, Profile(priority=50), amounts(cpu=4)))
    machines = (*MACHINES, machine("h-0", S.FAILED, shape=shape(HOSTILE), last_error=HOSTILE))

    async def story(world: World) -> None:
        world.complete(given=replace(situation(machines, needs)))
        await world.look()
        for page in (*PAGES, f"clusters/{quote(HOSTILE, safe='')}", "explain?shard=shard-0&machine=h-0"):
            _, text, _ = await world.get(f"/{page}")
            assert "<script>alert" not in text, page
        _, text, _ = await world.get("/machines?q=h-0")
        assert HOSTILE in unescape(text)

    run(story)


def test_the_explanation_is_the_command_lines() -> None:
    """Checklist item 13."""

    async def story(world: World) -> None:
        told = (await world.json("/api/v1/x/explain/machine?shard=shard-0&id=m-01"))["explanation"]
        _, text, _ = await world.get("/explain?shard=shard-0&machine=m-01")
        assert told["sentence"] in unescape(text)
        cells = {unescape(cell) for cell in re.findall(r"<td>([^<]*)</td>", text)}
        for listing in machine_listings(told):
            for line in table(listing).splitlines()[1:]:
                assert set(re.split(r" {2,}", line)) <= cells, line

    run(story)


def test_a_lost_shard_leaves_its_last_word_and_says_that_it_is_old() -> None:
    async def story(world: World) -> None:
        await world.lose("shard-0")
        await world.look()
        _, text, _ = await world.get("/")
        assert "degraded" in text
        assert "shard shard-0 has not answered" in text
        assert "silent" in (await world.get("/shards"))[1]
        assert "shard shard-0 does not answer" in (await world.get("/machines"))[1]

    run(story)


def test_item_7_a_figure_that_no_metric_tells_is_unknown_and_not_zero() -> None:
    async def story(world: World) -> None:
        await world.dashboard.scrape()
        _, text, _ = await world.get("/shards/shard-0")
        assert re.search(r"<dt>p99</dt><dd[^>]*><span[^>]*>unknown</span>", text)

    run(story, endpoints=[Endpoint("shard-0", exported)])
