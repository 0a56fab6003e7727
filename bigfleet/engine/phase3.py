"""Phase 3: what nobody claimed is given back: Configured machines to the pool, idle bought ones to the provider.

Called by: the cycle, last.
Must never: touch a machine claimed in this cycle, or reclaim from a cluster that has not reported (ADR-0036).
Rules: decision-engine section 9.
"""

import numpy as np

from bigfleet.engine.phase1.state import Phase1
from bigfleet.model.action import Action, ActionKind
from bigfleet.model.costs import RECLAIM_GRACE_S
from bigfleet.model.machine import MachineState
from bigfleet.model.situation import IdleHolds


def run_phase3(
    phase: Phase1, reported: frozenset[str] | None, holds: IdleHolds, now: float
) -> tuple[Action, ...]:
    """Reclaims by cluster in keep order, then deletes by id."""
    return (*_reclaims(phase, reported), *_releases(phase, holds, now))


def _reclaims(phase: Phase1, reported: frozenset[str] | None) -> list[Action]:
    index = phase.index
    excess = phase.free(index.in_state(MachineState.CONFIGURED))
    names = [index.cluster_name(number) for number in index.cluster[excess].tolist()]
    keyed = [
        (name, float(index.price[index.kind[machine]]), -float(index.reclamation_penalty[machine]), machine)
        for name, machine in zip(names, excess.tolist(), strict=True)
        if reported is None or name in reported
    ]
    return [
        Action(
            ActionKind.RECLAIM,
            index.machine_id(machine),
            cluster=name,
            grace_s=RECLAIM_GRACE_S,
            preemptor_priority=0,
        )
        for name, _, _, machine in sorted(keyed)
    ]


def _releases(phase: Phase1, holds: IdleHolds, now: float) -> list[Action]:
    index = phase.index
    idle = phase.free(index.in_state(MachineState.IDLE))
    hold = index.of_kinds([holds.of(shape.capacity_type) for shape in index.shapes], float)[index.kind[idle]]
    since = index.idle_since[idle]
    due = idle[(hold > 0) & ~np.isnan(since) & (now - since >= hold)]
    return [Action(ActionKind.DELETE, index.machine_id(machine), grace_s=0) for machine in due.tolist()]
