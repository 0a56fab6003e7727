"""Phase 3: bound machines that no need claimed go back, and idle bought ones are given up.

Must never: do sums on demand; it looks at the claims only.
Rules: `engine#phase-3`.
"""

from collections.abc import Set

from bigfleet.model.action import Action, ActionKind
from bigfleet.model.costs import RECLAIM_GRACE_S
from bigfleet.model.machine import Machine, MachineState
from bigfleet.model.situation import Situation
from tests.reference.supply import bound_to, in_state


def reclaims(situation: Situation, claimed: Set[str]) -> list[Action]:
    """Unclaimed Configured machines of clusters that have reported: by cluster, then keep order (`engine#reclaim`)."""
    configured = in_state(situation.machines, MachineState.CONFIGURED)
    return [
        Action(ActionKind.RECLAIM, machine.id, cluster=cluster, grace_s=RECLAIM_GRACE_S, preemptor_priority=0)
        for cluster in sorted({machine.cluster for machine in configured})
        if situation.reported_clusters is None or cluster in situation.reported_clusters
        for machine in bound_to(configured, cluster, MachineState.CONFIGURED)
        if machine.id not in claimed
    ]


def releases(situation: Situation, claimed: Set[str]) -> list[Action]:
    """Unclaimed Idle machines whose hold has passed, by id; the report gate plays no part (`engine#release`)."""
    return [
        Action(ActionKind.DELETE, machine.id, grace_s=0)
        for machine in in_state(situation.machines, MachineState.IDLE)
        if machine.id not in claimed and is_overdue(machine, situation)
    ]


def is_overdue(machine: Machine, situation: Situation) -> bool:
    """Whether a releasable machine with an idle stamp has idled for its hold; a hold of 0 means never (`engine#release`)."""
    hold = situation.holds.of(machine.shape.capacity_type)
    return hold > 0 and machine.idle_since is not None and situation.now - machine.idle_since >= hold
