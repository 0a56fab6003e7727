"""Events on pods: capacity was requested, a node is on its way, or the demand could not be expressed.

Why: `kubectl describe pod` should answer why a pod is Pending.
Must never: delay the work on requests, report what happened before this process began, or promise anything.
Rules: `operator#operator-metrics`; ADR-0105, ADR-0167.
"""

import json
from collections.abc import Sequence
from typing import Final

from bigfleet.aio.clock import Clock
from bigfleet.kube.change_queue import StoreChange
from bigfleet.kube.event_reasons import (
    BRINGING_NODE,
    CAPACITY_REQUEST_REFUSED,
    CAPACITY_REQUESTED,
    DEMAND_NOT_EXACT,
)
from bigfleet.kube.events import EventRecorder, ObjectReference
from bigfleet.kube.node_fit import may_serve
from bigfleet.kube.resources import PODS
from bigfleet.model.profile import INSTANCE_TYPE_KEY, ZONE_KEY
from bigfleet.podcontroller.caches import PodControllerCaches
from bigfleet.podcontroller.core.views import OwnedRequest, PodView, UpcomingNodeShape

PODS_PER_NODE: Final = 20
_REGISTERED: Final = "Registered"
_BATCH_S: Final = 1.0


class PodEvents:
    """Records the events; without `advice` only the warnings."""

    def __init__(
        self, recorder: EventRecorder, caches: PodControllerCaches, *, clock: Clock, advice: bool
    ) -> None:
        self._recorder, self._caches, self._clock, self._advice = recorder, caches, clock, advice

    def acknowledged(self, request: OwnedRequest) -> None:
        """Record that the request of a pod without a node was acknowledged."""
        pod = self._caches.pod(request.pod_id)
        if self._advice and pod is not None and not pod.scheduled:
            message = f"BigFleet knows what this pod needs (CapacityRequest {request.key.name})"
            self._recorder.record(_about(pod), "Normal", CAPACITY_REQUESTED, message)

    def warn(self, pod: PodView) -> None:
        """Record what of a pod's demand a request cannot express."""
        for warning in pod.warnings:
            self._recorder.record(_about(pod), "Warning", DEMAND_NOT_EXACT, warning)

    def refused(self, pod: PodView, why: str) -> None:
        """Record that the API server refused the request of a pod, so that no capacity comes for it."""
        self._recorder.record(_about(pod), "Warning", CAPACITY_REQUEST_REFUSED, why)

    async def follow_nodes(self) -> None:
        """Record UpcomingNodes on the pods that they may serve, until cancelled; return at once if these events are off."""
        store = self._caches.upcoming
        if store is None:
            return
        await store.wait_synced()
        queue = store.subscribe()
        queue.take_all()  # what exists already was reported by an earlier process
        try:
            while True:
                first = await queue.take()
                self._announce([first, *queue.take_all()])
                # One pass over all waiting pods serves every node that appeared meanwhile.
                await self._clock.sleep(_BATCH_S)
        finally:
            store.unsubscribe(queue)

    def _announce(self, changes: Sequence[StoreChange[UpcomingNodeShape]]) -> None:
        """Record each node that has just registered on the oldest waiting pods that it may serve."""
        fresh = [
            change.after
            for change in changes
            if change.after is not None
            and change.after.phase == _REGISTERED
            and (change.before is None or change.before.phase != _REGISTERED)
        ]
        if not fresh:
            return
        waiting = self._caches.waiting_pods()
        for node in fresh:
            for pod in pods_served(node, waiting):
                self._recorder.record(_about(pod), "Normal", BRINGING_NODE, _coming(node))


def pods_served(node: UpcomingNodeShape, pods: Sequence[PodView]) -> list[PodView]:
    """Return the first pods that a node may serve, in the order given."""
    shape = {"labels": dict(node.labels), "resources": dict(node.resources)}
    known: dict[str, bool] = {}
    found: list[PodView] = []
    for pod in pods:
        if pod.wanted not in known:
            known[pod.wanted] = may_serve(shape, json.loads(pod.wanted))
        if known[pod.wanted]:
            found.append(pod)
            if len(found) == PODS_PER_NODE:
                break
    return found


def _coming(node: UpcomingNodeShape) -> str:
    labels = dict(node.labels)
    shape = [labels[key] for key in (INSTANCE_TYPE_KEY, ZONE_KEY) if labels.get(key)]
    described = f" ({', '.join(shape)})" if shape else ""
    return f"BigFleet is bringing a node: {node.key.name}{described}; it may serve this pod"


def _about(pod: PodView) -> ObjectReference:
    return ObjectReference(PODS, pod.key, pod.uid)
