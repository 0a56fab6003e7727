"""What an UpcomingNode must look like after a frame, or whether it goes.

Why: the shard never sends a frame twice and never reads the object back, so each frame must lead to the right object whatever
stands there now: nothing, an older phase, or what a drain wrote meanwhile.
Must never: infer from the stored phase what the frame says itself, or clear what an empty field does not contradict.
Rules: operator 6.1 to 6.4, ADR-0016, ADR-0057.
"""

from dataclasses import dataclass
from typing import Any, Final

from bigfleet.model.errors import InvalidFieldError
from bigfleet.model.frames import MachineNews
from bigfleet.model.machine import MachineState as S
from bigfleet.model.quantity import parse_quantity
from bigfleet.operator.core.views import Part, UpcomingView

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
    """The object shall look like this; it is created where it is missing."""

    spec: dict[str, Any]
    status: dict[str, Any]

    @property
    def phase(self) -> str:
        """The phase it ends in."""
        return str(self.status["phase"])


@dataclass(frozen=True, slots=True)
class Remove:
    """The machine is no longer the cluster's: the object goes."""

    uid: str


@dataclass(frozen=True, slots=True)
class Leave:
    """Nothing is there, and nothing is to be done."""


Wanted = Keep | Remove | Leave


def wanted_after(
    news: MachineNews,
    stored: UpcomingView | None,
    *,
    node_ref: dict[str, Any] | None,
    drain_has_spoken: bool,
    now: str,
) -> Wanted:
    """Return what a frame makes of a machine's object.

    `node_ref` is the Node as far as it is known now; `drain_has_spoken` says that the Node bears a reclaim of ours, whose
    result a Draining frame must not overwrite.
    """
    phase = PHASES.get(news.state)
    if phase is None:
        if stored is None:
            return Leave()
        if news.state is not S.IDLE or stored.phase not in _NOT_YET_BOUND:
            return Remove(stored.uid)
        phase = "Launched"
    if (
        phase == "Draining"
        and stored is not None
        and drain_has_spoken
        and stored.phase in ("Drained", "Failed")
    ):
        phase = stored.phase
    known: Part = stored.status if stored is not None else {}
    status = {
        "phase": phase,
        "nodeRef": node_ref or known.get("nodeRef"),
        "providerID": news.provider_id or known.get("providerID"),
        "provisioningStartTime": known.get("provisioningStartTime") or now,
        "lastError": (news.last_error or known.get("lastError")) if phase == "Failed" else None,
    }
    return Keep(_shape(news), {name: value for name, value in status.items() if value})


def phase_status(stored: UpcomingView, phase: str, *, last_error: str, now: str) -> dict[str, Any]:
    """Return the status with another phase, as reclaims and drains write it."""
    kept = {name: value for name, value in stored.status.items() if name not in ("phase", "lastError")}
    error = {"lastError": last_error} if last_error else {}
    return {"provisioningStartTime": now, **kept, "phase": phase, **error}


def _shape(news: MachineNews) -> dict[str, Any]:
    shape: dict[str, Any] = {
        "resources": {name: text for name, text in news.resources.items() if _is_quantity(text)}
    }
    if news.labels:
        shape["labels"] = dict(news.labels)
    if news.taints:
        shape["taints"] = [
            {"key": taint.key, "effect": taint.effect, **({"value": taint.value} if taint.value else {})}
            for taint in news.taints
        ]
    return shape


def _is_quantity(text: str) -> bool:
    try:
        parse_quantity(text)
    except InvalidFieldError:
        return False
    return True
