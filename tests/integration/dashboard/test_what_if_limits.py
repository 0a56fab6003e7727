"""A what-if over its limits ends with a clear message, and others are answered all the while.

Rules: `dashboard#what-if`, `dashboard#what-if-process`.
"""

import asyncio
import io
import json
import zlib
from typing import Any

import pytest

from bigfleet.aio.clock import SystemClock
from bigfleet.dashboard.sources import SourceError
from bigfleet.dashboard.what_if import WhatIf
from tests.integration.dashboard.world import World, dashboard_world

pytestmark = pytest.mark.integration
TEXT = json.dumps({"version": 1, "now": 0, "machines": [], "needs": []}).encode()
SNAPSHOT = zlib.compress(TEXT)
NO_EDITS: dict[str, Any] = {"edits": [], "horizon": {}, "explain": None}


@pytest.mark.rule("dashboard#what-if-process")
def test_time_memory_and_the_length_of_the_queue_are_limited() -> None:
    async def play() -> None:
        clock = SystemClock()
        with pytest.raises(SourceError, match=r"took longer than 0\.01 s and was given up"):
            await WhatIf(clock, limit_s=0.01).ask(SNAPSHOT, NO_EDITS)
        large = zlib.compress(TEXT.replace(b'"needs"', b'"x-pad": "' + b"x" * 40_000_000 + b'", "needs"'))
        with pytest.raises(SourceError, match="needed more than 16 MiB and was given up"):
            await WhatIf(clock, memory_bytes=16 * 1024**2).ask(large, NO_EDITS)
        asked = WhatIf(clock)
        waiting = [asyncio.create_task(asked.ask(SNAPSHOT, NO_EDITS)) for _ in range(8)]
        await asyncio.sleep(0)
        with pytest.raises(SourceError, match="too many questions wait already"):
            await asked.ask(SNAPSHOT, NO_EDITS)
        for task in waiting[1:]:
            task.cancel()
        assert (await waiting[0])["same"] is True
        assert (await asked.ask(SNAPSHOT, NO_EDITS))["same"] is True

    asyncio.run(play())


@pytest.mark.rule("dashboard#what-if-process")
def test_a_body_that_is_too_large_is_refused_and_the_server_stays_healthy() -> None:
    async def story(world: World) -> None:
        body = io.BytesIO(b'{"edits": [{"edit": "lose_zone", "zone": "' + b"z" * 2_000_000 + b'"}]}')
        headers = {"Content-Type": "application/json"}
        async with world.session.post(f"{world.url}/api/v1/x/whatif", data=body, headers=headers) as answer:
            assert answer.status == 413
        assert (await world.json("/api/v1/health"))["status"] == "ok"

    async def play() -> None:
        async with dashboard_world() as world:
            await story(world)

    asyncio.run(play())
