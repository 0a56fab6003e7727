"""Hostile names in clusters, machines, needs, zones and shards, on every page and in every answer and export.

Pages and routes come from the application's own router, so a new one is looked at without a change here.
Rules: `dashboard#hostile-names`, `dashboard#exports`.
"""

import asyncio
import csv
import io
import json
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from html.parser import HTMLParser
from typing import Any, Final
from urllib.parse import quote

import pytest

from bigfleet.aio.clock import SystemClock
from bigfleet.aio.identity import READONLY
from bigfleet.aio.net import Call
from bigfleet.dashboard.exports import TABLES
from bigfleet.dashboard.pages.pages import PAGES
from bigfleet.dashboard.scraper import ScrapeTarget
from bigfleet.model.machine import MachineState as S
from bigfleet.model.need import Need
from bigfleet.model.profile import Profile, Requirement, RequirementOperator
from bigfleet.transport.gates import allow
from bigfleet.transport.grpc_net import GrpcNet
from bigfleet.v1alpha1 import coordinator_pb2 as pb
from tests.integration.dashboard.world import MACHINES, NEEDS, World, dashboard_world, situation
from tests.support.builders import amounts, assigned, machine, shape
from tests.support.scripted_coordinator import ScriptedCoordinator

pytestmark = pytest.mark.integration
NAME: Final = (
    "=1+cmd|' /C calc'!A0;=2;\t@3<script>alert(1)</script><img src=x onerror=alert(2)>"
    '"\' onmouseover="alert(3)" </title></textarea>-->]]>'
    "\u202egpj\u2066\u200f\u200b\u00ad\ufeff\U000e0041 \u05d0\u05d1\u05d2 \x07\x1b[31m\x7f\x85\u2028{{7*7}}"
)
LONG: Final = NAME + "<b>" * 3_000
INVISIBLE: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2067\u206a-\u206f\ufeff\U000e0000-\U000e0fff]"
)
HEBREW: Final = re.compile("[\u0590-\u05ff]")
ELEMENTS: Final = frozenset(
    [
        "a",
        "article",
        "b",
        "bdi",
        "body",
        "br",
        "button",
        "caption",
        "circle",
        "code",
        "datalist",
        "dd",
        "details",
        "dialog",
        "div",
        "dl",
        "dt",
        "em",
        "figcaption",
        "figure",
        "fieldset",
        "footer",
        "form",
        "g",
        "h1",
        "h2",
        "h3",
        "head",
        "header",
        "hr",
        "html",
        "i",
        "input",
        "label",
        "legend",
        "li",
        "line",
        "link",
        "main",
        "meta",
        "nav",
        "noscript",
        "ol",
        "option",
        "p",
        "path",
        "polyline",
        "pre",
        "rect",
        "script",
        "section",
        "select",
        "small",
        "span",
        "strong",
        "sub",
        "summary",
        "sup",
        "svg",
        "table",
        "tbody",
        "td",
        "text",
        "textarea",
        "tfoot",
        "th",
        "thead",
        "time",
        "title",
        "tr",
        "ul",
        "use",
    ]
)
SHOWN: Final = frozenset({"title", "aria-label", "alt", "placeholder"})


class PageCheck(HTMLParser):
    """Reads a page as a browser does, and notes what is wrong with it."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.wrong: list[str] = []
        self.links: list[str] = []
        self._open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag not in ELEMENTS or (tag == "script" and "src" not in given):
            self.wrong.append(f"element {tag}")
        for name, value in given.items():
            if (
                name.startswith("on")
                or name in {"style", "srcdoc", "formaction"}
                or not re.fullmatch("[a-zA-Z-]+[0-9]?", name)
            ):
                self.wrong.append(f"attribute {name} of {tag}")
            if name in SHOWN and INVISIBLE.search(value):
                self.wrong.append(f"invisible in {name} of {tag}: {value[:60]!a}")
            if name in {"href", "src", "action", "data-open", "data-stream", "data-ask"}:
                if not value.startswith(("/", "#")) or value.startswith("//"):
                    self.wrong.append(f"{name} {value[:60]}")
                elif tag == "a" and value.startswith("/"):
                    self.links.append(value)
        if tag not in {"br", "hr", "img", "input", "link", "meta"}:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        before = list(self._open)
        self.handle_starttag(tag, attrs)
        self._open = before

    def handle_endtag(self, tag: str) -> None:
        if tag in self._open:
            while self._open.pop() != tag:
                pass

    def handle_data(self, data: str) -> None:
        if "textarea" in self._open:
            return
        if found := INVISIBLE.search(data):
            self.wrong.append(f"invisible {found[0]!a} in {self._open[-1:]}: {data[:80]!a}")
        isolated = "bdi" in self._open or "\u2068" in data
        if HEBREW.search(data) and not isolated:
            self.wrong.append(f"not isolated in {self._open[-1:]}: {data[:80]!a}")


class HostileClusters:
    """Clusters of a kubeconfig whose names and resources are hostile."""

    async def clusters(self) -> list[Mapping[str, Any]]:
        counts = {"capacityRequests": 1, "capacityRequestsPending": 1, "upcomingNodes": 1}
        return [{"id": NAME, **counts}, {"id": "web", **counts, "error": LONG}]

    async def cluster(self, cluster: str) -> Mapping[str, Any]:
        return {
            "id": cluster,
            "capacityRequestsTotal": 1,
            "capacityRequestsByPhase": {NAME: 1},
            "upcomingNodesTotal": 1,
            "upcomingNodesByPhase": {NAME: 1},
        }

    async def available_capacity(self) -> list[Mapping[str, Any]]:
        hint = {
            "name": NAME,
            "resources": {NAME: NAME},
            "availableCount": 1,
            "availability": NAME,
            "cost": NAME,
            "requirements": [{"key": NAME, "operator": NAME, "values": [NAME]}],
        }
        return [{"id": NAME, "items": [hint]}]


class HostileCoordinator(ScriptedCoordinator):
    """Lists shards, domains and reports with hostile names."""

    @allow(READONLY)
    async def list_shards(self, _request: pb.ListShardsRequest, _call: Call) -> pb.ListShardsResponse:  # type: ignore[override]
        rows = [
            pb.ShardRegistryEntry(shard_id=f"r{NAME}", address=NAME),
            pb.ShardRegistryEntry(shard_id=LONG),
        ]
        return pb.ListShardsResponse(shards=rows)

    @allow(READONLY)
    async def list_domain_assignments(  # type: ignore[override]
        self, _request: pb.ListDomainAssignmentsRequest, _call: Call
    ) -> pb.ListDomainAssignmentsResponse:
        row = pb.DomainAssignment(topology_key=NAME, topology_value=NAME, shard_id=NAME)
        return pb.ListDomainAssignmentsResponse(assignments=[row])

    @allow(READONLY)
    async def list_shard_reports(  # type: ignore[override]
        self, _request: pb.ListShardReportsRequest, _call: Call
    ) -> pb.ListShardReportsResponse:
        row = pb.ShardReportSnapshot(shard_id=NAME, cycle=7)
        row.summary.provider_address = NAME
        row.summary.per_instance_type_counts[NAME] = row.summary.per_zone_counts[NAME] = 1
        row.shortfalls.add(priority=5).deficit.resources[NAME] = "1"
        return pb.ListShardReportsResponse(reports=[row])


async def hostile_metrics() -> bytes:
    """Label values may hold anything but a line break."""
    value = (
        NAME.replace("\\", "\\\\")
        .replace('"', '\\"')
        .replace("\x85", "")
        .replace("\u2028", "")
        .replace("\x1b", "")
    )
    lines = [f'bigfleet_shard_{name}{{kind="{value}",phase="{value}",state="{value}",le="1"}} 1' for name in (
        "inventory_machines", "shortfalls", "actions_total", "cycle_phase_duration_seconds_bucket",
    )]  # fmt: skip
    return "\n".join([*lines, ""]).encode()


def hostile_fleet() -> Any:  # Any: a situation
    gang = Profile(
        (
            Requirement(NAME, RequirementOperator.IN, (NAME, LONG)),
            Requirement("rack", RequirementOperator.SAME),
        ),
        priority=70,
    )
    needs = (
        *NEEDS,
        Need(NAME, gang, amounts(cpu=8), amounts(cpu=4), group=NAME),
        Need(NAME, Profile(priority=60), amounts(cpu=4)),
        Need(LONG, Profile(priority=50), amounts(cpu=4), group=LONG),
    )
    hostile = shape(NAME, zone=NAME, labels={NAME: NAME, "rack": NAME})
    long = shape(LONG, zone=LONG)
    machines = (
        *MACHINES,
        machine(NAME, S.FAILED, shape=hostile, last_error=NAME),
        machine(f"c{NAME}", S.CONFIGURED, cluster=NAME, assigned=assigned(5, group=NAME), shape=hostile),
        machine(f"i{NAME}", S.IDLE, shape=hostile),
        machine("long", S.FAILED, shape=long, last_error=LONG),
    )
    return situation(machines, needs)


@asynccontextmanager
async def hostile_world() -> AsyncIterator[World]:
    coordinator = HostileCoordinator(SystemClock())
    server = await GrpcNet().serve("127.0.0.1:0", [coordinator.bound()])
    options: dict[str, Any] = {
        "names": ("shard-0", NAME),
        "coordinator": [f"127.0.0.1:{server.port}"],
        "clusters": HostileClusters(),
        "endpoints": [ScrapeTarget(NAME, hostile_metrics)],
    }
    try:
        async with dashboard_world(**options) as world:
            for shard in world.shards:
                world.complete(shard, given=hostile_fleet())
            await world.look()
            await world.dashboard.scrape()
            world.dashboard.fleet.answers.forget()
            yield world
    finally:
        await server.stop(0)


SHARD: Final = quote(NAME, safe="")
MACHINE: Final = quote(f"c{NAME}", safe="")
QUERY: Final = f"?shard=shard-0&cluster={SHARD}&q={SHARD}"


def addresses(world: World) -> list[str]:
    """Every route that the router has, with good and with hostile parts; every page, also those about one thing."""
    parts = {"{pod}": "shard-0", "{id}": SHARD, "{shard}": "shard-0", "{digest}": "x", "{name}": SHARD}
    found = []
    for route in sorted(world.dashboard.routes):
        path = re.sub(r"\{(?!table|form|rest)\w+\}", lambda part: parts[part[0]], route)
        if "{table}" in path:
            found += [
                path.replace("{table}", table).replace("{form}", form)
                for table in TABLES
                for form in ("csv", "json")
            ]
        elif "{rest}" in path:
            about = ("shards/shard-0", f"shards/{SHARD}", f"clusters/{SHARD}", SHARD, f"needs/{SHARD}")
            found += [path.replace("{rest}", page) for page in about]
        elif not path.endswith("/stream"):
            found.append(path or "/")
    whole = [
        *found,
        *(f"{path}{query}" for path in found for query in ("?shard=shard-0", f"?shard={SHARD}", QUERY)),
    ]
    explain = [
        f"/explain?shard=shard-0&machine={MACHINE}",
        f"/explain?shard={SHARD}&machine={SHARD}",
        f"/explain?shard=shard-0&machine={SHARD}nothing",
        f"/whatif?shard={SHARD}&edits={SHARD}&until={SHARD}&create={SHARD}&drain={SHARD}",
    ]
    return whole + explain


@pytest.mark.rule("dashboard#hostile-names", "dashboard#exports")
def test_no_page_answer_or_export_lets_a_name_be_more_or_other_than_what_it_shows() -> None:
    async def play() -> None:
        async with hostile_world() as world:
            seen, kinds = set[int](), set[str]()
            explained = 0
            queue = addresses(world)
            for address in queue:
                status, text, headers = await world.get(address)
                assert status != 500, address
                seen.add(status)
                kind = headers["Content-Type"].partition(";")[0]
                kinds.add(kind)
                assert headers["X-Content-Type-Options"] == "nosniff"
                if kind == "text/html":
                    check = PageCheck()
                    check.feed(text)
                    check.close()
                    assert not check.wrong, (address, check.wrong[:5])
                    # Explanations of needs are found by their links: a fingerprint is long to write.
                    links = [
                        link for link in check.links if link.startswith("/explain") and link not in queue
                    ]
                    if explained < 20:
                        queue += links[: 20 - explained]
                        explained += len(links)
                elif kind == "text/csv":
                    assert_no_formula(text, address)
                elif kind == "application/json":
                    json.loads(text)
                    if "/export/" in address and status == 200:
                        assert headers["Content-Disposition"].startswith("attachment")
            assert {200, 400, 404} <= seen
            assert {"text/html", "text/csv", "application/json"} <= kinds
            assert explained

    asyncio.run(play())


def assert_no_formula(text: str, address: str) -> None:
    """Whatever separator a spreadsheet takes, no cell begins a formula."""
    assert not INVISIBLE.search(text), address
    rows = list(csv.reader(io.StringIO(text, newline="")))
    assert len({len(row) for row in rows}) == 1, address
    for row in rows[1:]:
        for cell in row:
            for part in re.split(r"[;\t\n]", cell):
                assert re.fullmatch(r"-?[0-9.e+-]+", cell) or not re.match("[=+@|-]", part.strip()), (
                    address,
                    part,
                )


@pytest.mark.rule("dashboard#hostile-names")
def test_a_hostile_shard_cannot_forge_a_notice_of_the_stream() -> None:
    async def play() -> None:
        name = "a\n\nevent: report\ndata: forged\n\n\u202e"
        async with (
            dashboard_world(names=(name,)) as world,
            world.session.get(f"{world.url}/api/v1/x/stream") as answer,
        ):
            world.complete(name)
            async with asyncio.timeout(30):
                async for line in answer.content:
                    if line.startswith(b"event: cycle"):
                        break
                assert (
                    await answer.content.readline()
                ).decode() == "data: a event: report data: forged \\u202e\n"

    asyncio.run(play())


def test_the_pages_are_those_of_the_application() -> None:
    async def play() -> None:
        async with dashboard_world(names=()) as world:
            assert {f"/{page}" for page in PAGES} <= world.dashboard.routes | {"/"}

    asyncio.run(play())
