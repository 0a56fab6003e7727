"""Decides whether a Kubernetes Node belongs to a machine, and whether it is Ready.

Must never: call a cluster; this room does not know the Kubernetes client.
Rules: `providers#hook-readiness`; ADR-0056.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

MACHINE_ID_LABEL: Final = "bigfleet.lucy.sh/machine-id"

Node = Mapping[str, Any]  # Any: a document of the API server


def is_node_of(node: Node, machine_id: str, ref: str) -> bool:
    """Return whether a node's name, the end of its providerID, or its label names the machine or its host."""
    metadata = node.get("metadata") or {}
    names = [name for name in (machine_id, ref) if name]
    if metadata.get("name") in names:
        return True
    if (metadata.get("labels") or {}).get(MACHINE_ID_LABEL) == machine_id:
        return True
    provider_id = str((node.get("spec") or {}).get("providerID") or "")
    # The whole last part: host 7 must not match the providerID of host 17.
    return any(provider_id == name or provider_id.endswith(f"/{name}") for name in names)


def is_ready(node: Node) -> bool:
    conditions = (node.get("status") or {}).get("conditions") or ()
    return any(found.get("type") == "Ready" and found.get("status") == "True" for found in conditions)


def ready_node(nodes: Iterable[Node], machine_id: str, ref: str) -> bool:
    return any(is_node_of(node, machine_id, ref) and is_ready(node) for node in nodes)
