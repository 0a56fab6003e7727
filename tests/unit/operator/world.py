"""A whole operator in virtual time: an API server in memory, a scripted shard, faults on both ways."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from prometheus_client import CollectorRegistry

from bigfleet.aio.clock import monotonic_s
from bigfleet.kube.client import KubeClient
from bigfleet.kube.limiter import RateLimiter
from bigfleet.kube.resources import (
    CAPACITY_REQUESTS,
    EVENTS,
    NODES,
    PODS,
    UPCOMING_NODES,
    ObjectKey,
    Resource,
)
from bigfleet.kube.roles import OPERATOR
from bigfleet.kube.transport import Document
from bigfleet.obs.metric import Component
from bigfleet.obs.metrics import Metrics
from bigfleet.operator.cluster_operator import ClusterOperator
from bigfleet.operator.core.bootstrap import Renderer, StubRenderer
from bigfleet.operator.options import OperatorOptions
from bigfleet.testing.loop import run_virtual
from bigfleet.testing.net.network import MemoryNet, Network
from tests.support.kube_api.faults import FaultyTransport
from tests.support.kube_api.world import KubeWorld, capacity_request, pod
from tests.support.scripted_shard import ScriptedShard

CLUSTER = "prod-1"
ADDRESS = "shard-0:7780"
PREFIX = "bigfleet.lucy.sh"


class World(KubeWorld):
    """One cluster, one shard, and operators that come and go; the operator has exactly its role."""

    def __init__(self, seed: int = 1, *, qps: float = 1e6) -> None:
        super().__init__(seed, role=OPERATOR, qps=qps)
        self.network = Network()
        self.shard = ScriptedShard()
        self.shard_host: MemoryNet = self.network.host("shard-0")
        self.operator_host: MemoryNet = self.network.host("operator")
        self.options: dict[str, Any] = {}
        self.renderer: Renderer = StubRenderer(CLUSTER)
        self.operator: ClusterOperator | None = None
        self.running: asyncio.Task[None] | None = None
        self.registry = CollectorRegistry()
        self.server: Any = None
        self._starts = 0

    # ---- parts come and go

    async def start_shard(self) -> None:
        self.server = await self.shard_host.serve(":7780", [self.shard.bound()])

    async def stop_shard(self) -> None:
        self.network.crash("shard-0")
        self.server = None

    def start_operator(self, **options: Any) -> ClusterOperator:
        self._starts += 1
        self.registry = CollectorRegistry()
        self.transport = FaultyTransport(self.api.transport(OPERATOR), self.clock)
        self.client = KubeClient(self.transport, RateLimiter(self.clock, qps=1e6, burst=10_000))
        metrics = Metrics(Component.OPERATOR, self.registry, version="0", commit="0")
        self.operator = ClusterOperator(
            OperatorOptions(CLUSTER, ADDRESS, **{**self.options, **options}),
            self.client,
            self.operator_host,
            self.renderer,
            clock=self.clock,
            rng=self.rng.child(f"start {self._starts}"),
            metrics=metrics,
        )
        self.running = asyncio.ensure_future(self.operator.run())
        return self.operator

    async def stop_operator(self) -> None:
        assert self.running is not None
        self.running.cancel()
        await asyncio.wait({self.running})

    async def connected(self) -> None:
        await self.eventually(lambda: self.shard.is_connected and bool(self.shard.current.rollups))

    # ---- looking

    def all(self, resource: Resource) -> dict[str, Document]:
        return {str(key): item for key, item in self.api.objects.of(resource).items()}

    def upcoming(self, machine: str) -> Document | None:
        return self.all(UPCOMING_NODES).get(f"un-{machine}")

    def phase(self, machine: str) -> str:
        found = self.upcoming(machine)
        return str((found or {}).get("status", {}).get("phase", "")) if found else "gone"

    def node(self, name: str) -> Document:
        return self.all(NODES)[name]

    def request(self, name: str, namespace: str = "shop") -> Document:
        return self.all(CAPACITY_REQUESTS)[f"{namespace}/{name}"]

    def value(self, name: str, **labels: str) -> float:
        return self.registry.get_sample_value(f"bigfleet_operator_{name}", labels) or 0.0

    def events(self, reason: str) -> list[Document]:
        return [event for event in self.all(EVENTS).values() if event["reason"] == reason]

    def calls(self, method: str, part: str) -> int:
        return self.transport.count(lambda call: call.method == method and part in call.path)

    @property
    def now_s(self) -> float:
        return monotonic_s(self.clock)

    # ---- making

    async def add_node(self, name: str, **options: Any) -> Document:
        labels = {f"{PREFIX}/machine-id": options["machine"]} if "machine" in options else {}
        spec: Document = {"providerID": options["provider_id"]} if "provider_id" in options else {}
        if options.get("cordoned"):
            spec["unschedulable"] = True
        return await self.add(NODES, {"metadata": {"name": name, "labels": labels}, "spec": spec})

    async def add_pods(self, node: str, *names: str, **labels: str) -> None:
        for name in names:
            await self.add(PODS, pod(name, node=node, **labels))

    async def add_request(self, name: str, namespace: str = "shop", **spec: Any) -> None:
        await self.add(CAPACITY_REQUESTS, capacity_request(name, namespace, **spec))

    async def patch(self, resource: Resource, key: ObjectKey, patch: Document, subresource: str = "") -> None:
        client = KubeClient(self.api.transport(), RateLimiter(self.clock, qps=1e6))
        await client.merge_patch(resource, key, patch, subresource=subresource)

    async def delete(self, resource: Resource, key: ObjectKey) -> None:
        await KubeClient(self.api.transport(), RateLimiter(self.clock, qps=1e6)).delete(resource, key)


Scene = Callable[[World], Awaitable[None]]


def play(scene: Scene, *, seed: int = 1, connect: bool = True, **options: Any) -> None:
    """Run a scene with a shard and an operator that are already talking, and end both."""

    async def main() -> None:
        world = World(seed)
        world.options = options
        await world.start_shard()
        if connect:
            world.start_operator()
            await world.connected()
        try:
            await scene(world)
        finally:
            if world.running is not None and not world.running.done():
                await world.stop_operator()

    run_virtual(main())
