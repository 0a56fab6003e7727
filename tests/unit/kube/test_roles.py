"""The roles are exactly the table of `operator#roles`."""

from bigfleet.kube.roles import LEADER_ELECT, OPERATOR, POD_CONTROLLER, POD_EVENTS, WATCH_PODS, RbacRole
from tests.support.rbac import cluster_role, namespace_role

OURS = "bigfleet.lucy.sh"
LEASES = {
    "coordination.k8s.io leases create",
    "coordination.k8s.io leases get",
    "coordination.k8s.io leases update",
}


def rights(role: RbacRole, *flags: str) -> set[str]:
    chosen = frozenset(flags)
    manifests = [cluster_role(role, flags=chosen), namespace_role(role, "own", flags=chosen)]
    return {
        f"{group} {resource} {verb}"
        for manifest in manifests
        if manifest is not None
        for rule in manifest["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def table(*rows: tuple[str, str, str]) -> set[str]:
    return {
        f"{group} {resource} {verb}"
        for group, resources, verbs in rows
        for resource in resources.split()
        for verb in verbs.split()
    }


def test_the_operator_may_do_exactly_this() -> None:
    wanted = table(
        (OURS, "capacityrequests", "list watch"),
        (OURS, "capacityrequests/status upcomingnodes/status", "patch"),
        (OURS, "upcomingnodes availablecapacities", "get list watch create patch delete"),
        ("", "nodes", "list watch patch"),
        ("", "pods", "list"),
        ("", "pods/eviction", "create"),
        ("", "events", "create patch"),
    )
    assert rights(OPERATOR) == wanted
    pods = table(("", "pods", "watch"))
    assert rights(OPERATOR, LEADER_ELECT, WATCH_PODS) == wanted | pods | LEASES


def test_the_pod_controller_may_do_exactly_this() -> None:
    wanted = table(
        ("", "pods", "list watch"),
        (OURS, "capacityrequests", "get list watch create patch delete"),
        (OURS, "capacityrequests/status", "patch"),
        ("", "events", "create patch"),
    )
    watching = table((OURS, "upcomingnodes", "list watch"))
    assert rights(POD_CONTROLLER) == wanted
    assert rights(POD_CONTROLLER, POD_EVENTS, LEADER_ELECT) == wanted | watching | LEASES


def test_neither_reads_secrets_nor_deletes_pods_or_nodes() -> None:
    for role in (OPERATOR, POD_CONTROLLER):
        granted = rights(role, LEADER_ELECT, POD_EVENTS)
        assert not any("secrets" in right or "configmaps" in right or "*" in right for right in granted)
        assert not granted & {" pods delete", " nodes delete", " pods deletecollection"}


def test_without_leader_election_there_is_no_role_in_the_namespace() -> None:
    assert namespace_role(OPERATOR, "own") is None
