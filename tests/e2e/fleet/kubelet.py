"""Plays the machines of the fake provider: nodes join because a machine was configured, and leave once they are empty.

Why: that a foreign fake kubelet calls a node Ready proves nothing about us (`testing#node-join`), and a drain that the
provider ends by itself exercises no eviction (`testing#drain-until-empty`). What joins here bears another name than its
machine, as on most clouds.
"""

import asyncio
import base64
import json
import urllib.parse
import urllib.request
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tests.support.control_plane.cluster import Cluster
from tests.support.control_plane.objects import condition, node

NODES = "/api/v1/nodes"
_PODS = 110
_HANDS = 8


class Kubelets:
    """All nodes of all clusters; `clusters` maps cluster ids to control planes."""

    def __init__(self, control_port: int, clusters: Mapping[str, Cluster]) -> None:
        self._control = f"http://127.0.0.1:{control_port}"
        self._clusters = clusters
        self.blobs: dict[str, bytes] = {}
        self.paused = False
        self._hands = ThreadPoolExecutor(_HANDS)

    async def run(self) -> None:
        """Let nodes join and leave until cancelled."""
        try:
            while True:
                if not self.paused:
                    await asyncio.to_thread(self._turn)
                await asyncio.sleep(0.1)
        finally:
            self._hands.shutdown(wait=False)

    def machines(self, **wanted: str) -> list[dict[str, Any]]:
        """Return the provider's own records."""
        found: list[dict[str, Any]] = self._ask(f"/machines?{urllib.parse.urlencode(wanted)}")
        return found

    def _turn(self) -> None:
        list(self._hands.map(self._join, self._ask("/joining")))
        list(self._hands.map(self._leave, self.machines(state="Draining")))

    def _join(self, machine: Mapping[str, Any]) -> None:
        cluster, name = self._clusters[machine["cluster"]], f"ip-{machine['id']}"
        self.blobs[machine["id"]] = base64.b64decode(machine["blob"])
        found = cluster.admin.find(f"{NODES}/{name}")
        if found is None:
            cluster.admin.post(NODES, self._node(name, machine))
        elif condition(found, "Ready") == "True":
            self._ask("/joined", {"id": machine["id"]})

    def _leave(self, machine: Mapping[str, Any]) -> None:
        cluster, name = self._clusters[machine["cluster"]], f"ip-{machine['id']}"
        if self._is_empty(cluster, name):
            cluster.admin.call("DELETE", f"{NODES}/{name}")
            self._ask("/emptied", {"id": machine["id"]})

    def _node(self, name: str, machine: Mapping[str, Any]) -> dict[str, Any]:
        amounts = {key: str(value) for key, value in machine["resources"].items()}
        labels = {
            **machine.get("labels", {}),
            "node.kubernetes.io/instance-type": machine["instance_type"],
            "topology.kubernetes.io/zone": machine["zone"],
        }
        return node(
            name,
            cpu=amounts["cpu"],
            memory=amounts["memory"],
            pods=str(_PODS),
            labels=labels,
            provider_id=f"fake:///{machine['zone']}/{_host(machine)}",
        )

    def _is_empty(self, cluster: Cluster, name: str) -> bool:
        found = cluster.admin.get(f"/api/v1/pods?fieldSelector=spec.nodeName%3D{name}")
        # A daemon's pod goes with its node: its controller would put it there again, and nobody evicts it.
        return all(_of_daemon(item) for item in found["items"])

    def _ask(self, path: str, body: Mapping[str, Any] | None = None) -> Any:
        # Any: what the control of the fake answers, as JSON has it.
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(  # noqa: S310  a port of this test on loopback
            self._control + path, data, {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310  as above
            return json.loads(answer.read() or b"null")


def _of_daemon(pod: Mapping[str, Any]) -> bool:
    owners = pod["metadata"].get("ownerReferences") or ()
    return any(owner["kind"] == "DaemonSet" for owner in owners)


def _host(machine: Mapping[str, Any]) -> str:
    host = machine.get("host")
    return str(host["ref"]) if isinstance(host, Mapping) else str(host or machine["id"])
