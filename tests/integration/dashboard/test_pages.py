"""Every page without scripts: complete, escaped, and clear about what is missing.

Rules: `dashboard#page-contents`, `dashboard#security`, `dashboard#optional-sources`, `dashboard#engine-explains`,
`dashboard#hostile-names`, `dashboard#server-rendered`.
"""

import asyncio
import io
import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from html import unescape
from typing import Any
from urllib.parse import quote

import pytest

from bigfleet.app.bigfleet import PROGRAM
from bigfleet.cli.framework.console import Console
from bigfleet.cli.framework.dispatch import dispatch
from bigfleet.dashboard.core.visible import visible
from bigfleet.dashboard.pages.pages import PAGES
from bigfleet.dashboard.scraper import ScrapeTarget
from bigfleet.model.machine import MachineState as S
from bigfleet.model.need import Need
from bigfleet.model.profile import Profile, Requirement, RequirementOperator
from tests.integration.dashboard.test_api import exported
from tests.integration.dashboard.world import MACHINES, NEEDS, World, dashboard_world, situation
from tests.support.builders import amounts, machine, shape

pytestmark = pytest.mark.integration
HOSTILE = "<script>alert(1)</script>\u202e\"'&" + "x" * 300
LONG = HOSTILE + "<b>" * 3_400  # ten kilobytes; as a part of an address no server takes so much


def run(story: Any, **options: Any) -> None:  # Any: a coroutine function of the world
    async def play() -> None:
        async with dashboard_world(**options) as world:
            await story(world)

    asyncio.run(play())


class NoClusters:
    """A kubeconfig without a context."""

    async def clusters(self) -> list[Mapping[str, Any]]:
        return []

    async def available_capacity(self) -> list[Mapping[str, Any]]:
        return []


@pytest.mark.rule("dashboard#optional-sources")
@pytest.mark.parametrize(
    "wired",
    [
        {},
        {"endpoints": [ScrapeTarget("shard-0", exported)]},
        {"clusters": NoClusters()},
        {"names": ("shard-0",)},
        {"names": ("shard-0", "shard-1")},
    ],
    ids=["nothing", "metrics alone", "kubeconfig alone", "a shard alone", "two shards"],
)
def test_every_page_loads_whatever_is_wired_and_names_the_flag_it_lacks(
    wired: dict[str, Any],
) -> None:
    """A coordinator alone is tried in `test_coordinator_source.py`."""
    names = wired.get("names", ())

    async def story(world: World) -> None:
        for page in PAGES:
            status, text, _ = await world.get(f"/{page}")
            assert status == 200, page
            assert text.count("<h1>") == 1, page
            assert text.count("<main") == 1, page
        lacks = {
            "": () if names else ("shards",),
            "shards": () if names else ("--shard-addr",),
            "needs": () if names else ("--shard-addr",),
            "machines": () if names else ("--shard-addr",),
            "capacity": ("--coordinator-addr",),
            "topology": ("--coordinator-addr",),
            "clusters": () if "clusters" in wired else ("--kubeconfig",),
            "about": () if "endpoints" in wired else ("--scrape",),
        }
        for page, flags in lacks.items():
            text = (await world.get(f"/{page}"))[1]
            assert [flag for flag in flags if flag not in text] == [], page

    run(story, **{"names": (), **wired})


def test_an_unknown_page_is_a_page_with_navigation() -> None:
    async def story(world: World) -> None:
        unknown = ("/nothing", "/shards/nobody", "/needs/17", "/clusters/nobody")
        explained = (
            "/explain?shard=shard-0&machine=nothing",
            "/explain?shard=shard-0&cluster=web&fingerprint=none",
        )
        for path in (*unknown, *explained):
            status, text, _ = await world.get(path)
            assert (status, "Not found" in text, 'href="/needs"' in text) == (404, True, True)

    run(story)


def test_the_main_part_alone_is_what_a_refresh_gets() -> None:
    async def story(world: World) -> None:
        status, text, _ = await world.get("/", **{"X-Part": "main"})
        assert (status, text.startswith("<main"), "<head>" in text) == (200, True, False)
        assert len(text) < 20_000  # `dashboard#budgets`, and that is before compression

    run(story)


@pytest.mark.rule("dashboard#assets")
def test_no_page_has_a_script_or_style_of_its_own() -> None:
    """Rules: `dashboard#assets`."""

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


def lines_of(page: str) -> list[str]:
    """The rows of a page's table: headings and lines as their words, needs as their clusters."""
    rows = re.findall(r"<tr[^>]*>(.*?)</tr>", page.partition("<tbody>")[2])
    cells = (
        [unescape(re.sub(r"<[^>]*>", "", cell)) for cell in re.findall(r"<t[dh].*?</t[dh]>", row)]
        for row in rows
    )
    return [row[0] for row in cells]


@pytest.mark.parametrize("insight", [True, False], ids=["ours", "the original"])
def test_needs_are_grouped_by_profile_with_lines_where_supply_ended(insight: bool) -> None:
    low, high = Profile(priority=10), Profile(priority=5000)
    needs = [
        *(Need(f"w-{n}", high, amounts(cpu=4)) for n in range(3)),
        *(Need(f"b-{n:03}", low, amounts(cpu=4)) for n in range(300)),
    ]
    machines = [machine(f"m-{n:03}", shape=shape("m5")) for n in range(253)]

    async def story(world: World) -> None:
        world.complete(given=situation(machines, needs))
        first = (await world.get("/needs?shard=shard-0"))[1]
        lines = lines_of(first)
        assert lines[:5] == [
            "Priority 5,000 · any machine 3 needs, all covered",
            "w-0",
            "w-1",
            "w-2",
            "Priority 10 · any machine 300 needs, 250 covered, 50 short",
        ]
        assert len(lines) == 202
        assert re.search(r'<a href="[^"]*page=2[^"]*">where supply ended</a>', first)
        second = (await world.get("/needs?shard=shard-0&page=2"))[1]
        lines = lines_of(second)
        assert lines[0].endswith("300 needs, 250 covered, 50 short (goes on from the page before)")
        at = lines.index("▼ First short need: all 253 needs above are covered, 50 of 50 from here on short.")
        assert lines[at - 1 : at + 2] == ["b-249", lines[at], "b-250"]
        assert "where supply ended" not in second
        assert 'scope="rowgroup"' in second

    run(story, insight=insight)


@pytest.mark.parametrize("insight", [True, False], ids=["ours", "the original"])
def test_a_profile_whose_supply_ended_has_a_line_of_its_own(insight: bool) -> None:
    """What is below the first line may still be covered, from other machines, up to a point."""
    narrow = Profile((Requirement("rack", RequirementOperator.IN, ("r1",)),), priority=900)
    needs = [
        Need(
            "z",
            Profile((Requirement("rack", RequirementOperator.IN, ("none",)),), priority=1000),
            amounts(cpu=4),
        ),
        *(Need(name, narrow, amounts(cpu=4)) for name in "abc"),
    ]
    machines = [machine(f"m-{n}", shape=shape("m5", labels={"rack": "r1"})) for n in range(2)]

    async def story(world: World) -> None:
        world.complete(given=situation(machines, needs))
        assert lines_of((await world.get("/needs?shard=shard-0"))[1]) == [
            "Priority 1,000 · rack is none 1 need, short",
            "z",
            "Priority 900 · rack is r1 3 needs, 2 covered, 1 short",
            "a",
            "b",
            "▼ Supply for this profile ended here: 2 of its 3 needs covered above.",
            "c",
        ]

    run(story, insight=insight)


def test_before_the_first_cycle_the_page_says_so() -> None:
    async def story(world: World) -> None:
        for page in ("needs", "machines"):
            assert "No cycle yet" in (await world.get(f"/{page}"))[1]

    run(story, cycles=0)


@pytest.mark.rule("dashboard#hostile-names")
def test_hostile_names_are_shown_harmlessly() -> None:
    """Rules: `dashboard#hostile-names`."""
    needs = (
        *NEEDS,
        Need(HOSTILE, Profile(priority=50), amounts(cpu=4)),
        Need(LONG, Profile(priority=49), amounts(cpu=4), group=LONG),
    )
    machines = (
        *MACHINES,
        machine("h-0", S.FAILED, shape=shape(HOSTILE), last_error=HOSTILE),
        machine("h-1", S.FAILED, shape=shape(LONG, zone=LONG), last_error=LONG),
    )

    async def story(world: World) -> None:
        world.complete(given=replace(situation(machines, needs)))
        await world.look()
        for page in (*PAGES, f"clusters/{quote(HOSTILE, safe='')}", "explain?shard=shard-0&machine=h-0"):
            _, text, _ = await world.get(f"/{page}")
            assert "<script>alert" not in text, page
            assert "<b><b>" not in text, page
        _, text, _ = await world.get("/machines?q=h-0")
        assert visible(HOSTILE) in unescape(text)
        for page in ("machines?q=h-1", "explain?shard=shard-0&machine=h-1", "needs"):
            _, text, _ = await world.get(f"/{page}")
            assert "<b><b>" not in text, page
            assert visible(LONG) in unescape(text), page

    run(story)


def command_line(*arguments: str) -> str:
    """What `bigfleet` prints; never on a running loop."""
    out, err = io.StringIO(), io.StringIO()
    code = dispatch(Console(PROGRAM, out, err, {}, lambda: datetime.now(UTC)), arguments)
    assert (code, err.getvalue()) == (0, "")
    return out.getvalue()


@pytest.mark.rule("dashboard#engine-explains")
@pytest.mark.parametrize(
    ("flag", "name"),
    [
        *(("need", name) for name in ("train/llm-7", "web", "batch")),
        *(("machine", name) for name in ("m-01", "i-0", "s-0", "f-0")),
    ],
)
def test_the_explanation_is_the_command_lines_for_the_same_cycle(flag: str, name: str) -> None:
    async def story(world: World) -> None:
        shard = f"--shard=127.0.0.1:{world.port('shard-0')}"
        said = await asyncio.to_thread(command_line, "explain", shard, f"--{flag}={name}", "-o", "wide")
        query = f"machine={name}"
        if flag == "need":
            cluster, _, group = name.partition("/")
            rows = (await world.json(f"/api/v1/needs?shard=shard-0&cluster={cluster}"))["needs"]
            query = f"cluster={cluster}&fingerprint={quote(rows[0]['profileFingerprint'])}&group={group}"
        _, text, _ = await world.get(f"/explain?shard=shard-0&{query}")
        title, sentence, *lines = said.splitlines()
        assert sentence in unescape(text)
        # The page puts a space after each id, so that lines can break.
        found = re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", text.replace(", ", ","))
        cells = {unescape(re.sub(r"<[^>]*>", "", cell)) for cell in found}
        reply = [line for line in lines if line and not line.split()[0].isupper()]
        assert reply
        for line in reply:
            assert set(re.split(r" {2,}", line.strip().replace(", ", ","))) <= cells, (line, title)

    run(story)


@pytest.mark.rule("dashboard#optional-sources")
def test_a_lost_shard_leaves_its_last_answer_marked_as_old() -> None:
    async def story(world: World) -> None:
        await world.lose("shard-0")
        await world.look()
        _, text, _ = await world.get("/")
        assert 'class="state bad" data-state="degraded">Shard shard-0 has not answered' in text
        assert "silent" in (await world.get("/shards"))[1]
        assert "shard shard-0 does not answer" in (await world.get("/machines"))[1]

    run(story)


@pytest.mark.rule("dashboard#state-word", "dashboard#unknown-not-zero")
def test_a_figure_that_no_metric_has_is_unknown_and_not_zero() -> None:
    async def story(world: World) -> None:
        await world.dashboard.scrape()
        _, text, _ = await world.get("/shards/shard-0")
        assert re.search(r"<dt>p99</dt><dd[^>]*><span[^>]*>unknown</span>", text)

    run(story, endpoints=[ScrapeTarget("shard-0", exported)])


@pytest.mark.rule("dashboard#page-clusters")
def test_a_cluster_shows_its_needs_by_name_and_its_machines_with_links() -> None:
    async def story(world: World) -> None:
        train = (await world.get("/clusters/train"))[1]
        link = re.search(r'<a href="(/explain\?[^"]*group=llm-7[^"]*)"[^>]*>llm-7</a>', train)
        assert link is not None
        assert (await world.get(unescape(link[1])))[0] == 200
        assert "1 need, 0 covered, 1 short" in train
        web = (await world.get("/clusters/web"))[1]
        assert ">Priority 5,000 · any machine</a>" in web
        assert "20 machines (20 Configured), highest price first" in web
        assert web.count('data-key="m-') == 20
        assert 'href="/explain?shard=shard-0&amp;machine=m-00"' in web

    run(story)


@pytest.mark.rule("dashboard#page-clusters", "dashboard#optional-sources")
def test_a_cluster_of_a_silent_shard_still_has_a_page() -> None:
    async def story(world: World) -> None:
        await world.lose("shard-0")
        world.dashboard.fleet.answers.forget()
        status, text, _ = await world.get("/clusters/web")
        assert status == 200
        assert "Needs and machines at shard-0" in text

    run(story)
