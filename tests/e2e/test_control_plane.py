"""The test control plane is a real one: it admits, schedules, refuses, records, and comes back after a crash."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bigfleet.kube.crds.definitions import DEFINITIONS
from tests.support.control_plane.client import Api
from tests.support.control_plane.cluster import Cluster
from tests.support.control_plane.errors import ApiRefusedError, KubectlError, UnreachableError
from tests.support.control_plane.objects import condition, node, pod
from tests.support.control_plane.options import ADMIN, NOBODY, OLDEST_MINOR, ClusterOptions, User

READER = User("reader")


@pytest.fixture(scope="module")
def old(testbed_binary: Path) -> Iterator[Cluster]:
    """A cluster of the oldest minor, with a record of all calls and a user more; for tests that stop parts of it."""
    options = ClusterOptions(minor=OLDEST_MINOR, audit=True, users=(READER,))
    with Cluster(testbed_binary, options) as cluster:
        yield cluster


def run_a_pod(cluster: Cluster, namespace: str, node_name: str) -> Any:
    """Create a node and a pod that fits no other; return the pod once it runs."""
    path = f"/api/v1/namespaces/{namespace}/pods"
    mine = {"testbed/node": node_name}
    cluster.admin.post("/api/v1/nodes", node(node_name, labels=mine))
    cluster.admin.post(path, pod("p", nodeSelector=mine))
    return cluster.wait("pod runs", lambda: running(cluster.admin.get(f"{path}/p")))


def running(found: Any) -> Any:
    return found if found["status"]["phase"] == "Running" else None


def reason_it_waits(waiting: Any) -> str:
    conditions = waiting["status"].get("conditions", ())
    return next((entry["reason"] for entry in conditions if entry["type"] == "PodScheduled"), "")


def test_a_pod_waits_until_a_node_appears_turns_ready_and_takes_it(
    cluster: Cluster, namespace: str, new_name: Callable[[], str]
) -> None:
    name = new_name()
    path = f"/api/v1/namespaces/{namespace}/pods"
    cluster.admin.post(path, pod("p", nodeSelector={"testbed/node": name}))
    cluster.wait("pod waits", lambda: reason_it_waits(cluster.admin.get(f"{path}/p")) == "Unschedulable")
    cluster.admin.post("/api/v1/nodes", node(name, labels={"testbed/node": name}))
    taken = cluster.wait("pod runs", lambda: running(cluster.admin.get(f"{path}/p")))
    assert taken["spec"]["nodeName"] == name
    assert condition(taken, "Ready") == "True"
    joined = cluster.admin.get(f"/api/v1/nodes/{name}")
    assert condition(joined, "Ready") == "True"
    assert joined["spec"].get("taints", []) == []


def test_two_clusters_side_by_side_share_nothing(
    clusters: Callable[[int], list[Cluster]], new_name: Callable[[], str]
) -> None:
    first, second = clusters(2)
    name = new_name()
    first.admin.post("/api/v1/nodes", node(name))
    assert second.admin.find(f"/api/v1/nodes/{name}") is None
    assert first.url != second.url
    with pytest.raises(UnreachableError, match="CERTIFICATE_VERIFY_FAILED"):
        Api(second.url, first.ca_file, first.options.user(ADMIN).token).get("/version")


def test_a_budget_blocks_an_eviction_and_a_deleted_pod_goes(
    cluster: Cluster, namespace: str, new_name: Callable[[], str]
) -> None:
    pods = f"/api/v1/namespaces/{namespace}/pods"
    budgets = f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets"
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "all"},
        "spec": {"maxUnavailable": 0, "selector": {}},
    }
    cluster.admin.post(budgets, budget)
    run_a_pod(cluster, namespace, new_name())
    cluster.wait("budget seen", lambda: "observedGeneration" in cluster.admin.get(f"{budgets}/all")["status"])
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}
    refused = cluster.admin.call("POST", f"{pods}/p/eviction", eviction)
    assert refused.status == 429
    assert [cause["reason"] for cause in refused.body["details"]["causes"]] == ["DisruptionBudget"]
    cluster.admin.delete(f"{pods}/p")
    cluster.wait("pod gone", lambda: cluster.admin.find(f"{pods}/p") is None)


def check_our_custom_resources(cluster: Cluster, namespace: str) -> None:
    path = f"/apis/bigfleet.lucy.sh/v1alpha1/namespaces/{namespace}/capacityrequests"
    request = {
        "apiVersion": "bigfleet.lucy.sh/v1alpha1",
        "kind": "CapacityRequest",
        "metadata": {"name": "good"},
        "spec": {"priority": 1, "resources": {"cpu": "1"}},
    }
    cluster.admin.post(path, request)
    bad = {**request, "metadata": {"name": "bad"}, "spec": {"resources": {"cpu": "1"}}}
    with pytest.raises(ApiRefusedError, match=r"spec\.priority") as refused:
        cluster.admin.post(path, bad)
    assert refused.value.status == 422


def test_our_custom_resources_are_served_and_their_rules_hold(cluster: Cluster, namespace: str) -> None:
    check_our_custom_resources(cluster, namespace)


def test_the_oldest_minor_serves_our_custom_resources_alike(old: Cluster) -> None:
    old.install_crds(definition.manifest() for definition in DEFINITIONS)
    check_our_custom_resources(old, old.make_namespace("custom"))


def test_the_oldest_minor_answers_as_such_and_schedules(old: Cluster) -> None:
    version = old.admin.get("/version")
    assert f"{version['emulationMajor']}.{version['emulationMinor']}" == OLDEST_MINOR
    served = {group["name"]: group for group in old.admin.get("/apis")["groups"]}
    # Dynamic resource allocation became v1 in 1.34: an older minor must not serve it.
    assert all(
        version["version"] != "v1" for version in served.get("resource.k8s.io", {}).get("versions", ())
    )
    assert run_a_pod(old, old.make_namespace("scheduled"), "n-old")["spec"]["nodeName"] == "n-old"


def test_a_user_without_rights_is_refused_until_a_role_is_bound(old: Cluster) -> None:
    reader = old.api(READER.name)
    assert reader.call("GET", "/api/v1/nodes").status == 403
    assert old.api(NOBODY).call("GET", "/api/v1/nodes").status == 403
    assert old.api_with_token("made-up").call("GET", "/api/v1/nodes").status == 401
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    meta = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": "node-reader"}}
    rules = [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["list"]}]
    old.admin.post(f"{rbac}/clusterroles", {**meta, "kind": "ClusterRole", "rules": rules})
    binding = {
        **meta,
        "kind": "ClusterRoleBinding",
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "node-reader"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": READER.name}],
    }
    old.admin.post(f"{rbac}/clusterrolebindings", binding)
    old.wait("binding seen", lambda: reader.call("GET", "/api/v1/nodes").ok)
    assert reader.call("POST", "/api/v1/nodes", node("forbidden")).status == 403
    assert old.api(NOBODY).call("GET", "/api/v1/nodes").status == 403


def test_the_record_tells_who_called_what_with_which_answer(old: Cluster) -> None:
    old.api(NOBODY).call("DELETE", "/api/v1/namespaces/default/pods/wanted")

    def refused() -> list[tuple[str, str, str, int]]:
        calls = old.audit_events(NOBODY)
        return [(e.verb, e.resource, e.name, e.code) for e in calls if e.name == "wanted"]

    assert old.wait("call recorded", refused) == [("delete", "pods", "wanted", 403)]


def test_a_service_account_token_and_a_kubeconfig_name_their_bearer(old: Cluster) -> None:
    token = old.service_account_token("default", "default")
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    who = old.api_with_token(token).post("/apis/authentication.k8s.io/v1/selfsubjectreviews", review)
    assert who["status"]["userInfo"]["username"] == "system:serviceaccount:default:default"
    assert old.kubectl("auth", "whoami", "-o=jsonpath={.status.userInfo.username}") == ADMIN
    with pytest.raises(KubectlError, match='User "nobody" cannot list resource "pods"'):
        old.kubectl("get", "pods", user=NOBODY)
    assert old.kubeconfig("somebody", token).stat().st_mode & 0o077 == 0


def test_a_killed_api_server_comes_back_on_its_port_and_the_others_ride_it_out(old: Cluster) -> None:
    before = old.api_server.pid
    others = [part.pid for part in old.components if part is not old.api_server]
    old.api_server.kill()
    with pytest.raises(UnreachableError):
        old.admin.get("/version")
    old.restart_api_server()
    assert old.api_server.pid not in (None, before)
    assert old.admin.get("/version")["emulationMinor"] == OLDEST_MINOR.split(".")[1]
    namespace = old.make_namespace("after-restart")  # the controllers work again
    assert run_a_pod(old, namespace, "n-after")["spec"]["nodeName"] == "n-after"  # and scheduler and kwok
    assert [part.pid for part in old.components if part is not old.api_server] == others


def test_a_paused_api_server_keeps_clients_waiting_and_then_answers(old: Cluster) -> None:
    hasty = Api(old.url, old.ca_file, old.options.user(ADMIN).token, deadline_s=0.3)
    old.api_server.pause()
    try:
        with pytest.raises(UnreachableError, match="timed out"):
            hasty.get("/version")
    finally:
        old.api_server.resume()
    assert old.wait("it answers again", lambda: old.admin.call("GET", "/readyz").ok)
