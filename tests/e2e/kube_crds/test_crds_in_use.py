"""Our kinds in kubectl, the examples of the docs, and objects that are older than our rules."""

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from bigfleet.kube.crds.definitions import DEFINITIONS
from bigfleet.kube.roles import LEADER_ELECT, OPERATOR, POD_CONTROLLER, POD_EVENTS, WATCH_PODS, RbacRole
from tests.e2e.kube_crds.lax import original
from tests.support.control_plane.client import MERGE_PATCH
from tests.support.control_plane.cluster import Cluster
from tests.support.control_plane.options import NOBODY, OLDEST_MINOR, ClusterOptions
from tests.support.rbac import binding, cluster_role, namespace_role

API = "/apis/bigfleet.lucy.sh/v1alpha1"
PAGE = Path(__file__).resolve().parents[3] / "docs" / "crds.md"
BARE = ClusterOptions(minor=OLDEST_MINOR, scheduler=False, controllers=(), kwok=())


def capacity_request(name: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "bigfleet.lucy.sh/v1alpha1",
        "kind": "CapacityRequest",
        "metadata": {"name": name},
        "spec": {"priority": 1000, "resources": {"cpu": "1"}, **spec},
    }


def acknowledge(cluster: Cluster, path: str) -> None:
    condition = {
        "type": "Reported",
        "status": "True",
        "reason": "InRollUp",
        "message": "",
        "lastTransitionTime": "2026-11-16T12:00:00Z",
    }
    status = {"phase": "Acknowledged", "acknowledgedAt": "2026-11-16T12:00:00Z", "conditions": [condition]}
    cluster.admin.patch(f"{path}/status", {"status": status})


def test_kubectl_shows_phase_reason_priority_and_age(cluster: Cluster, namespace: str) -> None:
    path = f"{API}/namespaces/{namespace}/capacityrequests"
    for name in ("one", "two"):
        cluster.admin.post(path, capacity_request(name))
    acknowledge(cluster, f"{path}/one")
    head, one, two = cluster.kubectl("get", "crs", "-n", namespace).splitlines()
    assert head.split() == ["NAME", "PHASE", "REASON", "PRIORITY", "AGE"]
    assert one.split()[:4] == ["one", "Acknowledged", "InRollUp", "1000"]
    assert two.split()[:2] == ["two", "1000"]
    assert "one" in cluster.kubectl("get", "fleet", "-n", namespace, "-o", "name")


def test_what_has_not_been_reported_can_be_asked_for(cluster: Cluster, namespace: str) -> None:  # ADR-0010
    path = f"{API}/namespaces/{namespace}/capacityrequests"
    for name in ("fresh", "pending", "done"):
        cluster.admin.post(path, capacity_request(name))
    cluster.admin.patch(f"{path}/pending/status", {"status": {"phase": "Pending"}})
    acknowledge(cluster, f"{path}/done")
    listed = cluster.kubectl(
        "get", "cr", "-n", namespace, "--field-selector=status.phase!=Acknowledged", "-o", "name"
    )
    assert [line.split("/")[1] for line in listed.splitlines()] == ["fresh", "pending"]


def test_a_status_does_not_come_with_creation_and_does_not_touch_the_spec(
    cluster: Cluster, namespace: str
) -> None:
    path = f"{API}/namespaces/{namespace}/capacityrequests"
    created = cluster.admin.post(path, {**capacity_request("x"), "status": {"phase": "Acknowledged"}})
    assert "status" not in created
    patched = cluster.admin.patch(
        f"{path}/x/status", {"spec": {"priority": 1}, "status": {"phase": "Pending"}}
    )
    assert (patched["spec"]["priority"], patched["status"]["phase"]) == (1000, "Pending")


def test_every_field_is_explained(cluster: Cluster) -> None:
    for definition in DEFINITIONS:
        explained = cluster.kubectl("explain", definition.plural, "--recursive=true")
        for name in definition.spec["properties"]:
            assert name in explained
    assert "larger is served first" in cluster.kubectl("explain", "capacityrequests.spec.priority")


@pytest.mark.parametrize(
    "block", re.findall(r"```yaml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
)
def test_an_example_of_the_page_is_accepted_to_the_letter(cluster: Cluster, block: str) -> None:
    kind = yaml.safe_load(block)["kind"]
    output = cluster.kubectl("apply", "--dry-run=server", "--validate=strict", "-f", "-", stdin=block)
    assert output.startswith(f"{kind.lower()}.bigfleet.lucy.sh/")


def test_the_plain_manifests_can_be_applied_and_applied_again(cluster: Cluster) -> None:
    manifests = "---\n".join(
        yaml.safe_dump(definition.manifest(), sort_keys=False) for definition in DEFINITIONS
    )
    output = cluster.kubectl("apply", "--dry-run=server", "--validate=strict", "-f", "-", stdin=manifests)
    assert len(output.splitlines()) == len(DEFINITIONS)


OLD_OBJECTS: dict[str, dict[str, Any]] = {
    "same": {"requirements": [{"key": "rack", "operator": "Same"}]},
    "gt": {"requirements": [{"key": "cores", "operator": "Gt", "values": ["8"]}]},
    "many": {"requirements": [{"key": f"k{n}", "operator": "Exists"} for n in range(100)]},
    "negative": {"resources": {"cpu": "-1"}, "interruptionPenalty": "-3"},
    "skew": {"topologySpread": [{"topologyKey": "z", "maxSkew": 0, "whenUnsatisfiable": "Perhaps"}]},
    "nowhere": {"coLocation": {"topologyKey": ""}},
    "plain": {},
}


def is_stored(cluster: Cluster, path: str, document: dict[str, Any]) -> bool:
    return cluster.admin.call("POST", path, document).status in (201, 409)


@pytest.mark.rule("packaging#crds")
def test_objects_from_before_our_rules_stay_readable_and_patchable_elsewhere(
    make_cluster: Callable[[ClusterOptions], Cluster],
) -> None:  # ADR-0084, on the oldest server that the testbed can be
    cluster = make_cluster(BARE)
    cluster.install_crds(original(definition.manifest()) for definition in DEFINITIONS)
    path = f"{API}/namespaces/default/capacityrequests"
    for name, spec in OLD_OBJECTS.items():
        # The server may serve the stricter schema for a moment longer.
        document = capacity_request(name, **spec)
        cluster.wait(f"{name} stored", partial(is_stored, cluster, path, document))
    cluster.install_crds(definition.manifest() for definition in DEFINITIONS)
    bad = capacity_request("bad", **OLD_OBJECTS["same"])
    cluster.wait("our rules in force", lambda: not cluster.admin.call("POST", f"{path}?dryRun=All", bad).ok)
    for name, spec in OLD_OBJECTS.items():
        stored = cluster.admin.get(f"{path}/{name}")
        assert stored["spec"] == capacity_request(name, **spec)["spec"]
        acknowledge(cluster, f"{path}/{name}")
        after = cluster.admin.patch(
            f"{path}/{name}", {"spec": {"priority": 7}, "metadata": {"labels": {"a": "b"}}}
        )
        assert (after["spec"]["priority"], after["status"]["phase"]) == (7, "Acknowledged")
    worse = {"spec": {"requirements": [{"key": "rack", "operator": "Lt"}]}}
    answer = cluster.admin.call("PATCH", f"{path}/same", worse, content_type=MERGE_PATCH)
    assert answer.status == 422


VERBS = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")
ASKED = [
    ("bigfleet.lucy.sh", "capacityrequests"),
    ("bigfleet.lucy.sh", "capacityrequests/status"),
    ("bigfleet.lucy.sh", "upcomingnodes"),
    ("bigfleet.lucy.sh", "upcomingnodes/status"),
    ("bigfleet.lucy.sh", "availablecapacities"),
    ("", "nodes"),
    ("", "pods"),
    ("", "pods/eviction"),
    ("", "events"),
    ("", "secrets"),
    ("", "configmaps"),
    ("coordination.k8s.io", "leases"),
]


@pytest.mark.parametrize(
    ("role", "flags"), [(OPERATOR, {LEADER_ELECT, WATCH_PODS}), (POD_CONTROLLER, {LEADER_ELECT, POD_EVENTS})]
)
def test_the_server_takes_a_role_for_exactly_what_its_table_says(
    cluster: Cluster, namespace: str, role: RbacRole, flags: set[str]
) -> None:
    chosen = frozenset(flags)
    whole, own = cluster_role(role, flags=chosen), namespace_role(role, namespace, flags=chosen)
    assert own is not None
    subject = {"kind": "User", "name": NOBODY, "apiGroup": "rbac.authorization.k8s.io"}
    base = "/apis/rbac.authorization.k8s.io/v1"
    made = [
        (f"{base}/clusterroles", whole),
        (f"{base}/clusterrolebindings", binding(whole, subject)),
        (f"{base}/namespaces/{namespace}/roles", own),
        (f"{base}/namespaces/{namespace}/rolebindings", binding(own, subject)),
    ]
    nobody = cluster.api(NOBODY)
    for path, document in made:
        cluster.admin.post(path, document)
    try:
        wanted = {
            (rule.group, resource, verb)
            for rule in (*role.cluster, *role.own_namespace)
            for resource in rule.resources
            for verb in rule.verbs
        }
        for group, resource in ASKED:
            name, _, subresource = resource.partition("/")
            for verb in VERBS:
                attributes = {
                    "group": group,
                    "resource": name,
                    "subresource": subresource,
                    "verb": verb,
                    "namespace": namespace,
                }
                review = {
                    "apiVersion": "authorization.k8s.io/v1",
                    "kind": "SelfSubjectAccessReview",
                    "spec": {"resourceAttributes": attributes},
                }
                answer = nobody.post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review)
                assert answer["status"]["allowed"] is ((group, resource, verb) in wanted), attributes
    finally:
        for path, document in made:
            cluster.admin.delete(f"{path}/{document['metadata']['name']}")
