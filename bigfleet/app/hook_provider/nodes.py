"""Built-in readiness check of the hook provider: looks up the node of a machine with a kubeconfig.

Why: `bigfleet.provider.hook` does not know Kubernetes, and with a kubeconfig no ready hook should be necessary.
Must never: write to a cluster, or list all of its nodes more often than every `LIST_EVERY_S`.
Rules: `providers#hook-readiness`; ADR-0056.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from bigfleet.aio.clock import Clock, monotonic_s
from bigfleet.aio.disk import Disk
from bigfleet.kube.client import KubeClient, Selection
from bigfleet.kube.errors import NotFoundError
from bigfleet.kube.limiter import RateLimiter
from bigfleet.kube.login import Login, find_target
from bigfleet.kube.resources import NODES, ObjectKey
from bigfleet.kube.transport import ApiTransport, Document
from bigfleet.provider.hook.core.nodes import MACHINE_ID_LABEL, ready_node

LIST_EVERY_S: Final = 15.0
_NODE_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_LABEL_VALUE: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")

Dial = Callable[[str], ApiTransport]
"""Connects to the API server of a kubeconfig, given by path."""


@dataclass(slots=True)
class _Cluster:
    client: KubeClient
    listed_s: float = float("-inf")
    nodes: list[Document] = field(default_factory=list)


class ClusterNodes:
    """See `bigfleet.provider.hook.backend.NodeReadiness`; one connection per kubeconfig."""

    def __init__(self, clock: Clock, dial: Dial) -> None:
        self._clock, self._dial = clock, dial
        self._clusters: dict[str, _Cluster] = {}

    async def node_ready(self, kubeconfig: str, machine_id: str, ref: str) -> bool:
        """Look the node up by name and label; only a providerID needs the list of all nodes, which is cached."""
        cluster = self._cluster(kubeconfig)
        for name in dict.fromkeys((machine_id, ref)):
            if _NODE_NAME.fullmatch(name) and ready_node(await self._named(cluster, name), machine_id, ref):
                return True
        if _LABEL_VALUE.fullmatch(machine_id):
            labelled = Selection(NODES, labels=f"{MACHINE_ID_LABEL}={machine_id}")
            if ready_node(await cluster.client.list_all(labelled), machine_id, ref):
                return True
        return ready_node(await self._all(cluster), machine_id, ref)

    async def close(self) -> None:
        """Close all connections."""
        for kubeconfig in sorted(self._clusters):
            await self._clusters[kubeconfig].client.close()
        self._clusters.clear()

    def _cluster(self, kubeconfig: str) -> _Cluster:
        found = self._clusters.get(kubeconfig)
        if found is None:
            client = KubeClient(self._dial(kubeconfig), RateLimiter(self._clock))
            found = self._clusters[kubeconfig] = _Cluster(client)
        return found

    async def _named(self, cluster: _Cluster, name: str) -> list[Document]:
        try:
            return [await cluster.client.get(NODES, ObjectKey("", name))]
        except NotFoundError:
            return []

    async def _all(self, cluster: _Cluster) -> list[Document]:
        now_s = monotonic_s(self._clock)
        if now_s - cluster.listed_s >= LIST_EVERY_S:
            cluster.listed_s = now_s
            cluster.nodes = await cluster.client.list_all(Selection(NODES))
        return cluster.nodes


def system_dial(disk: Disk, clock: Clock) -> Dial:
    """Return the function that opens real connections; it uses the given kubeconfig and no other source."""

    def dial(kubeconfig: str) -> ApiTransport:
        # Here, as the Kubernetes client is a third of what the program imports and most sites have a ready hook.
        from bigfleet.kube.http_transport import HttpTransport, run_plugin

        return HttpTransport(Login(find_target({}, disk, kubeconfig=kubeconfig), disk, clock, run_plugin))

    return dial
