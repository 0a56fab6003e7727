"""Kubernetes role objects made from the rights in `bigfleet.kube.roles`."""

from dataclasses import replace

from bigfleet.kube.roles import RbacRole, RbacRule
from bigfleet.kube.transport import Document

RBAC = "rbac.authorization.k8s.io"
NO_FLAGS: frozenset[str] = frozenset()


def cluster_role(role: RbacRole, *, flags: frozenset[str] = NO_FLAGS) -> Document:
    """Return the ClusterRole for a program that runs with these optional flags."""
    return _manifest("ClusterRole", {"name": role.name}, role.cluster, flags)


def namespace_role(role: RbacRole, namespace: str, *, flags: frozenset[str] = NO_FLAGS) -> Document | None:
    """Return the Role in the program's own namespace, None when these flags need none."""
    metadata: Document = {"name": role.name, "namespace": namespace}
    manifest = _manifest("Role", metadata, role.own_namespace, flags)
    return manifest if manifest["rules"] else None


def binding(role: Document, subject: Document) -> Document:
    """Return the binding of a role to a subject, such as a service account or a user."""
    kind, metadata = role["kind"], role["metadata"]
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": f"{kind}Binding",
        "metadata": dict(metadata),
        "roleRef": {"apiGroup": RBAC, "kind": kind, "name": metadata["name"]},
        "subjects": [subject],
    }


def without(rule: RbacRule, verb: str) -> RbacRule:
    """Return a rule without one of its verbs."""
    return replace(rule, verbs=tuple(each for each in rule.verbs if each != verb))


def _manifest(kind: str, metadata: Document, rules: tuple[RbacRule, ...], flags: frozenset[str]) -> Document:
    kept = [rule.as_document() for rule in rules if not rule.needs or rule.needs in flags]
    return {"apiVersion": f"{RBAC}/v1", "kind": kind, "metadata": metadata, "rules": kept}
