"""A real operator process with a real API server and a scripted shard."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

from bigfleet.aio.clock import SystemClock
from bigfleet.aio.system_disk import SystemDisk
from bigfleet.kube.http_transport import HttpTransport
from bigfleet.kube.login import Login, find_target
from bigfleet.kube.transport import ApiCall
from bigfleet.transport.grpc_net import GrpcNet
from tests.e2e.rights import OPERATOR as ACCOUNT
from tests.support.control_plane.cluster import Cluster
from tests.support.control_plane.objects import node, pod
from tests.support.kube_api.http import HttpFront
from tests.support.program import RunningProgram
from tests.support.scripted_shard import ScriptedShard

CLUSTER = "prod-1"
GROUP = "/apis/bigfleet.lucy.sh/v1alpha1"
UPCOMING = f"{GROUP}/upcomingnodes"
HINTS = f"{GROUP}/availablecapacities"
NODES = "/api/v1/nodes"
PREFIX = "bigfleet.lucy.sh"

Document = dict[str, Any]


class Bench:
    """One test's cluster, namespace, shard and operator processes."""

    def __init__(self, cluster: Cluster, namespace: str, directory: Path) -> None:
        self.cluster, self.namespace, self.directory = cluster, namespace, directory
        self.shard = ScriptedShard()
        self.net = GrpcNet()
        self.port = 0
        self.operator: RunningProgram | None = None
        self.requests = f"{GROUP}/namespaces/{namespace}/capacityrequests"
        self.pods = f"/api/v1/namespaces/{namespace}/pods"
        self.restarts_api_server = False
        self._server: Any = None
        self._starts = 0

    # ---- parts come and go

    async def serve(self, port: int = 0) -> None:
        self._server = await self.net.serve(f"127.0.0.1:{port}", [self.shard.bound()])
        self.port = self._server.port

    async def hush(self) -> None:
        """Take the shard away."""
        if self._server is not None:
            await self._server.stop(0)
            self._server = None

    async def kill_api_server(self) -> None:
        self.restarts_api_server = True
        await asyncio.to_thread(self.cluster.api_server.kill)

    async def restart_api_server(self) -> None:
        self.restarts_api_server = True
        await asyncio.to_thread(self.cluster.restart_api_server)

    def start(self, *flags: str, kubeconfig: Path | None = None) -> RunningProgram:
        self._starts += 1
        config = kubeconfig or self.cluster.kubeconfig(ACCOUNT)
        environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.directory),
            "NO_PROXY": "127.0.0.1",
            "PYTHONWARNINGS": "error",
        }
        self.operator = RunningProgram(
            "bigfleet-operator",
            f"--cluster-id={CLUSTER}",
            f"--shard-addr=127.0.0.1:{self.port}",
            f"--kubeconfig={config}",
            "--metrics-addr=127.0.0.1:0",
            "--rollup-interval=500ms",
            "--qps=200",
            "--burst=400",
            *flags,
            log=self.directory / f"operator-{self._starts}.log",
            environ=environ,
        )
        return self.operator

    async def connected(self, sessions: int = 1) -> None:
        await self.until(
            "a session",
            lambda: len(self.shard.sessions) >= sessions and bool(self.shard.current.rollups),
        )

    async def until(self, what: str, condition: Callable[[], object], seconds: float = 60.0) -> None:
        """Wait for a fact; it is asked for on a thread, as the test's own calls block."""
        end_s = asyncio.get_running_loop().time() + seconds
        while not await asyncio.to_thread(condition):
            program = self.operator
            output = program.text() if program is not None else ""
            assert asyncio.get_running_loop().time() < end_s, f"not in time: {what}\n{output}"
            assert program is None or program.code is None, f"ended before: {what}\n{output}"
            await asyncio.sleep(0.05)

    async def until_killed_or(self, what: str, condition: Callable[[], object]) -> None:
        """Wait for a fact, or for the end of an operator that a test kills in between."""
        program = self.operator
        assert program is not None
        end_s = asyncio.get_running_loop().time() + 60.0
        while program.code is None and not await asyncio.to_thread(condition):
            assert asyncio.get_running_loop().time() < end_s, f"not in time: {what}\n{program.text()}"
            await asyncio.sleep(0.05)

    # ---- looking

    def upcoming(self, machine: str) -> Document | None:
        found: Document | None = self.cluster.admin.find(f"{UPCOMING}/un-{machine}")
        return found

    def phase(self, machine: str) -> str:
        found = self.upcoming(machine)
        return "gone" if found is None else str((found.get("status") or {}).get("phase", ""))

    def error(self, machine: str) -> str:
        return str(((self.upcoming(machine) or {}).get("status") or {}).get("lastError", ""))

    def node_noted(self, machine: str) -> bool:
        return bool(((self.upcoming(machine) or {}).get("status") or {}).get("nodeRef"))

    def node(self, name: str) -> Document:
        found: Document = self.cluster.admin.get(f"{NODES}/{name}")
        return found

    def marks(self, name: str) -> dict[str, str]:
        found = self.node(name)["metadata"].get("annotations") or {}
        return {
            key.removeprefix(f"{PREFIX}/"): value for key, value in found.items() if key.startswith(PREFIX)
        }

    def pods_on(self, name: str) -> set[str]:
        found = self.cluster.admin.get(f"{self.pods}?fieldSelector=spec.nodeName%3D{name}")
        return {item["metadata"]["name"] for item in found["items"]}

    def request(self, name: str) -> Document:
        found: Document = self.cluster.admin.get(f"{self.requests}/{name}")
        return found

    def acks(self) -> list[tuple[str, int]]:
        sessions = self.shard.sessions
        return [(ack.instruction_id, ack.nodes_started) for one in sessions for ack in one.reclaim_acks]

    def metric(self, text: str) -> float:
        """Return one series of the operator's metrics page, by its name and labels as written there."""
        assert self.operator is not None
        _, page = self.operator.http("/metrics")
        found = [line for line in page.splitlines() if line.startswith(text + " ")]
        return float(found[0].rpartition(" ")[2]) if found else 0.0

    def calls(self, verb: str, resource: str, subresource: str = "") -> list[str]:
        """Return the names of the objects that the operator called so, by the API server's own record."""
        return [
            event.name
            for event in self.cluster.audit_events(ACCOUNT)
            if (event.verb, event.resource, event.subresource) == (verb, resource, subresource)
            and event.stage == "ResponseComplete"
            and event.namespace in ("", self.namespace)
        ]

    # ---- making

    def add_node(self, name: str, **options: Any) -> None:
        self.cluster.admin.post(NODES, node(name, **options))

    def add_pods(self, on: str, *names: str, **labels: str) -> None:
        for name in names:
            self.cluster.admin.post(self.pods, pod(name, cpu="10m", memory="1Mi", labels=labels, nodeName=on))

    async def running(self, on: str, *names: str) -> None:
        def all_run() -> bool:
            found = self.cluster.admin.get(f"{self.pods}?fieldSelector=spec.nodeName%3D{on}")
            phases = {item["metadata"]["name"]: item["status"].get("phase") for item in found["items"]}
            return all(phases.get(name) == "Running" for name in names)

        await self.until(f"{names} run", all_run)

    def add_budget(self, name: str, app: str, least: int) -> None:
        body = {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": name},
            "spec": {"minAvailable": least, "selector": {"matchLabels": {"app": app}}},
        }
        self.cluster.admin.post(f"/apis/policy/v1/namespaces/{self.namespace}/poddisruptionbudgets", body)

    async def budget_seen(self, name: str) -> None:
        path = f"/apis/policy/v1/namespaces/{self.namespace}/poddisruptionbudgets/{name}"
        await self.until(
            "the budget is seen",
            lambda: (self.cluster.admin.get(path).get("status") or {}).get("observedGeneration"),
        )

    def add_request(self, name: str, **spec: Any) -> None:
        body = {
            "apiVersion": f"{PREFIX}/v1alpha1",
            "kind": "CapacityRequest",
            "metadata": {"name": name},
            "spec": {"priority": 100, "resources": {"cpu": "500m"}, **spec},
        }
        self.cluster.admin.post(self.requests, body)


def clean(cluster: Cluster, namespace: str) -> None:
    """Take away what one test left behind in the cluster at large."""
    cluster.admin.delete(f"/api/v1/namespaces/{namespace}/pods?gracePeriodSeconds=0")
    for path in (UPCOMING, HINTS, NODES, f"{GROUP}/namespaces/{namespace}/capacityrequests"):
        # Ten thousand objects take the server longer than one call waits.
        cluster.wait(f"{path} is empty", partial(_emptied, cluster, path), 300)


def _emptied(cluster: Cluster, path: str) -> bool:
    return cluster.admin.call("DELETE", path).ok


@asynccontextmanager
async def bench(cluster: Cluster, namespace: str, directory: Path) -> AsyncIterator[Bench]:
    """A bench with its shard listening; the operator, if it still runs, is killed at the end."""
    one = Bench(cluster, namespace, directory)
    await one.serve()
    try:
        yield one
    finally:
        if one.operator is not None:
            one.operator.kill()
        await one.hush()


class KillAt:
    """Kills the operator right after its nth write was carried out, before it can hear of it; events do not count."""

    def __init__(self, world: Bench, nth: int) -> None:
        self._world, self._nth = world, nth
        self.writes: list[str] = []

    def __call__(self, call: ApiCall) -> None:
        if call.method == "GET" or "/events" in call.path:
            return
        self.writes.append(f"{call.method} {call.path}")
        if len(self.writes) == self._nth and self._world.operator is not None:
            self._world.operator.kill()


@asynccontextmanager
async def front(world: Bench) -> AsyncIterator[tuple[HttpFront, Path]]:
    """Serve a proxy between the operator and the API server."""
    disk = SystemDisk()
    target = find_target({}, disk, kubeconfig=str(world.cluster.kubeconfig(ACCOUNT)))
    transport = HttpTransport(Login(target, disk, SystemClock()))
    try:
        async with HttpFront(transport).serving() as server:
            config = world.directory / "front.kubeconfig"
            config.write_text(
                "apiVersion: v1\nkind: Config\ncurrent-context: x\n"
                f"clusters: [{{name: x, cluster: {{server: '{server.url}'}}}}]\n"
                "users: [{name: x, user: {}}]\n"
                "contexts: [{name: x, context: {cluster: x, user: x}}]\n"
            )
            yield server, config
    finally:
        await transport.close()
