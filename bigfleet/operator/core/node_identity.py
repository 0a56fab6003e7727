"""Which Node a machine is.

Why: a shard knows machines and providers, a cluster knows nodes; whoever guesses evicts the wrong pods, or nobody and says
that it was done.
Must never: choose between two.
Rules: operator 7.2, decision S12, ADR-0016, ADR-0074.
"""

from dataclasses import dataclass
from typing import Any, Protocol

from bigfleet.operator.core.views import NodeView, UpcomingView


class Nodes(Protocol):
    """The Nodes of the cluster, as they can be looked up."""

    def named(self, name: str) -> NodeView | None:
        """Return the Node of a name."""

    def labelled(self, machine_id: str) -> tuple[NodeView, ...]:
        """Return the Nodes that bear the label of a machine."""

    def provided(self, provider_id: str) -> tuple[NodeView, ...]:
        """Return the Nodes whose provider id, or its last part, is this."""


@dataclass(frozen=True, slots=True)
class Names:
    """Everything a machine may be called; what is unknown is empty."""

    entries: tuple[str, ...]
    machine_id: str
    provider_id: str = ""


@dataclass(frozen=True, slots=True)
class Found:
    """The Node, or none, or more than one at the step that found any."""

    node: NodeView | None = None
    ambiguous: bool = False


def find_node(names: Names, upcoming: UpcomingView | None, nodes: Nodes) -> Found:
    """Return the Node of a machine; the first step that finds something decides."""
    for entry in names.entries:
        if entry and (node := nodes.named(entry)) is not None:
            return Found(node)
    if upcoming is not None and (node := _recorded(upcoming, nodes)) is not None:
        return Found(node)
    if names.machine_id and (labelled := nodes.labelled(names.machine_id)):
        return _only(labelled)
    provider_id = names.provider_id or (upcoming.provider_id if upcoming is not None else "")
    return _only(nodes.provided(provider_id)) if provider_id else Found()


def reference_to(node: NodeView) -> dict[str, Any]:
    """Return the reference to a Node as an UpcomingNode holds it."""
    return {"apiVersion": "v1", "kind": "Node", "name": node.name, "uid": node.uid}


def _recorded(upcoming: UpcomingView, nodes: Nodes) -> NodeView | None:
    reference = upcoming.node_ref
    node = nodes.named(str(reference.get("name") or ""))
    # Another Node may have taken the name since.
    return node if node is not None and reference.get("uid") in (None, "", node.uid) else None


def _only(found: tuple[NodeView, ...]) -> Found:
    return Found(found[0]) if len(found) == 1 else Found(ambiguous=bool(found))
