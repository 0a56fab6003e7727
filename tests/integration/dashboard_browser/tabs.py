"""Tabs that notice what a reader should never meet: errors on the console, failing scripts, other origins."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from playwright.async_api import Browser, BrowserContext, ConsoleMessage, Page, Request

from tests.integration.dashboard.world import World, dashboard_world

PAPER = "getComputedStyle(document.body).backgroundColor"
LIGHT, DARK = "rgb(246, 247, 249)", "rgb(16, 21, 28)"
WIDE = {"width": 1280, "height": 720}
PAGES = (
    "", "needs", "machines", "clusters", "clusters/web", "shards", "shards/shard-0", "capacity", "topology", "cost",
    "decisions", "explain", "explain?shard=shard-0&machine=m-01", "whatif", "about", "no/such/page",
)  # fmt: skip


@dataclass(slots=True)
class Browsing:
    """The browser, the loop it lives in, and where pictures go, if anywhere."""

    browser: Browser
    loop: asyncio.Runner
    pictures: Path | None

    def play(self, story: Callable[[World], Awaitable[None]], **options: Any) -> None:
        """Run a story in its own world."""

        async def run_story() -> None:
            async with dashboard_world(**options) as world, asyncio.timeout(120):
                await story(world)

        self.loop.run(run_story())

    @asynccontextmanager
    async def tab(
        self, world: World, *, forgiven: tuple[str, ...] = (), **options: Any
    ) -> AsyncIterator["Tab"]:
        """Open a tab; when it closes, nothing a reader should never meet may have been seen in it."""
        context = await self.browser.new_context(**({"viewport": WIDE} | options))
        try:
            tab = Tab(context, await context.new_page(), world.url, self.pictures)
            tab.watch()
            yield tab
            left = [text for text in tab.troubles if not any(word in text for word in forgiven)]
            assert left == []
        finally:
            await context.close()


@dataclass  # Playwright keeps its own notes on an object whose methods it calls
class Tab:
    """One tab of one reader."""

    context: BrowserContext
    page: Page
    url: str
    pictures: Path | None
    troubles: list[str] = field(default_factory=list)

    def watch(self) -> None:
        self.page.on("console", self._said)
        self.page.on("pageerror", lambda error: self.troubles.append(f"script: {error.message}"))
        self.page.on("request", self._asked)

    async def open(self, path: str) -> None:
        """Go to a page of the dashboard."""
        await self.page.goto(f"{self.url}/{path}")

    async def picture(self, name: str) -> None:
        """Keep a picture of what is seen, if pictures are wanted."""
        if self.pictures is not None:
            await self.page.screenshot(path=self.pictures / f"{name}.png")

    async def size(self) -> tuple[int, int]:
        """How wide and high the page is."""
        width, height = await self.page.evaluate(
            "[document.documentElement.scrollWidth, document.documentElement.scrollHeight]"
        )
        return width, height

    def _said(self, message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"}:
            self.troubles.append(f"console: {message.text} at {self.page.url}")

    def _asked(self, request: Request) -> None:
        if not request.url.startswith(self.url):
            self.troubles.append(f"asked another origin: {request.url}")


def file_name(path: str) -> str:
    """A page's name as a file's."""
    place, _, query = path.partition("?")
    return (place.replace("/", "-") or "overview") + ("-row" if query else "")
