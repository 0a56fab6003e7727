"""What the cache keeps of pods: what they request, where they may run, and what the scheduler says of them.

Why: 100,000 whole pods are gigabytes. What the pods of one workload have in common is one object here, a *shape*.
Must never: raise, whatever a pod holds; keep a document; keep more than some kilobytes of one pod.
Rules: `operator#pod-cache`, `operator#reflector`; ADR-0266.
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple
from weakref import WeakValueDictionary

from bigfleet.kube.crds.schema import MAX_RESOURCES
from bigfleet.kube.one_per_host import DAEMON_SET, HostPort, host_ports, keeps_apart
from bigfleet.kube.pod_request import pod_resources
from bigfleet.kube.resources import ObjectKey, key_of
from bigfleet.model.errors import InvalidFieldError
from bigfleet.model.frozen_map import NO_TEXTS, FrozenMap
from bigfleet.model.machine import PODS
from bigfleet.model.quantity import NANO
from bigfleet.model.resources import Resources
from bigfleet.model.times import NANOSECONDS, ns_of_rfc3339
from bigfleet.operator.core.views import part

UNSCHEDULABLE: Final = "Unschedulable"
"""The reason with which the scheduler says that no node takes a pod."""
MAX_TEXT: Final = 16 * 1024
"""Characters of all labels, or of all conditions on nodes, of one pod. The API server allows megabytes of both."""
_MOST: Final = 256
"""Tolerations, and host ports, of one pod."""
_FINISHED: Final = ("Succeeded", "Failed")
_BINDING: Final = "DoNotSchedule"
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_ONE_POD: Final = Resources({PODS: NANO})
_TOLERATION_FIELDS: Final = (("key", ""), ("operator", "Equal"), ("value", ""), ("effect", ""))
# Volumes that any node can mount.
_LOCAL: Final = frozenset(
    {"configMap", "secret", "projected", "downwardAPI", "emptyDir", "hostPath", "image"}
)

# Any: parts of JSON documents, of which each reader checks what it takes.
Part = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class NodeCondition:
    """One condition of a node selector term, in the words of Kubernetes; `field` if it is about a field of the node."""

    key: str
    operator: str
    values: tuple[str, ...]
    field: bool = False


@dataclass(frozen=True, slots=True, order=True)
class Toleration:
    """A taint that a pod tolerates; an empty key is any key, an empty effect any effect."""

    key: str
    operator: str
    value: str
    effect: str


@dataclass(frozen=True, slots=True, weakref_slot=True)
class PodShape:
    """What decides on which nodes a pod fits; equal shapes are one object."""

    requests: Resources
    """By the rule of the kubelet, and one of the resource `pods`."""
    node_selector: FrozenMap[str] = NO_TEXTS
    node_terms: tuple[tuple[NodeCondition, ...], ...] | None = None
    """Terms of the required node affinity, one of which must hold; None if there is none."""
    tolerations: tuple[Toleration, ...] = ()
    host_ports: tuple[HostPort, ...] = ()
    keeps_apart: bool = False
    """Whether required anti-affinity over the host name keeps it off nodes with pods of its own kind."""
    priority: int = 0
    is_simple: bool = True
    """Whether the fields above are all that decides: no other affinity among pods, strict spread, volume or claim."""

    @property
    def is_one_per_host(self) -> bool:
        """Whether a node takes one pod of this kind at most."""
        return self.keeps_apart or bool(self.host_ports)


@dataclass(frozen=True, slots=True)
class ClusterPod:
    """One pod that is not finished."""

    key: ObjectKey
    uid: str
    shape: PodShape
    labels: FrozenMap[str] = NO_TEXTS
    node: str = ""
    phase: str = ""
    owner_kind: str = ""
    """Of its controller; empty for a bare pod."""
    owner_name: str = ""
    unscheduled: str = ""
    """Why the scheduler has not placed it: the reason of the condition PodScheduled; empty once it is placed or not looked at yet."""
    unscheduled_since_s: int = 0
    """Since when the condition says so, in whole seconds since 1970."""
    leaving: bool = False
    """Whether its deletion has begun."""

    @property
    def is_stuck(self) -> bool:
        """Whether the scheduler says that no node takes it."""
        return self.unscheduled == UNSCHEDULABLE and not self.node and not self.leaving

    @property
    def is_daemon(self) -> bool:
        """Whether a DaemonSet runs it on every node that suits it."""
        return self.owner_kind == DAEMON_SET


class _Labels(FrozenMap[str]):
    """Labels that many pods share."""

    __slots__ = ("__weakref__",)


class ClusterPods:
    """Makes views and shares equal shapes and labels, by weak references."""

    def __init__(self) -> None:
        self._shapes: WeakValueDictionary[tuple[object, ...], PodShape] = WeakValueDictionary()
        self._labels: WeakValueDictionary[tuple[tuple[str, str], ...], _Labels] = WeakValueDictionary()

    def of(self, pod: Part) -> ClusterPod | None:
        """Return the view of a pod; None for a finished one, which uses nothing."""
        metadata, spec, status = pod["metadata"], part(pod.get("spec")), part(pod.get("status"))
        phase = str(status.get("phase") or "")
        if phase in _FINISHED:
            return None
        owner = _controller(metadata)
        condition = _unscheduled(status)
        return ClusterPod(
            key=key_of(pod),
            uid=str(metadata.get("uid", "")),
            shape=self._shape(_parts_of_shape(pod, spec)),
            labels=self._shared_labels(_texts(metadata.get("labels"))),
            node=sys.intern(str(spec.get("nodeName") or "")),
            phase=sys.intern(phase),
            owner_kind=sys.intern(str(owner.get("kind") or "")),
            owner_name=sys.intern(str(owner.get("name") or "")),
            unscheduled=sys.intern(str(condition.get("reason") or "")),
            unscheduled_since_s=_seconds(condition.get("lastTransitionTime")),
            leaving=bool(metadata.get("deletionTimestamp")),
        )

    def _shape(self, parts: "_ShapeParts") -> PodShape:
        found = self._shapes.get(parts)
        if found is None:
            found = self._shapes[parts] = PodShape(*parts)
        return found

    def _shared_labels(self, entries: tuple[tuple[str, str], ...]) -> FrozenMap[str]:
        found = self._labels.get(entries)
        if found is None:
            found = self._labels[entries] = _Labels(entries)
        return found


class _ShapeParts(NamedTuple):
    """The fields of a shape, in its order."""

    requests: Resources
    node_selector: FrozenMap[str]
    node_terms: tuple[tuple[NodeCondition, ...], ...] | None
    tolerations: tuple[Toleration, ...]
    host_ports: tuple[HostPort, ...]
    keeps_apart: bool
    priority: int
    is_simple: bool


def _parts_of_shape(pod: Part, spec: Part) -> _ShapeParts:
    selector, terms, complete = _conditions(spec)
    requests, ports, apart = pod_resources(spec), host_ports(spec), keeps_apart(pod)
    if len(requests) > MAX_RESOURCES or len(ports) > _MOST:
        # Some of it is enough to know that it asks for a lot; where it fits is not judged by that.
        requests, complete = Resources([*requests.items()][:MAX_RESOURCES]), False
    priority = spec.get("priority")
    return _ShapeParts(
        requests=requests + _ONE_POD,
        node_selector=selector,
        node_terms=terms,
        tolerations=tuple(sorted({_toleration(item) for item in (spec.get("tolerations") or ())[:_MOST]})),
        host_ports=ports[:_MOST],
        keeps_apart=apart,
        priority=priority if isinstance(priority, int) else 0,
        is_simple=complete and not _depends_on_more(spec, apart=apart),
    )


def _conditions(spec: Part) -> tuple[FrozenMap[str], tuple[tuple[NodeCondition, ...], ...] | None, bool]:
    """Return the node selector and the terms of the node affinity, and whether they are complete."""
    selector = _texts(spec.get("nodeSelector"))
    required = part(part(part(spec.get("affinity")).get("nodeAffinity")).get(_REQUIRED))
    terms: tuple[tuple[NodeCondition, ...], ...] | None = None
    if required:
        terms = tuple(_term(item) for item in required.get("nodeSelectorTerms") or ())
    size = sum(len(key) + len(value) for key, value in selector)
    size += sum(len(one.key) + sum(map(len, one.values)) for conditions in terms or () for one in conditions)
    if size > MAX_TEXT:
        return NO_TEXTS, (), False  # no term holds, so it fits nowhere as far as we can tell
    return FrozenMap(selector), terms, True


def _term(term: Part) -> tuple[NodeCondition, ...]:
    return tuple(
        NodeCondition(
            str(item.get("key", "")),
            str(item.get("operator", "")),
            tuple(map(str, item.get("values") or ())),
            field,
        )
        for name, field in (("matchExpressions", False), ("matchFields", True))
        for item in term.get(name) or ()
    )


def _toleration(item: Part) -> Toleration:
    return Toleration(*(str(item.get(name) or default) for name, default in _TOLERATION_FIELDS))


def _depends_on_more(spec: Part, *, apart: bool) -> bool:
    """Return whether other pods, volumes or claims take part in where a pod may run."""
    affinity = part(spec.get("affinity"))
    together = part(affinity.get("podAffinity")).get(_REQUIRED) or ()
    away = part(affinity.get("podAntiAffinity")).get(_REQUIRED) or ()
    strict = any(
        item.get("whenUnsatisfiable") == _BINDING for item in spec.get("topologySpreadConstraints") or ()
    )
    mounted = any(_LOCAL.isdisjoint(volume) for volume in spec.get("volumes") or ())
    return bool(together) or len(away) > apart or strict or mounted or bool(spec.get("resourceClaims"))


def _controller(metadata: Part) -> Part:
    owners = metadata.get("ownerReferences") or ()
    return next((owner for owner in owners if owner.get("controller")), {})


def _unscheduled(status: Part) -> Part:
    """Return the condition PodScheduled while it is not true."""
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled":
            return {} if condition.get("status") == "True" else condition
    return {}


def _seconds(text: object) -> int:
    try:
        return ns_of_rfc3339(text, "lastTransitionTime") // NANOSECONDS
    except InvalidFieldError:
        return 0


def _texts(entries: object) -> tuple[tuple[str, str], ...]:
    """Return a map of texts in order; empty if it is larger than what is kept of one pod."""
    found = tuple(sorted((sys.intern(str(key)), str(value)) for key, value in part(entries).items()))
    return found if sum(len(key) + len(value) for key, value in found) <= MAX_TEXT else ()
