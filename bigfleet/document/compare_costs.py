"""What a fleet costs once a decision is carried out, and what is short by class of priority.

Why: two decisions are compared in dollars and in needs left open; both must be counted in one way only.
Rules: `dashboard#what-if`, `dashboard#exposure`. Of several actions on one machine the first counts, as an executor would have it.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from bigfleet.model.action import Action, ActionKind
from bigfleet.model.buckets import upper_bound
from bigfleet.model.decision import Decision
from bigfleet.model.machine import Machine, MachineState
from bigfleet.model.situation import Situation

S = MachineState

SERVING_STATES = frozenset({S.CREATING, S.CONFIGURING, S.CONFIGURED})
"""Paid for and in use: serving a cluster, on the way to one, or on order for one."""
WAITING_STATES = frozenset({S.IDLE, S.DRAINING})
"""Paid for and unused, or about to be. Speculative, Deleting and Failed machines are not counted as paid."""

IN_USE_STATES = frozenset({S.CONFIGURING, S.CONFIGURED, S.DRAINING})
"""Where an interruption meets work, as the shard's figures count it (`dashboard#exposure`)."""

_AFTER = {
    ActionKind.BOOTSTRAP: S.CONFIGURED,
    ActionKind.PROVISION: S.CONFIGURED,
    ActionKind.PREEMPT: S.IDLE,
    ActionKind.RECLAIM: S.IDLE,
    ActionKind.DELETE: S.SPECULATIVE,
}

PRIORITY_CLASSES: tuple[tuple[str, int], ...] = (("critical", 1_000_000), ("service", 1_000), ("batch", 100))
OTHER_CLASS = "other"
"""Below them all; the bounds are those of the shard's metric of shortfalls by priority."""

_DIGITS = 6  # of a dollar: enough for any price, few enough to leave out what floats add


@dataclass(frozen=True, slots=True)
class Costs:
    """Dollars per hour after every action is done."""

    serving: float
    waiting: float
    exposure: float
    """What interruptions are expected to cost: probability × stamped penalty over all machines in use."""
    pinned_at_risk: int
    """Machines that may be interrupted and hold work which must not be; their exposure is infinite and counted here."""

    @property
    def total(self) -> float:
        """All that is paid."""
        return round(self.serving + self.waiting, _DIGITS)


def costs_of(situation: Situation, decision: Decision) -> Costs:
    """Add up a fleet as the decision leaves it."""
    actions = first_actions(decision.actions)
    serving: list[float] = []
    waiting: list[float] = []
    risks: list[float] = []
    for machine in situation.machines:
        action = actions.get(machine.id)
        state = machine.state if action is None else _AFTER[action.kind]
        if state in SERVING_STATES:
            serving.append(machine.shape.price_per_hour)
        elif state in WAITING_STATES:
            waiting.append(machine.shape.price_per_hour)
        if state in IN_USE_STATES and machine.shape.interruption_probability:
            risks.append(machine.shape.interruption_probability * _penalty(machine, action, decision))
    return Costs(
        serving=_sum(serving),
        waiting=_sum(waiting),
        exposure=_sum(risk for risk in risks if math.isfinite(risk)),
        pinned_at_risk=sum(1 for risk in risks if not math.isfinite(risk)),
    )


def first_actions(actions: Iterable[Action]) -> dict[str, Action]:
    """One action for each machine: a Preempt wins over a Reclaim of the same one, as it comes first."""
    chosen: dict[str, Action] = {}
    for action in actions:
        chosen.setdefault(action.machine_id, action)
    return chosen


def priority_class(priority: int) -> str:
    """The class that shortfalls of this priority are counted in."""
    return next((name for name, least in PRIORITY_CLASSES if priority >= least), OTHER_CLASS)


def _penalty(machine: Machine, action: Action | None, decision: Decision) -> float:
    """The interruption penalty that a machine carries once an executor has stamped it (`engine#stamps`)."""
    if action is None or action.need is None:
        return machine.assigned.interruption_penalty
    return upper_bound(decision.verdicts[action.need].need.profile.interruption_bucket)


def _sum(dollars: Iterable[float]) -> float:
    return round(math.fsum(dollars), _DIGITS)
