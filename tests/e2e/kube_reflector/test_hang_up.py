"""Closing a watch on a silent server leaves no connection open (`operator#client-failures`, `operator#c9`)."""

import asyncio
import gc
import warnings
from collections.abc import Callable

import pytest

from bigfleet.aio.clock import SystemClock
from bigfleet.kube.client import KubeClient, Selection
from bigfleet.kube.http_transport import HttpTransport
from bigfleet.kube.limiter import RateLimiter
from bigfleet.kube.resources import CAPACITY_REQUESTS
from tests.support.control_plane.cluster import Cluster


@pytest.mark.rule("operator#c9")
def test_a_watch_of_a_silent_server_is_left_at_once(
    bare: Cluster, admin_link: Callable[[], HttpTransport]
) -> None:
    async def leave() -> None:
        client = KubeClient(admin_link(), RateLimiter(SystemClock()))
        page = await client.list_page(Selection(CAPACITY_REQUESTS), limit=1)
        watching = client.watch(
            Selection(CAPACITY_REQUESTS), resource_version=page.resource_version, timeout_s=60
        )
        async with watching:
            bare.api_server.pause()
        await client.close()

    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        try:
            asyncio.run(leave())
            gc.collect()
        finally:
            bare.api_server.resume()
    assert [str(warning.message) for warning in seen] == []
