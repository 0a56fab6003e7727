"""Reads our custom resources from the API servers of clusters, and counts them by phase.

Must never: write, let one silent cluster hide the others, or read more than five at once.
Rules: `dashboard#sources`, `dashboard#compatible-routes`, `dashboard#metrics-contract`.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from bigfleet.aio.clock import Clock, timeout
from bigfleet.dashboard.sources import SourceError, SourceProblem
from bigfleet.kube.client import KubeClient, Selection
from bigfleet.kube.errors import KubeError, LoginError
from bigfleet.kube.resources import AVAILABLE_CAPACITIES, CAPACITY_REQUESTS, UPCOMING_NODES, Resource

AT_ONCE: Final = 5
EACH_S: Final = 30.0
ALL_S: Final = 60.0
TableRow = Mapping[str, Any]  # a JSON object


class KubeClusters:
    """The clusters of a kubeconfig, by context."""

    def __init__(self, clients: Mapping[str, KubeClient], clock: Clock) -> None:
        self._clients, self._clock = dict(sorted(clients.items())), clock
        self._places = asyncio.Semaphore(AT_ONCE)

    async def clusters(self) -> list[TableRow]:
        return await self._all(
            self._cluster_row, {"capacityRequests": 0, "capacityRequestsPending": 0, "upcomingNodes": 0}
        )

    async def cluster(self, cluster: str) -> TableRow:
        if cluster not in self._clients:
            known = ", ".join(self._clients) or "none"
            raise SourceError(SourceProblem.NOT_FOUND, f"no context is called {cluster}; known are: {known}")
        try:
            async with timeout(self._clock, EACH_S):
                requests, nodes = await self._phases(cluster)
        except (KubeError, LoginError, TimeoutError) as error:
            raise SourceError(SourceProblem.FAILED, f"cluster {cluster}: {_words(error)}") from error
        return {
            "id": cluster,
            "capacityRequestsTotal": requests.total(),
            "capacityRequestsByPhase": dict(sorted(requests.items())),
            "upcomingNodesTotal": nodes.total(),
            "upcomingNodesByPhase": dict(sorted(nodes.items())),
        }

    async def available_capacity(self) -> list[TableRow]:
        return await self._all(self._hints_row, {"items": []})

    async def close(self) -> None:
        """Close the connections."""
        for client in self._clients.values():
            await client.close()

    async def _all(self, ask: Callable[[str], Awaitable[TableRow]], nothing: TableRow) -> list[TableRow]:
        """Read every cluster; one that fails or times out is a row with its error."""

        async def one(name: str) -> TableRow:
            try:
                async with self._places, timeout(self._clock, EACH_S):
                    return await ask(name)
            except (KubeError, LoginError, TimeoutError) as error:
                return {"id": name, **nothing, "error": _words(error)}

        tasks = {name: asyncio.ensure_future(one(name)) for name in self._clients}
        try:
            async with timeout(self._clock, ALL_S):
                await asyncio.wait(tasks.values()) if tasks else None
        except TimeoutError:
            for task in tasks.values():
                task.cancel()
            await asyncio.wait(tasks.values())
        late = {**nothing, "error": _words(TimeoutError())}
        return [{"id": name, **late} if task.cancelled() else task.result() for name, task in tasks.items()]

    async def _cluster_row(self, name: str) -> TableRow:
        requests, nodes = await self._phases(name)
        return {
            "id": name,
            "capacityRequests": requests.total(),
            "capacityRequestsPending": requests["Pending"],
            "upcomingNodes": nodes.total(),
        }

    async def _hints_row(self, name: str) -> TableRow:
        return {"id": name, "items": [_hint(item) for item in await self._list(name, AVAILABLE_CAPACITIES)]}

    async def _phases(self, name: str) -> tuple[Counter[str], Counter[str]]:
        requests = await self._list(name, CAPACITY_REQUESTS)
        nodes = await self._list(name, UPCOMING_NODES)
        return (
            Counter(_phase(item, "Pending") for item in requests),
            Counter(_phase(item, "Provisioning") for item in nodes),
        )

    async def _list(self, name: str, resource: Resource) -> Sequence[TableRow]:
        return await self._clients[name].list_all(Selection(resource))


def _phase(item: TableRow, absent: str) -> str:
    return str((item.get("status") or {}).get("phase") or absent)


def _hint(item: TableRow) -> TableRow:
    spec = item.get("spec") or {}
    return {
        "name": item["metadata"]["name"],
        "resources": {name: str(value) for name, value in sorted((spec.get("resources") or {}).items())},
        "availableCount": spec.get("availableCount") or 0,
        "availability": str(spec.get("availability") or ""),
        "cost": str(spec.get("cost") or ""),
        "requirements": list(spec.get("requirements") or ()),
    }


def _words(error: Exception) -> str:
    return "did not answer in time" if isinstance(error, TimeoutError) else str(error)
