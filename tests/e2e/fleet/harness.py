"""A whole fleet of real processes: clusters, operators, pod controllers, one shard, one fake provider."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import yaml

from bigfleet.kube.crds.definitions import DEFINITIONS
from bigfleet.kube.roles import OPERATOR, POD_CONTROLLER, POD_EVENTS, Role, binding
from bigfleet.testing.control_plane.cluster import Cluster
from bigfleet.testing.control_plane.options import ClusterOptions, User
from bigfleet.testing.program import RunningProgram
from bigfleet.transport.tls import TlsFiles
from tests.e2e.fleet.kubelet import Kubelets

OPERATOR_ACCOUNT, CONTROLLER_ACCOUNT = "operator", "upc"
OPTIONS = ClusterOptions(audit=True, users=(User(OPERATOR_ACCOUNT), User(CONTROLLER_ACCOUNT)))
RBAC = "/apis/rbac.authorization.k8s.io/v1"
GROUP = "/apis/bigfleet.lucy.sh/v1alpha1"
UPCOMING = f"{GROUP}/upcomingnodes"
NODES = "/api/v1/nodes"
NAMESPACE = "shop"

Document = dict[str, Any]


def prepare(cluster: Cluster) -> None:
    """Install the kinds and bind exactly the two roles; the garbage collector then knows the kinds from its start."""
    cluster.install_crds(definition.manifest() for definition in DEFINITIONS)
    cluster.controllers.kill()
    cluster.controllers.start()
    for account, role in ((OPERATOR_ACCOUNT, OPERATOR), (CONTROLLER_ACCOUNT, POD_CONTROLLER)):
        _bind(cluster, account, role)
    for name, value in (("low", 100_000), ("high", 1_000_000)):
        body = {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name},
            "value": value,
            "preemptionPolicy": "Never",
        }
        cluster.admin.post("/apis/scheduling.k8s.io/v1/priorityclasses", body)
    cluster.make_namespace(NAMESPACE)


def _bind(cluster: Cluster, account: str, role: Role) -> None:
    subject = {"kind": "User", "name": account, "apiGroup": "rbac.authorization.k8s.io"}
    manifest = role.cluster_role(flags=frozenset({POD_EVENTS}))
    cluster.admin.post(f"{RBAC}/clusterroles", manifest)
    cluster.admin.post(f"{RBAC}/clusterrolebindings", binding(manifest, subject))


def tls_flags(files: TlsFiles | None) -> tuple[str, ...]:
    """Return the flags of mutual TLS; none for plaintext."""
    if files is None:
        return ()
    return f"--tls-cert={files.cert}", f"--tls-key={files.key}", f"--tls-ca={files.ca}"


class Fleet:
    """What one test starts, and ways to look at it."""

    def __init__(self, clusters: Sequence[Cluster], directory: Path) -> None:
        self.clusters = {f"prod-{number}": cluster for number, cluster in enumerate(clusters, 1)}
        self.directory = directory
        self.programs: list[RunningProgram] = []
        self.kubelets: Kubelets | None = None
        self.playing: asyncio.Task[None] | None = None
        self.shard_port = 0
        self._starts = 0

    @property
    def cluster(self) -> Cluster:
        return self.clusters["prod-1"]

    def run(self, program: str, *flags: str) -> RunningProgram:
        self._starts += 1
        environ = {"PATH": os.environ["PATH"], "HOME": str(self.directory), "NO_PROXY": "127.0.0.1"}
        log = self.directory / f"{self._starts}-{program}.log"
        running = RunningProgram(program, *flags, log=log, environ=environ)
        self.programs.append(running)
        return running

    def start_provider(self, pools: Sequence[Document], tls: TlsFiles | None = None) -> RunningProgram:
        inventory = self.directory / "pools.yaml"
        inventory.write_text(yaml.safe_dump({"pools": list(pools)}))
        provider = self.run(
            "bigfleet-fake-provider",
            f"--inventory={inventory}",
            "--addr=127.0.0.1:0",
            "--control-addr=127.0.0.1:0",
            "--metrics-addr=127.0.0.1:0",
            "--configure-until-joined",
            "--drain-until-empty",
            *tls_flags(tls),
        )
        self.kubelets = Kubelets(provider.port("control_port"), self.clusters)
        self.playing = asyncio.get_running_loop().create_task(self.kubelets.run())
        return provider

    def start_shard(
        self, provider: RunningProgram, port: int = 0, tls: TlsFiles | None = None
    ) -> RunningProgram:
        shard = self.run(
            "bigfleet",
            "shard",
            f"--listen=127.0.0.1:{port}",
            "--metrics-addr=127.0.0.1:0",
            f"--provider-addr=127.0.0.1:{provider.port('port')}",
            f"--data-dir={self.directory / 'shard'}",
            "--cycle-interval=1s",
            "--execute-concurrency=8",
            "--reclaim-cap-fraction=0",
            *tls_flags(tls),
        )
        self.shard_port = shard.port("port")
        return shard

    def start_cluster_programs(
        self, cluster_id: str, tls: TlsFiles | None = None
    ) -> tuple[RunningProgram, RunningProgram]:
        operator = self.start_operator(cluster_id, tls)
        controller = self.run(
            "bigfleet-unschedulable-pod-controller",
            f"--kubeconfig={self.clusters[cluster_id].kubeconfig(CONTROLLER_ACCOUNT)}",
            "--metrics-addr=127.0.0.1:0",
            "--exclude-daemonset-pods",
        )
        return operator, controller

    def start_operator(self, cluster_id: str, tls: TlsFiles | None = None) -> RunningProgram:
        cluster = self.clusters[cluster_id]
        return self.run(
            "bigfleet-operator",
            f"--cluster-id={cluster_id}",
            f"--shard-addr=127.0.0.1:{self.shard_port}",
            f"--kubeconfig={cluster.kubeconfig(OPERATOR_ACCOUNT)}",
            "--metrics-addr=127.0.0.1:0",
            "--rollup-interval=1s",
            "--qps=200",
            "--burst=400",
            *tls_flags(tls),
        )

    async def until(self, what: str, condition: Callable[[], object], seconds: float = 120.0) -> None:
        end_s = asyncio.get_running_loop().time() + seconds
        while not await asyncio.to_thread(condition):
            for program in self.programs:
                assert program.code in (None, 0, -9), f"{program.name} ended before {what}\n{program.text()}"
            if asyncio.get_running_loop().time() > end_s:
                told = "\n".join(f"--- {program.name}\n{program.text()[-1500:]}" for program in self.programs)
                raise AssertionError(f"not in time: {what}\n{told}")
            await asyncio.sleep(0.1)

    # ---- looking

    def pods(self, cluster_id: str = "prod-1") -> list[Document]:
        found = self.clusters[cluster_id].admin.get(f"/api/v1/namespaces/{NAMESPACE}/pods")["items"]
        return [item for item in found if not item["metadata"].get("deletionTimestamp")]

    def running(self, cluster_id: str = "prod-1") -> list[Document]:
        return [item for item in self.pods(cluster_id) if item["status"].get("phase") == "Running"]

    def requests(self, cluster_id: str = "prod-1") -> list[Document]:
        found: list[Document] = self.clusters[cluster_id].admin.get(f"{GROUP}/capacityrequests")["items"]
        return found

    def upcoming(self, cluster_id: str = "prod-1") -> list[Document]:
        found: list[Document] = self.clusters[cluster_id].admin.get(UPCOMING)["items"]
        return found

    def phases(self, cluster_id: str = "prod-1") -> list[str]:
        return sorted((item.get("status") or {}).get("phase", "") for item in self.upcoming(cluster_id))

    def nodes(self, cluster_id: str = "prod-1") -> list[Document]:
        found: list[Document] = self.clusters[cluster_id].admin.get(NODES)["items"]
        return found

    def machines(self, **wanted: str) -> list[Document]:
        assert self.kubelets is not None
        return self.kubelets.machines(**wanted)

    def refused(self) -> list[object]:
        """Return every call of our programs that an API server refused for lack of a right."""
        return [
            event
            for cluster in self.clusters.values()
            for account in (OPERATOR_ACCOUNT, CONTROLLER_ACCOUNT)
            for event in cluster.audit_events(account)
            if event.code == 403
        ]

    # ---- making

    def deploy(self, name: str, replicas: int, *, cpu: str, cluster_id: str = "prod-1", **spec: Any) -> None:
        labels = {"app": name}
        container = {
            "name": "main",
            "image": "registry.example/none",
            "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}},
        }
        template = {
            "metadata": {"labels": labels},
            "spec": {"containers": [container], "terminationGracePeriodSeconds": 1, **spec},
        }
        body = {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": name},
            "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template},
        }
        self.clusters[cluster_id].admin.post(f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments", body)

    def scale(self, name: str, replicas: int, cluster_id: str = "prod-1") -> None:
        path = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/{name}"
        self.clusters[cluster_id].admin.patch(path, {"spec": {"replicas": replicas}})


@asynccontextmanager
async def fleet(clusters: Sequence[Cluster], directory: Path) -> AsyncIterator[Fleet]:
    """A fleet whose nodes join and leave while the block runs; every process is ended with it."""
    one = Fleet(clusters, directory)
    try:
        yield one
    finally:
        if one.playing is not None:
            one.playing.cancel()
            await asyncio.wait({one.playing})
        for program in reversed(one.programs):
            program.kill()
