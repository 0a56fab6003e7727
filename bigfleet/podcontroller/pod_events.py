"""Tells people, by events on their pods, that capacity was asked for and that a node is on its way.

Why: "my pod is Pending, is anything happening?" is asked with `kubectl describe pod`, and should be answered there.
Must never: hold up the work on requests, speak of what was so before this process began, or promise anything.
Rules: operator 8 (events on pods), ADR-0105, ADR-0167.
"""

import json
from collections.abc import Sequence
from typing import Final

from bigfleet.aio.clock import Clock
from bigfleet.kube.change_queue import StoreChange
from bigfleet.kube.events import EventRecorder, ObjectReference
from bigfleet.kube.node_fit import may_serve
from bigfleet.kube.resources import PODS
from bigfleet.model.profile import INSTANCE_TYPE_KEY, ZONE_KEY
from bigfleet.podcontroller.caches import PodControllerCaches
from bigfleet.podcontroller.core.views import OwnedRequest, PodView, UpcomingNodeShape

TOLD_PODS: Final = 20
REQUESTED: Final = "CapacityRequested"
BRINGING_NODE: Final = "BringingNode"
BAD_DEMAND: Final = "DemandNotExact"
REFUSED: Final = "CapacityRequestRefused"
_REGISTERED: Final = "Registered"
_BATCH_S: Final = 1.0


class PodEvents:
    """Writes the events; `advice` says whether people want to hear of what goes well, too."""

    def __init__(
        self, recorder: EventRecorder, caches: PodControllerCaches, *, clock: Clock, advice: bool
    ) -> None:
        self._recorder, self._caches, self._clock, self._advice = recorder, caches, clock, advice

    def acknowledged(self, request: OwnedRequest) -> None:
        """Tell a pod without a node that its request was passed on."""
        pod = self._caches.pod(request.pod_id)
        if self._advice and pod is not None and not pod.scheduled:
            message = f"BigFleet knows what this pod needs (CapacityRequest {request.key.name})"
            self._recorder.record(_about(pod), "Normal", REQUESTED, message)

    def warn(self, pod: PodView) -> None:
        """Tell a pod what of its wishes could not be passed on."""
        for warning in pod.warnings:
            self._recorder.record(_about(pod), "Warning", BAD_DEMAND, warning)

    def refused(self, pod: PodView, why: str) -> None:
        """Tell a pod that its request was not taken, so that no capacity comes for it."""
        self._recorder.record(_about(pod), "Warning", REFUSED, why)

    async def follow_nodes(self) -> None:
        """Tell pods of upcoming nodes that may be for them, until cancelled; return at once when nobody wants to hear."""
        store = self._caches.upcoming
        if store is None:
            return
        await store.wait_synced()
        queue = store.subscribe()
        queue.take_all()  # what is there was told by whoever was here before
        try:
            while True:
                first = await queue.take()
                self._tell([first, *queue.take_all()])
                # One look at all waiting pods serves every node that turned up meanwhile.
                await self._clock.sleep(_BATCH_S)
        finally:
            store.unsubscribe(queue)

    def _tell(self, changes: Sequence[StoreChange[UpcomingNodeShape]]) -> None:
        """Tell the oldest waiting pods of each node that has just registered and that they could run on."""
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
            for pod in suited(node, waiting):
                self._recorder.record(_about(pod), "Normal", BRINGING_NODE, _coming(node))


def suited(node: UpcomingNodeShape, pods: Sequence[PodView]) -> list[PodView]:
    """Return the pods that a node may serve, in the order given; no more than are told."""
    shape = {"labels": dict(node.labels), "resources": dict(node.resources)}
    known: dict[str, bool] = {}
    found: list[PodView] = []
    for pod in pods:
        if pod.wanted not in known:
            known[pod.wanted] = may_serve(shape, json.loads(pod.wanted))
        if known[pod.wanted]:
            found.append(pod)
            if len(found) == TOLD_PODS:
                break
    return found


def _coming(node: UpcomingNodeShape) -> str:
    labels = dict(node.labels)
    shape = [labels[key] for key in (INSTANCE_TYPE_KEY, ZONE_KEY) if labels.get(key)]
    told = f" ({', '.join(shape)})" if shape else ""
    return f"BigFleet is bringing a node: {node.key.name}{told}; it may serve this pod"


def _about(pod: PodView) -> ObjectReference:
    return ObjectReference(PODS, pod.key, pod.uid)
