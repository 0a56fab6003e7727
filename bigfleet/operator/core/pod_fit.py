"""Whether a pod fits on a node: by labels, taints, ports, and what is free there.

Why: it is what the scheduler asks before all else, so it tells which nodes a pod could use and which it never will.
Must never: be taken for the verdict of the scheduler, which also knows volumes, claims and affinity among pods; `PodShape.is_simple`
says when there is no more to know.
Rules: `operator#pod-cache`; ADR-0266.
"""

from collections.abc import Iterable
from typing import Final

from bigfleet.kube.crds.capacity_request import OPERATORS
from bigfleet.kube.one_per_host import HostPort
from bigfleet.model.frames import Taint
from bigfleet.model.matching import holds
from bigfleet.model.profile import Requirement
from bigfleet.model.resources import ZERO, Resources
from bigfleet.operator.core.pods import ClusterPod, NodeCondition, PodShape, Toleration
from bigfleet.operator.core.views import NodeShape

_CORDONED: Final = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")
_KEEPING_OUT: Final = ("NoSchedule", "NoExecute")
_NAME: Final = "metadata.name"
_NUMBERS: Final = ("Gt", "Lt")


def suits(pod: PodShape, node: NodeShape) -> bool:
    """Return whether a node would take a pod if nothing else ran there."""
    labels = node.labels
    return (
        node.allocatable.covers(pod.requests)
        and all(labels.get(key) == value for key, value in pod.node_selector.items())
        and (pod.node_terms is None or any(_term_holds(term, node) for term in pod.node_terms))
        and _is_tolerated(pod.tolerations, node)
    )


def fits(pod: PodShape, node: NodeShape, free: Resources, ports: Iterable[HostPort] = ()) -> bool:
    """Return whether a pod fits beside what runs on a node, given what is free there and the host ports that are taken."""
    if not (free.covers(pod.requests) and suits(pod, node)):
        return False
    return not pod.host_ports or not any(own.collides(taken) for taken in ports for own in pod.host_ports)


def free_on(node: NodeShape, pods: Iterable[ClusterPod]) -> Resources:
    """Return what the pods on a node leave of it."""
    taken: dict[str, int] = {}
    for pod in pods:
        for name, amount in pod.shape.requests.items():
            taken[name] = taken.get(name, 0) + amount
    return node.allocatable - Resources(taken) if taken else node.allocatable


def added_up(pods: Iterable[PodShape]) -> Resources:
    """Return what pods request together."""
    total = ZERO
    for pod in pods:
        total += pod.requests
    return total


def _term_holds(term: tuple[NodeCondition, ...], node: NodeShape) -> bool:
    # An empty term holds nowhere, as in Kubernetes.
    return bool(term) and all(_condition_holds(condition, node) for condition in term)


def _condition_holds(condition: NodeCondition, node: NodeShape) -> bool:
    if condition.field:
        value = node.name if condition.key == _NAME else None
    else:
        value = node.labels.get(condition.key)
    if condition.operator in _NUMBERS:
        return _compares(condition, value)
    operator = OPERATORS.get(condition.operator)
    return operator is not None and holds(Requirement(condition.key, operator, condition.values), value)


def _compares(condition: NodeCondition, value: str | None) -> bool:
    try:
        (bound,) = map(int, condition.values)
        found = int(value or "")
    except ValueError:
        return False
    return found > bound if condition.operator == "Gt" else found < bound


def _is_tolerated(tolerations: tuple[Toleration, ...], node: NodeShape) -> bool:
    taints = (*node.taints, _CORDONED) if node.unschedulable else node.taints
    return all(
        taint.effect not in _KEEPING_OUT or any(_tolerates(one, taint) for one in tolerations)
        for taint in taints
    )


def _tolerates(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect not in ("", taint.effect) or toleration.key not in ("", taint.key):
        return False
    if toleration.operator == "Exists":
        return True
    return bool(toleration.key) and toleration.value == taint.value
