"""A dashboard that answers in a thread of its own, for tools that ask without asyncio."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.integration.dashboard.world import dashboard_world


@contextmanager
def served(**options: Any) -> Iterator[str]:  # Any: options of the world
    """Serve until the block ends; yields the address."""
    ready, end = threading.Event(), asyncio.Event()
    reply: list[Any] = []

    async def play() -> None:
        async with dashboard_world(**options) as world:
            await world.dashboard.scrape()
            reply.extend((world.url, asyncio.get_running_loop()))
            ready.set()
            await end.wait()

    thread = threading.Thread(target=asyncio.run, args=(play(),))
    thread.start()
    try:
        assert ready.wait(60)
        yield reply[0]
    finally:
        reply[1].call_soon_threadsafe(end.set)
        thread.join(30)
