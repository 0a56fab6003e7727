"""Law: after any faults and some quiet minutes every live pod has exactly one request with its demand.

Rules: `operator#convergence`.
"""

import asyncio
import json
import random
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from bigfleet.kube.client import KubeClient
from bigfleet.kube.limiter import RateLimiter
from bigfleet.kube.resources import CAPACITY_REQUESTS, PODS, ObjectKey
from bigfleet.kube.roles import POD_CONTROLLER
from bigfleet.kube.transport import ApiResponse
from bigfleet.obs.metrics import Metrics
from bigfleet.podcontroller.controller import PodController, PodControllerOptions
from bigfleet.podcontroller.core.penalties import NO_DEFAULTS
from bigfleet.podcontroller.core.translate import translate
from bigfleet.podcontroller.metrics import POD_CONTROLLER_METRICS
from bigfleet.testing.loop import run_virtual
from tests.support.kube_api.faults import Fault, FaultyTransport, Trouble
from tests.support.kube_api.world import KubeWorld

OWNED = "bigfleet.lucy.sh/owned-by-pod"
GONE = ApiResponse(410, {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"})
BUSY = ApiResponse(429, {"kind": "Status", "code": 429, "reason": "TooManyRequests", "message": "later"})
CONFLICT = ApiResponse(409, {"kind": "Status", "code": 409, "reason": "Conflict", "message": "moved on"})
ERROR = ApiResponse(500, {"kind": "Status", "code": 500, "reason": "InternalError", "message": "no"})
FAULTS: tuple[tuple[Any, dict[str, Any]], ...] = (
    (BUSY, {"method": "POST"}),
    (ERROR, {"method": "POST"}),
    (CONFLICT, {"method": "PATCH"}),
    (ERROR, {"method": "PATCH"}),
    (ERROR, {"method": "DELETE"}),
    (Trouble.LOSE_ANSWER, {"method": "POST"}),
    (Trouble.LOSE_ANSWER, {"method": "PATCH"}),
    (Trouble.LOSE_ANSWER, {"method": "DELETE"}),
    (Trouble.BREAK, {"path": "/pods"}),
    (Trouble.BREAK, {"path": "capacityrequests"}),
    (GONE, {"watch": True}),
    (Trouble.CUT, {"watch": True}),
    (Trouble.SILENCE, {"watch": True}),
)


class Storm(KubeWorld):
    """A cluster with random events, and up to two controllers in it."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.draw = random.Random(seed)
        self.tasks: list[set[asyncio.Future[None]]] = []
        self.links: list[FaultyTransport] = []
        self.direct = KubeClient(self.api.transport(), RateLimiter(self.clock, qps=1e6, burst=1000))
        self.number = 0

    def start(self) -> None:
        transport = FaultyTransport(self.api.transport(POD_CONTROLLER), self.clock)
        controller = PodController(
            KubeClient(transport, RateLimiter(self.clock, qps=1e6, burst=1000)),
            clock=self.clock,
            rng=self.rng.child(f"replica-{len(self.links)}"),
            metrics=Metrics(POD_CONTROLLER_METRICS, CollectorRegistry(), version="0", commit="0"),
            options=PodControllerOptions(concurrency=self.draw.choice((1, 4, 16))),
        )
        self.links.append(transport)
        self.tasks.append(
            {asyncio.ensure_future(controller.keep_caches()), asyncio.ensure_future(controller.work())}
        )

    async def kill(self) -> None:
        if self.tasks:
            tasks = self.tasks.pop(self.draw.randrange(len(self.tasks)))
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    def some(self, resource: Any) -> ObjectKey | None:
        keys = sorted(self.api.objects.of(resource))
        return self.draw.choice(keys) if keys else None

    async def step(self) -> None:
        """Apply one random event."""
        act = self.draw.choice(
            (
                "pod",
                "pod",
                "pod",
                "delete",
                "finish",
                "resize",
                "ungate",
                "forget",
                "replica",
                "kill",
                "fault",
                "fault",
                "fault",
                "collector",
                "wait",
            )
        )
        key = self.some(PODS)
        match act:
            case "pod":
                self.number += 1
                name = self.draw.choice((f"p{self.number}", "web-0", "web-1"))
                if ObjectKey("shop", name) not in self.api.objects.of(PODS):
                    spec: dict[str, Any] = {"containers": [{"resources": {"requests": {"cpu": "1"}}}]}
                    if self.draw.random() < 0.3:
                        spec["schedulingGates"] = [{"name": "g"}]
                    whole = {
                        "metadata": {"name": name, "namespace": "shop"},
                        "spec": spec,
                        "status": {"phase": "Pending"},
                    }
                    await self.add(PODS, whole)
            case "delete" if key:
                await self.direct.delete(PODS, key)
            case "finish" if key:
                phase = self.draw.choice(("Succeeded", "Failed"))
                await self.direct.merge_patch(PODS, key, {"status": {"phase": phase}})
            case "resize" if key:
                amount = str(self.draw.randint(1, 9))
                patch = {"spec": {"containers": [{"resources": {"requests": {"cpu": amount}}}]}}
                await self.direct.merge_patch(PODS, key, patch)
            case "ungate" if key:
                await self.direct.merge_patch(PODS, key, {"spec": {"schedulingGates": None}})
            case "forget":
                request = self.some(CAPACITY_REQUESTS)
                if request:
                    await self.direct.delete(CAPACITY_REQUESTS, request)
            case "replica" if len(self.tasks) < 2:
                self.start()
            case "kill":
                await self.kill()
            case "fault" if self.links:
                what, where = self.draw.choice(FAULTS)
                self.links[-1].add(Fault(what, times=self.draw.randint(1, 20), **where))
            case "collector":
                self.api.collects_garbage = not self.api.collects_garbage
            case _:
                await self.clock.sleep(self.draw.choice((0, 0.01, 1, 30, 200)))
        for _ in range(self.draw.randrange(20)):
            await self.clock.sleep(0)

    def settled(self) -> bool:
        """Return whether the law holds now."""
        wanted = {}
        for pod in self.api.objects.of(PODS).values():
            if pod["status"]["phase"] == "Pending" and not pod["spec"].get("schedulingGates"):
                wanted[pod["metadata"]["uid"]] = translate(pod, NO_DEFAULTS).spec
        requests = list(self.api.objects.of(CAPACITY_REQUESTS).values())
        found = {item["metadata"]["labels"][OWNED]: item["spec"] for item in requests}
        return len(requests) == len(found) and json.dumps(found, sort_keys=True) == json.dumps(
            wanted, sort_keys=True
        )


@pytest.mark.rule("operator#convergence")
@pytest.mark.parametrize(
    "seed", [*range(40), *(pytest.param(n, marks=pytest.mark.long) for n in range(40, 1000))]
)
def test_after_quiet_minutes_every_live_pod_has_one_right_request(seed: int) -> None:
    async def scene() -> None:
        storm = Storm(seed)
        for _ in range(storm.draw.randint(10, 60)):
            await storm.step()
            labels = [
                item["metadata"]["labels"][OWNED] for item in storm.api.objects.of(CAPACITY_REQUESTS).values()
            ]
            assert len(labels) == len(set(labels)), "two requests of one pod"
        for transport in storm.links:
            transport.heal()
        if not storm.tasks:
            storm.start()
        await storm.clock.sleep(1300)  # two comparisons and the wait for orphans
        assert storm.settled()
        calls = sum(transport.count(lambda call: call.method != "GET") for transport in storm.links)
        await storm.clock.sleep(1300)
        assert sum(transport.count(lambda call: call.method != "GET") for transport in storm.links) == calls
        for tasks in storm.tasks:
            assert not any(task.done() for task in tasks)
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    run_virtual(scene())
