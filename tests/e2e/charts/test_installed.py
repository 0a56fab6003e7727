"""The charts, installed with the real Helm into a real API server, run from what they rendered, upgraded and removed.

Coordinators, shards, operator and pod controller run as processes with the arguments, files and service accounts of the Pods that
the controllers made; machines are played. Everything speaks mutual TLS. One story, told in order, as each part needs the last.
"""

import base64
import json
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml

from bigfleet.aio.identity import ADMIN, Identity
from bigfleet.kube.crds.definitions import DEFINITIONS
from tests.charts.rendering import CHARTS, CONTROL_PLANE, OPERATOR, POD_CONTROLLER, helm_binary, merged
from tests.e2e.charts.site import Document, Site
from tests.support.certificates import Authority
from tests.support.control_plane.cluster import Cluster
from tests.support.control_plane.objects import node
from tests.support.control_plane.options import USUAL_CONTROLLERS, ClusterOptions
from tests.support.program import RunningProgram

NAMESPACE = "bigfleet-system"
OBJECTS = f"/api/v1/namespaces/{NAMESPACE}"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
GROUP = "/apis/bigfleet.lucy.sh/v1alpha1"
SHARDS = 2
POOL = {
    "name": "metal",
    "count": 4,
    "state": "Idle",
    "capacity_type": "BareMetal",
    "instance_type": "metal.8",
    "zones": ["zone-a"],
    "resources": {"cpu": "8", "memory": "32Gi"},
}
CONTROLLERS = (*USUAL_CONTROLLERS, "persistentvolume-binder-controller")


def address(name: str) -> str:
    """Return the loopback address of a Pod, a Service or the provider; the same name always has the same."""
    stem, _, ordinal = name.rpartition("-")
    network = {"bigfleet-coordinator": 1, "bigfleet-shard": 2, "provider": 3}
    if ordinal.isdigit() and stem in network:
        return f"127.77.{network[stem]}.{int(ordinal) + 1}"
    if name in network:  # a Service leads to one of its Pods
        return f"127.77.{network[name]}.1"
    return "127.77.9.1" if "operator" in name else "127.77.9.2"


class SecuredSite(Site):
    """A site whose certificates come from an authority of its own."""

    def __init__(self, cluster: Cluster, directory: Path) -> None:
        super().__init__(cluster, NAMESPACE, directory, address)
        self.authority = Authority(directory / "pki", datetime.now(UTC))

    def secret(self, name: str, identity: Identity, *hosts: str) -> None:
        """Store a certificate for an identity that is reached at these addresses."""
        files = self.authority.issue_uris(name, [str(identity)], hosts)
        data = {
            key: base64.b64encode(path.read_bytes()).decode()
            for key, path in (("tls.crt", files.cert), ("tls.key", files.key), ("ca.crt", files.ca))
        }
        body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": data}
        self.cluster.admin.post(f"{OBJECTS}/secrets", body)

    def start_provider(self, ordinal: int) -> None:
        """Start the provider of one shard, with machines that exist nowhere."""
        name = f"provider-{ordinal}"
        pools = self.directory / "pools.yaml"
        pools.write_text(yaml.safe_dump({"pools": [POOL]}))
        files = self.authority.issue_uris(name, [str(Identity.shard(name))], [address(name)])
        self.kubelet.running[name] = RunningProgram(
            "bigfleet-fake-provider",
            f"--inventory={pools}",
            f"--addr={address(name)}:9000",
            "--metrics-addr=0",
            f"--tls-cert={files.cert}",
            f"--tls-key={files.key}",
            f"--tls-ca={files.ca}",
            log=self.directory / f"{name}.log",
            environ={"PATH": os.environ["PATH"], "HOME": str(self.directory)},
        )


@pytest.fixture(scope="module")
def site(
    testbed_binary: Path, foreign_kinds: list[Document], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SecuredSite]:
    helm_binary()
    options = ClusterOptions(audit=True, controllers=CONTROLLERS)
    cluster = Cluster(testbed_binary, options).start(lambda one: one.install_crds(foreign_kinds))
    one = SecuredSite(cluster, tmp_path_factory.mktemp("site"))
    try:
        yield one
    finally:
        one.kubelet.kill()
        cluster.stop()


def volume(number: int) -> Document:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": f"disk-{number}"},
        "spec": {
            "capacity": {"storage": "10Gi"},
            "accessModes": ["ReadWriteOnce"],
            "hostPath": {"path": f"/disks/{number}"},
        },
    }


CONTROL_PLANE_VALUES: Document = {
    "coordinator": {
        "tls": {"secretName": "coordinator-tls"},
        "snapshotExport": {"enabled": True, "interval": "1s"},
    },
    "shard": {
        "replicas": SHARDS,
        "providerAddrs": [f"{address(f'provider-{number}')}:9000" for number in range(SHARDS)],
        "tls": {"secretNamePattern": "shard-%d-tls"},
        "cycleInterval": "1s",
        "coordinatorHeartbeatInterval": "1s",
        "auditLog": "/var/lib/bigfleet-shard/audit.jsonl",
    },
    "podMonitor": {"enabled": True},
    "prometheusRule": {"enabled": True},
    "grafanaDashboards": {"enabled": True},
    "networkPolicy": {"egress": {"enabled": True}},
}
OPERATOR_VALUES: Document = {
    "clusterID": "prod-1",
    "shardAddress": f"bigfleet-shard-0.bigfleet-shard-headless.{NAMESPACE}.svc:7780",
    "tls": {"secretName": "operator-tls"},
    "bootstrapTemplate": "#cloud-config {{ .ClusterID }} {{ .MachineID }}",
    "rollupInterval": "1s",
    "podMonitor": {"enabled": True},
}


def left(site: Site) -> list[str]:
    """Return every object of the namespace, of whatever kind the API server can list, but what Kubernetes itself puts there."""
    own = {"ConfigMap kube-root-ca.crt", "ServiceAccount default"}
    words = "api-resources --verbs=list,delete --namespaced -o name"
    names = [
        name
        for name in site.cluster.kubectl(*words.split()).split()
        if name not in ("events", "events.events.k8s.io")
    ]
    listed = json.loads(site.cluster.kubectl("get", ",".join(names), "-n", NAMESPACE, "-o", "json"))["items"]
    return sorted({f"{thing['kind']} {thing['metadata']['name']}" for thing in listed} - own)


@pytest.mark.rule(
    "packaging#raft-secret",
    "packaging#crds",
    "packaging#roles",
    "operator#operator-charts",
    "packaging#compose",
    "packaging#kind",
    "packaging#doctor",
)
def test_installed_run_upgraded_and_removed(site: SecuredSite) -> None:
    cluster = site.cluster
    cluster.make_namespace(NAMESPACE)
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    cluster.admin.patch(f"/api/v1/namespaces/{NAMESPACE}", {"metadata": {"labels": labels}})
    for number in range(3):
        cluster.admin.post("/api/v1/nodes", node(f"node-{number}", cpu="16", memory="64Gi"))
    for number in range(3 + SHARDS):
        cluster.admin.post("/api/v1/persistentvolumes", volume(number))
    before = left(site)
    replicas = [address(f"bigfleet-coordinator-{number}") for number in range(3)]
    site.secret("coordinator-tls", ADMIN, *replicas)
    for number in range(SHARDS):
        name = f"bigfleet-shard-{number}"
        site.secret(f"shard-{number}-tls", Identity.shard(name), address(name))
    site.secret("operator-tls", Identity.cluster("prod-1"), address("bigfleet-operator"))
    for number in range(SHARDS):
        site.start_provider(number)

    # The control plane: three replicas form one coordinator, both shards register with it.
    told = site.helm("install", "bigfleet", str(CHARTS / CONTROL_PLANE), values=CONTROL_PLANE_VALUES)
    assert "Mutual TLS is on." in told
    secret = cluster.admin.get(f"{OBJECTS}/secrets/bigfleet-raft")["data"]["secret"]
    coordinators = site.run("coordinator", 3)
    assert [pod["metadata"]["name"] for pod in coordinators] == [
        f"bigfleet-coordinator-{n}" for n in range(3)
    ]
    assert len({pod["spec"]["nodeName"] for pod in coordinators}) == 3, "spread over nodes"
    site.run("shard", SHARDS)
    data = [site.directory / f"bigfleet-coordinator-{number}" / "data" / "exports" for number in range(3)]
    site.kubelet.wait(
        "a snapshot is exported",
        lambda: [path for folder in data for path in folder.rglob("*") if path.is_file()],
    )

    # The programs of the workload cluster, beside definitions that somebody applied by hand before.
    cluster.kubectl("apply", "-f", "-", stdin="---\n".join(yaml.safe_dump(d.manifest()) for d in DEFINITIONS))
    site.helm("install", "operator", str(CHARTS / OPERATOR), "--take-ownership", values=OPERATOR_VALUES)
    site.helm("install", "upc", str(CHARTS / POD_CONTROLLER), values={"podEvents": True})
    (operator,) = site.run("operator", 1)
    (controller,) = site.run("pod-controller", 1)

    # The doctor that `helm test` would run, from its own pod; then one for the operator's cluster, as its own account and as admin.
    hooks = list(yaml.safe_load_all(site.helm("get", "hooks", "bigfleet")))
    (doctor,) = (thing for thing in hooks if thing)
    seen = site.kubelet.start(doctor)
    del site.kubelet.running[doctor["metadata"]["name"]]
    assert seen.ended() == 0, seen.text()
    assert seen.text().count("handshake") == 3 + SHARDS
    token = cluster.service_account_token(NAMESPACE, OPERATOR)
    for config, definitions in ((cluster.kubeconfig(OPERATOR, token), 0), (cluster.kubeconfig(), 3)):
        seen = RunningProgram(
            "bigfleet",
            "doctor",
            "--program=operator",
            f"--kubeconfig={config}",
            log=site.directory / f"doctor-{definitions}.log",
            environ={"PATH": os.environ["PATH"], "HOME": str(site.directory), "NO_PROXY": "*"},
        )
        assert seen.ended() == 0, seen.text()
        assert seen.text().count("definition ") == definitions

    # A pod that fits nowhere becomes demand, and a machine comes for it.
    template = {
        "metadata": {"labels": {"app": "web"}},
        "spec": {
            "nodeSelector": {"node.kubernetes.io/instance-type": "metal.8"},
            "containers": [
                {
                    "name": "main",
                    "image": "registry.example/none",
                    "resources": {"requests": {"cpu": "3", "memory": "1Gi"}},
                }
            ],
        },
    }
    web = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "web"}}, "template": template},
    }
    cluster.admin.post("/apis/apps/v1/namespaces/default/deployments", web)
    requests = f"{GROUP}/namespaces/default/capacityrequests"
    site.kubelet.wait(
        "its request is acknowledged",
        lambda: [
            item
            for item in cluster.admin.get(requests)["items"]
            if (item.get("status") or {}).get("phase") == "Acknowledged"
        ],
    )
    site.kubelet.wait("a machine is on its way", lambda: cluster.admin.get(f"{GROUP}/upcomingnodes")["items"])
    audit = site.directory / "bigfleet-shard-0" / "data" / "audit.jsonl"
    site.kubelet.wait(
        "the shard has written its audit log", lambda: audit.exists() and audit.read_text().count("\n")
    )
    accounts = [f"system:serviceaccount:{NAMESPACE}:{name}" for name in (OPERATOR, POD_CONTROLLER)]
    calls = [event for event in cluster.audit_events() if event.user in accounts]
    assert {event.user for event in calls} == set(accounts)
    refused = [event for event in calls if event.code == 403 and event.group != "apiextensions.k8s.io"]
    assert refused == [], (
        "but for the doctor's question about definitions, which only an administrator may ask"
    )

    # Upgrades: the Raft secret stays, changed templates restart the pod, changed definitions come back to what the chart says.
    crd = f"{CRDS}/capacityrequests.bigfleet.lucy.sh"
    wanted = cluster.admin.get(crd)["spec"]["names"]["shortNames"]
    cluster.admin.patch(crd, {"spec": {"names": {"shortNames": ["old"]}}})
    site.helm(
        "upgrade",
        "bigfleet",
        str(CHARTS / CONTROL_PLANE),
        values=merged(CONTROL_PLANE_VALUES, {"shard": {"logLevel": "debug"}}),
    )
    site.helm(
        "upgrade",
        "operator",
        str(CHARTS / OPERATOR),
        values=merged(OPERATOR_VALUES, {"bootstrapTemplate": "other"}),
    )
    assert cluster.admin.get(f"{OBJECTS}/secrets/bigfleet-raft")["data"]["secret"] == secret
    assert cluster.admin.get(crd)["spec"]["names"]["shortNames"] == wanted
    codes = site.kubelet.end()
    assert set(codes.values()) == {0}, "everything ends cleanly on SIGTERM"
    site.kubelet.running.clear()
    cluster.wait(
        "a new operator pod",
        lambda: [
            pod
            for pod in site.kubelet.pods("operator")
            if pod["metadata"]["name"] != operator["metadata"]["name"]
        ],
    )
    assert [pod["metadata"]["name"] for pod in site.kubelet.pods("pod-controller")] == [
        controller["metadata"]["name"]
    ]
    site.run("coordinator", 3)  # the same disks and the same secret: they know each other again

    # Removal leaves the definitions with their objects, the Raft secret and the claims.
    site.kubelet.end()
    site.kubelet.running.clear()
    for release in ("upc", "operator", "bigfleet"):
        site.helm("uninstall", release)
    claims = [
        f"PersistentVolumeClaim data-bigfleet-{name}"
        for name in ("coordinator-0", "coordinator-1", "coordinator-2", "shard-0", "shard-1")
    ]
    ours = [
        *claims,
        "Secret bigfleet-raft",
        "Secret coordinator-tls",
        "Secret operator-tls",
        *(f"Secret shard-{n}-tls" for n in range(SHARDS)),
    ]
    cluster.wait("only what must stay is left", lambda: left(site) == sorted([*before, *ours]))
    assert cluster.admin.get(requests)["items"], "removing the chart keeps all CapacityRequests"
    assert (
        len(
            [item for item in cluster.admin.get(CRDS)["items"] if item["spec"]["group"] == "bigfleet.lucy.sh"]
        )
        == 3
    )
    for kind in ("clusterroles", "clusterrolebindings"):
        items = cluster.admin.get(f"/apis/rbac.authorization.k8s.io/v1/{kind}")["items"]
        assert [item["metadata"]["name"] for item in items if "bigfleet" in item["metadata"]["name"]] == []
