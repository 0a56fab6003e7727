"""The events of a reclaim, on the Node and on the UpcomingNode.

Rules: `operator#operator-metrics`; the reasons are in `bigfleet.kube.event_reasons`.
"""

from typing import Literal

from bigfleet.kube.event_reasons import DRAIN_FAILED, DRAINED, RECLAIM_STARTED, RECLAIM_UNRESOLVED
from bigfleet.kube.events import EventRecorder, ObjectReference
from bigfleet.kube.resources import NODES, UPCOMING_NODES, ObjectKey
from bigfleet.operator.core.names import upcoming_name
from bigfleet.operator.core.node_identity import next_step
from bigfleet.operator.core.views import NodeView, UpcomingNodeView


class ReclaimEvents:
    """Records the events; never waits."""

    def __init__(self, recorder: EventRecorder) -> None:
        self._recorder = recorder

    def reclaim_started(
        self,
        node: NodeView,
        upcoming: UpcomingNodeView | None,
        instruction_id: str,
        grace_s: int,
        priority: int,
    ) -> None:
        """Record that the node is cordoned and is being drained; `priority` is 0 unless a workload preempts it."""
        why = f" for a workload of priority {priority}" if priority else ""
        message = (
            f"BigFleet takes this machine back{why}: cordoned, its pods are evicted within {grace_s} s"
            f" (reclaim {instruction_id})"
        )
        self._record(node, upcoming, "Normal", RECLAIM_STARTED, message)

    def reclaim_unresolved(
        self, machine_id: str, upcoming: UpcomingNodeView | None, *, ambiguous: bool
    ) -> None:
        """Record that no Node, or more than one, matches the machine that is to be drained."""
        why = "more than one Node fits" if ambiguous else "no Node fits"
        step = next_step(machine_id, ambiguous=ambiguous)
        message = f"machine {machine_id} is being reclaimed, but {why}; no pod was evicted. Next step: {step}"
        key = ObjectKey("", upcoming_name(machine_id))
        about = ObjectReference(UPCOMING_NODES, key, upcoming.uid if upcoming is not None else "")
        self._recorder.record(about, "Warning", RECLAIM_UNRESOLVED, message)

    def drain_ended(self, node: NodeView | None, upcoming: UpcomingNodeView | None, error: str) -> None:
        """Record that the drain succeeded, or why it failed."""
        if error:
            self._record(node, upcoming, "Warning", DRAIN_FAILED, error)
        else:
            self._record(node, upcoming, "Normal", DRAINED, "all pods that had to leave have left")

    def _record(
        self,
        node: NodeView | None,
        upcoming: UpcomingNodeView | None,
        kind: Literal["Normal", "Warning"],
        reason: str,
        message: str,
    ) -> None:
        if node is not None:
            about = ObjectReference(NODES, ObjectKey("", node.name), node.uid)
            self._recorder.record(about, kind, reason, message)
        if upcoming is not None:
            about = ObjectReference(UPCOMING_NODES, ObjectKey("", upcoming.name), upcoming.uid)
            self._recorder.record(about, kind, reason, message)
