"""What the caches keep of pods, requests and UpcomingNodes.

Why: 100,000 whole pods are gigabytes. The demand of a pod is kept as one text, which the pods of one workload share.
Must never: raise, whatever an object holds; keep a document.
Rules: `operator#request-life`, `operator#one-request-per-pod`, `operator#reflector`.
"""

import enum
import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from bigfleet.kube.crds.capacity_request import CO_LOCATION_SCOPE, OWNED_BY_POD
from bigfleet.kube.one_per_host import belongs_to_its_node
from bigfleet.kube.resources import ObjectKey, key_of, version_of
from bigfleet.podcontroller.core.penalties import PenaltyDefaults
from bigfleet.podcontroller.core.requirements import Inexact
from bigfleet.podcontroller.core.translate import translate

Document = dict[str, Any]
_FINISHED: Final = ("Succeeded", "Failed")


class PodState(enum.Enum):
    """The state of a pod as far as its demand depends on it."""

    LIVE = "asks for capacity"
    GATED = "asks for nothing yet"
    TERMINATING = "holds its node, asks for nothing new"
    FINISHED = "uses nothing any more"


@dataclass(frozen=True, slots=True)
class PodView:
    """One pod: its names, its state, and its demand."""

    key: ObjectKey
    uid: str
    state: PodState
    scheduled: bool
    created: str  # as the API server writes it, which sorts by time
    wanted: str  # the spec of its request as one text, see `text_of`
    scope: str
    inexact: tuple[Inexact, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        """Namespace and UID, which a pod shares with its requests."""
        return f"{self.key.namespace}/{self.uid}"


@dataclass(frozen=True, slots=True)
class OwnedRequest:
    """A CapacityRequest that the pod controller made."""

    key: ObjectKey
    uid: str
    pod_uid: str
    version: int
    spec: str
    scope: str
    phase: str

    @property
    def pod_id(self) -> str:
        """The id of its pod, which is always in the same namespace."""
        return f"{self.key.namespace}/{self.pod_uid}"


@dataclass(frozen=True, slots=True)
class UpcomingNodeShape:
    """The phase, labels and resources of an UpcomingNode."""

    key: ObjectKey
    phase: str
    labels: tuple[tuple[str, str], ...]
    resources: tuple[tuple[str, str], ...] = ()


def text_of(spec: Mapping[str, Any]) -> str:
    """Return a spec as one interned text."""
    return sys.intern(json.dumps(spec, sort_keys=True, separators=(",", ":")))


def pod_view(defaults: PenaltyDefaults, *, exclude_daemonsets: bool) -> Callable[[Document], PodView | None]:
    """Return the projection of pods, which returns None for a pod to leave out."""

    def project(pod: Document) -> PodView | None:
        if exclude_daemonsets and belongs_to_its_node(pod):
            return None
        metadata = pod["metadata"]
        asked = translate(pod, defaults)
        return PodView(
            key=key_of(pod),
            uid=metadata.get("uid", ""),
            state=_state(pod),
            scheduled=bool((pod.get("spec") or {}).get("nodeName")),
            created=metadata.get("creationTimestamp") or "",
            wanted=text_of(asked.spec),
            scope=asked.scope,
            inexact=asked.inexact,
            warnings=asked.warnings,
        )

    return project


def owned_request(request: Document) -> OwnedRequest | None:
    """Return the view of a request; None if the pod controller did not make it."""
    metadata = request["metadata"]
    pod_uid = (metadata.get("labels") or {}).get(OWNED_BY_POD)
    if not pod_uid:
        return None
    return OwnedRequest(
        key=key_of(request),
        uid=metadata.get("uid", ""),
        pod_uid=pod_uid,
        version=version_of(request),
        spec=text_of(request.get("spec") or {}),
        scope=(metadata.get("annotations") or {}).get(CO_LOCATION_SCOPE, ""),
        phase=(request.get("status") or {}).get("phase", ""),
    )


def upcoming_node_shape(upcoming: Document) -> UpcomingNodeShape:
    """Return the view of an UpcomingNode."""
    spec = upcoming.get("spec") or {}
    labels: Mapping[str, str] = spec.get("labels") or {}
    resources = {name: str(amount) for name, amount in (spec.get("resources") or {}).items()}
    phase = (upcoming.get("status") or {}).get("phase", "")
    return UpcomingNodeShape(
        key_of(upcoming), phase, tuple(sorted(labels.items())), tuple(sorted(resources.items()))
    )


def _state(pod: Document) -> PodState:
    # Finished before terminating: a finished pod that waits for its deletion uses nothing.
    if (pod.get("status") or {}).get("phase") in _FINISHED:
        return PodState.FINISHED
    if pod["metadata"].get("deletionTimestamp"):
        return PodState.TERMINATING
    return PodState.GATED if (pod.get("spec") or {}).get("schedulingGates") else PodState.LIVE
