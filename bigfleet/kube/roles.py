"""The rights that each program needs in its cluster; the charts are generated from them.

Why: a role typed by hand lacks one verb and has three too many. Tests hold charts and programs to this list.
Must never: hold a verb that no call of ours uses, a secret, a config map, pod deletion or node deletion.
Rules: `operator#roles`, `operator#stable-names`; ADR-0095.
"""

from dataclasses import dataclass
from typing import Final

from bigfleet.kube.resources import (
    AVAILABLE_CAPACITIES,
    CAPACITY_REQUESTS,
    EVENTS,
    LEASES,
    NODES,
    PODS,
    UPCOMING_NODES,
)
from bigfleet.kube.transport import Document

_GROUP: Final = CAPACITY_REQUESTS.group


@dataclass(frozen=True, slots=True)
class RbacRule:
    """Verbs on resources of one group; `needs` names the flag without which the rule is not needed."""

    group: str
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    needs: str = ""

    def as_document(self) -> Document:
        """Return the form that a role wants."""
        return {"apiGroups": [self.group], "resources": list(self.resources), "verbs": list(self.verbs)}


@dataclass(frozen=True, slots=True)
class RbacRole:
    """What one program may do: in the whole cluster, and in its own namespace."""

    name: str
    cluster: tuple[RbacRule, ...]
    own_namespace: tuple[RbacRule, ...] = ()


LEADER_ELECT: Final = "leader-elect"
POD_EVENTS: Final = "pod-events"
WATCH_PODS: Final = "watch-pods"

_EVENTS: Final = RbacRule(EVENTS.group, (EVENTS.plural,), ("create", "patch"))
_LEASE: Final = RbacRule(LEASES.group, (LEASES.plural,), ("get", "create", "update"), LEADER_ELECT)

OPERATOR: Final = RbacRole(
    name="bigfleet-operator",
    cluster=(
        RbacRule(_GROUP, (CAPACITY_REQUESTS.plural,), ("list", "watch")),
        RbacRule(_GROUP, (f"{CAPACITY_REQUESTS.plural}/status",), ("patch",)),
        RbacRule(
            _GROUP,
            (UPCOMING_NODES.plural, AVAILABLE_CAPACITIES.plural),
            ("get", "list", "watch", "create", "patch", "delete"),
        ),
        RbacRule(_GROUP, (f"{UPCOMING_NODES.plural}/status",), ("patch",)),
        RbacRule(NODES.group, (NODES.plural,), ("list", "watch", "patch")),
        RbacRule(PODS.group, (PODS.plural,), ("list",)),
        RbacRule(PODS.group, (PODS.plural,), ("watch",), WATCH_PODS),
        RbacRule(PODS.group, (f"{PODS.plural}/eviction",), ("create",)),
        _EVENTS,
    ),
    own_namespace=(_LEASE,),
)

POD_CONTROLLER: Final = RbacRole(
    name="bigfleet-unschedulable-pod-controller",
    cluster=(
        RbacRule(PODS.group, (PODS.plural,), ("list", "watch")),
        RbacRule(_GROUP, (CAPACITY_REQUESTS.plural,), ("get", "list", "watch", "create", "patch", "delete")),
        RbacRule(_GROUP, (f"{CAPACITY_REQUESTS.plural}/status",), ("patch",)),
        RbacRule(_GROUP, (UPCOMING_NODES.plural,), ("list", "watch"), POD_EVENTS),
        _EVENTS,
    ),
    own_namespace=(_LEASE,),
)
