"""What the UpcomingNode of a machine must look like after a node state, or whether it is deleted.

Why: the shard sends a node state once and never reads the object, so each one must lead to the right object from any stored
state: none, an older phase, or the result of a drain.
Must never: infer from the stored phase what the node state says itself, or clear a field because the node state leaves it empty.
Rules: `operator#phases`, `operator#leaving`, `operator#upcoming-writes`, `operator#phase-writers`; ADR-0016, ADR-0057.
"""

from dataclasses import dataclass
from typing import Any, Final

from bigfleet.model.errors import InvalidFieldError
from bigfleet.model.frames import NodeStateUpdate
from bigfleet.model.machine import MachineState as S
from bigfleet.model.quantity import parse_quantity
from bigfleet.operator.core.views import Part, UpcomingNodeView

PHASES: Final = {
    S.CREATING: "Provisioning",
    S.CONFIGURING: "Registered",
    S.CONFIGURED: "Ready",
    S.DRAINING: "Draining",
    S.FAILED: "Failed",
}
_NOT_YET_BOUND: Final = ("Provisioning", "Launched")


@dataclass(frozen=True, slots=True)
class Keep:
    """Make the object look like this; create it if it is missing."""

    spec: dict[str, Any]
    status: dict[str, Any]

    @property
    def phase(self) -> str:
        """The phase of the object."""
        return str(self.status["phase"])


@dataclass(frozen=True, slots=True)
class Remove:
    """Delete the object: the machine no longer belongs to the cluster."""

    uid: str


@dataclass(frozen=True, slots=True)
class Leave:
    """Do nothing: there is no object and none is needed."""


Wanted = Keep | Remove | Leave


def wanted_after(
    update: NodeStateUpdate,
    stored: UpcomingNodeView | None,
    *,
    node_ref: dict[str, Any] | None,
    under_reclaim: bool,
    now: str,
) -> Wanted:
    """Return what a node state makes of a machine's object.

    `node_ref` is the Node if it is known; `under_reclaim` says that the Node has a reclaim of ours, whose result Draining must
    not overwrite.
    """
    phase = PHASES.get(update.state)
    if phase is None:
        if stored is None:
            return Leave()
        if update.state is not S.IDLE or stored.phase not in _NOT_YET_BOUND:
            return Remove(stored.uid)
        phase = "Launched"
    if phase == "Draining" and stored is not None and under_reclaim and stored.phase in ("Drained", "Failed"):
        phase = stored.phase
    known: Part = stored.status if stored is not None else {}
    status = {
        "phase": phase,
        "nodeRef": node_ref or known.get("nodeRef"),
        "providerID": update.provider_id or known.get("providerID"),
        "provisioningStartTime": known.get("provisioningStartTime") or now,
        "lastError": (update.last_error or known.get("lastError")) if phase == "Failed" else None,
    }
    return Keep(_shape(update), {name: value for name, value in status.items() if value})


def phase_status(stored: UpcomingNodeView, phase: str, *, last_error: str, now: str) -> dict[str, Any]:
    """Return the status with another phase, for reclaims and drains."""
    kept = {name: value for name, value in stored.status.items() if name not in ("phase", "lastError")}
    error = {"lastError": last_error} if last_error else {}
    return {"provisioningStartTime": now, **kept, "phase": phase, **error}


def _shape(update: NodeStateUpdate) -> dict[str, Any]:
    shape: dict[str, Any] = {
        "resources": {name: text for name, text in update.resources.items() if _is_quantity(text)}
    }
    if update.labels:
        shape["labels"] = dict(update.labels)
    if update.taints:
        shape["taints"] = [
            {"key": taint.key, "effect": taint.effect, **({"value": taint.value} if taint.value else {})}
            for taint in update.taints
        ]
    return shape


def _is_quantity(text: str) -> bool:
    try:
        parse_quantity(text)
    except InvalidFieldError:
        return False
    return True
