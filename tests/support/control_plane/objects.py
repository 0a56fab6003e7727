"""Bodies of the Kubernetes objects that nearly every test needs, with nothing in them that the API server does not want.

Why: a node without a `pods` amount takes no pod, a pod without a container is refused; that is known once, here.
Must never: hold anything of BigFleet's own kinds.
"""

from collections.abc import Mapping, Sequence
from typing import Any


def node(
    name: str,
    *,
    cpu: str = "4",
    memory: str = "16Gi",
    pods: str = "110",
    labels: Mapping[str, str] | None = None,
    taints: Sequence[Mapping[str, str]] = (),
    provider_id: str = "",
    extended: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Return a Node as a kubelet would register it; amounts in the status are kept on creation."""
    amounts = {"cpu": cpu, "memory": memory, "pods": pods, **(extended or {})}
    spec: dict[str, Any] = {"taints": [dict(taint) for taint in taints]} if taints else {}
    if provider_id:
        spec["providerID"] = provider_id
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **(labels or {})}},
        "spec": spec,
        "status": {"capacity": amounts, "allocatable": dict(amounts)},
    }


def pod(
    name: str,
    *,
    cpu: str = "1",
    memory: str = "1Gi",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    extended: Mapping[str, str] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    """Return a Pod of one container; further fields of its spec are given by name, such as `nodeSelector`."""
    resources: dict[str, Any] = {"requests": {"cpu": cpu, "memory": memory, **(extended or {})}}
    if extended:
        resources["limits"] = dict(extended)  # extended resources are refused unless limits equal requests
    container = {"name": "main", "image": "registry.example/none", "resources": resources}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": dict(labels or {}), "annotations": dict(annotations or {})},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 1, **spec},
    }


def condition(thing: Mapping[str, Any], kind: str) -> str:
    """Return the status of one condition of an object, or an empty text."""
    conditions = thing.get("status", {}).get("conditions") or ()
    return next((str(entry["status"]) for entry in conditions if entry["type"] == kind), "")
