"""Many pods behind a slow API server (`operator#one-request-per-pod`); times are printed, not asserted."""

import asyncio
import resource
import time
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from bigfleet.aio.clock import Clock, monotonic_s
from bigfleet.aio.rng import SeededRng
from bigfleet.kube.client import KubeClient
from bigfleet.kube.limiter import RateLimiter
from bigfleet.kube.transport import ApiCall, ApiResponse, Document, WatchLines
from bigfleet.obs.metrics import Metrics
from bigfleet.podcontroller.controller import PodController
from bigfleet.podcontroller.metrics import POD_CONTROLLER_METRICS
from bigfleet.testing.clock import VirtualClock
from bigfleet.testing.loop import run_virtual

PAGE_S = 2.5
SHAPES = 50


def pod(number: int) -> Document:
    """Return a pod of one of fifty workloads, of a typical size."""
    app = f"app-{number % SHAPES}"
    container = {
        "name": "main",
        "image": "registry.example/some/image:1.2.3",
        "env": [{"name": f"VARIABLE_{n}", "value": "x" * 40} for n in range(20)],
        "resources": {"requests": {"cpu": f"{100 + number % SHAPES}m", "memory": "1Gi"}},
    }
    return {
        "metadata": {
            "name": f"{app}-{number:06d}",
            "namespace": f"ns-{number % 20}",
            "uid": f"{number:08x}-0000-4000-8000-000000000000",
            "resourceVersion": str(number + 1),
            "creationTimestamp": "2026-11-17T12:00:00Z",
            "labels": {"app": app},
        },
        "spec": {"containers": [container], "nodeSelector": {"pool": app}, "priority": number % 7},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}] * 4},
    }


class SlowServer:
    """Serves pods in slow pages, accepts and counts every request, and has silent watches."""

    def __init__(self, clock: Clock, count: int) -> None:
        self._clock, self._count = clock, count
        self.created = 0
        self.stamped = 0

    async def send(self, call: ApiCall) -> ApiResponse:
        if call.method == "GET":
            return ApiResponse(200, await self._page(call))
        await self._clock.sleep(0.002)
        if call.method == "POST":
            self.created += 1
            stored: Document = dict(call.body or {})
            metadata = {
                **stored["metadata"],
                "uid": f"cr-{self.created}",
                "resourceVersion": str(10**6 + self.created),
            }
            return ApiResponse(201, {**stored, "metadata": metadata})
        self.stamped += 1
        return ApiResponse(
            409, {"kind": "Status", "code": 409, "reason": "Conflict", "message": "the operator was faster"}
        )

    async def _page(self, call: ApiCall) -> Document:
        metadata: Document = {"resourceVersion": str(10**6)}
        if not call.path.endswith("/pods"):
            return {"metadata": metadata, "items": []}
        await self._clock.sleep(PAGE_S)
        begin = int(call.query.get("continue", "0"))
        end = min(begin + int(call.query["limit"]), self._count)
        if end < self._count:
            metadata["continue"] = str(end)
        return {"metadata": metadata, "items": [pod(number) for number in range(begin, end)]}

    def open(self, call: ApiCall) -> AbstractAsyncContextManager[WatchLines]:
        return self._open(call)

    @asynccontextmanager
    async def _open(self, call: ApiCall) -> AsyncIterator[WatchLines]:
        yield Quiet(self._clock, call)

    async def renew_login(self) -> None:
        """Accept any login."""

    async def close(self) -> None:
        """There is nothing to close."""


class Quiet:
    """A watch with a bookmark every minute."""

    def __init__(self, clock: Clock, call: ApiCall) -> None:
        self.answer = ApiResponse(200, "")
        self._clock, self._end_s = clock, monotonic_s(clock) + call.deadline_s

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        if monotonic_s(self._clock) > self._end_s:
            raise StopAsyncIteration
        await self._clock.sleep(60)
        return b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"1000000"}}}'


@pytest.mark.rule("operator#one-request-per-pod")
@pytest.mark.parametrize("count", [2_000, pytest.param(100_000, marks=pytest.mark.long)])
def test_many_pods_on_slow_pages_synchronise_without_a_restart(count: int) -> None:
    async def scene() -> dict[str, Any]:
        clock = VirtualClock()
        server = SlowServer(clock, count)
        metrics = Metrics(POD_CONTROLLER_METRICS, CollectorRegistry(), version="0", commit="0")
        client = KubeClient(server, RateLimiter(clock, qps=5000, burst=5000))
        controller = PodController(client, clock=clock, rng=SeededRng(1), metrics=metrics)
        tasks = {asyncio.ensure_future(controller.keep_caches()), asyncio.ensure_future(controller.work())}
        began_s, cpu_s = monotonic_s(clock), time.process_time()
        await controller.caches.wait_synced(600)
        listed_s, list_cpu_s = monotonic_s(clock) - began_s, time.process_time() - cpu_s
        while server.stamped < count:
            await clock.sleep(1)
            assert not any(task.done() for task in tasks)
        texts = {id(view.wanted) for view in controller.caches.pods.snapshot().values()}
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        return {
            "listed_s": listed_s,
            "list_cpu_s": list_cpu_s,
            "all_cpu_s": time.process_time() - cpu_s,
            "created": server.created,
            "texts": len(texts),
        }

    found = run_virtual(scene())
    assert found["created"] == count
    assert found["listed_s"] < 600
    assert found["texts"] == SHAPES * 7  # pods of one workload share what is kept of them
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"\n{count} pods: listed in {found['list_cpu_s']:.1f} s CPU, all requests made in {found['all_cpu_s']:.1f} s CPU, "
        f"peak memory {peak_mib:.0f} MiB"
    )
