"""What the caches keep of UpcomingNodes, AvailableCapacities and Nodes.

Must never: raise, whatever an object holds; other writers exist.
Rules: `operator#reflector`, `operator#store`.
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from bigfleet.model.errors import InvalidFieldError
from bigfleet.model.frames import Taint
from bigfleet.model.frozen_map import NO_TEXTS, FrozenMap
from bigfleet.model.quantity import parse_quantity
from bigfleet.model.resources import ZERO, Resources
from bigfleet.operator.core.names import CORDONED_BY, MACHINE_ID, RECLAIM_DEADLINE, RECLAIM_ID, machine_of

# Any: parts of JSON documents, compared and written back as they came.
Part = Mapping[str, Any]


@dataclass(frozen=True, slots=True, eq=False)
class UpcomingNodeView:
    """An UpcomingNode."""

    name: str
    uid: str
    machine_id: str
    spec: Part
    status: Part

    @property
    def phase(self) -> str:
        """The phase; an empty one counts as Provisioning."""
        return str(self.status.get("phase") or "Provisioning")

    @property
    def node_ref(self) -> Part:
        """The reference to the Node; empty while unknown."""
        return part(self.status.get("nodeRef"))

    @property
    def provider_id(self) -> str:
        """The provider's id as last sent."""
        return str(self.status.get("providerID") or "")


@dataclass(frozen=True, slots=True, eq=False)
class CapacityView:
    """An AvailableCapacity."""

    name: str
    uid: str
    spec: Part


@dataclass(frozen=True, slots=True)
class NodeShape:
    """What of a Node decides which pods it takes."""

    name: str
    labels: FrozenMap[str] = NO_TEXTS
    allocatable: Resources = ZERO
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    ready: bool = False


@dataclass(frozen=True, slots=True)
class NodeView:
    """A Node: its names, the annotations of a reclaim, and what it offers to pods."""

    name: str
    uid: str
    machine_id: str = ""
    provider_id: str = ""
    unschedulable: bool = False
    reclaim_id: str = ""
    reclaim_deadline: str = ""
    cordoned_by: str = ""
    shape: NodeShape = field(default=NodeShape(""), compare=False)

    def provider_ids(self) -> tuple[str, ...]:
        """The provider id and, if it is a path, its last part; shards may use either."""
        return provider_ids(self.provider_id)

    def host_names(self) -> tuple[str, ...]:
        """The name and, if it is a domain name, its first label: many clusters name a Node after the host that way."""
        first = self.name.partition(".")[0]
        return (self.name,) if first in ("", self.name) else (self.name, first)


def upcoming_node_view(document: Part) -> UpcomingNodeView:
    """Return the view of an UpcomingNode."""
    metadata = document["metadata"]
    return UpcomingNodeView(
        name=metadata["name"],
        uid=str(metadata.get("uid", "")),
        machine_id=machine_of(metadata),
        spec=part(document.get("spec")),
        status=part(document.get("status")),
    )


def capacity_view(document: Part) -> CapacityView:
    """Return the view of an AvailableCapacity."""
    metadata = document["metadata"]
    return CapacityView(metadata["name"], str(metadata.get("uid", "")), part(document.get("spec")))


def node_view(document: Part) -> NodeView:
    """Return the view of a Node."""
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
        shape=_node_shape(metadata["name"], labels, spec, part(document.get("status"))),
    )


def _node_shape(name: str, labels: Part, spec: Part, status: Part) -> NodeShape:
    return NodeShape(
        name=name,
        labels=FrozenMap({sys.intern(str(key)): sys.intern(str(value)) for key, value in labels.items()}),
        allocatable=_amounts(part(status.get("allocatable"))),
        taints=tuple(
            Taint(str(item.get("key", "")), str(item.get("value") or ""), str(item.get("effect", "")))
            for item in spec.get("taints") or ()
            if isinstance(item, Mapping)
        ),
        unschedulable=spec.get("unschedulable") is True,
        ready=any(
            isinstance(item, Mapping) and item.get("type") == "Ready" and item.get("status") == "True"
            for item in status.get("conditions") or ()
        ),
    )


def _amounts(texts: Part) -> Resources:
    found: dict[str, int] = {}
    for name, text in texts.items():
        try:
            found[sys.intern(name)] = max(0, parse_quantity(str(text)))
        except InvalidFieldError:
            continue  # the kubelet writes none such; another writer may
    return Resources(found)


def provider_ids(provider_id: str) -> tuple[str, ...]:
    """Return a provider id and, if it is a path, its last part; empty for none."""
    if not provider_id:
        return ()
    last = provider_id.rpartition("/")[2]
    return (provider_id,) if last in ("", provider_id) else (provider_id, last)


def part(value: object) -> Part:
    """Return a part of a document, empty if it is not an object."""
    return value if isinstance(value, Mapping) else {}
