"""A cluster in memory with everything around it that a test needs: clock, randomness, faults, a client, a few objects.

Must never: hold a rule of its own; it only puts parts together.
"""

from collections.abc import Callable
from typing import Any

from bigfleet.aio.clock import monotonic_s
from bigfleet.aio.rng import SeededRng
from bigfleet.kube.client import KubeClient
from bigfleet.kube.limiter import RateLimiter
from bigfleet.kube.resources import CAPACITY_REQUESTS, Resource
from bigfleet.kube.roles import RbacRole
from bigfleet.kube.transport import Document
from bigfleet.model.errors import BigFleetError
from bigfleet.testing.clock import VirtualClock
from tests.support.kube_api.api import InMemoryApi
from tests.support.kube_api.faults import FaultyTransport

_POLL_S = 0.05


class NeverHappenedError(BigFleetError):
    """What a test waited for did not come in its time."""


class KubeWorld:
    """One simulated cluster and one account in it."""

    def __init__(self, seed: int = 1, *, role: RbacRole | None = None, qps: float = 1e6) -> None:
        self.clock = VirtualClock()
        self.rng = SeededRng(seed)
        self.api = InMemoryApi(self.clock)
        self.transport = FaultyTransport(self.api.transport(role), self.clock)
        self.client = KubeClient(self.transport, RateLimiter(self.clock, qps=qps, burst=1000))

    async def eventually(self, condition: Callable[[], object], seconds: float = 600.0) -> None:
        """Return once the condition holds; raise when virtual time has run out."""
        end_s = monotonic_s(self.clock) + seconds
        while not condition():
            if monotonic_s(self.clock) > end_s:
                raise NeverHappenedError(f"not within {seconds:g} virtual seconds")
            await self.clock.sleep(_POLL_S)

    async def add(self, resource: Resource, document: Document) -> Document:
        """Create an object past all faults."""
        return await KubeClient(self.api.transport(), RateLimiter(self.clock, qps=1e6)).create(
            resource, document
        )

    async def add_requests(self, count: int, namespace: str = "shop") -> None:
        """Create so many CapacityRequests, cr-00000 and so on."""
        for number in range(count):
            await self.add(CAPACITY_REQUESTS, capacity_request(f"cr-{number:05d}", namespace))

    def stored(self, resource: Resource) -> dict[str, int]:
        """Return what the cluster holds of a kind: key and version, for comparison with a store."""
        objects = self.api.objects.of(resource)
        return {str(key): int(item["metadata"]["resourceVersion"]) for key, item in objects.items()}


def capacity_request(name: str, namespace: str = "shop", **spec: Any) -> Document:
    """Return a small CapacityRequest."""
    whole = {"priority": 100, "resources": {"cpu": "500m"}, **spec}
    return {"metadata": {"name": name, "namespace": namespace}, "spec": whole}


def pod(
    name: str, namespace: str = "shop", *, node: str = "", phase: str = "Running", **labels: str
) -> Document:
    """Return a small Pod."""
    metadata: Document = {"name": name, "namespace": namespace, "labels": labels}
    return {"metadata": metadata, "spec": {"nodeName": node}, "status": {"phase": phase}}
