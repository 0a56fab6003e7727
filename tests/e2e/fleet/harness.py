"""A whole fleet of real processes: clusters, operators, pod controllers, one shard, one fake provider."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import yaml

from bigfleet.transport.tls import TlsFiles
from tests.e2e.fleet.kubelet import Kubelets
from tests.e2e.rights import CONTROLLER, OPERATOR, grant_roles
from tests.support.control_plane.cluster import Cluster, start_clusters
from tests.support.control_plane.options import ClusterOptions, User
from tests.support.program import RunningProgram

OPTIONS = ClusterOptions(audit=True, users=(User(OPERATOR), User(CONTROLLER)))
GROUP = "/apis/bigfleet.lucy.sh/v1alpha1"
UPCOMING = f"{GROUP}/upcomingnodes"
NODES = "/api/v1/nodes"
NAMESPACE = "shop"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
BUDGETS = f"/apis/policy/v1/namespaces/{NAMESPACE}/poddisruptionbudgets"

Document = dict[str, Any]


def start_fleet_clusters(binary: Path, number: int) -> list[Cluster]:
    """Start clusters side by side, with our kinds, exactly the two roles, two priority classes and a namespace."""
    clusters = start_clusters(binary, [OPTIONS] * number, prepare)
    for cluster in clusters:
        cluster.make_namespace(NAMESPACE)
    return clusters


def prepare(cluster: Cluster) -> None:
    """Install the kinds before the garbage collector starts, which then knows them, and bind exactly the two roles."""
    grant_roles(cluster)
    for name, value in (("low", 100_000), ("high", 1_000_000)):
        body = {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name},
            "value": value,
            "preemptionPolicy": "Never",
        }
        cluster.admin.post("/apis/scheduling.k8s.io/v1/priorityclasses", body)


def pool(name: str, count: int, **options: object) -> Document:
    return {
        "name": name,
        "count": count,
        "state": "Idle",
        "capacity_type": "BareMetal",
        "instance_type": "metal.8",
        "zones": ["zone-a"],
        "resources": {"cpu": "8", "memory": "32Gi"},
        **options,
    }


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
        self, provider: RunningProgram, port: int = 0, tls: TlsFiles | None = None, *flags: str
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
            *flags,
        )
        self.shard_port = shard.port("port")
        return shard

    def start_cluster_programs(
        self, cluster_id: str, tls: TlsFiles | None = None, *flags: str
    ) -> tuple[RunningProgram, RunningProgram]:
        return self.start_operator(cluster_id, tls, *flags), self.start_pod_controller(cluster_id)

    def start_pod_controller(self, cluster_id: str) -> RunningProgram:
        return self.run(
            "bigfleet-unschedulable-pod-controller",
            f"--kubeconfig={self.clusters[cluster_id].kubeconfig(CONTROLLER)}",
            "--metrics-addr=127.0.0.1:0",
            "--exclude-daemonset-pods",
            "--qps=200",
            "--burst=400",
        )

    def start_operator(self, cluster_id: str, tls: TlsFiles | None = None, *flags: str) -> RunningProgram:
        cluster = self.clusters[cluster_id]
        return self.run(
            "bigfleet-operator",
            f"--cluster-id={cluster_id}",
            f"--shard-addr=127.0.0.1:{self.shard_port}",
            f"--kubeconfig={cluster.kubeconfig(OPERATOR)}",
            "--metrics-addr=127.0.0.1:0",
            "--rollup-interval=1s",
            "--qps=200",
            "--burst=400",
            *tls_flags(tls),
            *flags,
        )

    async def until(
        self, what: str, condition: Callable[[], object], seconds: float = 120.0, *, poll_s: float = 0.1
    ) -> None:
        end_s = asyncio.get_running_loop().time() + seconds
        while not await asyncio.to_thread(condition):
            for program in self.programs:
                assert program.code in (None, 0, -9), f"{program.name} ended before {what}\n{program.text()}"
            if asyncio.get_running_loop().time() > end_s:
                told = "\n".join(f"--- {program.name}\n{program.text()[-1500:]}" for program in self.programs)
                raise AssertionError(f"not in time: {what}\n{told}")
            await asyncio.sleep(poll_s)

    # ---- looking

    @staticmethod
    def metric(program: RunningProgram, series: str) -> float:
        """Return one series of a program's metrics page; 0 where it is not there yet."""
        _, page = program.http("/metrics")
        found = [line for line in page.splitlines() if line.startswith(series + " ")]
        return float(found[0].rpartition(" ")[2]) if found else 0.0

    def pods(self, cluster_id: str = "prod-1") -> list[Document]:
        found = self.clusters[cluster_id].admin.get(PODS)["items"]
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

    def state(self, cluster_id: str) -> Document:
        """Return everything of a cluster that must not change while nobody decides."""
        requests, upcoming = self.requests(cluster_id), self.upcoming(cluster_id)
        versions = {
            item["metadata"]["name"]: item["metadata"]["resourceVersion"] for item in (*requests, *upcoming)
        }
        pods = {
            item["metadata"]["uid"]: (item["status"]["phase"], item["spec"].get("nodeName"))
            for item in self.pods(cluster_id)
        }
        cordoned = [
            item["metadata"]["name"] for item in self.nodes(cluster_id) if item["spec"].get("unschedulable")
        ]
        return {"versions": versions, "pods": pods, "cordoned": cordoned}

    def refused(self) -> list[object]:
        """Return every call of our programs that an API server refused for lack of a right."""
        return [
            event
            for cluster in self.clusters.values()
            for account in (OPERATOR, CONTROLLER)
            for event in cluster.audit_events(account)
            if event.code == 403
        ]

    # ---- making

    def deploy(
        self,
        name: str,
        replicas: int,
        *,
        cpu: str,
        memory: str = "1Gi",
        cluster_id: str = "prod-1",
        **spec: Any,
    ) -> None:
        """Make a Deployment of pods of one container; further fields of the pods' spec are given by name."""
        spec = {**_container(cpu, memory), **spec}
        self._make(cluster_id, "Deployment", name, {"replicas": replicas}, spec)

    def run_everywhere(self, name: str, *, cpu: str, memory: str, cluster_id: str = "prod-1") -> None:
        """Make a DaemonSet."""
        self._make(cluster_id, "DaemonSet", name, {}, _container(cpu, memory))

    def _make(self, cluster_id: str, kind: str, name: str, own: Document, spec: Document) -> None:
        labels = {"app": name}
        template = {"metadata": {"labels": labels}, "spec": {"terminationGracePeriodSeconds": 1, **spec}}
        body = {
            "apiVersion": "apps/v1",
            "kind": kind,
            "metadata": {"name": name},
            "spec": {**own, "selector": {"matchLabels": labels}, "template": template},
        }
        path = f"/apis/apps/v1/namespaces/{NAMESPACE}/{kind.lower()}s"
        self.clusters[cluster_id].admin.post(path, body)

    def roll_out(self, name: str, revision: str, surge: str, cluster_id: str = "prod-1") -> None:
        """Let a Deployment replace all its pods, new ones first."""
        path = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/{name}"
        rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": 0}}
        template = {"metadata": {"annotations": {"example/revision": revision}}}
        body = {"spec": {"strategy": rolling, "template": template}}
        self.clusters[cluster_id].admin.patch(path, body)

    def scale(self, name: str, replicas: int, cluster_id: str = "prod-1") -> None:
        path = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/{name}"
        self.clusters[cluster_id].admin.patch(path, {"spec": {"replicas": replicas}})


def _container(cpu: str, memory: str) -> Document:
    """The containers of a pod that asks for so much."""
    requests = {"cpu": cpu, "memory": memory}
    return {
        "containers": [
            {"name": "main", "image": "registry.example/none", "resources": {"requests": requests}}
        ]
    }


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
