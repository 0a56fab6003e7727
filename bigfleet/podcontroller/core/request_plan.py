"""The steps that give one pod exactly the request it should have.

Why: the plan follows from the current state alone, so a restart at any moment needs no memory.
Must never: plan two requests for one pod, or a change that changes nothing.
Rules: `operator#request-life`; ADR-0039.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from bigfleet.kube.crds.capacity_request import ACKNOWLEDGED, CO_LOCATION_SCOPE, OWNED_BY_POD
from bigfleet.kube.merge_patch import difference, quantities_by_value
from bigfleet.kube.resources import PODS, ObjectKey
from bigfleet.podcontroller.core.views import OwnedRequest, PodState, PodView

Document = dict[str, Any]

_NAME_OF_POD: Final = 200
_PART_OF_UID: Final = 13
_BY_VALUE: Final = quantities_by_value(
    ("spec", "resources"), ("spec", "interruptionPenalty"), ("spec", "reclamationPenalty")
)


@dataclass(frozen=True, slots=True)
class RequestPlan:
    """Requests to delete, then one to create, or one to keep with its changes."""

    outcome: str  # the label of the metric if all steps succeed
    drop: tuple[OwnedRequest, ...] = ()
    create: bool = False
    keep: OwnedRequest | None = None
    patch: Document | None = None
    stamp: bool = False

    @property
    def is_nothing(self) -> bool:
        """Whether there is nothing to do."""
        return not (self.drop or self.create or self.patch or self.stamp)


def request_plan(pod: PodView | None, requests: Sequence[OwnedRequest]) -> RequestPlan:
    """Return the plan for one pod, given all requests with its UID.

    Without a pod there is nothing to do: the garbage collector deletes the requests, or the caller after the orphan grace.
    """
    if pod is None:
        return RequestPlan("pod_gone")
    if pod.state is PodState.FINISHED:
        return RequestPlan("pod_terminal", drop=tuple(requests))
    if pod.state is PodState.GATED:
        return RequestPlan("pod_gated", drop=tuple(requests))
    if not requests:
        return (
            RequestPlan("pod_gone")
            if pod.state is PodState.TERMINATING
            else RequestPlan("cr_created", create=True)
        )
    kept = min(requests, key=lambda request: _rank(pod, request))
    others = tuple(request for request in requests if request is not kept)
    patch = _patch(pod, kept)
    outcome = "cr_updated" if patch else "cr_exists"
    return RequestPlan(outcome, drop=others, keep=kept, patch=patch or None, stamp=not kept.phase)


def request_names(pod: PodView) -> tuple[str, str]:
    """Return the name of a pod's request, and the name to use if another author has taken the first."""
    short = pod.key.name[:_NAME_OF_POD].rstrip("-.")
    return f"cr-pod-{short}-{pod.uid[:_PART_OF_UID]}", f"cr-pod-{short}-{pod.uid}"


def request_document(pod: PodView, name: str) -> Document:
    """Return the new request of a pod."""
    owner = {
        "apiVersion": PODS.api_version,
        "kind": PODS.kind,
        "name": pod.key.name,
        "uid": pod.uid,
        "controller": True,
    }
    metadata: Document = {
        "name": name,
        "namespace": pod.key.namespace,
        "labels": {OWNED_BY_POD: pod.uid},
        "ownerReferences": [owner],
    }
    if pod.scope:
        metadata["annotations"] = {CO_LOCATION_SCOPE: pod.scope}
    return {"metadata": metadata, "spec": json.loads(pod.wanted)}


def _rank(pod: PodView, request: OwnedRequest) -> tuple[bool, bool, ObjectKey]:
    """Order several requests of one pod: an acknowledged one first, then one with our name."""
    return (request.phase != ACKNOWLEDGED, request.key.name not in request_names(pod), request.key)


def _patch(pod: PodView, request: OwnedRequest) -> Document:
    if request.spec == pod.wanted and request.scope == pod.scope:
        return {}
    stored, wanted = _document(request.spec, request.scope), _document(pod.wanted, pod.scope)
    return difference(stored, wanted, _BY_VALUE)


def _document(spec: str, scope: str) -> Document:
    document: Document = {"spec": json.loads(spec)}
    # Without a scope the annotations are empty, so that an old scope is removed.
    return {**document, "metadata": {"annotations": {CO_LOCATION_SCOPE: scope} if scope else {}}}
