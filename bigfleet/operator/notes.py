"""Events that the operator writes about nodes and their objects.

Why: all reasons in one place; people search for them.
Must never: wait, or tell the same thing as a new event again and again; the recorder counts.
Rules: operator 8 (events).
"""

from typing import Final, Literal

from bigfleet.kube.events import About, EventRecorder
from bigfleet.kube.resources import NODES, UPCOMING_NODES, ObjectKey
from bigfleet.operator.core.names import upcoming_name
from bigfleet.operator.core.views import NodeView, UpcomingView

RECLAIM_STARTED: Final = "ReclaimStarted"
RECLAIM_UNRESOLVED: Final = "ReclaimUnresolved"
DRAINED: Final = "Drained"
DRAIN_FAILED: Final = "DrainFailed"


class Notes:
    """What is told about a reclaim, on the Node and on the UpcomingNode."""

    def __init__(self, events: EventRecorder) -> None:
        self._events = events

    def reclaim_started(
        self, node: NodeView, upcoming: UpcomingView | None, instruction_id: str, grace_s: int, priority: int
    ) -> None:
        """The node is cordoned and is being emptied, for nobody in particular or for a workload of some priority."""
        why = f" for a workload of priority {priority}" if priority else ""
        message = (
            f"BigFleet takes this machine back{why}: cordoned, its pods are evicted within {grace_s} s"
            f" (reclaim {instruction_id})"
        )
        self._tell(node, upcoming, "Normal", RECLAIM_STARTED, message)

    def reclaim_unresolved(self, machine_id: str, upcoming: UpcomingView | None, *, ambiguous: bool) -> None:
        """No Node, or more than one, fits the machine that is to be emptied."""
        why = "more than one Node fits" if ambiguous else "no Node fits"
        message = f"machine {machine_id} is being reclaimed, but {why}; nobody was evicted"
        key = ObjectKey("", upcoming_name(machine_id))
        about = About(UPCOMING_NODES, key, upcoming.uid if upcoming is not None else "")
        self._events.record(about, "Warning", RECLAIM_UNRESOLVED, message)

    def drain_ended(self, node: NodeView | None, upcoming: UpcomingView | None, error: str) -> None:
        """The node is empty, or its time was up."""
        if error:
            self._tell(node, upcoming, "Warning", DRAIN_FAILED, error)
        else:
            self._tell(node, upcoming, "Normal", DRAINED, "all pods that had to leave have left")

    def _tell(
        self,
        node: NodeView | None,
        upcoming: UpcomingView | None,
        kind: Literal["Normal", "Warning"],
        reason: str,
        message: str,
    ) -> None:
        if node is not None:
            self._events.record(About(NODES, ObjectKey("", node.name), node.uid), kind, reason, message)
        if upcoming is not None:
            about = About(UPCOMING_NODES, ObjectKey("", upcoming.name), upcoming.uid)
            self._events.record(about, kind, reason, message)
