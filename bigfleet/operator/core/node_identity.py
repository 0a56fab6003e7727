"""Finds the Node of a machine.

Why: a shard knows machines and providers, a cluster knows Nodes. A wrong guess evicts the wrong pods.
Must never: choose between two Nodes.
Rules: `operator#node-identity`, `shard#reclaim-instruction`; ADR-0016, ADR-0074, ADR-0208.
"""

from dataclasses import dataclass
from typing import Any, Protocol

from bigfleet.operator.core.names import MACHINE_ID, upcoming_name
from bigfleet.operator.core.views import NodeView, UpcomingNodeView, provider_ids


class NodeLookup(Protocol):
    """Look-ups of the Nodes of the cluster."""

    def named(self, name: str) -> NodeView | None:
        """Return the Node of a name."""

    def labelled(self, machine_id: str) -> tuple[NodeView, ...]:
        """Return the Nodes with the label of a machine."""

    def provided(self, provider_id: str) -> tuple[NodeView, ...]:
        """Return the Nodes whose provider id, or its last part, is this."""

    def hosted(self, host: str) -> tuple[NodeView, ...]:
        """Return the Nodes whose name, or its first label, is this."""


@dataclass(frozen=True, slots=True)
class MachineNames:
    """All known names of a machine; unknown ones are empty."""

    entries: tuple[str, ...]
    machine_id: str
    provider_id: str = ""


@dataclass(frozen=True, slots=True)
class NodeMatch:
    """The Node; None if there is none, or if the deciding step found more than one."""

    node: NodeView | None = None
    ambiguous: bool = False


def find_node(names: MachineNames, upcoming: UpcomingNodeView | None, nodes: NodeLookup) -> NodeMatch:
    """Return the Node of a machine; the first step that finds something decides."""
    for entry in names.entries:
        if entry and (node := nodes.named(entry)) is not None:
            return NodeMatch(node)
    if upcoming is not None and (node := _recorded(upcoming, nodes)) is not None:
        return NodeMatch(node)
    if names.machine_id and (labelled := nodes.labelled(names.machine_id)):
        return _only(labelled)
    provider_id = names.provider_id or (upcoming.provider_id if upcoming is not None else "")
    if provider_id and (provided := nodes.provided(provider_id)):
        return _only(provided)
    return _only(_by_naming(names.machine_id, provider_id, nodes))


def next_step(machine_id: str, *, ambiguous: bool) -> str:
    """Say what to do so that the Node of a machine is found."""
    if ambiguous:
        return (
            f"leave label {MACHINE_ID}={machine_id} and the provider id on the one Node that is the machine"
        )
    return (
        f"set label {MACHINE_ID}={machine_id} on its Node, in the bootstrap template for Nodes to come,"
        " or let the kubelet report the provider id of the machine"
    )


def reference_to(node: NodeView) -> dict[str, Any]:
    """Return the `nodeRef` of an UpcomingNode for a Node."""
    return {"apiVersion": "v1", "kind": "Node", "name": node.name, "uid": node.uid}


def _recorded(upcoming: UpcomingNodeView, nodes: NodeLookup) -> NodeView | None:
    reference = upcoming.node_ref
    node = nodes.named(str(reference.get("name") or ""))
    # Another Node may have taken the name since.
    return node if node is not None and reference.get("uid") in (None, "", node.uid) else None


def _by_naming(machine_id: str, provider_id: str, nodes: NodeLookup) -> tuple[NodeView, ...]:
    """Return the Nodes that the naming of a cluster ties to a machine; those that are labelled as another one are left out."""
    hosts = [*provider_ids(provider_id)]
    if machine_id:
        hosts += [machine_id, upcoming_name(machine_id)]
    found = [node for host in hosts for node in nodes.hosted(host)]
    found += nodes.provided(machine_id) if machine_id else ()
    return tuple({node.name: node for node in found if node.machine_id in ("", machine_id)}.values())


def _only(found: tuple[NodeView, ...]) -> NodeMatch:
    return NodeMatch(found[0]) if len(found) == 1 else NodeMatch(ambiguous=bool(found))
