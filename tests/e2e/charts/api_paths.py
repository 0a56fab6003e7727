"""Where the API server keeps an object, by its kind."""

from typing import Any

CLUSTER_WIDE = {"CustomResourceDefinition", "ClusterRole", "ClusterRoleBinding", "Namespace"}
_PLURALS = {"NetworkPolicy": "networkpolicies", "Ingress": "ingresses"}


def collection(thing: dict[str, Any], namespace: str) -> str:
    """Return the path of the objects of its kind."""
    version, kind = thing["apiVersion"], thing["kind"]
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    plural = _PLURALS.get(kind, f"{kind.lower()}s")
    if kind in CLUSTER_WIDE:
        return f"{root}/{plural}"
    return f"{root}/namespaces/{thing['metadata'].get('namespace', namespace)}/{plural}"


def path(thing: dict[str, Any], namespace: str) -> str:
    """Return the path of the object itself."""
    return f"{collection(thing, namespace)}/{thing['metadata']['name']}"
