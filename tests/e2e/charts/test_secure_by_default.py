"""The control plane installed without any preparation: the job signs, and the programs from the rendered Pods speak mutual TLS.

Helm waits for the hook while this test plays the kubelet for its Pod. There is one replica of everything, all on 127.0.0.1, for
which every certificate is valid, so that the names of Services can be replaced by it.
Rules: `packaging#certificates-by-default`, `packaging#certificate-job`, `packaging#insecure`, `packaging#plaintext-exposed`.
"""

import base64
import http.client
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.charts.rendering import CHARTS, CONTROL_PLANE, OPERATOR, helm_binary, merged
from tests.e2e.charts.site import Document, Site
from tests.support.control_plane.client import APPLY_PATCH
from tests.support.control_plane.cluster import Cluster, stock_stages
from tests.support.control_plane.objects import node
from tests.support.control_plane.options import USUAL_CONTROLLERS, ClusterOptions
from tests.support.ports import free_ports

NAMESPACE = "bigfleet-system"
SECRETS = f"/api/v1/namespaces/{NAMESPACE}/secrets"
ACCOUNTS = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts"
CHART = str(CHARTS / CONTROL_PLANE)
HERE = "127.0.0.1"
LEAVES = (
    "bigfleet-coordinator-tls",
    "bigfleet-shard-0-tls",
    "bigfleet-dashboard-tls",
    "bigfleet-operator-prod-1-tls",
)
ISSUER: Document = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "issuers.cert-manager.io"},
    "spec": {
        "group": "cert-manager.io",
        "scope": "Namespaced",
        "names": {"kind": "Issuer", "plural": "issuers", "singular": "issuer", "listKind": "IssuerList"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
                },
            }
        ],
    },
}
"""As much of cert-manager's kind as the chart looks for."""


def stages_without_completion(binary: Path) -> str:
    """Return kwok's behaviour without the stage that ends Pods of Jobs by itself."""
    kept = [
        text
        for text in stock_stages(binary).split("\n---\n")
        if not re.search(r"(?m)^  name: pod-complete$", text)
    ]
    return "\n---\n".join(kept)


@pytest.fixture(scope="module")
def site(testbed_binary: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    helm_binary()
    controllers = (*USUAL_CONTROLLERS, "persistentvolume-binder-controller")
    options = ClusterOptions(controllers=controllers, stages=stages_without_completion(testbed_binary))
    cluster = Cluster(testbed_binary, options).start()
    one = Site(cluster, NAMESPACE, tmp_path_factory.mktemp("site"), lambda _: HERE)
    try:
        yield one
    finally:
        one.kubelet.kill()
        cluster.stop()


def values() -> Document:
    """Return what one host needs; nothing of it speaks of security."""
    grpc, raft, metrics, shard, shard_metrics, dashboard = free_ports(6)
    return {
        "coordinator": {
            "replicas": 1,
            "service": {"grpcPort": grpc, "raftPort": raft, "metricsPort": metrics},
        },
        "shard": {
            "service": {"grpcPort": shard, "metricsPort": shard_metrics},
            "cycleInterval": "1s",
            "coordinatorHeartbeatInterval": "1s",
        },
        "dashboard": {"enabled": True, "port": dashboard},
        "certificates": {"clusters": ["prod-1"]},
    }


def run_job(site: Site, name: str) -> str:
    """Play the kubelet for the Pod of a Job: run it, report how it ended, and return what it printed."""
    (pod,) = site.cluster.wait(
        f"the pod of {name} is placed",
        lambda: [
            pod
            for pod in site.kubelet.pods("certificates")
            if pod["metadata"]["labels"]["job-name"] == name and pod["status"].get("phase") == "Running"
        ],
    )
    program = site.kubelet.start(pod)
    del site.kubelet.running[pod["metadata"]["name"]]
    assert program.ended() == 0, program.text()
    path = f"/api/v1/namespaces/{site.namespace}/pods/{pod['metadata']['name']}/status"
    site.cluster.admin.patch(path, {"status": {"phase": "Succeeded"}})
    return program.text()


def helm_with_hook(site: Site, *arguments: str, values: Document) -> tuple[str, str]:
    """Run Helm while its hook runs; return what Helm printed, and what the hook did."""
    said: list[tuple[int, str]] = []
    thread = threading.Thread(target=lambda: said.append(site.try_helm(*arguments, values=values)))
    thread.start()
    done = run_job(site, "bigfleet-certs-setup")
    thread.join(timeout=120)
    ((code, text),) = said
    assert code == 0, text
    return text, done


def data(site: Site, name: str) -> dict[str, str]:
    found: dict[str, str] = site.cluster.admin.get(f"{SECRETS}/{name}")["data"]
    return found


def results(printed: str) -> dict[str, str]:
    """Return what became of each Secret, as the command's table says it."""
    rows = [line.split() for line in printed.splitlines()[1:]]
    return {row[0]: row[2] for row in rows if len(row) > 2}


def status_of(port: int, path: str, token: str = "") -> int:
    connection = http.client.HTTPConnection(HERE, port, timeout=30)
    try:
        connection.request("GET", path, headers={"Authorization": f"Bearer {token}"} if token else {})
        return connection.getresponse().status
    finally:
        connection.close()


def metric(port: int, name: str) -> str:
    connection = http.client.HTTPConnection(HERE, port, timeout=30)
    try:
        connection.request("GET", "/metrics")
        page = connection.getresponse().read().decode()
        return next(line.split()[1] for line in page.splitlines() if line.startswith(f"{name} "))
    finally:
        connection.close()


@pytest.mark.rule(
    "packaging#certificates-by-default",
    "packaging#certificate-job",
    "packaging#plaintext-exposed",
    "packaging#dashboard-objects",
)
def test_an_installation_without_preparation_speaks_tls_and_keeps_its_certificates(
    site: Site, foreign_kinds: list[Document], tmp_path: Path
) -> None:
    cluster, given = site.cluster, values()
    cluster.make_namespace(NAMESPACE)
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    cluster.admin.patch(f"/api/v1/namespaces/{NAMESPACE}", {"metadata": {"labels": labels}})
    cluster.admin.post("/api/v1/nodes", node("node-0", cpu="16", memory="64Gi"))
    for number in range(2):
        disk: Document = {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": f"disk-{number}"},
            "spec": {
                "capacity": {"storage": "10Gi"},
                "accessModes": ["ReadWriteOnce"],
                "hostPath": {"path": f"/disks/{number}"},
            },
        }
        cluster.admin.post("/api/v1/persistentvolumes", disk)

    # Helm waits for the job, which runs under its own account; the hook leaves nothing behind.
    said, done = helm_with_hook(site, "install", "bigfleet", CHART, values=given)
    assert "Mutual TLS is on. A job of this release signs the certificates and renews them" in said
    assert "WARNING: insecure" not in said
    assert results(done) == {"bigfleet-ca": "made", **dict.fromkeys(LEAVES, "signed")}
    cluster.wait("the hook is gone", lambda: cluster.admin.find(f"{ACCOUNTS}/bigfleet-certs-setup") is None)
    first = {
        name: data(site, name)
        for name in (*LEAVES, "bigfleet-ca", "bigfleet-dashboard-token", "bigfleet-raft")
    }

    # The account that stays may write exactly the certificates: not another Secret, not the authority, nothing by POST.
    account = cluster.api_with_token(cluster.service_account_token(NAMESPACE, "bigfleet-certs-renew"))
    body: Document = {"apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": NAMESPACE}}
    for name, allowed in (
        (LEAVES[0], True),
        ("bigfleet-ca", False),
        ("another", False),
        ("bigfleet-raft", False),
    ):
        document = merged(body, {"metadata": {"name": name}})
        answer = account.call(
            "PATCH", f"{SECRETS}/{name}?fieldManager=x&dryRun=All", document, content_type=APPLY_PATCH
        )
        assert answer.status == (200 if allowed else 403), name
    assert account.call("POST", SECRETS, merged(body, {"metadata": {"name": LEAVES[0]}})).status == 403
    assert account.call("GET", SECRETS).status == 403
    assert account.call("GET", f"{SECRETS}/bigfleet-raft").status == 403
    assert account.call("DELETE", f"{SECRETS}/{LEAVES[0]}").status == 403

    # The programs of the rendered Pods, with these certificates; the doctor shakes hands with each.
    for component in ("coordinator", "shard", "dashboard"):
        site.run(component, 1)
    (doctor,) = filter(
        lambda thing: thing and thing["kind"] == "Pod",
        yaml.safe_load_all(site.helm("get", "hooks", "bigfleet")),
    )
    seen = site.kubelet.start(doctor)
    del site.kubelet.running[doctor["metadata"]["name"]]
    assert seen.ended() == 0, seen.text()
    assert seen.text().count("handshake") == 2
    for part in ("coordinator", "shard"):
        assert metric(given[part]["service"]["metricsPort"], "bigfleet_plaintext_exposed") == "0.0"
    board = given["dashboard"]["port"]
    token = base64.b64decode(first["bigfleet-dashboard-token"]["token"]).decode()
    assert (status_of(board, "/"), status_of(board, "/", token)) == (401, 200)

    # An operator, with its Secret copied as the notes say.
    (copied,) = re.findall(r"get secret (bigfleet-operator-\S+)", said)
    files = {name: first[copied][name] for name in ("tls.crt", "tls.key", "ca.crt")}
    cluster.admin.post(SECRETS, merged(body, {"metadata": {"name": "bigfleet-operator-tls"}, "data": files}))
    site.helm(
        "install",
        "operator",
        str(CHARTS / OPERATOR),
        values={
            "clusterID": "prod-1",
            "shardAddress": f"bigfleet-shard-0.bigfleet-shard-headless.{NAMESPACE}.svc:{given['shard']['service']['grpcPort']}",
            "tls": {"secretName": "bigfleet-operator-tls"},
            "metricsPort": free_ports(1)[0],
        },
    )
    site.run("operator", 1)

    # An upgrade signs what is new and keeps the rest.
    more = merged(given, {"certificates": {"clusters": ["prod-1", "prod-2"]}})
    _, done = helm_with_hook(site, "upgrade", "bigfleet", CHART, values=more)
    kept = {"bigfleet-ca": "kept", **dict.fromkeys(LEAVES, "kept")}
    assert results(done) == {**kept, "bigfleet-operator-prod-2-tls": "signed"}
    assert {name: data(site, name) for name in first} == first

    # The CronJob makes a lost one again, under the account that stays.
    cluster.admin.delete(f"{SECRETS}/bigfleet-operator-prod-2-tls")
    cluster.kubectl("-n", NAMESPACE, "create", "job", "again", "--from=cronjob/bigfleet-certs-renew")
    assert results(run_job(site, "again")) == {**kept, "bigfleet-operator-prod-2-tls": "signed"}

    # cert-manager arrives: this release stays with its authority, a new one asks cert-manager.
    cluster.install_crds([ISSUER, *foreign_kinds])
    cluster.make_namespace("new")
    new = Site(cluster, "new", tmp_path, lambda _: HERE)
    for text, way in (
        (site.helm("upgrade", "bigfleet", CHART, "--dry-run=server", values=more), "kind: CronJob"),
        (new.helm("install", "new", CHART, "--dry-run=server", values={}), "kind: Certificate"),
    ):
        assert [each for each in ("kind: CronJob", "kind: Certificate") if each in text] == [way]

    # Removal leaves the authority, the certificates and the token.
    assert set(site.kubelet.end().values()) == {0}
    site.kubelet.running.clear()
    for release in ("operator", "bigfleet"):
        site.helm("uninstall", release)
    assert {name: data(site, name) for name in first} == first


@pytest.mark.rule("packaging#insecure", "packaging#certificates-by-default")
def test_a_release_in_plaintext_is_not_changed_to_tls_by_an_upgrade_alone(site: Site, tmp_path: Path) -> None:
    site.cluster.make_namespace("plain")
    plain = Site(site.cluster, "plain", tmp_path, lambda _: HERE)
    said = plain.helm(
        "install", "plain", CHART, values={"insecure": True, "shard": {"external": {"enabled": True}}}
    )
    assert "WARNING: insecure: no TLS" in said
    assert "WARNING: shard.external opens this plaintext port to other networks" in said
    assert "Mutual TLS is on" not in said
    code, said = plain.try_helm("upgrade", "plain", CHART, values={"insecure": False})
    assert code != 0
    assert (
        "insecure: bigfleet-coordinator runs without TLS, and an upgrade to TLS shuts out operators and providers"
        in said
    )
    chosen: dict[str, Any] = {"insecure": False, "certManager": {"enabled": False}}
    assert "Mutual TLS is on" in plain.helm("upgrade", "plain", CHART, "--no-hooks", values=chosen)
