"""An action that is queued or carried out, and its outcome.

Why: an action refers to its need by a place in one cycle's list; a worker that starts later needs the need itself.
Rules: `shard#executing`, `shard#outcomes`; the texts of outcomes are metric labels and audit values.
"""

from dataclasses import dataclass
from enum import StrEnum

from bigfleet.model.action import Action, ActionKind
from bigfleet.model.machine import MachineState
from bigfleet.model.need import Need

STARTS_IN = {
    ActionKind.BOOTSTRAP: MachineState.IDLE,
    ActionKind.PROVISION: MachineState.SPECULATIVE,
    ActionKind.RECLAIM: MachineState.CONFIGURED,
    ActionKind.PREEMPT: MachineState.CONFIGURED,
    ActionKind.DELETE: MachineState.IDLE,
}
"""The state that a machine must have for an action to apply; in any other state the action is stale."""

ACQUIRES = frozenset({ActionKind.BOOTSTRAP, ActionKind.PROVISION})
"""Kinds that obtain a machine for a need; only these wait for a blob and are subject to back-off."""


class ActionOutcome(StrEnum):
    """How an execution ended."""

    SUCCESS = "success"
    CTX_CANCELED = "ctx_canceled"
    FENCED = "fenced"
    NO_SESSION = "no_session"
    RACED_TO_IDLE = "transition_raced_to_idle"
    TRANSITION_ERROR = "transition_error"
    BLOB_ERROR = "blob_error"
    PROVIDER_ERROR = "provider_error"
    STALE_STATE = "stale_state"
    INVENTORY_MISS = "inventory_miss"
    MISSING_PROFILE = "missing_profile"
    OTHER = "other"
    HELD_OFF = "held_off"
    """The provider became unreachable before the call; neither executed nor audited (`shard#hold-off`)."""


@dataclass(frozen=True, slots=True)
class ActionResult:
    """How an execution ended, and the error if there was one."""

    outcome: ActionOutcome
    error: str = ""


@dataclass(frozen=True, slots=True)
class PendingAction:
    """One action with the need that its execution uses."""

    action: Action
    need: Need | None = None
    """The need to be served or, for a Preempt, the need that the machine is taken for."""
    cycle: int = 0
    """The number of the cycle that decided it."""

    @property
    def kind(self) -> ActionKind:
        return self.action.kind

    @property
    def machine_id(self) -> str:
        return self.action.machine_id

    @property
    def cluster(self) -> str:
        return self.action.cluster or ""
