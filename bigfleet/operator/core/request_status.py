"""The status of a CapacityRequest, and when it has to be written.

Why: the owner of a request sees on the object whether it is part of the demand, at the cost of one write.
Must never: set an Acknowledged request back to Pending, or write what is stored already.
Rules: `operator#capacity-request`, `operator#schema-limits`, `operator#reported-condition`,
`operator#left-out-requests`, `operator#acknowledgement`; the condition travels in the same patch as the phase.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bigfleet.kube.crds.capacity_request import ACKNOWLEDGED, IN_ROLL_UP, OWNED_BY_POD, PENDING, REPORTED
from bigfleet.operator.core.contribution import Contribution
from bigfleet.operator.core.refusal import RequestRefusal


@dataclass(frozen=True, slots=True, eq=False)
class RequestView:
    """What the operator keeps of a request."""

    uid: str
    generation: int
    acknowledged: bool
    marked_reason: str  # of the condition Reported if that is False, else empty
    marked_generation: int
    found: Contribution | RequestRefusal
    pod_uid: str = ""
    """The pod it is for; empty for a request that does not say."""

    @property
    def wants_acknowledgement(self) -> bool:
        """Whether it has to be acknowledged once a roll-up with it was sent."""
        return isinstance(self.found, Contribution) and (not self.acknowledged or bool(self.marked_reason))

    @property
    def wants_refusal(self) -> bool:
        """Whether the condition does not say yet that it is left out, and why."""
        if not isinstance(self.found, RequestRefusal):
            return False
        marked = (self.marked_reason, self.marked_generation)
        return marked != (self.found.condition_reason, self.generation)


def view_of(metadata: Mapping[str, Any], status: object, found: Contribution | RequestRefusal) -> RequestView:
    """Return the view of a request."""
    known: Mapping[str, Any] = status if isinstance(status, Mapping) else {}
    reason, generation = "", 0
    for entry in known.get("conditions") or ():
        if isinstance(entry, Mapping) and entry.get("type") == REPORTED and entry.get("status") == "False":
            reason, generation = str(entry.get("reason", "")), int(entry.get("observedGeneration") or 0)
    return RequestView(
        uid=str(metadata.get("uid", "")),
        generation=int(metadata.get("generation") or 0),
        acknowledged=known.get("phase") == ACKNOWLEDGED,
        marked_reason=reason,
        marked_generation=generation,
        found=found,
        pod_uid=_pod_uid(metadata),
    )


def _pod_uid(metadata: Mapping[str, Any]) -> str:
    labels, owners = metadata.get("labels") or {}, metadata.get("ownerReferences") or ()
    owner = next((str(owner.get("uid", "")) for owner in owners if owner.get("kind") == "Pod"), "")
    return str(labels.get(OWNED_BY_POD) or owner)


def acknowledged_status(view: RequestView, now: str) -> dict[str, Any]:
    """Return the status of a request that was part of a roll-up."""
    condition = _condition("True", IN_ROLL_UP, "part of the demand sent to the shard", view.generation, now)
    stamp = {} if view.acknowledged else {"acknowledgedAt": now}
    return {"phase": ACKNOWLEDGED, **stamp, "conditions": [condition]}


def refused_status(view: RequestView, refusal: RequestRefusal, now: str) -> dict[str, Any]:
    """Return the status of a request that is left out; its phase stays."""
    condition = _condition("False", refusal.condition_reason, refusal.message, view.generation, now)
    return {"phase": ACKNOWLEDGED if view.acknowledged else PENDING, "conditions": [condition]}


def _condition(status: str, reason: str, message: str, generation: int, now: str) -> dict[str, Any]:
    return {
        "type": REPORTED,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": now,
        "observedGeneration": generation,
    }
