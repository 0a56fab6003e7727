"""The tasks that can wait in the queue of a machine."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bigfleet.model.frames import NodeStateUpdate, ReclaimTarget

if TYPE_CHECKING:
    from bigfleet.operator.drains.drains import Drain
    from bigfleet.operator.drains.reclaims import ReclaimJob


@dataclass(frozen=True, slots=True)
class NodeStateTask:
    """Write a node state to the UpcomingNode; only the newest one counts."""

    update: NodeStateUpdate
    arrived_s: float


@dataclass(frozen=True, slots=True)
class ReclaimTask:
    """Cordon the machine's node and start its drain; never coalesced."""

    job: "ReclaimJob"
    target: ReclaimTarget


@dataclass(frozen=True, slots=True)
class DrainEndedTask:
    """Record how the drain of the machine's node ended; `error` is empty when it succeeded."""

    drain: "Drain"
    error: str


@dataclass(frozen=True, slots=True)
class NodeSeenTask:
    """Record the machine's Node, which appeared or changed; only the newest one counts."""


@dataclass(frozen=True, slots=True)
class DeleteOrphanTask:
    """Delete the UpcomingNode of a machine that has left: the object of this uid or, without one, the current object."""

    uid: str = ""


MachineTask = NodeStateTask | ReclaimTask | DrainEndedTask | NodeSeenTask | DeleteOrphanTask
NEWEST_ONLY = (NodeStateTask, NodeSeenTask)
