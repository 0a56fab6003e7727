"""Real Chromium for every test in this folder.

Where none can start, such a test is skipped and says how to get one; with CI set to true it fails.
"""

import asyncio
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.async_api import Browser, Error, async_playwright

from tests.integration.dashboard_browser.tabs import Browsing

_FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
_NAMES = ("chromium", "chromium-browser", "google-chrome")


def _absent(why: str) -> None:
    sentence = (
        f"no Chromium can start ({why}); on Debian `apt-get install chromium` brings one, or set CHROMIUM"
    )
    if os.environ.get("CI") == "true":
        pytest.fail(sentence, pytrace=False)
    pytest.skip(sentence)


@pytest.fixture(scope="session")
def browser_loop() -> Iterator[asyncio.Runner]:
    """One loop for the browser and for all that it looks at."""
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture(scope="session")
def chromium(browser_loop: asyncio.Runner) -> Iterator[Browser]:
    found = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, _NAMES)), None)
    if found is None:
        _absent("there is none on the PATH")
    driver = browser_loop.run(async_playwright().start())
    try:
        browser = browser_loop.run(driver.chromium.launch(executable_path=found, args=_FLAGS))
    except Error as error:
        browser_loop.run(driver.stop())
        _absent(error.message.splitlines()[0])
    yield browser
    browser_loop.run(browser.close())
    browser_loop.run(driver.stop())


@pytest.fixture
def browsing(chromium: Browser, browser_loop: asyncio.Runner, pytestconfig: pytest.Config) -> Browsing:
    """The browser, and where pictures go."""
    directory = pytestconfig.getoption("--screenshots")
    return Browsing(chromium, browser_loop, Path(directory) if directory else None)
