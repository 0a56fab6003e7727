"""What is kept of UpcomingNodes, AvailableCapacities and Nodes.

Why: a cache holds what decisions read and nothing more.
Must never: raise, whatever an object holds; somebody else may have written it.
Rules: operator 15.6 items 1 and 2.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bigfleet.operator.core.names import CORDONED_BY, MACHINE_ID, RECLAIM_DEADLINE, RECLAIM_ID, machine_of

# Any: parts of JSON documents, compared and written back as they came.
Part = Mapping[str, Any]


@dataclass(frozen=True, slots=True, eq=False)
class UpcomingView:
    """An UpcomingNode."""

    name: str
    uid: str
    machine_id: str
    spec: Part
    status: Part

    @property
    def phase(self) -> str:
        """How far it is; an empty phase counts as the first one."""
        return str(self.status.get("phase") or "Provisioning")

    @property
    def node_ref(self) -> Part:
        """The Node it registered as; empty while unknown."""
        return part(self.status.get("nodeRef"))

    @property
    def provider_id(self) -> str:
        """The provider's id as last told."""
        return str(self.status.get("providerID") or "")


@dataclass(frozen=True, slots=True, eq=False)
class CapacityView:
    """An AvailableCapacity."""

    name: str
    uid: str
    spec: Part


@dataclass(frozen=True, slots=True)
class NodeView:
    """A Node: its names, and what a reclaim wrote on it."""

    name: str
    uid: str
    machine_id: str = ""
    provider_id: str = ""
    unschedulable: bool = False
    reclaim_id: str = ""
    reclaim_deadline: str = ""
    cordoned_by: str = ""

    def provider_ids(self) -> tuple[str, ...]:
        """The provider id and, where it is a path, its last part: what shards may call the machine."""
        if not self.provider_id:
            return ()
        last = self.provider_id.rpartition("/")[2]
        return (self.provider_id,) if last in ("", self.provider_id) else (self.provider_id, last)


def upcoming_view(document: Part) -> UpcomingView:
    """Return what is kept of an UpcomingNode."""
    metadata = document["metadata"]
    return UpcomingView(
        name=metadata["name"],
        uid=str(metadata.get("uid", "")),
        machine_id=machine_of(metadata),
        spec=part(document.get("spec")),
        status=part(document.get("status")),
    )


def capacity_view(document: Part) -> CapacityView:
    """Return what is kept of an AvailableCapacity."""
    metadata = document["metadata"]
    return CapacityView(metadata["name"], str(metadata.get("uid", "")), part(document.get("spec")))


def node_view(document: Part) -> NodeView:
    """Return what is kept of a Node."""
    metadata, spec = document["metadata"], part(document.get("spec"))
    labels, annotations = part(metadata.get("labels")), part(metadata.get("annotations"))
    return NodeView(
        name=metadata["name"],
        uid=str(metadata.get("uid", "")),
        machine_id=str(labels.get(MACHINE_ID) or ""),
        provider_id=str(spec.get("providerID") or ""),
        unschedulable=spec.get("unschedulable") is True,
        reclaim_id=str(annotations.get(RECLAIM_ID) or ""),
        reclaim_deadline=str(annotations.get(RECLAIM_DEADLINE) or ""),
        cordoned_by=str(annotations.get(CORDONED_BY) or ""),
    )


def part(value: object) -> Part:
    """Return a part of a document, empty where it is no object."""
    return value if isinstance(value, Mapping) else {}
