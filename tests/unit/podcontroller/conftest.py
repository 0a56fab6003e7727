"""A running pod controller in an in-memory cluster, with exactly its role, in virtual time."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from bigfleet.kube.client import KubeClient
from bigfleet.kube.limiter import RateLimiter
from bigfleet.kube.resources import CAPACITY_REQUESTS, EVENTS, PODS, UPCOMING_NODES, ObjectKey
from bigfleet.kube.roles import POD_CONTROLLER
from bigfleet.kube.transport import Document
from bigfleet.obs.metrics import Metrics
from bigfleet.podcontroller.controller import PodController, PodControllerOptions
from bigfleet.podcontroller.core.penalties import NO_DEFAULTS, PenaltyDefaults
from bigfleet.podcontroller.metrics import POD_CONTROLLER_METRICS
from bigfleet.testing.loop import run_virtual
from tests.support.kube_api.faults import FaultyTransport
from tests.support.kube_api.world import KubeWorld

OWNED = "bigfleet.lucy.sh/owned-by-pod"


class Replica:
    """One process of the controller."""

    def __init__(
        self,
        world: "PodWorld",
        options: PodControllerOptions,
        defaults: PenaltyDefaults,
        limiter: RateLimiter | None = None,
    ) -> None:
        self.transport = FaultyTransport(world.api.transport(POD_CONTROLLER), world.clock)
        self.registry = CollectorRegistry()
        self.controller = PodController(
            KubeClient(self.transport, limiter or RateLimiter(world.clock, qps=1e6, burst=1000)),
            clock=world.clock,
            rng=world.rng.child(f"replica-{len(world.replicas)}"),
            metrics=Metrics(POD_CONTROLLER_METRICS, self.registry, version="0", commit="0"),
            options=options,
            defaults=defaults,
        )
        self.caching = asyncio.ensure_future(self.controller.keep_caches())
        self.working = asyncio.ensure_future(self.controller.work())

    def count(self, outcome: str) -> float:
        """Return how many reconciles had an outcome."""
        name = "bigfleet_unschedulable_pod_controller_reconciles_total"
        return self.registry.get_sample_value(name, {"outcome": outcome}) or 0.0

    async def end(self) -> None:
        """End at once, as by SIGKILL."""
        for task in (self.working, self.caching):
            task.cancel()
        await asyncio.wait({self.working, self.caching})


class PodWorld(KubeWorld):
    """A cluster, its pods, and any number of controllers."""

    def __init__(self, seed: int = 1) -> None:
        super().__init__(seed)
        self.replicas: list[Replica] = []
        self.api.collects_garbage = True

    def start(
        self,
        options: PodControllerOptions | None = None,
        defaults: PenaltyDefaults = NO_DEFAULTS,
        limiter: RateLimiter | None = None,
    ) -> Replica:
        replica = Replica(self, options or PodControllerOptions(), defaults, limiter)
        self.replicas.append(replica)
        return replica

    async def end(self) -> None:
        for replica in self.replicas:
            await replica.end()

    async def pod(
        self,
        name: str,
        namespace: str = "shop",
        *,
        phase: str = "Pending",
        annotations: Any = None,
        **spec: Any,
    ) -> Document:
        """Create a pod; further fields of its spec by name."""
        whole = {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}], **spec}
        metadata: Document = {"name": name, "namespace": namespace, "annotations": annotations or {}}
        return await self.add(PODS, {"metadata": metadata, "spec": whole, "status": {"phase": phase}})

    async def change(self, name: str, patch: Document, namespace: str = "shop") -> None:
        """Change a pod without faults, as its kubelet or owner would."""
        await self.direct.merge_patch(PODS, ObjectKey(namespace, name), patch)

    async def remove(self, name: str, namespace: str = "shop") -> None:
        await self.direct.delete(PODS, ObjectKey(namespace, name))

    @property
    def direct(self) -> KubeClient:
        return KubeClient(self.api.transport(), RateLimiter(self.clock, qps=1e6, burst=1000))

    @property
    def requests(self) -> dict[str, Document]:
        """What requests there are, by name."""
        return {key.name: item for key, item in sorted(self.api.objects.of(CAPACITY_REQUESTS).items())}

    def request_of(self, pod: Document) -> Document:
        (found,) = [
            item
            for item in self.requests.values()
            if item["metadata"].get("labels", {}).get(OWNED) == pod["metadata"]["uid"]
        ]
        return found

    def per_pod(self) -> Counter[str]:
        """How many requests each pod UID has."""
        return Counter(item["metadata"].get("labels", {}).get(OWNED, "") for item in self.requests.values())

    def one_each(self) -> bool:
        """Whether every live pod has exactly one request with a phase, and there is no other request."""
        live = {
            item["metadata"]["uid"]
            for item in self.api.objects.of(PODS).values()
            if item["status"]["phase"] not in ("Succeeded", "Failed")
            and not item["spec"].get("schedulingGates")
        }
        return self.per_pod() == Counter(live) and all("status" in item for item in self.requests.values())

    def events(self) -> list[tuple[str, str, str, str]]:
        """Every event: the pod's name, type, reason, message."""
        items = self.api.objects.of(EVENTS).values()
        return sorted(
            (item["involvedObject"]["name"], item["type"], item["reason"], item["message"]) for item in items
        )

    async def upcoming(self, name: str, phase: str, **labels: str) -> None:
        """Create or move an UpcomingNode."""
        key = ObjectKey("", name)
        if key not in self.api.objects.of(UPCOMING_NODES):
            await self.add(
                UPCOMING_NODES, {"metadata": {"name": name}, "spec": {"resources": {}, "labels": labels}}
            )
        await self.direct.merge_patch(UPCOMING_NODES, key, {"status": {"phase": phase}}, subresource="status")

    async def acknowledge(self, request: Document) -> None:
        """Acknowledge a request as the operator does."""
        key = ObjectKey(request["metadata"]["namespace"], request["metadata"]["name"])
        patch = {"status": {"phase": "Acknowledged", "acknowledgedAt": "2026-11-17T12:00:00Z"}}
        await self.direct.merge_patch(CAPACITY_REQUESTS, key, patch, subresource="status")


Scene = Callable[[PodWorld], Awaitable[None]]
Play = Callable[[Scene], None]


@pytest.fixture
def play() -> Play:
    """Run a scene in a new world and stop every process in it."""

    def run(scene: Scene) -> None:
        async def main() -> None:
            world = PodWorld()
            try:
                await scene(world)
                for replica in world.replicas:
                    assert not replica.caching.done() or replica.caching.cancelled()
            finally:
                await world.end()

        run_virtual(main())

    return run
