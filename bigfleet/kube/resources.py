"""The kinds that we use, with their API paths, and the keys of objects.

Must never: know a schema; those are in `bigfleet.kube.crds`.
Rules: `operator#custom-resources`, `operator#roles`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from bigfleet.kube.crds.available_capacity import AVAILABLE_CAPACITY
from bigfleet.kube.crds.capacity_request import CAPACITY_REQUEST
from bigfleet.kube.crds.definition import Definition
from bigfleet.kube.crds.schema import GROUP, VERSION
from bigfleet.kube.crds.upcoming_node import UPCOMING_NODE
from bigfleet.model.errors import InvalidFieldError


class ObjectKey(NamedTuple):
    """The name of one object of a kind; the namespace is empty if the kind has none."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


@dataclass(frozen=True, slots=True)
class Resource:
    """One kind as the API server serves it."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool

    @property
    def api_version(self) -> str:
        """The `apiVersion` of its objects."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, key: ObjectKey | None = None, *, namespace: str = "", subresource: str = "") -> str:
        """Return the path of one object, or of all in a namespace or in the cluster."""
        where = namespace if key is None else key.namespace
        if key is not None and bool(where) != self.namespaced:
            allowed = "a namespace" if self.namespaced else "no namespace"
            raise InvalidFieldError("namespace", where, f"{allowed} for {self.plural}")
        parts = ["apis", self.group] if self.group else ["api"]
        parts.append(self.version)
        if where:
            parts += ["namespaces", where]
        parts.append(self.plural)
        if key is not None:
            parts.append(key.name)
            if subresource:
                parts.append(subresource)
        return "/" + "/".join(quote(part, safe="") for part in parts)


def key_of(document: Mapping[str, Any]) -> ObjectKey:
    """Return the key of an object."""
    metadata = document["metadata"]
    return ObjectKey(metadata.get("namespace", ""), metadata["name"])


def version_of(document: Mapping[str, Any]) -> int:
    """Return the version of an object or list as a number; newer is larger."""
    return int(document["metadata"].get("resourceVersion") or 0)


def _ours(definition: Definition) -> Resource:
    return Resource(GROUP, VERSION, definition.plural, definition.kind, definition.namespaced)


CAPACITY_REQUESTS: Final = _ours(CAPACITY_REQUEST)
AVAILABLE_CAPACITIES: Final = _ours(AVAILABLE_CAPACITY)
UPCOMING_NODES: Final = _ours(UPCOMING_NODE)
NODES: Final = Resource("", "v1", "nodes", "Node", namespaced=False)
PODS: Final = Resource("", "v1", "pods", "Pod", namespaced=True)
EVENTS: Final = Resource("", "v1", "events", "Event", namespaced=True)
SECRETS: Final = Resource("", "v1", "secrets", "Secret", namespaced=True)
LEASES: Final = Resource("coordination.k8s.io", "v1", "leases", "Lease", namespaced=True)
