"""The rights each program needs in its cluster, as data, and the manifests made from them.

Why: a role that is typed by hand into a chart lacks one verb and has three too many; here each verb stands beside the room
that uses it, and tests hold charts and programs to this list.
Must never: hold a verb that no call of ours uses, a secret, a config map, pod deletion or node deletion.
Rules: operator 10, decision O1, ADR-0095.
"""

from dataclasses import dataclass
from typing import Final

from bigfleet.kube.link import Document
from bigfleet.kube.resources import (
    AVAILABLE_CAPACITIES,
    CAPACITY_REQUESTS,
    EVENTS,
    LEASES,
    NODES,
    PODS,
    UPCOMING_NODES,
)

_GROUP: Final = CAPACITY_REQUESTS.group
_RBAC: Final = "rbac.authorization.k8s.io"


@dataclass(frozen=True, slots=True)
class Rule:
    """Verbs on resources of one group; `needs` names the flag without which the rule is not needed."""

    group: str
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    needs: str = ""

    def as_document(self) -> Document:
        """Return the form that a role wants."""
        return {"apiGroups": [self.group], "resources": list(self.resources), "verbs": list(self.verbs)}

    def without(self, verb: str) -> "Rule":
        """Return the rule less one verb; for the tests that show each verb to be needed."""
        return Rule(
            self.group, self.resources, tuple(each for each in self.verbs if each != verb), self.needs
        )


@dataclass(frozen=True, slots=True)
class Role:
    """What one program may do: in the whole cluster, and in its own namespace."""

    name: str
    cluster: tuple[Rule, ...]
    own_namespace: tuple[Rule, ...] = ()

    def cluster_role(self, *, flags: frozenset[str] = frozenset()) -> Document:
        """Return the ClusterRole for a program that runs with these optional flags."""
        return _manifest("ClusterRole", {"name": self.name}, self.cluster, flags)

    def namespace_role(self, namespace: str, *, flags: frozenset[str] = frozenset()) -> Document | None:
        """Return the Role in the program's own namespace, None when these flags need none."""
        metadata: Document = {"name": self.name, "namespace": namespace}
        manifest = _manifest("Role", metadata, self.own_namespace, flags)
        return manifest if manifest["rules"] else None


def binding(role: Document, subject: Document) -> Document:
    """Return the binding of a role to a subject, such as a service account or a user."""
    kind, metadata = role["kind"], role["metadata"]
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": f"{kind}Binding",
        "metadata": dict(metadata),
        "roleRef": {"apiGroup": _RBAC, "kind": kind, "name": metadata["name"]},
        "subjects": [subject],
    }


LEADER_ELECT: Final = "leader-elect"
POD_EVENTS: Final = "pod-events"

_EVENTS: Final = Rule(EVENTS.group, (EVENTS.plural,), ("create", "patch"))
_LEASE: Final = Rule(LEASES.group, (LEASES.plural,), ("get", "create", "update"), LEADER_ELECT)

OPERATOR: Final = Role(
    name="bigfleet-operator",
    cluster=(
        Rule(_GROUP, (CAPACITY_REQUESTS.plural,), ("list", "watch")),
        Rule(_GROUP, (f"{CAPACITY_REQUESTS.plural}/status",), ("patch",)),
        Rule(
            _GROUP,
            (UPCOMING_NODES.plural, AVAILABLE_CAPACITIES.plural),
            ("get", "list", "watch", "create", "patch", "delete"),
        ),
        Rule(_GROUP, (f"{UPCOMING_NODES.plural}/status",), ("patch",)),
        Rule(NODES.group, (NODES.plural,), ("list", "watch", "patch")),
        Rule(PODS.group, (PODS.plural,), ("list",)),
        Rule(PODS.group, (f"{PODS.plural}/eviction",), ("create",)),
        _EVENTS,
    ),
    own_namespace=(_LEASE,),
)

POD_CONTROLLER: Final = Role(
    name="bigfleet-unschedulable-pod-controller",
    cluster=(
        Rule(PODS.group, (PODS.plural,), ("list", "watch")),
        Rule(_GROUP, (CAPACITY_REQUESTS.plural,), ("get", "list", "watch", "create", "patch", "delete")),
        Rule(_GROUP, (f"{CAPACITY_REQUESTS.plural}/status",), ("patch",)),
        Rule(_GROUP, (UPCOMING_NODES.plural,), ("list", "watch"), POD_EVENTS),
        _EVENTS,
    ),
    own_namespace=(_LEASE,),
)


def _manifest(kind: str, metadata: Document, rules: tuple[Rule, ...], flags: frozenset[str]) -> Document:
    kept = [rule.as_document() for rule in rules if not rule.needs or rule.needs in flags]
    return {"apiVersion": f"{_RBAC}/v1", "kind": kind, "metadata": metadata, "rules": kept}
