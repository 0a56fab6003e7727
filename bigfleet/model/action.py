"""Actions: what the engine wants done to one machine.

Why: the only thing that leaves a decision and is carried out; everything else about it is explanation.
Rules: `engine#actions`, `engine#action-order`.
"""

from enum import StrEnum
from typing import NamedTuple


class ActionKind(StrEnum):
    """The five things that can be done; the texts are those of metrics, audit and documents."""

    BOOTSTRAP = "Bootstrap"
    PROVISION = "Provision"
    PREEMPT = "Preempt"
    RECLAIM = "Reclaim"
    DELETE = "Delete"


REASONS = {
    ActionKind.BOOTSTRAP: "phase1.idle",
    ActionKind.PROVISION: "phase1.speculative",
    ActionKind.PREEMPT: "phase2.inversion",
    ActionKind.RECLAIM: "phase3.excess",
    ActionKind.DELETE: "phase3.release",
}


class Action(NamedTuple):  # a tuple, as a decision may have tens of thousands of them
    """One thing to do to one machine; what does not apply to its kind is None."""

    kind: ActionKind
    machine_id: str
    cluster: str | None = None  # the destination, or the one it leaves
    fingerprint: str | None = None
    group: str | None = None
    need: int | None = None  # place in the decision's list of needs
    grace_s: int | None = None
    preemptor_priority: int | None = None

    @property
    def reason(self) -> str:
        """Which rule of which phase wants it."""
        return REASONS[self.kind]
